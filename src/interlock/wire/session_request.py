"""Operations on sessions."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from interlock.error import BadCursor
from interlock.fields.field import doc
from interlock.model.access import Permission
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession, SessionInfo, SessionPage
from interlock.wire.operation import Http, Order, Question
from interlock.wire.parameter import SESSION_CURSOR, FilterText, NameText, cursor_form

Tenant = Annotated[
    NameText | None, doc("Tenant of the session; by default the token's own, or `default` without tokens.")
]


class AskSessions(Question[SessionPage], frozen=True):
    """List sessions. Sessions with runs that have not ended, by tenant and key."""

    tenant: Annotated[FilterText | None, doc("Only sessions of this tenant.")] = None
    limit: Annotated[int, doc("Most items to return.", ge=1, le=1000)] = 100
    if TYPE_CHECKING:  # so that no signature of a client has it

        @property
        def cursor(self) -> str | None: ...
    else:
        cursor: Annotated[str | None, cursor_form(SESSION_CURSOR)] = None

    http: ClassVar = Http("sessions", "GET /sessions")

    @property
    def after(self) -> tuple[str, str] | None:
        """Tenant and key of the session after which the page begins."""
        if self.cursor is None:
            return None
        tenant, _, key = self.cursor.removeprefix("k").partition("/")
        if not (self.cursor.startswith("k") and tenant and key):
            raise BadCursor(self.cursor)
        return tenant, key


class AskSession(Question[SessionInfo], frozen=True):
    """Show a session. A session with any key, with or without runs."""

    session: str
    tenant: Tenant = None

    http: ClassVar = Http("session", "GET /sessions/{session}", in_tenant=True)

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant or "default", self.session


class ActOnSession(Order[ActedOnSession], frozen=True):
    session: str
    action: SessionAction
    tenant: Tenant = None

    permission: ClassVar = Permission.CANCEL
    once: ClassVar = True
    http: ClassVar = Http(
        "{action}_session",
        "POST /sessions/{session}/{action}",
        in_tenant=True,
        actions={
            SessionAction.STOP: "Stop a session. Cancel its oldest active run; `acted` is false without one.",
            SessionAction.STOP_ALL: "Stop all of a session. Cancel its active and waiting runs. Messages stamped "
            "before the stop that arrive after it are cancelled too (`message_stale`), until the first message stamped "
            "after the stop arrives.",
            SessionAction.RESET: "Reset a session. Cancel its waiting runs as `lane_cleared`, and begin a new "
            "generation: active runs finish outside it.",
            SessionAction.PAUSE: "Pause a session. Waiting runs and new ones stay until it is resumed. Active runs "
            "finish.",
            SessionAction.RESUME: "Resume a session. Let the runs of a paused session start again.",
        },
    )

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant or "default", self.session
