"""The handlers of all operations, on the store, which is read directly, and the scheduler, asked over its link."""

from functools import partial
from typing import Any

from interlock.api.approvals import ApprovalHandlers
from interlock.api.audit import AuditReader
from interlock.api.call import Handlers, HttpCall
from interlock.api.deliveries import DeliveryHandlers
from interlock.api.events import open_stream
from interlock.api.failures import FailureHandlers
from interlock.api.feed import Feed
from interlock.api.health import HealthChecks
from interlock.api.jobs import JobHandlers, ReadJob
from interlock.api.letters import LetterHandlers
from interlock.api.overview import Overviews
from interlock.api.patience import ask
from interlock.api.runs import RunHandlers
from interlock.api.services import ServiceHandlers
from interlock.api.settings import GatewaySettings
from interlock.api.sign_in import Sessions
from interlock.api.tallies import TallyHandlers
from interlock.client.connection import Connection
from interlock.interface.operation import operation_of
from interlock.interface.operations import OPERATIONS
from interlock.interface.server_operations import ReadEvents
from interlock.ports.store import Reader
from interlock.wire.operation import GatewayRequest


class Backend:
    def __init__(self, reader: Reader, connection: Connection, settings: GatewaySettings, read_job: ReadJob) -> None:
        self._feed = Feed(reader, connection)
        self._runs = RunHandlers(reader, connection, settings.secret_names)
        self.sessions = Sessions(reader, connection, settings.grants)
        forwarded = [operation for operation in OPERATIONS if not issubclass(operation.kind, GatewayRequest)]
        self.handlers: Handlers = {
            **dict.fromkeys(forwarded, partial(forward, connection)),
            **self._runs.handlers,
            **JobHandlers(reader, connection, read_job).handlers,
            **ApprovalHandlers(reader, self._runs).handlers,
            **DeliveryHandlers(reader).handlers,
            **LetterHandlers(reader, connection, self._runs).handlers,
            **AuditReader(reader).handlers,
            **self.sessions.handlers,
            **ServiceHandlers(reader, connection, self._feed).handlers,
            **FailureHandlers(reader).handlers,
            **TallyHandlers(reader).handlers,
            **Overviews(reader, connection, self._feed).handlers,
            **HealthChecks(reader, connection, self._feed).handlers,
            operation_of(ReadEvents): partial(open_stream, self._feed),
        }

    async def close(self) -> None:
        """Let nobody wait any longer: callers who wait get the run as it is, and streams end."""
        self._runs.close()
        await self._feed.close()


async def forward(connection: Connection, call: HttpCall[Any]) -> Any:
    """Send the scheduler the request with its caller;
    answer with its answer. This serves every operation without a handler of its own."""
    request, caller = call.request, call.caller
    by = {"actor": caller.name, "only_tenant": caller.only_tenant, "parent": call.parent, "key": call.key or ""}
    if call.operation.http.in_tenant:
        by["tenant"] = caller.tenant_for(request.tenant)
    return await call.while_connected(ask(connection, request.by(**by)))
