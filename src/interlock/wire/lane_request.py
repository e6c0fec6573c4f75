"""Operations on lanes and tenants."""

from typing import ClassVar

from interlock.model.lane import LaneAction, LaneChange, LaneInfo, LaneList, LaneSpec
from interlock.model.tenant import TenantList
from interlock.wire.operation import Http, Order, Question
from interlock.wire.request import ChangeRequest

KEPT = "It outlasts restarts and reloads. May be repeated."


class AskLanes(Question[LaneList], frozen=True):
    """List lanes. Lanes with their limits and the runs in them, which are of all tenants."""

    http: ClassVar = Http("lanes", "GET /lanes", every_tenant="lanes")


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


class ActOnLane(Order[LaneInfo], frozen=True):
    lane: str
    action: LaneAction

    http: ClassVar = Http(
        "{action}_lane",
        "POST /lanes/{lane}/{action}",
        every_tenant="lanes",
        actions={
            LaneAction.PAUSE: f"Pause a lane. Start no runs in it until it is resumed. Active runs finish. {KEPT}",
            LaneAction.RESUME: f"Resume a lane. Let a paused or draining lane start runs again. {KEPT}",
            LaneAction.DRAIN: "Drain a lane. Start no runs in the lane, and refuse new ones with `draining`, until it "
            f"is resumed. Active runs finish, and waiting runs stay. Occurrences of schedules wait too. {KEPT}",
        },
    )


class AskTenants(Question[TenantList], frozen=True):
    """List tenants. Tenants that are declared, with their limits and runs; callers of one tenant see only their own."""

    http: ClassVar = Http("tenants", "GET /tenants")
