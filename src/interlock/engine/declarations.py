"""Declarations under way: new jobs, lanes and pools are adopted as a whole or not at all."""

import asyncio

from interlock.core.jobs.changes import refusals
from interlock.engine.catalog import PYTHON, Catalog
from interlock.engine.present import Present
from interlock.error import BadConfig
from interlock.model.reload_report import Difference


class Declarations:
    def __init__(self, present: Present) -> None:
        self._present = present
        self._count = 0
        self._waiting: dict[int, tuple[asyncio.Future[Difference], Catalog]] = {}  # declarations not stored yet

    async def declare(self, catalog: Catalog, actor: str) -> Difference:
        """Replace the declared jobs, lanes and pools. Raise `BadConfig` with every fault, and change nothing then."""
        self.check(catalog)
        future: asyncio.Future[Difference] = asyncio.get_running_loop().create_future()
        self._count += 1
        self._waiting[self._count] = (future, catalog)
        self._present.inbox.post("", catalog.define(self._count, actor, self._present.position))
        return await future

    def check(self, catalog: Catalog) -> None:
        found = []
        for job, text in refusals(self._present.state, catalog.jobs, self._present.now()):
            source = catalog.sources[job.id]
            found.append(f"{f'job {job.id!r}' if source == PYTHON else source}: {text}")
        if len(found) > 1:
            found.insert(0, f"{len(found)} faults in the declared jobs")
        if found:
            raise BadConfig("\n".join(found))

    def settle(self, request: int, outcome: Difference | Exception) -> None:
        """Finish a declaration that is stored or void. That of a start has the number 0, and nobody waits for it."""
        if request not in self._waiting:
            return
        future, catalog = self._waiting.pop(request)
        if isinstance(outcome, Difference):
            self._present.catalog = catalog
        if future.done():
            return
        if isinstance(outcome, Difference):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
