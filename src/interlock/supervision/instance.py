"""One life of a child: what a supervisor needs of it, whatever kind it is."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec

from interlock.model.child_info import Exit

LineSink = Callable[[str, str, str, float], None]
"""(path of the child, "stdout" or "stderr", the line, wall time); must not block, and does not raise"""


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance is told when it is made."""

    path: str
    name: str
    resume_id: str
    """the same for every life of this child"""
    previous: Exit | None = None
    """how the last life ended; None if there was none, or nobody saw its end"""
    restarts: int = 0

    def environment(self) -> dict[str, str]:
        """The same for a process."""
        found = {
            "INTERLOCK_RESUME_ID": self.resume_id,
            "INTERLOCK_PREV_EXIT": str(-1 if self.previous is None else self.previous.status),
        }
        if self.previous is not None and self.previous.signal is not None:
            found["INTERLOCK_PREV_SIGNAL"] = str(self.previous.signal)
        return found


class Instance(ABC):
    """Made on the event loop, started once, stopped once. `ended` is settled once, whatever ended it; it is for the
    instance to make sure that nothing is left of it then."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.on_line: Callable[[str], None] | None = None
        """called with each line it prints, while somebody waits for one"""
        self._forced = False

    pid: int | None = None

    @abstractmethod
    async def start(self) -> None:
        """Until it lives, ready or not. Raises `CannotStart`, and nothing of it is left then. It may be cancelled, and
        then too nothing of it is left."""

    @abstractmethod
    async def stop(self, timeout: float) -> None:
        """Ask it to end, end it by force at `timeout`, and return when `ended` is settled and nothing is left."""

    @abstractmethod
    def kill(self) -> None:
        """End it by force, now; may be called at any time, also while it is being stopped."""

    @property
    def forced(self) -> bool:
        """Whether it had to be ended by force when it was asked to end."""
        return self._forced

    @property
    def can_suspend(self) -> bool:
        return False

    async def suspend(self) -> None:
        """Only if it can. Stopping one that is suspended works all the same."""
        raise NotImplementedError

    async def resume(self) -> None:
        raise NotImplementedError

    def settle(self, exit: Exit) -> None:
        if not self.ended.done():
            self.ended.set_result(exit)
