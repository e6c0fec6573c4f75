"""An attempt as its worker keeps it, and the steps to stop it: ask, then TERM, then KILL, with a grace between."""

import asyncio
from collections.abc import Iterable
from math import inf

from interlock.model.work import ProcessWork
from interlock.ports.executor import Executor, Key
from interlock.wire import message as m


class HeldAttempt:
    """An attempt from its dispatch until it is settled."""

    def __init__(self, dispatch: m.Dispatch, begin_by: float) -> None:
        self.dispatch = dispatch
        self.key: Key = (dispatch.run_id, dispatch.fence)
        self.begin_by = begin_by  # elapsed time after which the worker asks the scheduler before it begins it
        self.due = 0.0  # elapsed time before which it must not begin
        self.named = inf  # elapsed time of the first heartbeat that named it
        self.waits = True  # whether the executor does not have it yet
        self.begun = False
        self.began = 0.0  # elapsed time
        self.ended = 0.0  # elapsed time
        self.outcome: m.Message | None = None
        self.stop: str | None = None
        self.is_termed = False  # whether it got TERM, so that KILL is next
        self.timer: asyncio.Handle | None = None  # of the next step to stop it
        self.presses_at = inf  # loop time of that step; a timer of uvloop that ends at once does not know
        self.latest: dict[type[m.Message], m.Message] = {}  # its progress, usage and checkpoint, until they are stored


class StopSteps:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._most_grace = inf

    def begin(self, held: HeldAttempt, reason: str) -> None:
        # Asking a program means TERM, so KILL is the next step.
        held.is_termed = isinstance(held.dispatch.work, ProcessWork)
        self._executor.ask(*held.key, reason)
        self._press_later(held)

    def hurry(self, attempts: Iterable[HeldAttempt], most_grace: float) -> None:
        """Give at most this grace from now on. Attempts already stopping get TERM at once, and KILL within it."""
        self._most_grace = most_grace
        loop = asyncio.get_running_loop()
        for held in attempts:
            latest = loop.time() + (most_grace if held.is_termed else 0.0)
            if held.timer is not None and held.presses_at > latest:
                held.timer.cancel()
                self._press_at(held, latest)

    def _press_later(self, held: HeldAttempt) -> None:
        grace = min(held.dispatch.grace, self._most_grace)
        self._press_at(held, asyncio.get_running_loop().time() + grace)

    def _press_at(self, held: HeldAttempt, at: float) -> None:
        held.presses_at = at
        held.timer = asyncio.get_running_loop().call_at(at, self._press, held)

    def _press(self, held: HeldAttempt) -> None:
        """Take the next step, after the grace of the one before."""
        if held.is_termed:
            self._executor.kill(*held.key)
        else:
            held.is_termed = True
            self._executor.terminate(*held.key)
            self._press_later(held)
