"""The executor of a worker: executor processes for functions, processes of their own for programs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.model.message import Dispatch
from interlock.model.secret import SECRET_NAMES
from interlock.model.work import ProcessWork
from interlock.ports.executor import Executor, Report
from interlock.worker.pool import ProcessPool

if TYPE_CHECKING:
    from interlock.worker.processes import ProcessRunner


class Executors(Executor):
    """Gives each attempt to the executor of its kind; the one for programs is made for the first program."""

    def __init__(self, pool: ProcessPool, secret_names: Sequence[str] = SECRET_NAMES) -> None:
        self._pool = pool
        self._secret_names = secret_names
        self._runner: ProcessRunner | None = None
        self._all: list[Executor] = [pool]
        self._report: Report = lambda message: None

    @property
    def jobs(self) -> list[str]:
        """The jobs of the app, once it is started."""
        return self._pool.jobs

    async def start(self, report: Report) -> None:
        self._report = report
        await self._pool.start(report)

    def begin(self, attempt: Dispatch) -> None:
        if isinstance(attempt.work, ProcessWork):
            self._programs().begin(attempt)
        else:
            self._pool.begin(attempt)

    def _programs(self) -> "ProcessRunner":
        if self._runner is None:
            # Most workers never need it.
            from interlock.worker.processes import ProcessRunner

            self._runner = ProcessRunner(self._secret_names)
            self._runner.report = self._report
            self._all.append(self._runner)
        return self._runner

    def flush(self) -> None:
        self._pool.flush()

    def ask(self, run_id: str, fence: int, reason: str) -> None:
        for one in self._all:
            one.ask(run_id, fence, reason)

    def terminate(self, run_id: str, fence: int) -> None:
        for one in self._all:
            one.terminate(run_id, fence)

    def kill(self, run_id: str, fence: int) -> None:
        for one in self._all:
            one.kill(run_id, fence)

    async def close(self) -> None:
        for one in self._all:
            await one.close()
