"""The options of a submit: as keywords of Python and as a message. `interface/bodies.py` has the body over HTTP.

An option with the same form everywhere is a line in each of `PlainOptions`, `NewRun` and `TriggerBody`, and a rule in
`check_plain`. Clients, gateway and links take it from there.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from interlock.error import BadUse, BadValue, NotJson
from interlock.fields.duration import Duration
from interlock.fields.field_types import NAME_RULE, FieldPath
from interlock.model.job import NAME, RANKS
from interlock.model.labels import LABELS
from interlock.model.session import GIVEN, SOME_OPTIONS, SessionFields, check_session

LONGEST_KEY = 256  # characters of an idempotency key
LONGEST_DELAY = 1e10
LATEST = 1e11
WHILE_LIVE = "while_live"


class PlainOptions(TypedDict, total=False):
    """Options that have the same form in Python, over HTTP and in a message."""

    tenant: str | None
    lane: str | None
    priority: Literal["critical", "interactive", "batch"] | None
    session: str | None
    session_options: SessionFields | None
    idempotency_key: str | None
    labels: Mapping[str, str] | None
    unique: Literal["while_live"] | None


class TriggerOptions(PlainOptions, total=False):
    """Options of a triggered run."""

    deadline: Duration | datetime | None
    stamp: datetime | float | None


class RunOptions(TriggerOptions, total=False):
    """Options of a submitted run."""

    at: datetime | float | None
    delay: Duration | None
    occurrence: datetime | float | None
    key: str | None  # short for `idempotency_key`


PLAIN = tuple(PlainOptions.__annotations__)


def check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadValue(field, value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue(field, value, "a text that is valid Unicode") from error


def checked_option(field: str, value: object) -> object:
    """Return a plain option as a message has it; refuse one of the wrong type."""
    if field == "session_options":
        return SOME_OPTIONS.check(value, GIVEN)
    if field != "labels":
        check_text(field, value)
        return value
    if not isinstance(value, Mapping):
        raise BadValue(field, value, "a mapping of names to texts")
    for name, text in value.items():
        check_text(field, name)
        check_text(f"labels.{name}", text)
    return value


class NewRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run to create. It waits until `at`, or for `delay` seconds; `occurrence` makes it the job's run of that
    instant."""

    job_id: str
    payload: bytes  # JSON, or empty for the job's own
    tenant: str = "default"
    lane: str | None = None
    session: str | None = None
    idempotency_key: str | None = None
    deadline_at: float | None = None
    at: float | None = None
    occurrence: float | None = None
    origin: str | None = None  # as in `Run`
    delay: float | None = None
    labels: dict[str, str] | None = None
    priority: str | None = None
    session_options: dict[str, Any] | None = None
    stamp: float | None = None  # when the message of a session was sent
    unique: str | None = None  # `WHILE_LIVE`: the key is free again once the run has ended

    @property
    def is_repeatable(self) -> bool:
        """Whether a second submit finds the run of the first. A key that is free again finds no ended run."""
        return self.occurrence is not None or (self.idempotency_key is not None and self.unique is None)


def check_name(field: str, name: str | None) -> None:
    if name is not None and not NAME.fullmatch(name):
        raise BadValue(field, name, NAME_RULE.format(64))


def check_instant(field: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and 0 <= value < LATEST):
        raise BadValue(field, value, "a time after 1970")


def check_plain(new: NewRun) -> None:
    """Raise the first plain option that breaks its rule."""
    check_name("tenant", new.tenant)
    check_name("lane", new.lane)
    if new.priority is not None and new.priority not in RANKS:
        raise BadValue("priority", new.priority, f"one of {', '.join(RANKS)}")
    if new.idempotency_key is not None and not 1 <= len(new.idempotency_key) <= LONGEST_KEY:
        raise BadValue("idempotency_key", new.idempotency_key, f"a text of 1 to {LONGEST_KEY} characters")
    check_session(new.session, session_options=new.session_options, stamp=new.stamp)
    if new.session_options is not None:
        SOME_OPTIONS.check(new.session_options, GIVEN)
    check_instant("stamp", new.stamp)
    if new.unique not in (None, WHILE_LIVE):
        raise BadValue("unique", new.unique, f"{WHILE_LIVE!r}, the only kind")
    if new.unique is not None and new.idempotency_key is None:
        raise BadUse("unique", "given without idempotency_key; give the key too")
    labels = new.labels or {}
    LABELS.check(labels, FieldPath("labels"))
    try:
        f"{new.idempotency_key}{new.session}{''.join(labels.values())}".encode()
    except UnicodeEncodeError as error:
        raise NotJson("idempotency_key", "a string with a lone surrogate") from error


def check_times(new: NewRun) -> None:
    """Raise the first time that is out of range, or excluded by another."""
    for field in ("at", "deadline_at", "occurrence"):
        check_instant(field, getattr(new, field))
    due = new.at if new.at is not None else new.occurrence
    if new.delay is not None and not 0 <= new.delay <= LONGEST_DELAY:
        raise BadValue("delay", new.delay, f"a number of seconds from 0 to {LONGEST_DELAY:g}")
    if new.delay is not None and due is not None:
        raise BadUse("delay", f"cannot be combined with {'occurrence' if new.at is None else 'at'}")
    if new.at is not None and new.occurrence is not None:
        raise BadUse("at", "cannot be combined with occurrence, which has its own time")
    if due is not None and new.deadline_at is not None and new.deadline_at <= due:
        raise BadValue("deadline", new.deadline_at, f"later than the time the run is due ({due})")


def check_new_run(new: NewRun) -> None:
    """Raise the first option that breaks its rule. Most runs have none, and cost two comparisons."""
    if not is_plain(new):
        check_plain(new)
    if not (new.at is new.deadline_at is new.occurrence is new.delay is None):
        check_times(new)


def is_plain(new: NewRun) -> bool:
    """Whether a run has no option that `check_plain` would look at."""
    return (
        new.tenant == "default" and new.idempotency_key is new.session is new.lane is new.unique is new.priority is None
    ) and not (new.labels or new.session_options is not None or new.stamp is not None)
