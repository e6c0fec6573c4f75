"""The HTTP operations on lanes, tenants and sessions, a part of the table in `operations.py`."""

from typing import Any

from interlock.interface import bodies as b
from interlock.interface import queries as q
from interlock.interface.operation import API, Operation
from interlock.model.lane import LaneAction, LaneInfo, LaneList
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession, SessionInfo, SessionPage
from interlock.model.tenant import TenantList
from interlock.wire import lane_request as r

LANE = f"{API}/lanes/{{lane}}"
SESSION = f"{API}/sessions/{{session}}"

lanes = Operation(
    f"GET {API}/lanes",
    "List lanes. Lanes with their limits and the runs in them, which are of all tenants.",
    LaneList,
    asks=r.AskLanes,
    every_tenant="lanes",
    name="lanes",
)
create_lane = Operation(
    f"POST {API}/lanes",
    "Create a lane. It outlasts restarts and reloads. A lane that exists is returned unchanged.",
    LaneInfo,
    body=b.LaneBody,
    asks=r.CreateLane,
    every_tenant="lanes",
    name="create_lane",
)
set_lane = Operation(
    f"PATCH {LANE}",
    "Set values of a lane. They outlast restarts and reloads, whatever is declared. Setting a value back to "
    "the declared one removes the override. A lowered limit stops no run.",
    LaneInfo,
    body=b.LaneChangeBody,
    asks=r.SetLane,
    every_tenant="lanes",
    name="set_lane",
)
_LANE_ACTIONS = {
    LaneAction.PAUSE: "Start no runs in the lane until it is resumed. Active runs finish.",
    LaneAction.RESUME: "Let a paused or draining lane start runs again.",
    LaneAction.DRAIN: "Start no runs in the lane, and refuse new ones with `draining`, until it is resumed. Active "
    "runs finish, and waiting runs stay. Occurrences of schedules wait too.",
}
lane_actions = {
    action: Operation(
        f"POST {LANE}/{action}",
        f"{action.capitalize()} a lane. {meaning} It outlasts restarts and reloads. May be repeated.",
        LaneInfo,
        name=f"{action}_lane",
        asks=r.ActOnLane,
        action=action,
        every_tenant="lanes",
    )
    for action, meaning in _LANE_ACTIONS.items()
}

tenants = Operation(
    f"GET {API}/tenants",
    "List tenants. Tenants that are declared, with their limits and runs; callers of one tenant see only their own.",
    TenantList,
    asks=r.AskTenants,
    name="tenants",
)
sessions = Operation(
    f"GET {API}/sessions",
    "List sessions. Sessions with runs that have not ended, by tenant and key.",
    SessionPage,
    query=q.SessionsQuery,
    asks=r.AskSessions,
    name="sessions",
)
session = Operation(
    f"GET {SESSION}",
    "Show a session. A session with any key, with or without runs.",
    SessionInfo,
    query=q.TenantQuery,
    asks=r.AskSession,
    name="session",
)
_SESSION_ACTIONS = {
    SessionAction.STOP: "Stop a session. Cancel its oldest active run; `acted` is false without one.",
    SessionAction.STOP_ALL: "Stop all of a session. Cancel its active and waiting runs. Messages stamped before "
    "the stop that arrive after it are cancelled too (`message_stale`), until the first message stamped after the stop "
    "arrives.",
    SessionAction.RESET: "Reset a session. Cancel its waiting runs as `lane_cleared`, and begin a new generation: "
    "active runs finish outside it.",
    SessionAction.PAUSE: "Pause a session. Waiting runs and new ones stay until it is resumed. Active runs finish.",
    SessionAction.RESUME: "Resume a session. Let the runs of a paused session start again.",
}
session_actions = {
    action: Operation(
        f"POST {SESSION}/{action}",
        meaning,
        ActedOnSession,
        name=f"{action}_session",
        query=q.TenantQuery,
        asks=r.ActOnSession,
        action=action,
    )
    for action, meaning in _SESSION_ACTIONS.items()
}

LANE_OPERATIONS: tuple[Operation[Any], ...] = (lanes, create_lane, set_lane, *lane_actions.values(), tenants)
SESSION_OPERATIONS: tuple[Operation[Any], ...] = (sessions, session, *session_actions.values())
