"""Port: the time, and the clocks of the machine and of a loop."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.model.run import Now

logger = logging.getLogger("interlock.cluster")

AGREES = 0.5  # seconds by which two clocks may differ

# Goes on while the machine sleeps, where the system has it; otherwise a sleep looks like a short stall.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return the machine's elapsed time, the same for all its processes."""
    return time.clock_gettime(_BOOTTIME)


class Clock(ABC):
    error = 0.0  # seconds by which the machine's wall clock is ahead of what `now` says

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


class StoreClock(Clock):
    """The clock of a machine, set by the store's: schedulers that lead one after the other agree."""

    def __init__(self, machine: Clock) -> None:
        self._machine = machine

    def now(self) -> Now:
        now = self._machine.now()
        return Now(now.wall - self.error, now.elapsed) if self.error else now

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        return self._machine.wake_after(delay, wake)

    def compare(self, stored: float, asked: Now) -> None:
        """Note the store's time at some moment since `asked`. Small differences are those of the way there."""
        now = self.now()
        ahead = (asked.wall + now.wall) / 2 - stored
        if abs(ahead) > max(AGREES, now.elapsed - asked.elapsed):
            self.error += ahead
            logger.warning(
                "the clock of this machine is %+.1f s off the database's, which counts; set it right", self.error
            )


class LoopClock(Clock):
    """The clock of the running loop, which has only elapsed time."""

    def now(self) -> Now:
        elapsed = asyncio.get_running_loop().time()
        return Now(elapsed, elapsed)
