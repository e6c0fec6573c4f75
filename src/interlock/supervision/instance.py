"""One life of a child, as its supervisor sees it, whatever its kind; and what all supervisors of a tree share."""

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module

import msgspec

from interlock.model.child_info import Change, Exit
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision.guard_client import Guard
from interlock.supervision.spec import Child, Custom

LineSink = Callable[[str, str, str, float], None]
"""(path of the child, "stdout" or "stderr", the line, wall time); must not block, and does not raise"""


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """The facts given to an instance at its start."""

    path: str
    name: str
    resume_id: str  # the same for every life of this child
    previous: Exit | None = None  # how the last life ended; None if there was none, or its end is unknown
    restarts: int = 0

    @property
    def previous_exit(self) -> int:
        """The exit code of the last life; -1 without one."""
        return -1 if self.previous is None else self.previous.status

    def environment(self) -> dict[str, str]:
        """The same as environment variables."""
        found = {"INTERLOCK_RESUME_ID": self.resume_id, "INTERLOCK_PREV_EXIT": str(self.previous_exit)}
        if self.previous is not None and self.previous.signal is not None:
            found["INTERLOCK_PREV_SIGNAL"] = str(self.previous.signal)
        return found


class Instance(ABC):
    """Made on the event loop, started once, stopped once. `ended` is settled once, whatever ended it; nothing of the
    instance may be left then."""

    ended: asyncio.Future[Exit]
    on_line: Callable[[str], None] | None = None  # called with each line it prints, while a probe waits for one
    pid: int | None = None
    forced: bool = False  # whether it had to be killed after the request to end
    can_suspend: bool = False

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    @abstractmethod
    async def start(self) -> None:
        """Return when it lives, ready or not. After `CannotStart` or a cancellation, nothing of it is left."""

    @abstractmethod
    async def stop(self, timeout: float) -> None:
        """Ask it to end, kill it at `timeout`, and return when `ended` is settled and nothing is left. An instance that
        never started ends at once."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it now. Callable at any time, also before `start` and during `stop`."""

    async def suspend(self) -> None:
        """Suspend it, only if `can_suspend`. A suspended instance can still be stopped."""
        raise NotImplementedError

    async def resume(self) -> None:
        raise NotImplementedError

    def settle(self, exit: Exit) -> None:
        if not self.ended.done():
            self.ended.set_result(exit)


class NativeInstance(Instance):
    """The common part of functions, processes and containers."""

    def __init__(self, birth: Birth, around: "Surroundings") -> None:
        super().__init__()
        self._birth = birth
        self._around = around
        self._is_asked = False  # whether `stop` was called

    def _exit(self, code: int | None = None, *, signal: int | None = None, error: str = "") -> Exit:
        return Exit(at=self._around.now(), code=code, signal=signal, error=error)

    def _deliver(self, stream: str, line: str) -> None:
        if self._around.on_line is not None:
            self._around.on_line(self._birth.path, stream, line, self._around.now())


logger = logging.getLogger("interlock.supervision")


class Surroundings(msgspec.Struct, kw_only=True):
    handover: Handover = msgspec.field(default_factory=MemoryHandover)
    on_line: LineSink | None = None
    on_change: Callable[[Change], None] | None = None
    now: Callable[[], float] = time.time  # wall time
    chance: Callable[[], float] = random.random  # a number from 0 to 1, for jitter
    guard: Guard = msgspec.field(default_factory=Guard)
    abandoned: dict[str, asyncio.Task[Exit]] = {}
    """functions that did not end when they were cancelled, by path: they must not run twice at once"""
    spares: bool = False  # whether a stop leaves processes alone that outlive the supervisor

    def publish(self, change: Change) -> None:
        if self.on_change is not None:
            try:
                self.on_change(change)
            except Exception:
                logger.exception("%s: on_change raised", change.path)

    def make(self, spec: Child, birth: Birth) -> Instance:
        """Return an instance that has not been started. Raise whatever a factory raises."""
        if isinstance(spec, Custom):
            return spec.factory(birth)
        # Each kind is imported when it is first needed: most trees do not have them all.
        module = import_module(f"interlock.supervision.{spec.kind}")
        instance: Instance = getattr(module, f"{spec.kind.capitalize()}Instance")(spec, birth, self)
        return instance

    async def close(self) -> None:
        """End the guard, once nothing of the tree runs any more."""
        guard, self.guard = self.guard, Guard()
        try:
            await guard.close(self.spares)
        except Exception:
            logger.exception("the guard could not be closed")
