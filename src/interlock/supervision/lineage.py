"""The processes of this machine as /proc shows them, and the mark that each child of a guard inherits and passes on.
Orphans are the processes that the guard's children have left to it.

The guard and the supervisor share this module. Like the guard, it imports little.
"""

import os
import signal
import time
from collections.abc import Callable

MARKER = "INTERLOCK_CHILD"
"""environment variable of the mark: `identity.number` for each guard above, the outermost first"""
NOT_YET = -1


def tried(call: Callable[..., object], *values: object) -> int:
    """Return the result of a system call; -1 if it fails, usually because the process is gone."""
    try:
        return call(*values)  # type: ignore[return-value] # a number wherever it is used
    except OSError:
        return -1


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def facts(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; none if the process does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def is_dead(of: list[bytes]) -> bool:
    """Return whether a process has died, reaped or not. A zombie with threads has lost only its first one."""
    return not of or (of[0] in (b"Z", b"X") and int(of[17]) <= 1)


def parent(of: list[bytes]) -> int:
    return int(of[1]) if of else 0


def start(of: list[bytes]) -> int:
    """Return the start time, which distinguishes two processes with the same pid."""
    return int(of[19]) if of else NOT_YET


def kill(pid: int, started: int) -> None:
    """Kill this process, but not a later one with the same pid."""
    if (descriptor := tried(os.pidfd_open, pid)) >= 0:
        if start(facts(pid)) == started:
            tried(signal.pidfd_send_signal, descriptor, signal.SIGKILL)
        os.close(descriptor)


def marked(pid: int, token: bytes) -> int | None:
    """Return the number in a process's mark of this guard; None without a mark, NOT_YET while that is unknown."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except ProcessLookupError:
        return NOT_YET
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(MARKER.encode() + b"="):
            for mark in variable.partition(b"=")[2].split(b"/"):
                if mark.startswith(token) and mark[len(token) :].isdigit():
                    return int(mark[len(token) :])
    # While a process executes a program or ends, its environment is empty or incomplete. It has no mark only if its
    # whole environment has none and the system, as its last step, has set the program's address.
    if not (fields := facts(pid)):
        return NOT_YET
    program, begin, end = int(fields[23]), int(fields[47]), int(fields[48])
    return None if program and end and end - begin == len(environment) else NOT_YET


DOUBT = 1.0  # seconds after which an unreadable environment counts as one without a mark


class GuardedChild:
    __slots__ = ("deadline", "ended", "number", "outlives", "pid", "started", "status")

    def __init__(self, number: int, pid: int, status: int, outlives: bool) -> None:
        self.number = number
        self.pid = pid
        self.started = start(facts(pid))
        self.status = status  # descriptor that reports whether its program could be executed; -1 afterwards
        self.outlives = outlives
        self.ended: tuple[int | None, int | None] | None = None  # exit code and signal, once the process is dead
        self.deadline = 0.0


class Orphans:
    """An orphan belongs to the child whose session it is in, or whose mark it has. Otherwise, if a child has just
    ended, it belongs to that child; if not, to the only child old enough to have started it, or to none. It keeps
    its pid until the guard reaps it."""

    def __init__(self, token: bytes, leaders: dict[int, GuardedChild]) -> None:
        """`leaders` are the guard's children by pid."""
        self._token = token
        self._leaders = leaders
        self._owners: dict[int, int | None] = {}
        self._doubtful: dict[int, tuple[float, int | None]] = {}
        """orphan with an unknown mark → since when, and its owner should it have no mark"""
        self._has_list = tried(os.access, "/proc/thread-self/children", os.R_OK) == 1

    def living(self) -> tuple[list[int], bool]:
        """Return the live orphans, and whether any dead ones were reaped."""
        living, have_died = [], False
        for pid in self._candidates():
            if pid not in self._leaders:
                try:
                    # By far the cheapest test for a child.
                    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None:
                        living.append(pid)
                    else:
                        have_died = True
                        self.forget(pid)
                except ChildProcessError:
                    continue
        return living, have_died

    def _candidates(self) -> list[int]:
        if not self._has_list:
            return processes()
        # The list is complete, because processes leave it only when they are reaped here.
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]

    def forget(self, pid: int) -> None:
        self._owners.pop(pid, None)
        self._doubtful.pop(pid, None)

    def owner(self, pid: int) -> int | None:
        """Return the number of the child that owns an orphan; None for no owner, NOT_YET while that is unknown."""
        if pid in self._owners:
            return self._owners[pid]
        owner = self._known(pid)
        if owner is None or owner == NOT_YET:
            now = time.monotonic()
            since, suspect = self._doubtful.setdefault(pid, (now, self._suspect(pid)))
            if owner == NOT_YET and now - since < DOUBT:
                return NOT_YET
            owner = suspect
        self.forget(pid)
        self._owners[pid] = owner
        return owner

    def _known(self, pid: int) -> int | None:
        leader = self._leaders.get(tried(os.getsid, pid))
        return leader.number if leader is not None else marked(pid, self._token)

    def _suspect(self, pid: int) -> int | None:
        started = start(facts(pid))
        possible = [child for child in self._leaders.values() if child.started <= started]
        for child in possible:
            if child.ended is not None:
                return child.number
        return possible[0].number if len(possible) == 1 else None

    def look(self) -> None:
        """Settle the owners of the present orphans before another child ends and seems to own them."""
        found, _ = self.living()
        try:
            # If a child has just died, they may be its own; handle that child first.
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                for pid in found:
                    self.owner(pid)
        except ChildProcessError:
            return
