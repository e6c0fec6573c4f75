"""What is asked and answered over HTTP, where it is not one of the values that are shown everywhere."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from interlock.model.child_info import ChildInfo
from interlock.model.request import LONGEST_KEY, MOST_PARALLEL, MOST_RUNS_OVER_HTTP
from interlock.model.state import State

MOST_JOBS = 10_000
"""jobs that are put at once"""

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
JobId = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
DurationText = Annotated[
    str,
    Meta(
        pattern=r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s)|[0-9]{1,6}(\.[0-9]{1,9})?(m|h)|[0-9]{1,5}(\.[0-9]{1,9})?d)$",
        max_length=32,
    ),
]
Seconds = Annotated[float, Meta(ge=0, le=1e10)]
Instant = Annotated[float, Meta(ge=0, lt=1e11)]
InstantText = Annotated[str, Meta(max_length=64)]
FilterText = Annotated[str, Meta(max_length=256)]
Reason = Annotated[str, Meta(max_length=1000)]


class TriggerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run of the job in the path, at once."""

    payload: dict[str, Any] | None = None
    """the job's own if it is left out"""
    tenant: Name | None = None
    lane: Name | None = None
    session: Key | None = None
    idempotency_key: Key | None = None
    deadline: DurationText | Seconds | None = None


class NewRunBody(TriggerBody, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run to create."""

    job: JobId
    delay: DurationText | Seconds | None = None
    at: Instant | None = None
    occurrence: Instant | None = None


class BatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    runs: Annotated[list[NewRunBody], Meta(min_length=1, max_length=MOST_RUNS_OVER_HTTP)]


class ActionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


class BulkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The runs that are meant: those that have not ended and fit every field that is given."""

    state: list[State] = []
    job: FilterText | None = None
    tenant: FilterText | None = None
    session: FilterText | None = None
    lane: FilterText | None = None
    since: Instant | None = None
    until: Instant | None = None
    everything: bool = msgspec.field(default=False, name="all")
    reason: Reason = ""


class BackfillBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The occurrences of a range of time that are to be made up for."""

    start: InstantText | Instant = msgspec.field(name="from")
    end: InstantText | Instant = msgspec.field(name="to")
    max_parallel: Annotated[int, Meta(ge=1, le=MOST_PARALLEL)] = 1
    payload: dict[str, Any] | None = None
    tenant: Name | None = None


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    id: str


class SubmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    ids: list[str]


class ActedOn(msgspec.Struct, frozen=True, kw_only=True):
    """The state that the run has now; one that was asked to stop has its own until it ends."""

    id: str
    state: State


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    ids: list[str]


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    """Services and groups of them, each before what is in it, and without it."""

    services: list[ChildInfo]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    detail: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    ready: bool
    checks: dict[str, Check]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    alive: bool


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `code` is stable; `detail` is one line for a person."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    faults: list[str] = []
    """every one there is, where there may be several at once"""
