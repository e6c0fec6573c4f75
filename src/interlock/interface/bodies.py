"""Bodies of HTTP requests and answers, where they are not one of the values that every interface shows."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from interlock.fields.field import doc
from interlock.fields.field_types import Rate
from interlock.interface.new_run_body import TENANT, Body, Moment, NewRunBody
from interlock.model.child_info import ChildInfo
from interlock.model.lane import LIMIT
from interlock.model.state import State
from interlock.wire.parameter import FilterText, NameText, Reason, SessionText
from interlock.wire.request import MOST_PARALLEL, MOST_RUNS_OVER_HTTP

MOST_JOBS = 10_000  # jobs in one request

LaneCount = Annotated[int, Meta(ge=LIMIT.least, le=LIMIT.most)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": f"^(?:{Rate.FORM.pattern})$"})]


class BatchBody(Body, frozen=True, kw_only=True):
    runs: Annotated[
        list[NewRunBody], doc("Runs, each as in a single submit.", min_length=1, max_length=MOST_RUNS_OVER_HTTP)
    ]


class ReasonBody(Body, frozen=True, kw_only=True):
    reason: Annotated[Reason, doc("Reason, kept with the run.")] = ""


class CancelBody(ReasonBody, frozen=True, kw_only=True):
    cascade: Annotated[
        bool, doc("`true`: also cancel the runs that it made, directly or not. None of them makes further runs.")
    ] = False
    compensate: Annotated[bool, doc("`true`: a workflow undoes its steps before it ends.")] = False


class RunChoice(Body, frozen=True, kw_only=True):
    job: Annotated[FilterText | None, doc("Only runs of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None
    session: Annotated[SessionText | None, doc("Only runs of this session.")] = None
    lane: Annotated[FilterText | None, doc("Only runs in this lane.")] = None
    since: Annotated[Moment | None, doc("Only runs created since then, in RFC 3339 or seconds since 1970.")] = None
    until: Annotated[Moment | None, doc("Only runs created before this time, in the same form.")] = None
    parent: Annotated[FilterText | None, doc("Only runs that this run made.")] = None
    root: Annotated[FilterText | None, doc("Only runs whose root is this run: it made them, directly or not.")] = None


class BulkBody(RunChoice, frozen=True, kw_only=True):
    """A choice of runs: those that match every field given."""

    state: Annotated[
        list[State], doc("Only runs in one of these states: terminal for a retry, not terminal for others.")
    ] = []
    everything: Annotated[bool, doc("`true`: every run that the action applies to; needed without other fields.")] = (
        msgspec.field(default=False, name="all")
    )
    reason: Annotated[Reason, doc("Reason, kept with the runs.")] = ""


class BackfillBody(Body, frozen=True, kw_only=True):
    """A range of time whose occurrences are to be created."""

    start: Annotated[Moment, doc("First time wanted, in RFC 3339 or seconds since 1970.")] = msgspec.field(name="from")
    end: Annotated[Moment, doc("End of the range, itself excluded, in the same form.")] = msgspec.field(name="to")
    max_parallel: Annotated[int, doc("Most of these runs that may be live at once.", ge=1, le=MOST_PARALLEL)] = 1
    payload: Annotated[dict[str, Any] | None, doc("Arguments of every run; by default the job's own.")] = None
    tenant: Annotated[NameText | None, doc(TENANT)] = None


class JobsBody(Body, frozen=True, kw_only=True):
    jobs: Annotated[
        list[dict[str, Any]], doc("Jobs, each as it is put alone, with its `id`.", min_length=1, max_length=MOST_JOBS)
    ]


class LaneBody(Body, frozen=True, kw_only=True):
    """A lane to create."""

    id: Annotated[NameText, doc("Name of the lane.")]
    limit: Annotated[LaneCount, doc("Runs that may execute in it at once.")]
    rate: Annotated[RateText | None, doc("Maximum start rate, such as `10/s`.")] = None
    burst: Annotated[LaneCount, doc("Starts allowed at once after an idle period.")] = 1


class LaneChangeBody(Body, frozen=True, kw_only=True):
    """Values of a lane; those left out stay as they are."""

    limit: Annotated[LaneCount | UnsetType, doc("Runs that may execute in it at once.")] = UNSET
    rate: Annotated[
        RateText | UnsetType | None,
        doc("Maximum start rate, such as `10/s`; null for no limit."),
    ] = UNSET
    burst: Annotated[LaneCount | UnsetType, doc("Starts allowed at once after an idle period.")] = UNSET


class SubmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    ids: Annotated[list[str], doc("Ids of the runs, in the order of the request.")]


class ActedOn(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, doc("Id of the run; after a retry, of the new run.")]
    state: Annotated[State, doc("State of the run now. A run that was asked to stop keeps its own until it ends.")]


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    ids: Annotated[list[str], doc("Ids of the jobs, in the order of the request.")]


class ServiceList(msgspec.Struct, frozen=True, kw_only=True):
    services: Annotated[
        list[ChildInfo], doc("Services and groups in the order in which they start, each group before its members.")
    ]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    ok: Annotated[bool, doc("Whether the check passed.")]
    detail: Annotated[str, doc("Finding, in words.")]


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    ready: Annotated[bool, doc("Whether every check passed.")]
    checks: Annotated[dict[str, Check], doc("Checks by name: `store`, `scheduler`.")]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    alive: Annotated[bool, doc("Always true.")]


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: Annotated[str, doc("`urn:interlock:problem:` and the code.")]
    title: Annotated[str, doc("Name of the status.")]
    status: Annotated[int, doc("Status of the answer.")]
    detail: Annotated[str, doc("Fault on one line, with the field and the value.")]
    code: Annotated[str, doc("Stable code; see [errors](#errors).")]
    faults: Annotated[list[str], doc("Every fault of a `bad_config`, each with its file and line if it has one.")] = []
