"""Operations on lanes and tenants."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from interlock.fields.field import doc
from interlock.fields.field_types import Rate
from interlock.model.job import NAME
from interlock.model.lane import LIMIT, LaneAction, LaneInfo, LaneList
from interlock.model.tenant import TenantList
from interlock.wire.operation import Http, Order, Question
from interlock.wire.parameter import text

KEPT = "It outlasts restarts and reloads. May be repeated."
LaneCount = Annotated[int, Meta(ge=LIMIT.least, le=LIMIT.most)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": f"^(?:{Rate.FORM.pattern})$"})]


class AskLanes(Question[LaneList], frozen=True):
    """List lanes. Lanes with their limits and the runs in them, which are of all tenants."""

    http: ClassVar = Http("lanes", "GET /lanes", every_tenant="lanes")


class CreateLane(Order[LaneInfo], frozen=True):
    """Create a lane. It outlasts restarts and reloads. A lane that exists is returned unchanged."""

    lane: Annotated[str, text("Name of the lane.", f"^{NAME.pattern}$")] = msgspec.field(name="id")
    limit: Annotated[LaneCount, doc("Runs that may execute in it at once.")]
    rate: Annotated[RateText | None, doc("Maximum start rate, such as `10/s`.")] = None
    burst: Annotated[LaneCount, doc("Starts allowed at once after an idle period.")] = 1

    http: ClassVar = Http("create_lane", "POST /lanes", every_tenant="lanes", body="LaneBody")


class LaneChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Values of a lane; those left out stay as they are."""

    limit: Annotated[LaneCount | UnsetType, doc("Runs that may execute in it at once.")] = UNSET
    rate: Annotated[
        RateText | UnsetType | None,
        doc("Maximum start rate, such as `10/s`; null for no limit."),
    ] = UNSET
    burst: Annotated[LaneCount | UnsetType, doc("Starts allowed at once after an idle period.")] = UNSET


class SetLane(Order[LaneInfo], frozen=True):
    """Set values of a lane. They outlast restarts and reloads, whatever is declared. Setting a value back to the
    declared one removes the override. A lowered limit stops no run."""

    lane: str
    body: LaneChangeBody

    http: ClassVar = Http("set_lane", "PATCH /lanes/{lane}", every_tenant="lanes", body=LaneChangeBody)


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
