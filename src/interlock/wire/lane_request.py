"""Requests about lanes, tenants and sessions, each with its answer, as those in `request.py`."""

from typing import ClassVar

from interlock.model.access import Permission
from interlock.model.lane import LaneAction, LaneChange, LaneInfo, LaneList, LaneSpec
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession, SessionInfo
from interlock.model.tenant import TenantList
from interlock.wire.message import Count
from interlock.wire.request import Answer, ChangeRequest, Request


class AskLanes(Request[LaneList], frozen=True):
    pass


class CreateLane(ChangeRequest[LaneInfo], frozen=True):
    """Create a lane; one that exists stays as it is."""

    lane: str
    spec: LaneSpec
    actor: str = ""


class SetLane(ChangeRequest[LaneInfo], frozen=True):
    """Set values of a lane, whatever is declared."""

    lane: str
    change: LaneChange
    actor: str = ""


class ActOnLane(ChangeRequest[LaneInfo], frozen=True):
    lane: str
    action: LaneAction
    actor: str = ""


class AskTenants(Request[TenantList], frozen=True):
    only_tenant: str | None = None  # the only tenant that the answer may name


class SessionsReport(Answer, frozen=True):
    sessions: list[SessionInfo]
    more: bool


class AskSessions(Request[SessionsReport], frozen=True):
    """Ask for sessions with live runs, of one tenant or of all, after this tenant and key."""

    tenant: str | None
    after: tuple[str, str] | None
    limit: Count


class AskSession(Request[SessionInfo], frozen=True):
    """Ask for a session, with or without runs."""

    session: str
    tenant: str = "default"


class ActOnSession(ChangeRequest[ActedOnSession], frozen=True):
    action: SessionAction
    session: str
    tenant: str = "default"
    actor: str | None = None

    permission: ClassVar = Permission.CANCEL
    once: ClassVar = True
