"""A run to submit, made from the values of a program or of a body over HTTP."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from interlock.error import BadUse, BadValue, PayloadTooLarge
from interlock.fields import payload
from interlock.fields.duration import seconds
from interlock.model.schedule import schedule
from interlock.wire.new_run import NewRun, PlainOptions, check_new_run, check_text, checked_option
from interlock.wire.parameter import Instant

MOST_BYTES = 16 * 1024 * 1024  # size of all payloads in one submit


def new_run(
    job_id: str,
    arguments: Any = None,
    *,
    now: float | None = None,
    deadline: Any = None,
    at: Instant | None = None,
    delay: Any = None,
    occurrence: Instant | None = None,
    origin: str | None = None,
    key: str | None = None,
    stamp: Instant | None = None,
    **plain: Unpack[PlainOptions],
) -> NewRun:
    """Return a run to submit. `deadline` is an instant, or a duration from now or from when the run is due. Without
    arguments, the run gets the job's own. `key` is short for `idempotency_key`."""
    now = time.time() if now is None else now
    data = b"" if arguments is None else payload.encode(arguments, "payload")
    due = None if at is None else instant(at, "at")
    wait = None if delay is None else seconds(delay, "delay")
    fires = None if occurrence is None else instant(occurrence, "occurrence")
    begins = due or fires or now + (wait or 0.0)
    limit = None
    if deadline is not None:
        limit = (
            instant(deadline, "deadline") if isinstance(deadline, datetime) else begins + seconds(deadline, "deadline")
        )
    if wait is not None and limit is not None and limit <= begins:
        raise BadValue("deadline", deadline, f"later than the end of the delay ({wait:g}s)")
    check_text("job", job_id)
    given: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if key is not None and given.setdefault("idempotency_key", key) is not key:
        raise BadUse("key", "cannot be combined with idempotency_key, its long name")
    for field, value in given.items():
        given[field] = checked_option(field, value)
    if stamp is not None:
        given["stamp"] = instant(stamp, "stamp")
    new = NewRun(job_id, data, deadline_at=limit, at=due, occurrence=fires, origin=origin, delay=wait, **given)
    check_new_run(new)
    return new


def check_options(given: Mapping[str, object], kind: Any) -> None:
    """Refuse keyword arguments that are not fields of a TypedDict, as Python does for those of a function."""
    if unknown := given.keys() - kind.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")


def instant(value: Instant, field: str) -> float:
    """Return seconds since 1970. A `datetime` must have a zone, because a naive one often means local time."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadValue(field, value, "a time with a time zone")
    return schedule.instant(value, field)


def check_size(runs: Sequence[NewRun]) -> None:
    size = sum(len(new.payload) for new in runs)
    if size > MOST_BYTES:
        raise PayloadTooLarge("submit", size, MOST_BYTES)
