"""Declarations of jobs and lanes: checked against the stored jobs, and adopted as a whole or not at all."""

import asyncio
from typing import TYPE_CHECKING

from interlock.core.job_changes import refusals
from interlock.engine.catalog import PYTHON, Catalog
from interlock.model.error import BadConfig
from interlock.model.reload_report import Difference

if TYPE_CHECKING:
    from interlock.engine.engine import Engine


class Declarations:
    def __init__(self, engine: "Engine", catalog: Catalog) -> None:
        self._engine = engine
        self._catalog = catalog
        self._count = 0
        self._waiting: dict[int, tuple[asyncio.Future[Difference], Catalog]] = {}
        """declarations on their way into the store"""

    async def declare(self, catalog: Catalog, actor: str) -> Difference:
        """Replace the declared jobs and the lanes. Raises `BadConfig` with every fault, and then changes nothing."""
        self.check(catalog)
        future: asyncio.Future[Difference] = asyncio.get_running_loop().create_future()
        self._count += 1
        self._waiting[self._count] = (future, catalog)
        self._engine.post("", catalog.define(self._count, actor))
        return await future

    def check(self, catalog: Catalog) -> None:
        found = [
            f"job {job.id!r}: {text}" if catalog.source(job.id) == PYTHON else f"{catalog.source(job.id)}: {text}"
            for job, text in refusals(self._engine.state, catalog.jobs(), self._engine.now())
        ]
        if len(found) > 1:
            found.insert(0, f"{len(found)} faults in the declared jobs")
        if found:
            raise BadConfig("\n".join(found))

    def settle(self, request: int, outcome: Difference | Exception) -> None:
        """Finish a declaration that is stored or void."""
        future, catalog = self._waiting.pop(request, (None, self._catalog))
        if isinstance(outcome, Difference):
            self._catalog.replace(catalog)
        if future is None or future.done():
            return
        if isinstance(outcome, Difference):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
