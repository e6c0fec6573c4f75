"""The executor of programs: each attempt is a process, started and watched by the worker's own guard."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.ports.executor import Executor, Key, Report
from interlock.wire import message as m

if TYPE_CHECKING:
    from interlock.worker.program_attempt import ProgramAttempt, ProgramParts


class Programs(Executor):
    def __init__(self, secret_names: Sequence[str]) -> None:
        self._secret_names = secret_names
        self._report: Report = lambda message: None
        self._attempts: dict[Key, ProgramAttempt] = {}
        self._parts: ProgramParts | None = None  # made for the first program

    async def open(self, report: Report) -> None:
        self._report = report

    def start(self, attempt: m.Dispatch) -> None:
        # Most workers never need it: 24 modules, and 25 ms at their start.
        from interlock.worker.program_attempt import ProgramAttempt, ProgramParts

        if self._parts is None:
            self._parts = ProgramParts(self._ended, self._report, self._secret_names)
        self._attempts[attempt.key] = ProgramAttempt(self._parts, attempt)

    def _ended(self, key: Key, message: m.Message) -> None:
        del self._attempts[key]
        self._report(message)

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        if (program := self._attempts.get(attempt.key)) is not None:
            program.stop()
        return False  # a process knows no request but TERM

    def kill(self, attempt: m.Dispatch) -> None:
        if (program := self._attempts.get(attempt.key)) is not None:
            program.kill()

    async def close(self) -> None:
        if self._parts is not None:
            await self._parts.close()
