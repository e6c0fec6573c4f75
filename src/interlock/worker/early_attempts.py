"""Attempts that a worker got ahead of their time, to begin each on time."""

from collections.abc import Callable
from heapq import heappop, heappush

from interlock.ports.clock import Clock
from interlock.worker.held import HeldAttempt


class EarlyAttempts:
    def __init__(self, clock: Clock, begin: Callable[[HeldAttempt], None]) -> None:
        self._clock = clock
        self._begin = begin
        self._waiting: list[tuple[float, str, int, HeldAttempt]] = []  # heap by elapsed time of their start
        self.forget_time: Callable[[], None] = lambda: None

    def add(self, held: HeldAttempt) -> None:
        heappush(self._waiting, (held.due, *held.key, held))
        if self._waiting[0][-1] is held:
            self._wait()

    def _wait(self) -> None:
        self.forget_time()
        if self._waiting:
            delay = self._waiting[0][0] - self._clock.now().elapsed
            self.forget_time = self._clock.wake_after(max(0.0, delay), self._begin_due)

    def _begin_due(self) -> None:
        """Begin the attempts whose time has come. The executor checks that their offers still stand."""
        now = self._clock.now().elapsed
        while self._waiting and self._waiting[0][0] <= now:
            self._begin(heappop(self._waiting)[-1])
        self._wait()
