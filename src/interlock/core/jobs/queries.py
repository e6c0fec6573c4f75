"""Answers from the scheduler's state to questions about jobs, lanes and the timetable."""

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice

from interlock.core.jobs.declared import DeclaredJobs
from interlock.core.lanes.lane import Lane
from interlock.core.state import SchedulerState
from interlock.core.timetable.table import Table, TimetableEntry, following, times_between
from interlock.error import BadSchedule, BadValue
from interlock.fields.field import copy_fields
from interlock.model.job import Job, guards_of
from interlock.model.job_info import JobInfo
from interlock.model.lane import LaneInfo, LaneList, LaneValues, shown_rate
from interlock.model.run import Now
from interlock.model.work import BaseWork
from interlock.wire import request as r
from interlock.wire.lane_request import AskLanes

MOST_JOBS = 1000  # jobs in one answer
MOST_TIMES = 10_000
PUT = "api"  # the source of a job that was put over the API


def report(state: SchedulerState, request: int, *job_ids: str) -> r.JobsReport:
    jobs = [_info(state.jobs[job_id], state) for job_id in job_ids[:MOST_JOBS]]
    return r.JobsReport(request, jobs, len(job_ids) > MOST_JOBS)


def one(question: r.AskJob, state: SchedulerState, now: Now) -> r.JobsReport:
    return report(state, question.request, state.job(question.job_id).id)


def page(question: r.AskJobs, state: SchedulerState, now: Now) -> r.JobsReport:
    jobs = iter(state.jobs.values())
    if question.after is not None:
        if question.after in state.jobs:
            next(job for job in jobs if job.id == question.after)
        else:  # removed meanwhile: continue with the next names
            jobs = (job for job in state.jobs.values() if job.id > str(question.after))
    limit = max(1, min(question.limit, MOST_JOBS))
    found = list(islice(jobs, limit + 1))
    return r.JobsReport(question.request, [_info(job, state) for job in found[:limit]], len(found) > limit)


def _info(job: Job, state: SchedulerState) -> JobInfo:
    entry = state.timetable.entries.get(job.id)
    return JobInfo(
        id=job.id,
        source=state.of(DeclaredJobs).sources.get(job.id, PUT),
        kind="workflow" if job.workflow is not None else (job.work or BaseWork).kind,
        command=None if job.work is None else str(job.work),
        lane=job.lanes[job.schedule is None],
        priority=job.priority,
        version=job.version,
        max_concurrent_runs=job.constraints.max_concurrent_runs,
        guards=guards_of(job),
        topic=job.policy_topic,
        capabilities=tuple(job.capabilities),
        risk_tags=tuple(job.risk_tags),
        requires=tuple(job.requires),
        labels=job.labels or {},
        sensitivity=job.sensitivity,
        schedule=job.schedule,
        schedule_text=None if job.schedule is None else str(job.schedule),
        paused=entry is not None and entry.paused,
        next_at=_next_of(entry, state),
        other_code=_other_code(job, state),
    )


def _other_code(job: Job, state: SchedulerState) -> list[str]:
    """Return the workers whose code of the job differs from the code that the scheduler has loaded."""
    if job.work is not None:
        return []
    return [
        worker.id
        for worker in state.workers.values()
        if worker.connected and worker.jobs.get(job.id, job.code) != job.code
    ]


def _next_of(entry: TimetableEntry | None, state: SchedulerState) -> float | None:
    """Return the time of the first run created ahead, or else the next fire time."""
    if entry is None or entry.paused:
        return None
    ahead = [run.due_at for run in state.timetable.ahead.get(entry.job.id, ()) if run.due_at is not None]
    return min(ahead, default=entry.fires_at)


def lanes(question: AskLanes, state: SchedulerState, now: Now) -> r.ValueAnswer:
    found = [lane_info(state, lane, now.wall) for lane in state.lanes.values()]
    return r.ValueAnswer(question.request, LaneList(lanes=found))


def lane_info(state: SchedulerState, lane: Lane, now: float) -> LaneInfo:
    # Each queue is in order of arrival.
    oldest = (next((entry[1] for entry in queue if lane.waits(entry)), None) for queue in lane.queues())
    waits = [max(0.0, now - run.changed_at) for run in oldest if run is not None]
    declared = state.lanes.declared.get(lane.name)
    return copy_fields(
        LaneInfo,
        lane,
        id=lane.name,
        rate=shown_rate(lane.rate),
        active=len(lane.holding),
        oldest_wait=max(waits, default=None),
        declared=None if declared is None else copy_fields(LaneValues, declared, rate=shown_rate(declared.rate)),
    )


def next_times(question: r.AskNext, state: SchedulerState, now: Now) -> r.ValueAnswer:
    job = state.job(question.job_id)
    entry = state.timetable.entries.get(job.id)
    if entry is None:
        raise BadSchedule(f"job: {job.id!r} has no schedule; it runs when it is submitted or triggered")
    if not 1 <= question.count <= MOST_TIMES:
        raise BadValue("count", question.count, f"a whole number from 1 to {MOST_TIMES:,}")
    offset = entry.schedule.offset(job.id)
    found: list[float] = []
    at = following(entry.schedule, entry.anchor, (now.wall if question.after is None else question.after) - offset)
    while at is not None and len(found) < question.count:
        found.append(at + offset)
        at = following(entry.schedule, entry.anchor, at)
    return r.ValueAnswer(question.request, found)


def timetable(question: r.AskTimetable, state: SchedulerState, now: Now) -> r.TimetableReport:
    until, table = question.until, state.timetable
    ahead = ((_next_of(table.entries.get(job_id), state), job_id) for job_id in table.ahead)
    first = {job_id: at for at, job_id in ahead if at is not None and at < until}
    for at, job_id in _due_before(table, until):
        first.setdefault(job_id, at)
    most = max(1, min(question.most_jobs, MOST_JOBS))
    found: list[tuple[str, list[float], bool]] = []
    room = MOST_TIMES
    due = ((at, table.entries[job_id].order, job_id) for job_id, at in first.items())
    for at, _, job_id in nsmallest(most, due):
        entry = table.entries[job_id]
        offset = entry.schedule.offset(job_id)
        count = max(1, min(question.most_times, room))
        times = times_between(entry.schedule, entry.anchor, at - offset, until - offset, count)
        found.append((job_id, [time + offset for time in times[:count]], len(times) > count))
        room -= len(times)
    return r.TimetableReport(question.request, now.wall, found, len(first) - len(found))


def _due_before(table: Table, until: float) -> Iterator[tuple[float, str]]:
    """Yield the jobs that fire before this time, without a look at the rest of the heap."""
    indexes = [0]
    while indexes:
        index = indexes.pop()
        if index < len(table.heap) and table.heap[index][0] < until:
            item = table.heap[index]
            if table.fits(item) is not None:
                yield item[0], item[2]
            indexes += [2 * index + 1, 2 * index + 2]
