"""The audit, read from the store."""

from interlock.api.call import Handlers, HttpCall, handlers_of, moment_of
from interlock.api.cursors import AUDIT, cursor_of, read_cursor
from interlock.interface import queries as q
from interlock.model.audit import AuditFilter, AuditPage
from interlock.ports.store import Reader


class AuditReader:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def audit(self, call: HttpCall[q.AuditQuery, None]) -> AuditPage:
        query, caller = call.query, call.caller
        after = read_cursor(AUDIT, query.cursor) or 0
        if query.tenant is not None and not caller.sees(query.tenant):
            return AuditPage(entries=[], next=None, head=None)
        tenant = caller.only_tenant or query.tenant
        since = moment_of(query.since, "since")
        wanted = AuditFilter(query.kind, query.actor, tenant, query.subject, since)
        found = await self._reader.audit(after, query.limit, wanted, query.last)
        return AuditPage(
            entries=found.entries,
            next=None if found.next is None else cursor_of(AUDIT, found.next),
            head=found.head if caller.only_tenant is None else None,
        )
