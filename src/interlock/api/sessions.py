"""The list of sessions, which the scheduler knows."""

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.cursors import SESSIONS, cursor_of, read_session_cursor
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.interface import queries as q
from interlock.model.access import EVERY_TENANT
from interlock.model.session_info import SessionPage
from interlock.wire import lane_request as r


class SessionHandlers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.handlers: Handlers = handlers_of(self)

    async def sessions(self, call: HttpCall[q.SessionsQuery, None]) -> SessionPage:
        tenant, own = call.query.tenant, call.caller.tenant
        if own != EVERY_TENANT:
            # Sessions of other tenants do not exist for the caller.
            tenant = own if tenant in (None, own) else ""
        message = r.AskSessions(0, tenant, read_session_cursor(call.query.cursor), call.query.limit)
        report = await ask(self._connection, message)
        last = report.sessions[-1] if report.more else None
        next_page = None if last is None else cursor_of(SESSIONS, f"{last.tenant}/{last.key}")
        return SessionPage(sessions=report.sessions, next=next_page)
