"""The runs of a submit, from the arguments of a program to messages."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import msgspec

from interlock.client.handle import RunHandle
from interlock.error import BadUse, BadValue, PayloadTooLarge
from interlock.fields import payload
from interlock.fields.duration import seconds
from interlock.fields.value import ResultType
from interlock.model.schedule import schedule
from interlock.model.session import check_session
from interlock.wire import request as r
from interlock.wire.claim import present_claim, read_claim
from interlock.wire.new_run import PlainOptions, RunOptions, check_text, check_unique, checked_option

if TYPE_CHECKING:  # it imports asyncio, and the blocking client must start without
    from interlock.client.connection import Connection

T = TypeVar("T")
Instant = datetime | float | str
"""a time with its zone, seconds since 1970, or a text such as 2030-01-31T02:00:00Z, which is UTC by default"""
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
) -> r.NewRun:
    """Return a run to submit. `deadline` is an instant, or a duration from now or from when the run is due. Without
    arguments, the run gets the job's own. `key` is short for `idempotency_key`."""
    now = time.time() if now is None else now
    data = b"" if arguments is None else payload.encode(arguments, "payload")
    due = None if at is None else instant(at, "at")
    if delay is not None and at is not None:
        raise BadUse("delay", "cannot be combined with at")
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
    check_unique(given.get("unique"), given.get("idempotency_key"))
    if stamp is not None:
        given["stamp"] = instant(stamp, "stamp")
    check_session(given.get("session"), session_options=given.get("session_options"), stamp=stamp)
    return r.NewRun(job_id, data, deadline_at=limit, at=due, occurrence=fires, origin=origin, delay=wait, **given)


def check_options(given: Mapping[str, object], kind: Any) -> None:
    """Refuse keyword arguments that are not fields of a TypedDict, as Python does for those of a function."""
    if unknown := given.keys() - kind.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")


def instant(value: Instant, field: str) -> float:
    """Return seconds since 1970. A `datetime` must have a zone, because a naive one often means local time."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadValue(field, value, "a time with a time zone")
    return schedule.instant(value, field)


def check_size(runs: Sequence[r.NewRun]) -> None:
    size = sum(len(new.payload) for new in runs)
    if size > MOST_BYTES:
        raise PayloadTooLarge("submit", size, MOST_BYTES)


class Call(Generic[T]):
    """A run that is not yet submitted, made by `report.call(...)`. Apps and clients take it: `client.submit(call)`."""

    __slots__ = ("job_id", "options", "payload", "result_type")

    def __init__(self, job_id: str, payload: bytes, options: RunOptions, result_type: ResultType[T] | None) -> None:
        self.job_id = job_id
        self.payload = payload  # JSON, or empty for the job's own
        self.options = options
        self.result_type = result_type

    def __repr__(self) -> str:
        return f"Call({self.job_id!r})"

    def new_run(self, now: float | None = None) -> r.NewRun:
        """Return the run as a message. Deadlines count from `now`."""
        return msgspec.structs.replace(new_run(self.job_id, now=now, **self.options), payload=self.payload)


NewRuns = Iterable[Call[Any] | r.NewRun | tuple[str, Mapping[str, Any] | None]]


def call_of(
    job: str | Call[Any], arguments: Any, options: RunOptions, now: float | None = None
) -> Call[Any] | r.NewRun:
    """Return the run of a submit: the call itself, or a run of the job with this name."""
    if not isinstance(job, Call):
        return new_run(job, arguments, now=now, **options)
    if arguments is not None or options:
        raise BadUse("payload" if arguments is not None else min(options), "is part of the call; give it there")
    return job


def run_of(place: int, one: object, now: float) -> r.NewRun:
    """Return one run of `submit_many`."""
    if isinstance(one, r.NewRun):
        return one
    if isinstance(one, Call):
        return one.new_run(now)
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        # Only its type is shown, because it may contain a secret.
        expected = "a pair of job and payload, or made by interlock.run(...) or the call(...) of a job"
        raise BadValue(f"runs[{place}]", type(one).__name__, expected)
    return new_run(one[0], one[1], now=now)


def result_type_of(one: object) -> ResultType[Any] | None:
    return one.result_type if isinstance(one, Call) else None


def in_tenant(runs: Sequence[r.NewRun], tenant: str) -> list[r.NewRun]:
    """Return these runs, those of no particular tenant in this one."""
    return [msgspec.structs.replace(new, tenant=tenant) if new.tenant == "default" else new for new in runs]


async def submit(connection: "Connection", runs: NewRuns, actor: str = "") -> list[RunHandle[Any]]:
    """Submit all runs or none; they are durable when this returns. Safe to repeat if each has an idempotency key.
    `actor` is the caller behind this client, if any."""
    now, given = connection.now(), list(runs)
    ready = [run_of(place, one, now) for place, one in enumerate(given)]
    check_size(ready)
    if claim := present_claim():
        ready = in_tenant(ready, read_claim(claim).tenant)
    accepted = await connection.ask(r.Submit(0, ready, actor, parent=claim))
    return [
        RunHandle(run_id, connection, result_type_of(one)) for run_id, one in zip(accepted.run_ids, given, strict=True)
    ]
