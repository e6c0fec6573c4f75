"""A lane as it is declared, changed at run time and shown."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from interlock.fields.field import Checked, doc
from interlock.fields.field_types import Rate, Whole
from interlock.fields.json_form import Time

LIMIT = Whole(1, 999_999_999)
MAIN, CRON = "main", "cron"  # lanes of jobs that name none: of runs that a client asks for, and of occurrences


class LaneSpec(Checked, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Runs that may execute in it at once."), LIMIT]
    rate: Annotated[float | None, doc("Maximum start rate, such as `10/s`."), Rate()] = None
    burst: Annotated[int, doc("Starts allowed at once after an idle period."), LIMIT] = 1


def with_limits(limits: Mapping[str, int], declared: Mapping[str, LaneSpec] = {}) -> dict[str, LaneSpec]:
    """Return the declared lanes with these limits instead of their own, and a lane for each other limit."""
    found = dict(declared)
    for name, limit in limits.items():
        known = declared.get(name)
        found[name] = LaneSpec(limit=limit) if known is None else msgspec.structs.replace(known, limit=limit)
    return found


class LaneAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"


class LaneStatus(StrEnum):
    OPEN = "open"
    PAUSED = "paused"  # starts nothing
    DRAINING = "draining"  # starts nothing, and refuses submits


STATUS_AFTER = {
    LaneAction.PAUSE: LaneStatus.PAUSED,
    LaneAction.RESUME: LaneStatus.OPEN,
    LaneAction.DRAIN: LaneStatus.DRAINING,
}


class LaneChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of a lane that were set at run time."""

    limit: int | UnsetType = UNSET
    rate: float | UnsetType | None = UNSET
    burst: int | UnsetType = UNSET

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class LaneMemo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a lane that outlasts restarts and reloads, whatever is declared."""

    PREFIX: ClassVar[str] = "lane:"

    created: bool = False  # at run time, so that it exists without a declaration
    change: LaneChange = LaneChange()
    status: LaneStatus = LaneStatus.OPEN
    since: float = 0.0  # time of the pause or drain
    by: str = ""  # who asked for it

    def spec_over(self, declared: LaneSpec | None) -> LaneSpec:
        return LaneSpec(**({} if declared is None else msgspec.structs.asdict(declared)) | self.change.given)


class LaneOptions(TypedDict, total=False):
    """The values of a lane that clients set."""

    limit: int
    rate: str | None  # such as `10/s`; None removes it
    burst: int


class LaneValues(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Runs that may execute in it at once.")]
    rate: Annotated[str | None, doc("Maximum start rate, such as `10/s`; null for no limit.")] = None
    burst: Annotated[int, doc("Starts allowed at once after an idle period.")] = 1


def shown_rate(rate: float | None) -> str | None:
    return None if rate is None else Rate().show(rate)


class LaneInfo(LaneValues, frozen=True, kw_only=True):
    id: Annotated[str, doc("Name.")]
    status: Annotated[LaneStatus, doc("`open`, `paused` or `draining`.")]
    active: Annotated[int, doc("Runs that hold a slot.")]
    waiting: Annotated[int, doc("Runs that wait for a slot.")]
    oldest_wait: Annotated[float | None, doc("Seconds of the longest wait so far; null if no run waits.")]
    declared: Annotated[
        LaneValues | None, doc("Declared values, before changes at run time; null for a lane created at run time.")
    ]


class LaneEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a lane at run time."""

    log: ClassVar = "@lanes"  # services' log that has these events; no service has such a name

    lane: Annotated[str, doc("Name of the lane.")]
    at: Annotated[Time, doc("Time.")]
    action: Annotated[str, doc("`create`, `set`, `pause`, `resume` or `drain`.")]
    actor: Annotated[str, doc("Who asked for it.")]
    after: Annotated[LaneInfo, doc("Lane after the change.")]


class LaneList(msgspec.Struct, frozen=True, kw_only=True):
    lanes: Annotated[list[LaneInfo], doc("Every lane.")]
