"""The machine's clocks."""

import time

from interlock.model.run import Now
from interlock.ports.clock import Clock

# Counts on while the machine sleeps, where the system has it; otherwise a sleep looks like a short stall.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock(Clock):
    def now(self) -> Now:
        return Now(time.time(), time.clock_gettime(_BOOTTIME))
