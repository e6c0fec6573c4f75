"""The audit, read from the store."""

from collections.abc import Awaitable

from interlock.api.call import Handlers, HttpCall, handlers_of, moment_of
from interlock.api.listing import read_page
from interlock.interface.record_operations import ReadAudit
from interlock.model.audit import AuditFilter, AuditHead, AuditKind, AuditPage
from interlock.ports.store import AuditRows, Reader


class AuditReader:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def audit(self, call: HttpCall[ReadAudit]) -> AuditPage:
        query, caller = call.request, call.caller
        since = moment_of(query.since, "since")

        def read(tenant: str | None, after: int | None, limit: int) -> Awaitable[AuditRows]:
            kind = None if query.kind is None else AuditKind(query.kind)
            wanted = AuditFilter(kind, query.actor, tenant, query.subject, since)
            return self._reader.audit(after or 0, limit, wanted, query.last)

        rows, following = await read_page(call, AuditRows([], None, AuditHead()), read)
        return AuditPage(entries=rows.entries, next=following, head=rows.head if caller.only_tenant is None else None)
