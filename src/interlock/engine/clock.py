"""The machine's clocks."""

import asyncio
import time
from collections.abc import Callable

from interlock.engine.alarm import Alarm
from interlock.model.run import Now
from interlock.ports.clock import Clock, elapsed


class SystemClock(Clock):
    def __init__(self) -> None:
        self._alarm: Alarm | None = None

    def now(self) -> Now:
        return Now(time.time(), elapsed())

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        if self._alarm is None:
            self._alarm = Alarm(asyncio.get_running_loop())
        self._alarm.set(delay, wake)
        return self._alarm.cancel

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
            self._alarm = None
