"""Port: the time, and the clocks of the machine and of a loop."""

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


class SystemClock(Clock):
    def now(self) -> Now:
        return Now(time.time(), elapsed())

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        # A millisecond more, because some loops round down to milliseconds and would wake too early.
        return asyncio.get_running_loop().call_later(delay + 0.001, wake).cancel


class LoopClock(Clock):
    """The clock of the running loop, which has only elapsed time."""

    def now(self) -> Now:
        elapsed = asyncio.get_running_loop().time()
        return Now(elapsed, elapsed)
