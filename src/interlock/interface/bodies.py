"""Bodies of submits and answers over HTTP, where they are not one of the values that every interface shows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from interlock.fields.field import doc
from interlock.model.child_info import ChildInfo
from interlock.wire.new_run import OPTIONS, TRIGGER
from interlock.wire.parameter import JobId
from interlock.wire.request import MOST_RUNS_OVER_HTTP

MOST_JOBS = 10_000  # jobs in one request


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of a request."""


def _body(name: str, meaning: str, options: Iterable[str], **more: Any) -> Any:
    """Make the type of a body with these options of a submit."""
    own = {one: Annotated[OPTIONS[one].form.json | None, doc(OPTIONS[one].meaning_in_json)] for one in options}
    arguments = Annotated[dict[str, Any] | None, doc("Arguments; by default the job's own.")]
    fields: Any = [*more.items(), ("payload", arguments, None), *((one, kind, None) for one, kind in own.items())]
    meanings = {"__doc__": meaning}
    return msgspec.defstruct(
        name, fields, bases=(Body,), namespace=meanings, module=__name__, frozen=True, kw_only=True
    )


TriggerBody = _body("TriggerBody", "A run of the job in the path, due at once.", TRIGGER)
if TYPE_CHECKING:

    class NewRunBody(Body, frozen=True, kw_only=True):
        job: str
        idempotency_key: str | None
else:
    NewRunBody = _body("NewRunBody", "A run to create.", OPTIONS, job=Annotated[JobId, doc("Job to run.")])


class BatchBody(Body, frozen=True, kw_only=True):
    runs: Annotated[
        list[NewRunBody], doc("Runs, each as in a single submit.", min_length=1, max_length=MOST_RUNS_OVER_HTTP)
    ]


class JobsBody(Body, frozen=True, kw_only=True):
    jobs: Annotated[
        list[dict[str, Any]], doc("Jobs, each as it is put alone, with its `id`.", min_length=1, max_length=MOST_JOBS)
    ]


class SubmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    ids: Annotated[list[str], doc("Ids of the runs, in the order of the request.")]


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
