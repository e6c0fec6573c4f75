"""The guard: a small process that starts, watches and ends the process children of one supervisor.

Forking a large process with threads is slow and dangerous; forking this small single-threaded one is neither.

No process outlives the child that started it. Each child leads a session of its own, and the guard is a subreaper:
every process that a child leaves behind becomes a child of the guard, even in another group or session. Such a process
is an orphan; `Orphans` knows its owner. The guard kills the orphans of a child that has ended. Until they are gone it
neither reaps the child's own process, so that its pid is not reused, nor reports its end.

One limit: a process that has left its session, its environment and its parent while its child lives on, and that
several children may have started, has no owner and lives until the guard ends.

The children do not outlive the supervisor either: the guard notices the end of the link, or of the process by its
pidfd; it then kills everything. At its end, also in order, it removes the containers that are left. If the guard itself
is killed, its children get the parent-death signal, and the supervisor finds leftovers by session and by a variable
that each child inherits. Exits arrive as signals and on descriptors; nothing polls. The guard has a session of its own,
so Ctrl-C in a terminal does not reach it or its children: the tree decides who stops, and when.

Workers outlive the scheduler: they have no parent-death signal and the guard spares them, because the next scheduler
adopts their work. A clean stop of the scheduler stops them too, unless `keep_workers` is set: then it sends them
`Drain`, as the next scheduler would, and the guard lets them go (`Surroundings.spares`).

The guard lives as long as the supervisor, so it imports little: without `typing` it starts 5 ms earlier and takes 1 MiB
less.
"""

import errno
import marshal
import os
import select
import signal
import socket
import sys
import time

from interlock.supervision.guard_child import ChildPlan, become, prctl
from interlock.supervision.lineage import NOT_YET, GuardedChild, Orphans, tried

REMAINS = 2.0  # seconds until the guard reports the end of a child despite a process that does not die
LAST_REMAINS = 5.0  # seconds until the guard ends despite a process that does not die
LAST_WORD = 5.0  # seconds for one last request to a container engine, and for all to be repeated
BETWEEN_WORDS = 0.25  # seconds until they are repeated
LOOK_AGAIN = 0.005  # seconds until the next look at an orphan whose owner is not known yet
ROUNDS = 50  # most looks for orphans in a row, while each finds dead ones

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MOST_DESCRIPTORS = 253


class _Guard:
    def __init__(self, link: int, supervisor: int, identity: str) -> None:
        self._link = socket.socket(fileno=link)
        self._link.setblocking(False)
        self._link.set_inheritable(False)
        self._children: dict[int, GuardedChild] = {}
        self._leaders: dict[int, GuardedChild] = {}  # children by pid
        self._starting: dict[int, GuardedChild] = {}  # children between fork and exec, by descriptor
        self._orphans = Orphans(f"{identity}.".encode(), self._leaders)
        self._has_looked = False  # whether this turn has looked at the orphans
        self._in_doubt = False  # whether the owner of an orphan is not known yet
        self._received = bytearray()
        self._descriptors: list[list[int]] = []  # received with incomplete requests
        self._unsent = bytearray()
        self._last_words: dict[str, tuple[str, bytes]] = {}
        self._over = False  # whether the supervisor is gone, or has closed the guard
        self._in_order = False
        self._wake = self._hear_signals()
        self._altered = [number for number in signal.valid_signals() if signal.getsignal(number) != signal.SIG_DFL]
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        # A fork of the supervisor may hold a copy of the link, which then outlives the supervisor.
        self._supervisor = os.pidfd_open(supervisor) if os.getppid() == supervisor else -1
        if self._supervisor >= 0:
            self._poll.register(self._supervisor, select.POLLIN)
        else:
            self._over = True

    @staticmethod
    def _hear_signals() -> int:
        """Return a descriptor that becomes readable when a child ends, and ignore signals that would end the guard."""
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return wake

    def run(self) -> None:
        while not self._over:
            self._turn(self._patience())
        self._end()
        self._link.settimeout(1.0)
        tried(self._link.sendall, self._unsent)
        # A supervisor that lives ends the guard when the link is closed.
        _say_all(list(self._last_words.values()))
        self._link.close()

    def _turn(self, timeout: float | None) -> None:
        self._has_looked = False
        for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000):
            if descriptor in self._starting:
                self._started(self._starting[descriptor])
            elif descriptor == self._wake:
                tried(os.read, self._wake, 4096)
                self._reap()
                self._look()
            elif descriptor == self._supervisor:
                self._over = True
            else:
                self._receive()
        if timeout is not None:
            self._reap()
        self._take_requests()
        self._flush()

    def _patience(self) -> float | None:
        """Return the seconds until the next look at children that have ended, even if nothing happens."""
        deadlines = [child.deadline for child in self._leaders.values() if child.ended is not None]
        if not deadlines:
            return None
        return LOOK_AGAIN if self._in_doubt else max(0.0, min(deadlines) - time.monotonic())

    def _receive(self) -> bool:
        """Return whether data came."""
        space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)
        try:
            data, extra, flags, _ = self._link.recvmsg(262_144, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except OSError:
            data, extra, flags = b"", [], 0
        if extra or flags & socket.MSG_CTRUNC:
            content = extra[0][2] if extra else b""
            self._descriptors.append(memoryview(content)[: len(content) // 4 * 4].cast("i").tolist())
        if data:
            self._received += data
        else:
            self._over = True
        return len(data) > 0

    def _take_requests(self) -> None:
        """Serve complete requests; start no children for a supervisor that has vanished."""
        while len(self._received) >= (size := 4 + int.from_bytes(self._received[:4], "little")) and not self._in_order:
            name, *values = marshal.loads(self._received[4:size])
            del self._received[:size]
            if name != "spawn" or not self._over:
                getattr(self, f"_{name}")(*values)

    def _report(self, *values: str | int | None) -> None:
        data = marshal.dumps(list(values))
        self._unsent += len(data).to_bytes(4, "little") + data

    def _flush(self) -> None:
        if self._unsent and not self._over:
            # A failure means a full buffer, or no supervisor, which the next read shows.
            del self._unsent[: max(0, tried(self._link.send, self._unsent))]
            self._poll.modify(self._link, select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _spawn(self, number: int, targets: list[int], plan: ChildPlan) -> None:
        self._look()
        given = self._descriptors.pop(0) if targets else []
        status = writer = -1
        try:
            if len(given) != len(targets):
                # This process has run out of descriptors.
                raise OSError(errno.EMFILE, "")
            status, writer = os.pipe()
            # Block signals until the child has its own dispositions.
            signal.pthread_sigmask(signal.SIG_BLOCK, self._altered)
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                become(plan, dict(zip(targets, given, strict=True)), writer, parent, self._altered)
        except OSError as error:
            _close_all([status])
            self._report("failed", number, "fork", error.errno or 0)
        else:
            child = GuardedChild(number, pid, status, plan[-1])
            self._children[number] = self._leaders[pid] = self._starting[status] = child
            self._poll.register(status, select.POLLIN)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            _close_all([writer, *given])

    def _started(self, child: GuardedChild) -> None:
        """Report a child that executes its program, or failed to."""
        data = os.read(child.status, 4096)
        self._poll.unregister(child.status)
        os.close(child.status)
        del self._starting[child.status]
        child.status = -1
        if data:
            os.waitpid(child.pid, 0)
            self._forget(child)
            self._report("failed", child.number, *marshal.loads(data))
        else:
            self._report("spawned", child.number, child.pid)

    def _forget(self, child: GuardedChild) -> None:
        del self._children[child.number]
        del self._leaders[child.pid]

    def _signal(self, number: int, signal_number: int) -> None:
        child = self._children.get(number)
        if child is not None and child.ended is None:
            if signal_number not in (signal.SIGSTOP, signal.SIGCONT):
                self._look()
            self._send(child, signal_number)

    def _look(self) -> None:
        if not self._has_looked and not any(child.ended is not None for child in self._leaders.values()):
            self._has_looked = True
            self._orphans.look()

    @staticmethod
    def _send(child: GuardedChild, signal_number: int) -> None:
        if child.status < 0:
            _signal_group(child.pid, signal_number)
        elif signal_number == signal.SIGKILL:
            # It may not have its own group yet, but has started nothing.
            tried(os.kill, child.pid, signal_number)

    def _remember(self, key: str, path: str, request: bytes) -> None:
        self._last_words[key] = (path, request)

    def _disregard(self, key: str) -> None:
        self._last_words.pop(key, None)

    def _close(self, spare: bool) -> None:
        self._over, self._in_order = True, not spare

    def _reap(self) -> None:
        """Deal with every process that has died."""
        try:
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if found.si_pid not in self._leaders:
                    self._orphans.forget(found.si_pid)
                    os.waitpid(found.si_pid, 0)
                elif not self._bury():
                    return
        except ChildProcessError:
            return

    def _bury(self) -> bool:
        """Report every dead child without remaining orphans. Return False if all dead ones have some."""
        dead = [child for child in list(self._leaders.values()) if self._has_ended(child)]
        left = self._hunt()
        now = time.monotonic()
        done = [child for child in dead if now >= child.deadline or not left & {child.number, NOT_YET}]
        for child in done:
            os.waitpid(child.pid, 0)
            self._forget(child)
            self._report("exited", child.number, *(child.ended or ()))
        return len(dead) == 0 or len(done) > 0

    def _has_ended(self, child: GuardedChild) -> bool:
        if child.ended is not None:
            return True
        found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        if child.status >= 0:
            self._started(child)
            if child.number not in self._children:
                return False
        by_itself = found.si_code == os.CLD_EXITED
        child.ended = (found.si_status, None) if by_itself else (None, found.si_status)
        child.deadline = time.monotonic() + REMAINS
        _signal_group(child.pid, signal.SIGKILL)
        return True

    def _hunt(self) -> set[int | None]:
        """Kill the orphans of children that have ended. Return the owners of the orphans that remain."""
        over: dict[int, int | None] = {}
        self._has_looked = True
        for _ in range(ROUNDS):
            orphans, have_died = self._orphans.living()
            owners = {pid: self._orphans.owner(pid) for pid in orphans}
            self._in_doubt = NOT_YET in owners.values()
            over = {pid: owner for pid, owner in owners.items() if self._is_over(owner)}
            for pid in over:
                _signal_group(tried(os.getpgid, pid), signal.SIGKILL)
                tried(os.kill, pid, signal.SIGKILL)
            # An orphan that died meanwhile may have left others that this look missed.
            if not have_died:
                break
        return {*over.values(), NOT_YET} if self._in_doubt else {*over.values()}

    def _is_over(self, number: int | None) -> bool:
        if number is None:
            # Its owner may be a child that outlives the supervisor.
            return self._over and (self._in_order or not self._may_outlive())
        if number == NOT_YET:
            return False
        child = self._children.get(number)
        return child is None or child.ended is not None or self._is_to_end(child)

    def _is_to_end(self, child: GuardedChild) -> bool:
        return self._over and (self._in_order or not child.outlives)

    def _may_outlive(self) -> bool:
        return any(child.outlives and child.ended is None for child in self._leaders.values())

    def _end(self) -> None:
        """Kill every process that must not outlive the supervisor, and wait until they are gone."""
        self._has_looked = False
        while not self._in_order and self._receive():
            pass
        self._take_requests()
        if not self._in_order and self._may_outlive():
            self._look()
        self._poll.unregister(self._link)
        if self._supervisor >= 0:
            self._poll.unregister(self._supervisor)
        for child in self._leaders.values():
            if self._is_to_end(child):
                self._send(child, signal.SIGKILL)
        until = time.monotonic() + LAST_REMAINS
        while (patience := until - time.monotonic()) > 0:
            self._reap()
            if not any(self._is_to_end(child) for child in self._leaders.values()) and not self._hunt():
                return
            pause = LOOK_AGAIN if self._in_doubt else self._patience()
            self._turn(patience if pause is None else min(patience, pause))


def _signal_group(group: int, number: int) -> None:
    if group > 1:
        tried(os.killpg, group, number)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def _say_all(words: list[tuple[str, bytes]]) -> None:
    """Remove containers. One that is not found is asked for again: its creation may be under way."""
    until = time.monotonic() + LAST_WORD
    while (words := [word for word in words if not _say(*word)]) and time.monotonic() < until:
        time.sleep(BETWEEN_WORDS)


def _say(path: str, request: bytes) -> bool:
    """Send a request to a socket and wait for the first bytes of the answer, so that the peer completes it. Return
    False if it has not found what the request is about."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(LAST_WORD)
        if tried(link.connect, path) != -1 and tried(link.sendall, request) != -1:
            try:
                return link.recv(1024).split()[1:2] != [b"404"]
            except OSError:
                pass
    return True


def main() -> None:
    prctl(_PR_SET_NAME, b"interlock-guard", 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    link, supervisor, identity = sys.argv[1:4]
    _Guard(int(link), int(supervisor), identity).run()
