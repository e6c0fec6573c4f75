"""The operations that apps and both clients have in common: a line makes a method of each."""

from collections.abc import AsyncIterator

import msgspec

from interlock.client.declared import Awaits, Sender, acts, sends
from interlock.error import BadValue
from interlock.model.session_info import SessionInfo
from interlock.model.workflow_info import WorkflowInfo, WorkflowStatus
from interlock.wire.delivery_request import Redeliver
from interlock.wire.lane_request import ActOnLane, AskLanes, AskTenants
from interlock.wire.service_request import ActOnService, AskTree, Reload
from interlock.wire.session_request import ActOnSession, AskSession, AskSessions
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers
from interlock.wire.workflow_request import AskWorkflows


class SchedulerOperations(Sender):
    lanes = sends(AskLanes, lambda found: found.lanes)
    act_on_lane = acts(ActOnLane)
    tenants = sends(AskTenants, lambda found: found.tenants)
    session = sends(AskSession)
    act_on_session = acts(ActOnSession)
    pools = sends(AskPools, lambda found: found.pools)
    workers = sends(AskWorkers, lambda found: found.workers)
    worker = sends(AskWorker)
    act_on_worker = acts(ActOnWorker)
    redeliver = sends(Redeliver)
    tree = sends(AskTree)
    act = acts(ActOnService)
    reload = sends(Reload)


class AwaitedOperations(Awaits, SchedulerOperations):
    async def sessions(self, tenant: str | None = None) -> AsyncIterator[SessionInfo]:
        """Yield the sessions with runs that have not ended, of a tenant or of all, by tenant and key."""
        request = AskSessions(0, tenant, 500)
        while True:
            page = await self._send(request)
            for session in page.sessions:
                yield session
            if page.next is None:
                return
            request = msgspec.structs.replace(request, cursor=page.next)

    async def workflows(
        self,
        *,
        job: str | None = None,
        tenant: str | None = None,
        status: WorkflowStatus | str | None = None,
        steps: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[WorkflowInfo]:
        """Yield the workflow runs under way, newest first, and what each waits for: all, or `limit` of them. A workflow
        that is a step of another is among them if it is halted, or with `steps`."""
        if limit is not None and limit < 1:
            raise BadValue("limit", limit, "a whole number of 1 or more, or None for all")
        if status is not None and status not in list(WorkflowStatus):
            raise BadValue("status", status, f"one of {', '.join(WorkflowStatus)}")
        wanted = None if status is None else WorkflowStatus(status)
        request = AskWorkflows(0, job, tenant, wanted, steps, min(limit or 500, 500))
        while True:
            page = await self._send(request)
            for workflow in page.workflows[:limit]:
                yield workflow
            if page.next is None or (limit is not None and (limit := limit - len(page.workflows)) <= 0):
                return
            request = msgspec.structs.replace(request, cursor=page.next)
