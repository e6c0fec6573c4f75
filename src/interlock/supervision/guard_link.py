"""One guard process and the link to it. Messages wait in a queue; nothing waits for the guard."""

import asyncio
import fcntl
import marshal
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.supervision.guard_client import Guard

GuardMessage = tuple[Any, ...]

# The guard's modules import each other by their names in this package, and nothing that the package itself imports.
START = """
import sys
for name in ("interlock", "interlock.supervision"):
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = [sys.argv[4]]
from interlock.supervision.guard import main
main()
"""


def _start(link: socket.socket, identity: str) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that no signal to the supervisor's terminal or group reaches it."""
    # Avoid the numbers of standard streams: the supervisor may have started without them.
    there = fcntl.fcntl(link.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", START),
                *(str(there), str(os.getpid()), identity, os.path.dirname(os.path.abspath(__file__))),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if is_inherited(2) else subprocess.DEVNULL,
            cwd="/",
            pass_fds=(there,),
            start_new_session=True,
        )
    finally:
        os.close(there)


def is_inherited(descriptor: int) -> bool:
    """Return whether a child may have this descriptor: without standard streams, other files may have their numbers."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


class GuardLink:
    def __init__(self, identity: str, owner: "Guard") -> None:
        """Raise OSError if a process cannot be started."""
        self.identity = identity
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        """settled by the owner once it has handled the end of the guard"""
        self._received = bytearray()
        self._queue: deque[tuple[memoryview, Sequence[int]]] = deque()
        """data to send, with the descriptors that go with its first byte"""
        self._is_writing = False
        self._is_broken = False
        self._socket, there = socket.socketpair()
        try:
            with there:
                self._process = _start(there, identity)
        except BaseException:
            self._socket.close()
            raise
        self.pid = self._process.pid
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._read)

    def send(self, message: GuardMessage, descriptors: Sequence[int] = ()) -> None:
        """Send a message in turn, without waiting. `descriptors` must stay open until it has been answered."""
        if not self._is_broken:
            data = marshal.dumps(message)
            self._queue.append((memoryview(len(data).to_bytes(4, "little") + data), descriptors))
            if not self._is_writing:
                self._write()

    def _write(self) -> None:
        while self._queue:
            data, descriptors = self._queue[0]
            try:
                sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # A read shows that the guard is gone; its end settles any other error.
                self.kill()
                return
            if sent == len(data):
                self._queue.popleft()
            else:
                self._queue[0] = (data[sent:], ())
        if self._is_writing != bool(self._queue):
            self._is_writing = bool(self._queue)
            if self._is_writing:
                self._loop.add_writer(self._socket.fileno(), self._write)
            else:
                self._loop.remove_writer(self._socket.fileno())

    def _read(self) -> None:
        try:
            data = self._socket.recv(65_536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._received += data
        while len(self._received) >= (size := 4 + int.from_bytes(self._received[:4], "little")) > 4:
            message = marshal.loads(self._received[4:size])
            del self._received[:size]
            self._owner.heard(message)
        if not data:
            self._end()

    def kill(self) -> None:
        self._process.kill()

    def _end(self) -> None:
        """Handle the end of the guard, which has come or is near."""
        self._is_broken = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self.kill()
        code = self._process.wait()
        self._owner.ended(self, f"was killed by signal {-code}" if code < 0 else f"ended with {code}")
