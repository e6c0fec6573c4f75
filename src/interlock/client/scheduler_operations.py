"""The operations that apps and both clients have in common: a line makes a method of each."""

from collections.abc import AsyncIterator

import msgspec

from interlock.client.declared import Awaits, Sender, acts, sends
from interlock.model.session_info import SessionInfo
from interlock.wire.delivery_request import Redeliver
from interlock.wire.lane_request import ActOnLane, AskLanes, AskTenants
from interlock.wire.service_request import ActOnService, AskTree, Reload
from interlock.wire.session_request import ActOnSession, AskSession, AskSessions
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers


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
