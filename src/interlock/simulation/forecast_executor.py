"""Attempts that do nothing and last as long as they are said to."""

import asyncio
from collections.abc import Mapping

from interlock.model import message as m
from interlock.model.outcome import Outcome
from interlock.ports.executor import Executor, Report

Key = tuple[str, int]


class TimedExecutor(Executor):
    def __init__(self, lengths: Mapping[str, float], failing: frozenset[str]) -> None:
        self._lengths = lengths
        self._failing = failing
        self._report: Report = lambda message: None
        self._ends: dict[Key, asyncio.TimerHandle] = {}

    async def start(self, report: Report) -> None:
        self._report = report

    def begin(self, attempt: m.Dispatch) -> None:
        key = (attempt.run_id, attempt.fence)
        outcome = Outcome.FAILED if attempt.job_id in self._failing else Outcome.SUCCEEDED
        length = self._lengths[attempt.job_id]
        self._ends[key] = asyncio.get_running_loop().call_later(length, self._finish, key, outcome)
        self._report(m.Started(*key))

    def flush(self) -> None:
        """Nothing is queued here: what is begun begins by itself."""

    def _finish(self, key: Key, outcome: Outcome) -> None:
        timer = self._ends.pop(key, None)
        if timer is not None:
            timer.cancel()
            done = outcome is Outcome.SUCCEEDED
            self._report(m.Finished(*key, outcome, b"null" if done else None, None if done else "as told", None))

    def ask(self, run_id: str, fence: int, reason: str) -> None:
        self._finish((run_id, fence), Outcome.CANCELLED)

    def terminate(self, run_id: str, fence: int) -> None:
        self._finish((run_id, fence), Outcome.CANCELLED)

    def kill(self, run_id: str, fence: int) -> None:
        self._finish((run_id, fence), Outcome.CANCELLED)

    async def close(self) -> None:
        for timer in self._ends.values():
            timer.cancel()
        self._ends.clear()
