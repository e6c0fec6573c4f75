"""The handlers of all operations, on the store, which is read directly, and the scheduler, asked over its link."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.api.approvals import ApprovalHandlers
from interlock.api.audit import AuditReader
from interlock.api.call import Handlers, HttpCall
from interlock.api.deliveries import DeliveryHandlers
from interlock.api.events import open_stream
from interlock.api.feed import Feed
from interlock.api.health import HealthChecks
from interlock.api.jobs import JobHandlers, ReadJob
from interlock.api.lanes import LaneHandlers
from interlock.api.letters import LetterHandlers
from interlock.api.patience import ask
from interlock.api.runs import RunHandlers
from interlock.api.services import ServiceHandlers
from interlock.api.sessions import SessionHandlers
from interlock.client.connection import Connection
from interlock.interface import operations as op
from interlock.ports.store import Reader


class Backend:
    def __init__(self, reader: Reader, connection: Connection, secret_names: Sequence[str], read_job: ReadJob) -> None:
        self._feed = Feed(reader, connection)
        self._runs = RunHandlers(reader, connection, secret_names)
        forwarded = [operation for operation in op.OPERATIONS if operation.asks is not None]
        self.handlers: Handlers = {
            **dict.fromkeys(forwarded, partial(forward, connection)),
            **self._runs.handlers,
            **JobHandlers(reader, connection, read_job).handlers,
            **LaneHandlers(connection).handlers,
            **SessionHandlers(connection).handlers,
            **ApprovalHandlers(reader, connection, self._runs).handlers,
            **DeliveryHandlers(reader, connection).handlers,
            **LetterHandlers(reader, connection, self._runs).handlers,
            **AuditReader(reader).handlers,
            **ServiceHandlers(reader, connection, self._feed).handlers,
            **HealthChecks(reader, connection, self._feed).handlers,
            op.events: partial(open_stream, self._feed),
        }

    async def close(self) -> None:
        """Let nobody wait any longer: callers who wait get the run as it is, and streams end."""
        self._runs.close()
        await self._feed.close()


async def forward(connection: Connection, call: HttpCall[Any, None]) -> Any:
    """Ask the scheduler what the operation asks, with path, query, action and caller as its fields; answer with what it
    reports. A request about one tenant gets the caller's own by default. This serves every operation without a handler
    of its own."""
    asks = call.operation.asks
    assert asks is not None
    given = {**call.path, **msgspec.structs.asdict(call.query), "request": 0, "action": call.operation.action}
    given |= {"actor": call.caller.name, "only_tenant": call.caller.only_tenant}
    if "tenant" in given:
        given["tenant"] = call.caller.tenant_for(given["tenant"])
    message = asks(**{name: given[name] for name in asks.__struct_fields__ if name in given})
    return await call.while_connected(ask(connection, message))
