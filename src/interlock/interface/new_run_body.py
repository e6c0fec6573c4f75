"""The bodies of a submit and of a trigger over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from interlock.fields.field import doc
from interlock.model.job import Priority
from interlock.model.labels import LONGEST_LABEL, MOST_LABELS
from interlock.model.session import LONGEST_SESSION
from interlock.wire.new_run import LATEST, LONGEST_DELAY, LONGEST_KEY
from interlock.wire.parameter import JobId, NameText

Labels = Annotated[dict[NameText, Annotated[str, Meta(max_length=LONGEST_LABEL)]], Meta(max_length=MOST_LABELS)]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
SessionKey = Annotated[str, Meta(min_length=1, max_length=LONGEST_SESSION)]
SomeOptions = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/SessionOptionsBody"})]
_DURATION = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s)|[0-9]{1,6}(\.[0-9]{1,9})?(m|h)|[0-9]{1,5}(\.[0-9]{1,9})?d)$"
DurationText = Annotated[str, Meta(pattern=_DURATION, max_length=32)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_DELAY)]
Instant = Annotated[float, Meta(ge=0, lt=LATEST)]
Moment = Annotated[datetime, Meta(tz=True)] | Instant  # a time in RFC 3339, or seconds since 1970
TENANT = "Tenant of the run; by default the token's own, or `default` without tokens."


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body or the query of a request."""


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
