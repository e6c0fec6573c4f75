"""The audit, read from the store."""

from collections.abc import Awaitable

from interlock.api.call import Handlers, HttpCall, handlers_of, moment_of
from interlock.api.cursors import AUDIT
from interlock.api.listing import read_page
from interlock.interface import queries as q
from interlock.model.audit import AuditFilter, AuditHead, AuditPage
from interlock.ports.store import AuditRows, Reader


class AuditReader:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def audit(self, call: HttpCall[q.AuditQuery, None]) -> AuditPage:
        query, caller = call.query, call.caller
        since = moment_of(query.since, "since")

        def read(tenant: str | None, after: int | None) -> Awaitable[AuditRows]:
            wanted = AuditFilter(query.kind, query.actor, tenant, query.subject, since)
            return self._reader.audit(after or 0, query.limit, wanted, query.last)

        rows, following = await read_page(call, AUDIT, AuditRows([], None, AuditHead()), read)
        return AuditPage(entries=rows.entries, next=following, head=rows.head if caller.only_tenant is None else None)
