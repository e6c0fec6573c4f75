"""Bodies of submits and answers over HTTP, where they are not one of the values that every interface shows."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from interlock.fields.field import doc
from interlock.fields.field_types import Rate
from interlock.model.child_info import ChildInfo
from interlock.model.job import Priority
from interlock.model.labels import LONGEST_LABEL, MOST_LABELS
from interlock.model.lane import LIMIT
from interlock.model.session import LONGEST_SESSION
from interlock.model.state import State
from interlock.wire.new_run import LONGEST_DELAY, LONGEST_KEY
from interlock.wire.parameter import JobId, Moment, NameText
from interlock.wire.request import MOST_RUNS_OVER_HTTP

MOST_JOBS = 10_000  # jobs in one request

Labels = Annotated[dict[NameText, Annotated[str, Meta(max_length=LONGEST_LABEL)]], Meta(max_length=MOST_LABELS)]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
SessionKey = Annotated[str, Meta(min_length=1, max_length=LONGEST_SESSION)]
SomeOptions = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/SessionOptionsBody"})]
_DURATION = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s)|[0-9]{1,6}(\.[0-9]{1,9})?(m|h)|[0-9]{1,5}(\.[0-9]{1,9})?d)$"
DurationText = Annotated[str, Meta(pattern=_DURATION, max_length=32)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_DELAY)]
LaneCount = Annotated[int, Meta(ge=LIMIT.least, le=LIMIT.most)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": f"^(?:{Rate.FORM.pattern})$"})]
TENANT = "Tenant of the run; by default the token's own, or `default` without tokens."


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of a request."""


class TriggerBody(Body, frozen=True, kw_only=True):
    """A run of the job in the path, due at once."""

    payload: Annotated[dict[str, Any] | None, doc("Arguments; by default the job's own.")] = None
    tenant: Annotated[NameText | None, doc(TENANT)] = None
    lane: Annotated[NameText | None, doc("Lane; by default the job's own.")] = None
    priority: Annotated[
        Priority | None, doc("Place in the lane: `critical`, `interactive` or `batch`; by default the job's own.")
    ] = None
    session: Annotated[
        SessionKey | None, doc("Key shared by runs that wait for each other: up to 512 bytes of UTF-8.")
    ] = None
    session_options: Annotated[
        SomeOptions | None, doc("Options of the session that differ from those of its key or its job.")
    ] = None
    stamp: Annotated[
        Moment | None,
        doc("Time at which the message of the session was sent, in RFC 3339 or seconds since 1970; default now."),
    ] = None
    idempotency_key: Annotated[Key | None, doc("The same key in a tenant is the same run.")] = None
    labels: Annotated[
        Labels | None, doc("Labels of the run: up to 16 names, each with a text of up to 256 characters.")
    ] = None
    unique: Annotated[
        Literal["while_live"] | None,
        doc("`while_live` frees the key when its run ends; without it, the key is kept for `keep_keys`."),
    ] = None
    deadline: Annotated[
        DurationText | Seconds | None,
        doc("Time from the submit, or from when the run is due, until it must have ended."),
    ] = None


class NewRunBody(TriggerBody, frozen=True, kw_only=True):
    """A run to create."""

    job: Annotated[JobId, doc("Job to run.")]
    delay: Annotated[DurationText | Seconds | None, doc("Time until the run is due.")] = None
    at: Annotated[
        Moment | None, doc("Time at which the run is due, in RFC 3339 or seconds since 1970; not with `delay`.")
    ] = None
    occurrence: Annotated[
        Moment | None,
        doc(
            "Makes this the job's only run for this instant, in RFC 3339 or seconds since 1970. Its id is "
            "`<job>:<seconds>`, with `:<tenant>` for a tenant other than `default`."
        ),
    ] = None


class BatchBody(Body, frozen=True, kw_only=True):
    runs: Annotated[
        list[NewRunBody], doc("Runs, each as in a single submit.", min_length=1, max_length=MOST_RUNS_OVER_HTTP)
    ]


class JobsBody(Body, frozen=True, kw_only=True):
    jobs: Annotated[
        list[dict[str, Any]], doc("Jobs, each as it is put alone, with its `id`.", min_length=1, max_length=MOST_JOBS)
    ]


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


class ReadinessCheck(msgspec.Struct, frozen=True, kw_only=True):
    ok: Annotated[bool, doc("Whether the check passed.")]
    detail: Annotated[str, doc("Finding, in words.")]


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    ready: Annotated[bool, doc("Whether every check passed.")]
    checks: Annotated[dict[str, ReadinessCheck], doc("Checks by name: `store`, `scheduler`.")]


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
