"""Port: the time."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.model.run import Now

# Counts on while the machine sleeps, where the system has it; otherwise a sleep looks like a short stall.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """The machine's elapsed time, the same for all its processes."""
    return time.clock_gettime(_BOOTTIME)


class Clock(ABC):
    @abstractmethod
    def now(self) -> Now:
        """The wall clock, and elapsed time that never goes back and counts while the machine sleeps."""

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` on the running loop after so many seconds; one wish at a time. What it returns takes it back."""
        return asyncio.get_running_loop().call_later(delay, wake).cancel


class LoopClock(Clock):
    """The clock of the running loop, which knows only of elapsed time."""

    def now(self) -> Now:
        elapsed = asyncio.get_running_loop().time()
        return Now(elapsed, elapsed)
