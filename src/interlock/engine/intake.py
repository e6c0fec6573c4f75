"""Checks of submits, puts and backfills: a bad one is refused as a whole, before any of it exists."""

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import json
from msgspec.structs import replace

from interlock.core.state import SchedulerState
from interlock.core.timetable.fire_times import times_between
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.error import BadSchedule, BadUse, BadValue, NotHere, PayloadTooLarge, TooMany
from interlock.fields import payload
from interlock.model.job import Job
from interlock.model.run import TRIGGER, Run
from interlock.wire.command import Create, Put, Refill
from interlock.wire.new_run import NewRun, check_instant, check_name, check_new_run
from interlock.wire.request import MOST_PARALLEL, MOST_RUNS, Backfill, PutJobs, Submit


def create(message: Submit, actor: str, catalog: Catalog, known: Mapping[str, Job]) -> Create:
    """Check a submit, and mark its secrets, so that they stay secret even if the job changes."""
    runs = message.runs
    if not runs:
        raise BadUse("runs", "is empty; give at least one run")
    if len(runs) > MOST_RUNS:
        raise TooMany("runs", len(runs), MOST_RUNS, "submit the rest separately")
    secrets = False
    for index, new in enumerate(runs):
        entry = catalog.get(new.job_id, known)
        if not new.payload:
            new = runs[index] = replace(new, payload=own_payload(entry.job))
        if new.origin not in (None, TRIGGER):
            raise NotHere("origin", new.origin, "in a submit", f"leave it out, or use {TRIGGER!r}")
        if len(new.payload) > payload.LIMIT:
            raise PayloadTooLarge(f"payload of {new.job_id!r}", len(new.payload), payload.LIMIT)
        entry.check(new.payload)
        secrets = secrets or entry.mark is not None
        check_new_run(new)
    if secrets:
        runs[:] = [_with_marks(new, catalog.get(new.job_id, known)) for new in runs]
    size = sum(len(new.payload) for new in runs)
    return Create(
        message.request, runs, actor, size, message.show and len(runs) == 1, message.only_tenant, message.parent
    )


def merged(run: Run, arguments: bytes, catalog: Catalog, known: Mapping[str, Job]) -> bytes:
    """Return the payload of a run with these arguments in place of its own, checked like that of a submit."""
    data = json.encode(json.decode(run.payload or payload.EMPTY, type=dict) | json.decode(arguments, type=dict))
    return create(Submit(0, [NewRun(run.job_id, data)]), "", catalog, known).runs[0].payload


def put(message: PutJobs, actor: str, catalog: Catalog) -> Put:
    # A version is derived from the definition, so clients cannot set it.
    return Put(message.request, [catalog.bound(replace(job, version="")) for job in message.jobs], actor)


def own_payload(job: Job) -> bytes:
    """Return the payload of a run submitted without one."""
    return payload.EMPTY if job.payload is None else json.encode(job.payload)


def _with_marks(new: NewRun, entry: CatalogEntry) -> NewRun:
    if entry.mark is None:
        return new
    marked = entry.mark(new.payload)
    if len(marked) > payload.LIMIT:
        raise PayloadTooLarge(f"payload of {new.job_id!r}, its secrets marked", len(marked), payload.LIMIT)
    return replace(new, payload=marked)


def refill(message: Backfill, state: SchedulerState, catalog: Catalog, actor: str, now: float) -> Refill:
    """Check a backfill, and list its times."""
    entry = catalog.get(message.job_id, state.jobs)
    scheduled = state.timetable.entries.get(message.job_id)
    if scheduled is None or scheduled.done or message.job_id not in state.jobs:
        raise BadSchedule(f"job: {message.job_id!r} has no schedule, so a backfill has no times")
    check_name("tenant", message.tenant)
    check_instant("from", message.start)
    check_instant("to", message.end)
    start, end = _shown(message.start), _shown(message.end)
    if message.end <= message.start:
        raise BadValue("to", end, f"later than from ({start})")
    if message.end > now:
        raise BadValue("to", end, f"in the past; it is {_shown(now)} now")
    if not 1 <= message.max_parallel <= MOST_PARALLEL:
        raise BadValue("max_parallel", message.max_parallel, f"a whole number from 1 to {MOST_PARALLEL:,}")
    given = message.payload or own_payload(entry.job)
    entry.check(given)
    times = times_between(scheduled.schedule, scheduled.anchor, message.start, message.end, MOST_RUNS)
    if len(times) > MOST_RUNS:
        raise BadUse("to", f"the range from {start} to {end} has more than {MOST_RUNS:,} times; take a shorter one")
    marked = given if entry.mark is None else entry.mark(given)
    return Refill(message.request, message.job_id, times, marked, message.tenant, message.max_parallel, actor)


def _shown(instant: float) -> str:
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%SZ}"
