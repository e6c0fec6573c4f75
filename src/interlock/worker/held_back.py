"""Attempts that wait because an executor process could not start: no other starts before its backoff is over."""

import asyncio
from collections.abc import Callable

from interlock.model.outcome import Outcome
from interlock.ports.executor import Key
from interlock.wire import message as m

FIRST, LONGEST = 0.5, 30.0  # seconds between two starts


class WaitingAttempt:
    """An attempt without a process, which ends as soon as it must stop."""

    def __init__(self, dispatch: m.Dispatch, ended: Callable[[Key, m.Message], None]) -> None:
        self.dispatch = dispatch
        self._ended = ended
        self.is_over = False

    def stop(self, reason: str = "") -> bool:
        if not self.is_over:
            self.is_over = True
            self._ended(self.dispatch.key, m.Finished(*self.dispatch.key, Outcome.CANCELLED))
        return False

    def kill(self) -> None:
        self.stop()


class HeldBack:
    def __init__(self, start: Callable[[m.Dispatch], None], ended: Callable[[Key, m.Message], None]) -> None:
        self._start = start
        self._ended = ended
        self._waiting: list[WaitingAttempt] = []
        self._failures = 0
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    def start_failed(self) -> None:
        """Count a failed start; several processes that fail together count once."""
        if not self.is_on:
            delay = min(FIRST * 2**self._failures, LONGEST)
            self._failures = min(self._failures + 1, 10)
            self._until = asyncio.get_running_loop().time() + delay

    def start_worked(self) -> None:
        self._failures, self._until = 0, 0.0

    def keep(self, dispatch: m.Dispatch) -> WaitingAttempt:
        """Keep an attempt until the next process may start."""
        if not self._waiting:
            asyncio.get_running_loop().call_at(self._until, self._go_on)
        self._waiting.append(WaitingAttempt(dispatch, self._ended))
        return self._waiting[-1]

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for attempt in waiting:
            if not attempt.is_over:
                self._start(attempt.dispatch)
