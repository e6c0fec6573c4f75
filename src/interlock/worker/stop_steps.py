"""The steps to stop an attempt: ask, then TERM, then KILL, with a grace between."""

import asyncio
from collections.abc import Iterable

from interlock.model.work import ProcessWork
from interlock.ports.executor import Executor
from interlock.worker.held import HeldAttempt


class StopSteps:
    def __init__(self, executor: Executor, shortest_grace: float) -> None:
        self._executor = executor
        self._shortest_grace = shortest_grace
        self._is_hurried = False

    def begin(self, held: HeldAttempt, reason: str) -> None:
        # Asking a program means TERM, so KILL is the next step.
        held.is_termed = isinstance(held.dispatch.work, ProcessWork)
        self._executor.ask(*held.key, reason)
        self._press_later(held)

    def hurry(self, attempts: Iterable[HeldAttempt]) -> None:
        """Give at most the shortest grace from now on. Attempts already stopping get TERM at once, and KILL within
        that grace."""
        self._is_hurried = True
        loop = asyncio.get_running_loop()
        for held in attempts:
            latest = loop.time() + (self._shortest_grace if held.is_termed else 0.0)
            if held.timer is not None and held.timer.when() > latest:
                held.timer.cancel()
                held.timer = loop.call_at(latest, self._press, held)

    def _press_later(self, held: HeldAttempt) -> None:
        grace = held.dispatch.grace
        if self._is_hurried:
            grace = min(grace, self._shortest_grace)
        held.timer = asyncio.get_running_loop().call_later(grace, self._press, held)

    def _press(self, held: HeldAttempt) -> None:
        """Take the next step, after the grace of the one before."""
        if held.is_termed:
            self._executor.kill(*held.key)
        else:
            held.is_termed = True
            self._executor.terminate(*held.key)
            self._press_later(held)
