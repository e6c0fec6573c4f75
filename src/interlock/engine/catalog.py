"""The declared jobs of a scheduler, their sources and payload checks, its lanes, pools and policy. Jobs that were put
are in the state, and take any object. A bad submit, put or backfill is refused as a whole, before any of it exists."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Protocol

import msgspec
from msgspec import json
from msgspec.structs import replace

from interlock.core.state import DEFAULT_LANES, SchedulerState, unknown_job
from interlock.core.timetable.table import times_between
from interlock.error import BadPayload, BadSchedule, BadUse, BadValue, NotHere, PayloadTooLarge, TooMany
from interlock.fields import payload
from interlock.fields.field_types import did_you_mean
from interlock.model.job import Job
from interlock.model.lane import LaneSpec, with_limits
from interlock.model.pool import PoolSpec
from interlock.model.run import TRIGGER, Run
from interlock.model.tenant import TenantSpec
from interlock.policy.policy import Policy
from interlock.wire.command import Create, Define, Put, Refill
from interlock.wire.new_run import NewRun, check_name, check_new_run
from interlock.wire.parameter import instant
from interlock.wire.request import MOST_PARALLEL, MOST_RUNS, Backfill, PutJobs, Submit

PayloadCheck = Callable[[bytes], None]  # raises `BadPayload` with the name of the argument
PayloadMark = Callable[[bytes], bytes]  # marks the secrets that the handler takes
PYTHON = "python"  # source of a job declared in Python


class CatalogEntry(msgspec.Struct, frozen=True):
    job: Job
    check: PayloadCheck
    mark: PayloadMark | None = None  # None if the handler takes no secrets
    source: str = PYTHON  # place of the declaration


class Catalog:
    def __init__(
        self,
        entries: Iterable[CatalogEntry],
        lanes: Mapping[str, LaneSpec] = with_limits(DEFAULT_LANES),
        policy: Policy | None = None,
        pools: Mapping[str, PoolSpec] = {},
        tenants: Mapping[str, TenantSpec] = {},
    ) -> None:
        self._entries = {entry.job.id: entry for entry in entries}
        self.jobs = [entry.job for entry in self._entries.values()]
        self.sources = {entry.job.id: entry.source for entry in self._entries.values()}
        self.lanes = lanes
        self.policy = policy
        self.pools = pools
        self.tenants = tenants

    def define(self, request: int, actor: str = "scheduler", position: int = 0, claim_key: bytes = b"") -> Define:
        declared = self.sources, self.lanes, self.policy
        return Define(request, self.jobs, actor, *declared, position, self.pools, self.tenants, claim_key)

    def get(self, job_id: str, known: Mapping[str, Job] = {}) -> CatalogEntry:
        """Return the entry of a declared job, or one made for a `known` job."""
        entry = self._entries.get(job_id)
        if entry is None:
            if job_id not in known:
                raise unknown_job(job_id, chain(self._entries, known))
            entry = CatalogEntry(known[job_id], any_object(job_id))
        function = self._entries.get(entry.job.function_of or "")
        return entry if function is None else replace(entry, check=function.check, mark=function.mark)

    def bound(self, job: Job) -> Job:
        """Return a job that was put, bound to the job of the app that it names, if any."""
        return bind(job, self._entries) if job.function_of is not None else job


class CatalogFunction(Protocol):
    """A job of the app: an entry here, or its definition."""

    @property
    def job(self) -> Job: ...
    @property
    def check(self) -> PayloadCheck: ...
    @property
    def mark(self) -> PayloadMark | None: ...


def bind(job: Job, functions: Mapping[str, CatalogFunction]) -> Job:
    """Return a job that runs the function of another, with what belongs to that function: executor and secrets. Check
    its own payload, which a scheduled job may need, and mark the secrets in it."""
    other = job.function_of or ""
    function = functions.get(other)
    if function is None or function.job.work is not None:
        known = [name for name, known in functions.items() if known.job.work is None]
        rule = f"a job of the server's app{did_you_mean(other, known)}; use an id of a job defined with @app.job"
        raise BadValue("run.job", other, rule)
    given = job.payload
    if given is not None or job.schedule is not None:
        data = payload.EMPTY if given is None else payload.encode(given, "payload")
        try:
            function.check(data)
        except BadPayload as error:
            raise BadPayload(job.id, str(error).partition(": ")[2]) from None
        if given is not None and function.mark is not None:
            given = payload.decode(function.mark(data))
    own = function.job
    return replace(job, executor=own.executor, secrets=own.secrets, payload=given, version="")


def any_object(job_id: str) -> PayloadCheck:
    """Return the check of a job that takes any object."""

    def check(data: bytes) -> None:
        try:
            value = payload.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(job_id, f"not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise BadPayload(job_id, f"expected a JSON object, not {type(value).__name__}")

    return check


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
    check_name(message.tenant, "tenant")
    instant(message.start, "from")
    instant(message.end, "to")
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
