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
        # A millisecond more, for some loops count in milliseconds and round down: who is woken too early turns round.
        return asyncio.get_running_loop().call_later(delay + 0.001, wake).cancel
