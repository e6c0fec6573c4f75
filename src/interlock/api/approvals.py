"""Views of approvals, read from the store."""

import time
from collections import Counter
from collections.abc import Awaitable

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.listing import read_page
from interlock.api.runs import RunHandlers
from interlock.interface import approval_view as v
from interlock.interface import record_operations as op
from interlock.model.access import Caller
from interlock.model.run import Run
from interlock.model.state import State
from interlock.ports.store import Lookup, Reader, RunFilter, RunRows

RECENT = 86_400.0  # seconds
MOST_RECENT = 1000  # runs of a submitter that are looked at
WAITING = frozenset({State.APPROVAL_REQUIRED})


class ApprovalHandlers:
    def __init__(self, reader: Reader, runs: RunHandlers) -> None:
        self._reader = reader
        self._runs = runs
        self.handlers: Handlers = handlers_of(self)

    async def approvals(self, call: HttpCall[op.ReadApprovals]) -> v.ApprovalPage:
        query = call.request

        def read(tenant: str | None, before: int | None, limit: int) -> Awaitable[RunRows]:
            wanted = RunFilter(states=WAITING, job_id=query.job, tenant=tenant)
            return self._reader.runs(wanted, before, limit)

        rows, following = await read_page(call, RunRows([], None), read)
        return v.ApprovalPage(approvals=[v.info_of(run) for run in rows.runs], next=following)

    async def approval(self, call: HttpCall[op.ReadApproval]) -> v.ApprovalDetail:
        run = await self._runs.find(call.request.run_id, call.caller)
        v.approval_of(run)
        job = (await self._reader.look_up(Lookup(versions=[run.job_version]))).versions.get(run.job_version)
        recent, complete = await self._recent(run, call.caller)
        return v.detail_of(
            run,
            payload=await self._runs.payload_of(run),
            topic=run.job_id if job is None else job.policy_topic,
            capabilities=() if job is None else job.capabilities,
            risk_tags=() if job is None else job.risk_tags,
            requires=() if job is None else job.requires,
            recent=recent,
            recent_complete=complete,
        )

    async def _recent(self, run: Run, caller: Caller) -> tuple[list[v.RunCount], bool]:
        """Count other runs of the submitter that the caller may see; return whether these are all."""
        wanted = RunFilter(created_by=run.created_by, tenant=caller.only_tenant, since=time.time() - RECENT)
        found = await self._reader.runs(wanted, None, MOST_RECENT)
        counts = Counter((one.job_id, one.state) for one in found.runs if one.id != run.id)
        return [
            v.RunCount(job_id=job, state=state, count=n) for (job, state), n in counts.most_common()
        ], not found.next
