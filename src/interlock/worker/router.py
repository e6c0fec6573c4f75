"""The executors of a worker as one: each attempt goes to the executor of its kind of work."""

from collections.abc import Mapping, Sequence

from interlock.model.work import BaseWork, ProcessWork
from interlock.ports.executor import Executor, Report
from interlock.wire.message import Dispatch
from interlock.worker.pool import ExecutorOptions
from interlock.worker.programs import Programs


def executors(options: ExecutorOptions) -> dict[type[BaseWork], Executor]:
    """Return the executor of each kind of work but functions."""
    return {ProcessWork: Programs(options.secret_names)}


class Router(Executor):
    def __init__(self, functions: Executor, others: Mapping[type[BaseWork], Executor]) -> None:
        """`functions` executes those of the app and those that jobs name."""
        self._functions = functions
        self._others = others
        self._executors = (functions, *others.values())

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
