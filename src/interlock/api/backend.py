"""The handlers of all operations, on the store, which is read directly, and the scheduler, asked over its link."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.api.approvals import Approvals
from interlock.api.audit import AuditReader
from interlock.api.call import Call, Handlers
from interlock.api.deliveries import Deliveries
from interlock.api.events import open_stream
from interlock.api.feed import Feed
from interlock.api.health import HealthChecks
from interlock.api.jobs import Jobs, ReadJob
from interlock.api.lanes import Lanes
from interlock.api.letters import Letters
from interlock.api.patience import ask
from interlock.api.runs import Runs
from interlock.api.services import Services
from interlock.api.sessions import Sessions
from interlock.client.connection import Connection
from interlock.interface import operations as op
from interlock.ports.store import Reader


class Backend:
    def __init__(self, reader: Reader, connection: Connection, secret_names: Sequence[str], read_job: ReadJob) -> None:
        self._feed = Feed(reader, connection)
        self._runs = Runs(reader, connection, secret_names)
        forwarded = [one for one in op.OPERATIONS if one.asks is not None]
        self.handlers: Handlers = {
            **dict.fromkeys(forwarded, partial(forward, connection)),
            **self._runs.handlers,
            **Jobs(reader, connection, read_job).handlers,
            **Lanes(connection).handlers,
            **Sessions(connection).handlers,
            **Approvals(reader, connection, self._runs).handlers,
            **Deliveries(reader, connection).handlers,
            **Letters(reader, connection, self._runs).handlers,
            **AuditReader(reader).handlers,
            **Services(reader, connection, self._feed).handlers,
            **HealthChecks(reader, connection, self._feed).handlers,
            op.events: partial(open_stream, self._feed),
        }

    async def close(self) -> None:
        """Let nobody wait any longer: callers who wait get the run as it is, and streams end."""
        self._runs.close()
        await self._feed.close()


async def forward(connection: Connection, call: Call[Any, None]) -> Any:
    """Ask the scheduler what the operation asks, with path, query, action and caller as its fields; answer with what it
    reports. This serves every operation without a handler of its own."""
    asks = call.operation.asks
    assert asks is not None
    given = {**call.path, **msgspec.structs.asdict(call.query), "request": 0, "action": call.operation.action}
    given |= {"actor": call.caller.name, "only_tenant": call.caller.only_tenant}
    message = asks(**{name: given[name] for name in asks.__struct_fields__ if name in given})
    _, value = msgspec.structs.astuple(await call.while_connected(ask(connection, message)))
    return value
