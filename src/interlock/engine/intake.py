"""The check at the door: a submit is refused here, whole, before anything of it exists."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from interlock.core.fire_times import times_between
from interlock.core.state import SchedulerState
from interlock.engine.catalog import Catalog, Entry
from interlock.model import payload
from interlock.model.command import Create, Put, Refill
from interlock.model.error import BadSchedule, BadValue, NotJson, PayloadTooLarge
from interlock.model.job import NAME, Job
from interlock.model.request import LONGEST_KEY, MOST_PARALLEL, MOST_RUNS, Backfill, NewRun, PutJobs, Submit
from interlock.model.run import TRIGGER

LONGEST_DELAY = 1e10


def create(message: Submit, actor: str, catalog: Catalog, known: Mapping[str, Job]) -> Create:
    """Raise the first thing wrong with a submit, and mark the secrets in it, so that they stay secrets whatever the
    job becomes before they are used."""
    runs = message.runs
    if not runs or len(runs) > MOST_RUNS:
        raise BadValue("runs", len(runs), f"a number of runs from 1 to {MOST_RUNS:,}")
    secrets = False
    for place, new in enumerate(runs):
        entry = catalog.get(new.job_id, known)
        if not new.payload:
            new = runs[place] = msgspec.structs.replace(new, payload=own_payload(entry.job))
        if new.origin not in (None, TRIGGER):
            raise BadValue("origin", new.origin, f"nothing or {TRIGGER!r}")
        if len(new.payload) > payload.LIMIT:
            raise PayloadTooLarge(f"payload of {new.job_id!r}", len(new.payload), payload.LIMIT)
        entry.check(new.payload)
        secrets = secrets or entry.mark is not None
        if new.tenant != "default" or not (new.idempotency_key is new.session is new.lane is None):
            _check_names(new)
        if not (new.at is new.deadline_at is new.occurrence is new.delay is None):
            _check_times(new)
    if secrets:
        runs[:] = [_with_marks(new, catalog.get(new.job_id, known)) for new in runs]
    return Create(message.request, runs, actor, sum(len(new.payload) for new in runs))


def put(message: PutJobs, actor: str) -> Put:
    # A version says what is in a definition, so it is not for others to give.
    return Put(message.request, [msgspec.structs.replace(job, version="") for job in message.jobs], actor)


def own_payload(job: Job) -> bytes:
    """What a job is given when nobody says otherwise."""
    return payload.EMPTY if job.payload is None else msgspec.json.encode(job.payload)


def _with_marks(new: NewRun, entry: Entry) -> NewRun:
    if entry.mark is None:
        return new
    marked = entry.mark(new.payload)
    if len(marked) > payload.LIMIT:
        raise PayloadTooLarge(f"payload of {new.job_id!r}, its secrets marked", len(marked), payload.LIMIT)
    return msgspec.structs.replace(new, payload=marked)


def _check_names(new: NewRun) -> None:
    for field, name in (("tenant", new.tenant), ("lane", new.lane)):
        if name is not None and not NAME.fullmatch(name):
            raise BadValue(field, name, "a name of letters, digits, '_', '-' and '.', up to 64 long")
    for field, value in (("idempotency_key", new.idempotency_key), ("session", new.session)):
        if value is not None and not 1 <= len(value) <= LONGEST_KEY:
            raise BadValue(field, value, f"a text of 1 to {LONGEST_KEY} characters")
    try:
        f"{new.idempotency_key}{new.session}".encode()
    except UnicodeEncodeError as error:
        raise NotJson("idempotency_key", "a string with a lone surrogate") from error


def _check_times(new: NewRun) -> None:
    for field in ("at", "deadline_at", "occurrence"):
        value = getattr(new, field)
        if value is not None and not (math.isfinite(value) and 0 <= value < 1e11):
            raise BadValue(field, value, "a time after 1970")
    if new.delay is not None:
        if not 0 <= new.delay <= LONGEST_DELAY:
            raise BadValue("delay", new.delay, f"a number of seconds from 0 to {LONGEST_DELAY:g}")
        for field in ("at", "occurrence"):
            if getattr(new, field) is not None:
                raise BadValue("delay", new.delay, f"allowed together with {field}; give one of them")
    if new.at is not None and new.occurrence is not None:
        raise BadValue("at", new.at, "given together with occurrence: an occurrence has its own time")
    due = new.at if new.at is not None else new.occurrence
    if due is not None and new.deadline_at is not None and new.deadline_at <= due:
        raise BadValue("deadline", new.deadline_at, f"later than the time the run is due ({due})")


def refill(message: Backfill, state: SchedulerState, catalog: Catalog, actor: str, now: float) -> Refill:
    """What a backfill comes to; raises the first thing that is wrong with it."""
    entry = catalog.get(message.job_id, state.jobs)
    place = state.timetable.entries.get(message.job_id)
    if place is None or place.done or message.job_id not in state.jobs:
        raise BadSchedule(f"job: {message.job_id!r} has no schedule, so there are no times to make up for")
    if not NAME.fullmatch(message.tenant):
        raise BadValue("tenant", message.tenant, "a name of letters, digits, '_', '-' and '.', up to 64 long")
    for field, value in (("from", message.start), ("to", message.end)):
        if not (math.isfinite(value) and 0 <= value < 1e11):
            raise BadValue(field, value, "a time after 1970")
    if message.end <= message.start:
        raise BadValue("to", _shown(message.end), f"later than from ({_shown(message.start)})")
    if message.end > now:
        raise BadValue("to", _shown(message.end), f"in the past; it is {_shown(now)} now")
    if not 1 <= message.max_parallel <= MOST_PARALLEL:
        raise BadValue("max_parallel", message.max_parallel, f"a whole number from 1 to {MOST_PARALLEL:,}")
    given = message.payload or own_payload(entry.job)
    entry.check(given)
    times = times_between(place.schedule, place.anchor, message.start, message.end, MOST_RUNS)
    if len(times) > MOST_RUNS:
        raise BadValue("to", _shown(message.end), f"near enough: there are more than {MOST_RUNS:,} times in between")
    marked = given if entry.mark is None else entry.mark(given)
    return Refill(message.request, message.job_id, times, marked, message.tenant, message.max_parallel, actor)


def _shown(instant: float) -> str:
    """A time as people write it, where that is possible."""
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%SZ}"
