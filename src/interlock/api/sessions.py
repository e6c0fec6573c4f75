"""Operations on sessions: the scheduler knows them."""

from typing import Any

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.cursors import SESSIONS, cursor_of, read_session_cursor
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.interface import lane_operations as op
from interlock.interface import queries as q
from interlock.model.access import EVERY_TENANT
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession, SessionInfo, SessionPage
from interlock.wire import lane_request as r


class SessionHandlers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.handlers: Handlers = {**handlers_of(self), **dict.fromkeys(op.session_actions.values(), self.act)}

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

    async def session(self, call: HttpCall[q.TenantQuery, None]) -> SessionInfo:
        message = r.AskSession(0, call.path["session"], call.caller.tenant_for(call.query.tenant))
        return (await ask(self._connection, message)).sessions[0]

    async def act(self, call: HttpCall[q.TenantQuery, Any]) -> ActedOnSession:
        action = SessionAction(call.operation.path.rpartition("/")[2])
        tenant = call.caller.tenant_for(call.query.tenant)
        report = await ask(self._connection, r.ActOnSession(0, action, call.path["session"], tenant, call.caller.name))
        return ActedOnSession(acted=report.acted, session=report.session)
