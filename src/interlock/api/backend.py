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
            **ApprovalHandlers(reader, connection, self._runs).handlers,
            **DeliveryHandlers(reader).handlers,
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
    """Send the scheduler the request that the operation is, with path, query, body, action and caller as its fields;
    answer with its answer. This serves every operation without a handler of its own."""
    operation, caller = call.operation, call.caller
    assert operation.asks is not None
    given = {**call.path, **msgspec.structs.asdict(call.query), "request": 0, "action": operation.action}
    given |= {"actor": caller.name, "only_tenant": caller.only_tenant, "parent": call.parent}
    if operation.in_tenant:
        given["tenant"] = caller.tenant_for(given["tenant"])
    fields = operation.asks.__struct_fields__
    message = operation.asks(**{name: value for name, value in given.items() if name in fields})
    return await call.while_connected(ask(connection, message))
