"""Failed runs in groups, read from the store."""

import time

from interlock.api.call import Handlers, HttpCall, handlers_of, moment_of
from interlock.interface.overview_operations import ReadFailures
from interlock.model.failures import FAILED, FailureList, grouped
from interlock.model.run import Run
from interlock.ports.store import Reader, RunFilter

MOST = 5000  # runs
PAGE = 1000
FOR = 86_400.0  # seconds, unless the caller says otherwise


class FailureHandlers:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def failures(self, call: HttpCall[ReadFailures]) -> FailureList:
        query, caller = call.request, call.caller
        if query.tenant is not None and not caller.sees(query.tenant):
            return FailureList(failures=[], runs=0, reached=None)
        since = moment_of(query.since, "since")
        wanted = RunFilter(
            states=FAILED,
            job_id=query.job,
            tenant=caller.only_tenant or query.tenant,
            since=time.time() - FOR if since is None else since,
        )
        runs: list[Run] = []
        before, looks = None, 0
        while len(runs) < MOST and looks < MOST // PAGE:
            page = await self._reader.runs(wanted, before, PAGE)
            runs, before, looks = runs + page.runs, page.next, looks + 1
            if before is None:
                break
        groups = grouped(runs)[: query.limit]
        reached = None if before is None or not runs else runs[-1].created_at
        return FailureList(failures=groups, runs=sum(group.count for group in groups), reached=reached)
