"""Port: the time."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.model.run import Now

# Goes on while the machine sleeps, where the system has it; otherwise a sleep looks like a short stall.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return the machine's elapsed time, the same for all its processes."""
    return time.clock_gettime(_BOOTTIME)


class Clock(ABC):
    @abstractmethod
    def now(self) -> Now:
        """Return the wall clock, and elapsed time that never goes back and goes on while the machine sleeps."""

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` on the running loop after `delay` seconds, unless the returned function is called before."""
        return asyncio.get_running_loop().call_later(delay, wake).cancel


class LoopClock(Clock):
    """The clock of the running loop, which has only elapsed time."""

    def now(self) -> Now:
        elapsed = asyncio.get_running_loop().time()
        return Now(elapsed, elapsed)
