"""The options of a submit, each declared once, as a field of `NewRun`.

The form of an option says how callers give it, and checks it. Bodies over HTTP, OpenAPI, clients and the flags of
commands are made from these fields. `RunOptions` repeats only names and types: type checkers can derive no keywords
from a struct.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
from msgspec import Meta

from interlock.error import BadUse, BadValue
from interlock.fields.duration import Duration, seconds
from interlock.fields.field import doc
from interlock.fields.field_types import NAME_RULE, FieldPath
from interlock.model.job import NAME, Priority
from interlock.model.labels import LABELS, LONGEST_LABEL, MOST_LABELS
from interlock.model.session import LONGEST_SESSION, SOME_OPTIONS, SessionFields, check_key
from interlock.wire.parameter import Moment, NameText, instant

LONGEST_KEY = 256  # characters of an idempotency key
LONGEST_DELAY = 1e10
TENANT = "Tenant of the run; by default the token's own, or `default` without tokens."

KeyText = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
_DURATION = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s)|[0-9]{1,6}(\.[0-9]{1,9})?(m|h)|[0-9]{1,5}(\.[0-9]{1,9})?d)$"
DurationText = Annotated[str, Meta(pattern=_DURATION, max_length=32)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_DELAY)]


def check_text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise BadValue(field, value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue(field, value, "a text that is valid Unicode") from error
    return value


def check_name(value: Any, field: str) -> str:
    if not NAME.fullmatch(check_text(value, field)):
        raise BadValue(field, value, NAME_RULE.format(64))
    return str(value)


def _key(value: Any, field: str) -> str:
    if not 1 <= len(check_text(value, field)) <= LONGEST_KEY:
        raise BadValue(field, value, f"a text of 1 to {LONGEST_KEY} characters")
    return str(value)


def _delay(value: Any, field: str) -> float:
    if (delay := seconds(value, field)) > LONGEST_DELAY:
        raise BadValue(field, value, f"a number of seconds from 0 to {LONGEST_DELAY:g}")
    return delay


def _labels(value: Any, field: str) -> dict[str, str]:
    found = LABELS.check(value, FieldPath(field))
    for name, text in found.items():
        check_text(text, f"{field}.{name}")
    return found


class Form(NamedTuple):
    """How an option is given."""

    json: Any  # its type in a body over HTTP
    check: Callable[[Any, str], Any]
    """returns what a caller gave, under this name, as a message has it; raises an error with name and value"""
    metavar: str = "TEXT"  # on the command line, which reads texts by it
    notation: str = ""  # of the JSON, in words


def _choice(kind: Any, *names: str) -> Form:
    def check(value: Any, field: str) -> str:
        if check_text(value, field) not in names:
            raise BadValue(field, value, f"one of {', '.join(names)}" if names[1:] else f"{names[0]!r}, the only kind")
        return str(value)

    return Form(kind, check, "|".join(names))


_LABELS_BODY = Annotated[dict[NameText, Annotated[str, Meta(max_length=LONGEST_LABEL)]], Meta(max_length=MOST_LABELS)]
_SESSION_BODY = Meta(extra_json_schema={"$ref": "#/components/schemas/SessionOptionsBody"})
NAMED = Form(NameText, check_name)
KEY = Form(KeyText, _key)
SESSION = Form(
    Annotated[str, Meta(min_length=1, max_length=LONGEST_SESSION)],
    lambda value, field: check_key(field, check_text(value, field)),
)
SOME = Form(
    Annotated[dict[str, Any], _SESSION_BODY],
    lambda value, field: SOME_OPTIONS.check(value, FieldPath(field)),
    "NAME=VALUE",
)
TEXTS = Form(_LABELS_BODY, _labels, "NAME=TEXT")
PRIORITY = _choice(Priority, *Priority)
UNIQUE = _choice(Literal["while_live"], "while_live")
TIME = Form(Moment, instant, "TIME", "In RFC 3339, or seconds since 1970.")
DELAY = Form(DurationText | Seconds, _delay, "DURATION")
DEADLINE = Form(DurationText | Seconds, instant, "DURATION|TIME")
"""given as a duration, or in Python as a time too; `new_run` makes it the time that a message has"""


class NewRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run to create. The fields with a form are the options of a submit."""

    job_id: str
    payload: bytes  # JSON, or empty for the job's own
    tenant: Annotated[str, NAMED, doc(TENANT)] = "default"
    lane: Annotated[str | None, NAMED, doc("Lane; by default the job's own.")] = None
    session: Annotated[
        str | None, SESSION, doc("Key shared by runs that wait for each other: up to 512 bytes of UTF-8.")
    ] = None
    idempotency_key: Annotated[str | None, KEY, doc("Idempotency key: a repeated submit finds the same run.")] = None
    deadline: Annotated[
        float | None, DEADLINE, doc("Time from the submit, or from when the run is due, until it must have ended.")
    ] = None
    at: Annotated[float | None, TIME, doc("Time at which the run is due; not with `delay`.")] = None
    occurrence: Annotated[
        float | None,
        TIME,
        doc("Makes this the job's only run for this instant. Its id is `<job>:<seconds>`, with `:<tenant>` for a "
            "tenant other than `default`."),
    ] = None  # fmt: skip
    origin: str | None = None  # as in `Run`
    delay: Annotated[float | None, DELAY, doc("Time until the run is due.")] = None
    labels: Annotated[
        dict[str, str] | None,
        TEXTS,
        doc("Labels of the run: up to 16 names, each with a text of up to 256 characters."),
    ] = None
    priority: Annotated[str | None, PRIORITY, doc("Place in the lane; by default the job's own.")] = None
    session_options: Annotated[
        dict[str, Any] | None,
        SOME,
        doc(f"Options of the session that differ from those of its key or its job: {', '.join(SOME_OPTIONS.fields)}."),
    ] = None
    stamp: Annotated[float | None, TIME, doc("Time at which the message of the session was sent; by default now.")] = (
        None
    )
    unique: Annotated[
        str | None,
        UNIQUE,
        doc("`while_live` frees the key when its run ends; without it, the key is kept for `keep_keys`."),
    ] = None

    @property
    def is_repeatable(self) -> bool:
        """Whether a second submit finds the run of the first. A key that is free again finds no ended run."""
        return self.occurrence is not None or (self.idempotency_key is not None and self.unique is None)


class TriggerOptions(TypedDict, total=False):
    """Options of a triggered run, as keywords."""

    tenant: str | None
    lane: str | None
    session: str | None
    idempotency_key: str | None
    deadline: Duration | datetime | None
    labels: Mapping[str, str] | None
    priority: Literal["critical", "interactive", "batch"] | None
    session_options: SessionFields | None
    stamp: datetime | float | None
    unique: Literal["while_live"] | None


class RunOptions(TriggerOptions, total=False):
    """Options of a submitted run, as keywords."""

    at: datetime | float | None
    delay: Duration | None
    occurrence: datetime | float | None
    key: str | None  # short for `idempotency_key`


class Option(NamedTuple):
    form: Form
    meaning: str

    @property
    def meaning_in_json(self) -> str:
        return f"{self.meaning} {self.form.notation}".rstrip()


_FIELDS = {name: getattr(hint, "__metadata__", None) for name, hint in NewRun.__annotations__.items()}
OPTIONS = {name: Option(found[0], found[1].description) for name, found in _FIELDS.items() if found}
TRIGGER: Collection[str] = TriggerOptions.__annotations__
_PLAIN = msgspec.structs.astuple(NewRun("", b""))[2:]


def check_new_run(new: NewRun) -> None:
    """Raise the first option that breaks its rule. Most runs have none, and cost a comparison."""
    if msgspec.structs.astuple(new)[2:] == _PLAIN:
        return
    for name, option in OPTIONS.items():
        if (value := getattr(new, name)) is not None:
            option.form.check(value, name)
    check_together(new)


def check_together(new: NewRun) -> None:
    """Raise the first option that needs another, or excludes it."""
    for name in ("session_options", "stamp"):
        if getattr(new, name) is not None and new.session is None:
            raise BadUse(name, "given without session; give the session too")
    if new.unique is not None and new.idempotency_key is None:
        raise BadUse("unique", "given without idempotency_key; give the key too")
    due = new.at if new.at is not None else new.occurrence
    if new.delay is not None and due is not None:
        raise BadUse("delay", f"cannot be combined with {'occurrence' if new.at is None else 'at'}")
    if new.at is not None and new.occurrence is not None:
        raise BadUse("at", "cannot be combined with occurrence, which has its own time")
    if due is not None and new.deadline is not None and new.deadline <= due:
        raise BadValue("deadline", new.deadline, f"later than the time the run is due ({due})")
