"""A virtual loop for code not written for one: it waits for threads and refuses sockets."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from interlock.error import InterlockError
from interlock.simulation.virtual import VirtualLoop

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_OUTSIDE = "create_connection create_server create_datagram_endpoint create_unix_connection create_unix_server"
_OUTSIDE += " sock_connect sock_accept sock_recv sock_sendall subprocess_exec subprocess_shell add_reader add_writer"


class NotVirtual(InterlockError, code="not_virtual"):
    """A function used a socket or started a program, which virtual time does not allow."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"{method}: sockets and programs do not work on virtual time; replace them in the test, or call the "
            f"function itself with interlock.testing.context()"
        )


class PatientLoop(VirtualLoop):
    _thread_id: int | None  # the standard loop's thread, while it runs

    def __init__(self) -> None:
        super().__init__()
        self._at_work = 0  # calls in threads whose results are awaited
        self._woken = threading.Event()

    def is_here(self) -> bool:
        """Whether this thread runs the loop."""
        return self._thread_id == threading.get_ident()

    def is_idle(self) -> bool:
        """Whether everything due has happened. A callback asks this, and does not count itself."""
        return not self._ready and not self._at_work and not (self._timers and self._timers[0][0] <= self._now)

    def run_in_executor(self, executor: Any, func: Callable[[*Arguments], T], *args: *Arguments) -> "asyncio.Future[T]":
        future = super().run_in_executor(executor, func, *args)
        self._at_work += 1
        future.add_done_callback(self._count_down)
        return future

    def _count_down(self, _: object) -> None:
        self._at_work -= 1

    def _run_once(self) -> None:
        while self._at_work and not self._ready:
            self._woken.wait()
            self._woken.clear()
        super()._run_once()

    def _write_to_self(self) -> None:
        self._woken.set()


def _refuse(name: str) -> Callable[..., Any]:
    def method(*_: object, **__: object) -> Any:
        raise NotVirtual(name)

    return method


for _name in _OUTSIDE.split():
    setattr(PatientLoop, _name, _refuse(_name))
