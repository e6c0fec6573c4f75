"""The executors of a worker as one: each attempt goes to the executor of its kind of work: functions, or programs and
containers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.model.work import BaseWork, ContainerWork, ProcessWork
from interlock.ports.executor import Executor, Key, Report
from interlock.wire import message as m
from interlock.wire.message import Dispatch
from interlock.worker.pool import ExecutorOptions

if TYPE_CHECKING:
    from interlock.worker.program_attempt import ProgramFolder
    from interlock.worker.work_attempt import WorkAttempt, WorkParts


class Programs(Executor):
    """Executes programs and containers."""

    def __init__(self, secret_names: Sequence[str]) -> None:
        self._secret_names = secret_names
        self._report: Report = lambda message: None
        self._attempts: dict[Key, WorkAttempt] = {}
        self._parts: WorkParts | None = None  # made for the first attempt
        self._folder: ProgramFolder | None = None  # made for the first program

    async def open(self, report: Report) -> None:
        self._report = report

    def start(self, attempt: m.Dispatch) -> None:
        # Most workers never need it: 24 modules, and 25 ms at their start.
        from interlock.worker.work_attempt import WorkParts

        if self._parts is None:
            self._parts = WorkParts(self._ended, self._report, self._secret_names)
        if isinstance(attempt.work, ContainerWork):
            from interlock.worker.container_attempt import ContainerAttempt

            self._attempts[attempt.key] = ContainerAttempt(self._parts, attempt)
            return
        from interlock.worker.program_attempt import ProgramAttempt, ProgramFolder

        if self._folder is None:
            self._folder = ProgramFolder()
        self._attempts[attempt.key] = ProgramAttempt(self._parts, self._folder, attempt)

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
            self._parts.is_closing = True
            for attempt in list(self._attempts.values()):
                await attempt.close()
            await self._parts.guard.close()
            await self._parts.tasks.end()
        if self._folder is not None:
            self._folder.close()


def executors(options: ExecutorOptions) -> dict[type[BaseWork], Executor]:
    """Return the executor of each kind of work but functions."""
    return dict.fromkeys((ProcessWork, ContainerWork), Programs(options.secret_names))


class Router(Executor):
    def __init__(self, functions: Executor, others: Mapping[type[BaseWork], Executor]) -> None:
        """`functions` executes those of the app and those that jobs name."""
        self._functions = functions
        self._others = others
        self._executors = (functions, *dict.fromkeys(others.values()))

    def _of(self, attempt: Dispatch) -> Executor:
        return self._others.get(type(attempt.work), self._functions)  # type: ignore[arg-type] # no work is no key

    async def open(self, report: Report) -> None:
        for executor in self._executors:
            await executor.open(report)

    def adopt(self) -> Sequence[Dispatch]:
        return [attempt for executor in self._executors for attempt in executor.adopt()]

    def start(self, attempt: Dispatch) -> None:
        self._of(attempt).start(attempt)

    def stop(self, attempt: Dispatch, reason: str) -> bool:
        return self._of(attempt).stop(attempt, reason)

    def kill(self, attempt: Dispatch) -> None:
        self._of(attempt).kill(attempt)

    async def close(self) -> None:
        for executor in self._executors:
            await executor.close()
