"""Changes of jobs: declare them at a start or reload, put, drop, pause and backfill them."""

from collections.abc import Iterable, Sequence

import msgspec

from interlock.core.audit import note_declared, note_jobs
from interlock.core.decisions import DefinitionStored
from interlock.core.entry.admission import adopt, lane_of, note_reached
from interlock.core.entry.lineage import adopt_key
from interlock.core.facts import Needs
from interlock.core.guards.job_guard import skip_waiting
from interlock.core.jobs.declared import DeclaredJobs
from interlock.core.jobs.queries import report
from interlock.core.lanes.changes import adopt_lanes
from interlock.core.output import adopt_output
from interlock.core.policy.judge import adopt_policy
from interlock.core.state import SchedulerState
from interlock.core.tenants.limits import adopt_tenants, check_tenants
from interlock.core.timetable.occurrences import AGAIN, occurrence, turn_back
from interlock.core.timetable.series import PAUSED, release_or_wait, release_waiting, skip
from interlock.core.timetable.table import GONE, TimetableEntry, first_time, following
from interlock.core.transition import Pass
from interlock.error import BadSchedule, BadUse, Draining, NotPut
from interlock.fields import payload
from interlock.model.job import Job, StoredJob, check_lane
from interlock.model.job_info import Backfilled
from interlock.model.lane import CRON
from interlock.model.reload_report import Difference
from interlock.model.run import backfill, occurrence_id
from interlock.model.state import State
from interlock.model.workflow import BUILT_IN
from interlock.wire.command import Define, Put, Refill
from interlock.wire.request import DropJob, SetPaused, ValueAnswer

DEFAULT = "default"  # the tenant of scheduled runs
REMOVED = "its job was removed"
CHANGED = "its job has another schedule now"


def refusals(state: SchedulerState, jobs: Iterable[Job], now: float) -> list[tuple[Job, str]]:
    """Return the jobs that cannot be declared now, each with the reason."""
    found = []
    for job in jobs:
        if job.id in state.jobs and job.id not in state.of(DeclaredJobs).versions:
            found.append((job, f"id: {job.id!r} is taken by a job that was put over HTTP; delete that job first"))
        elif (late := _too_late(state, job, now)) is not None:
            found.append((job, late))
    return found


def _too_late(state: SchedulerState, job: Job, now: float) -> str | None:
    """Return the fault of a job whose only time has passed, unless it already had this schedule."""
    schedule, entry, row = job.schedule, state.timetable.entries.get(job.id), state.timetable.rows.get(job.id)
    if schedule is None or schedule.at is None or schedule.at > now:
        return None
    if schedule.identity == (entry.schedule.identity if entry is not None else row and row[1]):
        return None
    return f"schedule.at: {str(schedule).removeprefix('at ')!r} is in the past; use a time in the future"


def needs_latest(state: SchedulerState, command: Define | Put, needs: Needs) -> None:
    """Need the latest fire times of jobs that get their first schedule."""
    table = state.timetable
    for job in command.jobs:
        if job.schedule is not None and job.id not in table.entries and job.id not in table.rows:
            needs.latest[job.id] = None


def define(p: Pass, origin: str, command: Define) -> None:
    """Adopt the declarations. Runs in prerun take the new definition; others keep the version they started with."""
    state, jobs = p.state, command.jobs
    if command.request and (refused := refusals(state, jobs, p.now)):
        raise BadSchedule(refused[0][1])
    adopt_lanes(p, command.lanes)
    state.roster.adopt(command.pools)
    adopt_tenants(p, command.tenants)
    adopt_policy(p, command.policy, not command.request, command.actor)
    state.choose_machine()
    adopt_output(p, command.position)
    adopt_key(p, command.claim_key)
    declared = state.of(DeclaredJobs)
    before, declared.versions = declared.versions, {job.id: job.version for job in jobs}
    declared.sources = command.sources
    is_start = not before and not state.timetable.entries
    put = {job_id: job for job_id, job in state.jobs.items() if job_id not in before}
    _remove_all(p, [job_id for job_id in before if job_id not in declared.versions])
    # Unless the order changed, an unchanged job keeps its entry.
    in_order = list(before) == [job.id for job in jobs][: len(before)]
    state.jobs = {}
    for job in jobs:
        state.jobs[job.id] = job
        if not in_order or before.get(job.id) != job.version:
            _enter(p, job, is_start)
        elif job.id in state.timetable.entries and state.timetable.entries[job.id].done:
            del state.jobs[job.id]
    if is_start:
        for job in put.values():
            _enter(p, job, True)
        _forget_unknown(p)
        state.timetable.rebuild()
    state.jobs |= put
    note_declared(p, command.actor, None if is_start else before, declared.versions)
    p.of(Changed).jobs.update(job.id for job in jobs if is_start or before.get(job.id, job.version) != job.version)
    if command.request:
        difference = Difference.between(before, declared.versions)
        p.answers.append((origin, DefinitionStored(command.request, difference)))


def put(p: Pass, origin: str, command: Put) -> None:
    state = p.state
    for job in command.jobs:
        if job.id in state.of(DeclaredJobs).versions:
            raise NotPut(job.id, state.of(DeclaredJobs).sources.get(job.id, ""))
        if job.id.startswith(BUILT_IN):
            raise BadUse("id", f"{job.id!r} begins with {BUILT_IN!r}, as only built-in jobs do; choose another", job.id)
        if job.work is None:
            raise BadUse("run", f"missing; job {job.id!r} needs a process, a function or a job of the app")
        check_lane(job, state.lanes)
        if (late := _too_late(state, job, p.now)) is not None:
            raise BadSchedule(late)
    changed = {job.id: job.version for job in command.jobs if state.jobs.get(job.id) != job}
    known_versions = {job_id: state.jobs[job_id].version for job_id in changed if job_id in state.jobs}
    note_jobs(p, command.actor or origin, "put", known_versions, changed)
    for job in command.jobs:
        known = state.jobs.get(job.id)
        if known != job:
            state.jobs[job.id] = job
            p.keep(StoredJob(job.id, job))
            _enter(p, job)
            if known is not None:
                p.of(Changed).jobs.add(job.id)
    p.answers.append((origin, report(state, command.request, *(job.id for job in command.jobs))))


def drop(p: Pass, origin: str, command: DropJob) -> None:
    job = p.state.job(command.job_id)
    if job.id in p.state.of(DeclaredJobs).versions:
        raise NotPut(job.id, p.state.of(DeclaredJobs).sources.get(job.id, ""))
    _leave_table(p, command.job_id, REMOVED)
    del p.state.jobs[command.job_id]
    p.forget(StoredJob, command.job_id)
    note_jobs(p, command.actor or origin, "dropped", {job.id: job.version}, {})
    p.answers.append((origin, report(p.state, command.request)))


def _enter(p: Pass, job: Job, is_start: bool = False) -> None:
    """Give a job its entry in the timetable; with the same schedule it keeps its place."""
    table = p.state.timetable
    row, known = table.rows.pop(job.id, None), table.entries.get(job.id)
    if known is not None:
        row = known.row()
    if job.schedule is None:
        if row is not None:
            _leave_table(p, job.id, CHANGED)
        return
    if row is not None and row[1] == job.schedule.identity:
        _, _, anchor, cursor, next_time, paused, done, reached = row
        done = done and not job.schedule.keep
    else:
        _skip_ahead(p, job.id, CHANGED)
        anchor, cursor, next_time = p.now, p.now, first_time(job.schedule, p.now)
        paused, done = row is not None and row[5], False
        reached = row[7] if row is not None else p.facts.latest.get(job.id, 0.0)
    table.orders += 1
    entry = TimetableEntry(job, table.orders, anchor, cursor, next_time, paused, done, reached)
    table.entries[job.id] = entry
    turn_back(p, entry)
    table.wall = max(table.wall, entry.cursor - p.state.limits.prerun)  # the clock showed this before a restart
    if done:
        p.state.jobs.pop(job.id, None)
    if entry.row() != row:
        p.batch.schedules[entry.job.id] = entry.row()
    if not is_start:
        table.place(entry)


def _forget_unknown(p: Pass) -> None:
    """Keep only the pause of jobs that are no longer defined."""
    table = p.state.timetable
    for job_id, row in table.rows.items():
        if row[5] and row[1] != GONE:
            p.batch.schedules[job_id] = (job_id, GONE, p.now, p.now, None, True, False, row[7])
        elif not row[5]:
            p.batch.schedules[job_id] = None
    waiting = [job_id for job_id, backfill in p.state.timetable.series if not backfill]
    for job_id in dict.fromkeys((*table.ahead, *waiting)):
        if job_id not in table.entries:
            _skip_ahead(p, job_id, REMOVED)


def _remove_all(p: Pass, job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        _leave_table(p, job_id, REMOVED)
    live = {run.job_id for run in p.state.runs.values()} if job_ids else set()
    for job_id in job_ids:
        job = p.state.jobs.get(job_id)
        if job_id in live and job is not None and job.work is None:
            p.warnings.append(f"job {job_id!r} is no longer defined: its runs wait for a worker that knows it")


def _leave_table(p: Pass, job_id: str, why: str) -> None:
    table = p.state.timetable
    _skip_ahead(p, job_id, why)
    entry = table.entries.pop(job_id, None)
    if entry is not None and entry.paused:
        row = table.rows[job_id] = (job_id, GONE, p.now, p.now, None, True, False, entry.reached)
        p.batch.schedules[job_id] = row
    elif entry is not None:
        p.batch.schedules[job_id] = None


def _skip_ahead(p: Pass, job_id: str, why: str) -> None:
    """Skip the occurrences of a job that were created ahead or wait for their turn."""
    for run in p.state.timetable.ahead.pop(job_id, ()):
        if run.state is State.PRERUN:
            skip(p, run, why)
    _skip_waiting(p, job_id, why)


def _skip_waiting(p: Pass, job_id: str, why: str) -> None:
    skip_waiting(p, job_id, why)
    series = p.state.timetable.series.pop((job_id, ""), None)
    if series is None:
        return
    for run in series.waiting:
        if run.state is State.PRERUN:
            skip(p, run, why)
    series.waiting.clear()
    if series.live:
        p.state.timetable.series[job_id, ""] = series


class Changed(msgspec.Struct):
    jobs: set[str] = set()  # those that have changed in this pass


def adopt_changes(p: Pass) -> None:
    """Apply the changes of this pass to the runs in prerun."""
    changed, kept = p.of(Changed).jobs, dict[str, int]()
    for run in p.state.runs.values() if changed else ():
        job = p.state.jobs.get(run.job_id) if run.job_id in changed else None
        if job is None or job.version == run.job_version:
            continue
        if run.state is State.PRERUN:
            if job.version not in p.state.versions:
                p.state.versions[job.version] = job
                p.batch.jobs.append(job)
            adopt(p, run, job)
        else:
            kept[job.id] = kept.get(job.id, 0) + 1
    for job_id, count in kept.items():
        p.warnings.append(f"job {job_id!r} has changed: {count} runs past prerun keep their version")
    for job_id in changed:
        if (job_id, "") in p.state.timetable.series:
            release_waiting(p, p.state.timetable.series[job_id, ""])


def pause(p: Pass, origin: str, command: SetPaused) -> None:
    entry = p.state.timetable.entries.get(p.state.job(command.job_id).id)
    if entry is None:
        raise BadSchedule(f"job: {command.job_id!r} has no schedule to pause or resume")
    if entry.paused != command.paused:
        if command.paused:
            # Runs created ahead stay until their time, in case the job is resumed before it.
            _skip_waiting(p, entry.job.id, PAUSED)
        else:
            _resume(p, entry)
        entry.paused = command.paused
        action, before, after = ("paused", "active", "paused") if command.paused else ("resumed", "paused", "active")
        note_jobs(p, command.actor or origin, action, {command.job_id: before}, {command.job_id: after})
        p.batch.schedules[entry.job.id] = entry.row()
        p.state.timetable.place(entry)
    p.answers.append((origin, report(p.state, command.request, command.job_id)))


def _resume(p: Pass, entry: TimetableEntry) -> None:
    """Compute the next time from now, without catching up. Runs created ahead and not yet due continue."""
    schedule, since = entry.schedule, p.now - entry.schedule.offset(entry.job.id)
    only = schedule.at if schedule.at is not None else entry.anchor + schedule.wait if schedule.once else None
    if only is None:
        entry.cursor = max(entry.cursor, since)
        entry.next = following(schedule, entry.anchor, entry.cursor)
    elif only <= since:
        raise BadSchedule(f"schedule: the time of job {entry.job.id!r} ({schedule}) has passed; give it a new one")


def needs_states(state: SchedulerState, command: Refill, needs: Needs) -> None:
    for at in command.times:
        run_id = occurrence_id(command.job_id, at, command.tenant)
        needs.states[run_id] = needs.states[run_id + AGAIN] = None
        if command.tenant == DEFAULT:
            needs.note_passed(state, run_id, command.job_id, at)


def refill(p: Pass, origin: str, command: Refill) -> None:
    """Create the missing runs of a past range of time."""
    if p.state.draining:
        raise Draining
    job = p.state.job(command.job_id)
    lane, _ = lane_of(p, job.lane or CRON)
    if lane in p.state.lanes.draining:
        raise Draining(lane)
    created: list[str] = []
    existing: list[str] = []
    ids = {at: _free_id(p, occurrence_id(job.id, at, command.tenant), existing) for at in command.times}
    free = {at: run_id for at, run_id in ids.items() if run_id is not None}
    check_tenants(p, [(command.tenant, lane)] * len(free), submitted=False)
    for at, run_id in free.items():
        run = occurrence(p, job, at, backfill(command.max_parallel), run_id, command.tenant, command.actor)
        run.payload = command.payload or run.payload
        run.actor = command.actor
        p.begin(run)
        digest = payload.digest(job.id, run.payload or payload.EMPTY)
        p.batch.keys.taken.append((command.tenant, None, run_id, digest, p.now))
        if command.tenant == DEFAULT:
            note_reached(p, job.id, at)
        release_or_wait(p, run)
        created.append(run_id)
    p.answers.append((origin, ValueAnswer(command.request, Backfilled(created=created, existing=existing))))


def _free_id(p: Pass, run_id: str, existing: list[str]) -> str | None:
    """Return a free id for an occurrence, or None; a skipped run may be replaced once."""
    for candidate in (run_id, run_id + AGAIN):
        state = p.state_of(candidate) or p.facts.states.get(candidate)
        if state is None:
            return candidate
        if state is not State.SKIPPED:
            existing.append(candidate)
            return None
    existing.append(run_id + AGAIN)
    return None
