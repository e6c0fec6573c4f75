"""The machine's clocks."""

import asyncio
import time
from collections.abc import Callable

from interlock.model.run import Now
from interlock.ports.clock import Clock, elapsed


class SystemClock(Clock):
    def now(self) -> Now:
        return Now(time.time(), elapsed())

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        # A millisecond more, because some loops round down to milliseconds and would wake too early.
        return asyncio.get_running_loop().call_later(delay + 0.001, wake).cancel
