"""One guard process and the link to it: what is to be sent waits its turn, and nothing waits for the guard."""

import asyncio
import fcntl
import marshal
import os
import signal
import socket
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.supervision.guard_client import Guard

Message = tuple[Any, ...]

# The guard's modules import each other by their names in this package, and nothing that the package itself imports.
START = """
import sys
for name in ("interlock", "interlock.supervision"):
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = [sys.argv[4]]
from interlock.supervision.guard import main
main()
"""


def rights() -> tuple[object, ...]:
    """The user and the groups that this process acts for."""
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), sorted(os.getgroups())


def _start(link: socket.socket, identity: str) -> "subprocess.Popen[bytes]":
    """In a session of its own: no signal to the supervisor's terminal or group reaches it."""
    # Not one of the numbers that are given away below, should the supervisor have been started without them.
    there = fcntl.fcntl(link.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", START),
                *(str(there), str(os.getpid()), identity, os.path.dirname(os.path.abspath(__file__))),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if is_handed_down(2) else subprocess.DEVNULL,
            cwd="/",
            pass_fds=(there,),
            start_new_session=True,
        )
    finally:
        os.close(there)


def is_handed_down(descriptor: int) -> bool:
    """Whether this is open and meant for others: without standard streams their numbers may be anything's."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


class Sending:
    """A message on its way."""

    __slots__ = ("data", "descriptors", "number", "sent")

    def __init__(self, message: Message, descriptors: Sequence[int]) -> None:
        data = marshal.dumps(message)
        self.data = memoryview(len(data).to_bytes(4, "little") + data)
        self.descriptors = array("i", descriptors)
        self.number = message[1] if descriptors else 0
        self.sent = 0


class GuardLink:
    def __init__(self, identity: str, owner: "Guard") -> None:
        """Raises OSError if a process cannot be started."""
        self.identity = identity
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        """to be settled by the owner, once it has dealt with the end of the guard"""
        self._received = bytearray()
        self._queue: deque[Sending] = deque()
        self._is_writing = False
        self.opened_at = self._loop.time()
        self._is_broken = False
        self.rights = rights()
        """what its children will be allowed to do"""
        self._socket, there = socket.socketpair()
        try:
            with there:
                self._process = _start(there, identity)
        except BaseException:
            self._socket.close()
            raise
        self.pid = self._process.pid
        self._pidfd = -1
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._socket.setblocking(False)
            self._loop.add_reader(self._socket.fileno(), self._read)
            self._loop.add_reader(self._pidfd, self._died)
        except BaseException:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            if self._pidfd >= 0:
                os.close(self._pidfd)
            # It has started nothing yet.
            self._process.kill()
            self._process.wait()
            raise

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> Sending:
        """`descriptors` must stay open until the message has been answered, or taken back."""
        sending = Sending(message, descriptors)
        if not self._is_broken:
            self._queue.append(sending)
            if not self._is_writing:
                self._write()
        return sending

    def unsend(self, sending: Sending) -> bool:
        """Take a message back; whether that was in time."""
        if sending.sent or sending not in self._queue:
            return False
        self._queue.remove(sending)
        return True

    def _write(self) -> None:
        while self._queue:
            sending = self._queue[0]
            try:
                sending.sent += self._send_some(sending)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if sending.sent or not sending.descriptors or isinstance(error, ConnectionError):
                    self._break()
                    return
                self._queue.popleft()
                # Not at once: whoever sends it does not wait for the answer yet.
                self._loop.call_soon(self._owner.refused, sending.number, error)
                continue
            if sending.sent == len(sending.data):
                self._queue.popleft()
        if self._is_writing != bool(self._queue):
            self._is_writing = bool(self._queue)
            if self._is_writing:
                self._loop.add_writer(self._socket.fileno(), self._write)
            else:
                self._loop.remove_writer(self._socket.fileno())

    def _send_some(self, sending: Sending) -> int:
        if sending.sent or not sending.descriptors:
            return self._socket.send(sending.data[sending.sent :])
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, sending.descriptors)
        return self._socket.sendmsg([sending.data], [rights])

    # ── hearing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        if self._receive() is False:
            self._break()

    def _receive(self) -> bool | None:
        """Whether something came; None if there is nothing at the moment, and False if nothing will."""
        try:
            data = self._socket.recv(65_536)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return False
        self._received += data
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "little")
            if len(self._received) < size:
                break
            message = marshal.loads(self._received[4:size])
            del self._received[:size]
            self._owner.heard(message)
        return bool(data)

    def kill(self) -> None:
        if self._process.returncode is None:
            try:
                self._process.send_signal(signal.SIGKILL)
            except PermissionError:
                # The supervisor has given up rights that the guard still has. It ends when there is nobody to serve.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _break(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._queue.clear()
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._owner.broken(self)
            # Whatever is wrong with it: what it started ends with it, or is found without it.
            self.kill()

    def _died(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        # Its last words.
        while not self._is_broken and self._receive():
            pass
        self._break()
        self._socket.close()
        self._owner.ended(self, f"was killed by signal {-code}" if code < 0 else f"ended with {code}")
