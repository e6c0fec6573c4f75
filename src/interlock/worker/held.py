"""An attempt as its worker keeps it, and the steps to stop it: ask, then press, then kill, with a grace between."""

import asyncio
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import inf

from interlock.ports.clock import Clock
from interlock.ports.executor import Executor, Key
from interlock.wire import message as m


class HeldAttempt:
    """An attempt from its dispatch until it is settled."""

    def __init__(self, dispatch: m.Dispatch, begin_by: float) -> None:
        self.dispatch = dispatch
        self.key: Key = dispatch.key
        self.begin_by = begin_by  # elapsed time after which the worker asks the scheduler before it begins it
        self.due = 0.0  # elapsed time before which it must not begin
        self.named = inf  # elapsed time of the first heartbeat that named it
        self.waits = True  # whether the executor does not have it yet
        self.begun = False
        self.began = 0.0  # elapsed time
        self.ended = 0.0  # elapsed time
        self.outcome: m.Message | None = None
        self.stop: str | None = None  # why it must stop
        self.is_pressed = False  # whether the executor has nothing left but to kill it
        self.timer: asyncio.Handle | None = None  # of the next step to stop it
        self.presses_at = inf  # loop time of that step; a timer of uvloop that ends at once does not know
        self.latest: dict[type[m.Message], m.Message] = {}  # reports that a new link repeats

    def forget_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StopSteps:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._most_grace = inf

    def hurry(self, attempts: Iterable[HeldAttempt], most_grace: float) -> None:
        """Give at most this grace from now on. Attempts already stopping are pressed at once, and killed within it."""
        self._most_grace = most_grace
        loop = asyncio.get_running_loop()
        for held in attempts:
            latest = loop.time() + (most_grace if held.is_pressed else 0.0)
            if held.timer is not None and held.presses_at > latest:
                held.timer.cancel()
                self._press_at(held, latest)

    def _press_at(self, held: HeldAttempt, at: float) -> None:
        held.presses_at = at
        held.timer = asyncio.get_running_loop().call_at(at, self.press, held)

    def press(self, held: HeldAttempt) -> None:
        """Take the first step, or the next one after the grace of the one before."""
        if held.is_pressed:
            self._executor.kill(held.dispatch)
        else:
            held.is_pressed = not self._executor.stop(held.dispatch, held.stop or "")
            grace = min(held.dispatch.grace, self._most_grace)
            self._press_at(held, asyncio.get_running_loop().time() + grace)


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
