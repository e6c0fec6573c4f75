"""Operations on jobs and the timetable: the scheduler knows the jobs, the store their runs."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from interlock.api.call import HttpCall, handlers_of, moment_of
from interlock.api.cursors import JOBS, cursor_of, read_job_cursor
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.core.timetable.table import first_time, following
from interlock.error import BadConfig, BadUse, BadValue, InterlockError, Repeated, UnknownJob, shown
from interlock.fields import payload
from interlock.fields.duration import seconds
from interlock.fields.field import copy_fields
from interlock.interface import job_operations as op
from interlock.interface.bodies import Defined
from interlock.interface.run_view import origin_of
from interlock.model import job_info as info
from interlock.model.access import EVERY_TENANT, Caller
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.schedule.schedule import Schedule, instant
from interlock.model.state import ON_WORKER, TERMINAL, State
from interlock.ports.store import Reader, RunFilter
from interlock.wire import request as r
from interlock.wire.message import CHUNKS

ReadJob = Callable[[Mapping[str, Any], str], Job]  # makes a job of a body, or raises every fault in it

BEGUN = TERMINAL | ON_WORKER | {State.TERMINATING, State.RETRYING}  # the states of a run that has begun or ended
MOST_PAGES = 20  # pages of the store searched for the runs of one job
TOGETHER = 8  # jobs whose last runs are read at once
LONGEST_OUTPUT = 16 * 1024  # bytes of a run's output in the log of its job
CUT = "… cut at 16 KiB"
LINES = 500  # log lines read at once
SOME_TIMES = 24  # times of a job that the scheduler works out for the timetable; the others are worked out here
MOST_TIMES = 20_000  # times of one job in the timetable
ALL_TIMES = 50_000  # times in one timetable
MOST_FAULTS = 200
LONGEST_SPAN = 31 * 86400.0  # seconds of a timetable


class JobHandlers:
    def __init__(self, reader: Reader, connection: Connection, read_job: ReadJob) -> None:
        self._reader = reader
        self._connection = connection
        self._read_job = read_job
        self.handlers = handlers_of(self)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def jobs(self, call: HttpCall[op.ReadJobs]) -> info.JobPage:
        after = read_job_cursor(call.request.cursor)
        report = await ask(self._connection, r.AskJobs(0, after, call.request.limit or 0))
        jobs = await self._with_runs(report.jobs, call.caller)
        return info.JobPage(jobs=jobs, next=cursor_of(JOBS, jobs[-1].id) if report.more and jobs else None)

    async def job(self, call: HttpCall[Any]) -> info.JobInfo:
        return await self._shown(await self._info(call.request.job_id), call.caller)

    async def _shown(self, job: info.JobInfo, caller: Caller) -> info.JobInfo:
        return (await self._with_runs([job], caller))[0]

    async def _info(self, job_id: str) -> info.JobInfo:
        return (await ask(self._connection, r.AskJob(0, job_id))).jobs[0]

    async def _with_runs(self, jobs: Sequence[info.JobInfo], caller: Caller) -> list[info.JobInfo]:
        """Add what the caller may see of their runs."""
        live = await self._reader.live_counts(None if caller.tenant == EVERY_TENANT else caller.tenant)
        last: list[info.LastRun | None] = []
        for place in range(0, len(jobs), TOGETHER):
            last += await asyncio.gather(*(self._last(job.id, caller) for job in jobs[place : place + TOGETHER]))
        both = zip(jobs, last, strict=True)
        return [msgspec.structs.replace(job, live=live.get(job.id, 0), last_run=run) for job, run in both]

    async def _last(self, job_id: str, caller: Caller) -> info.LastRun | None:
        runs = await self._runs(job_id, caller, 1)
        return copy_fields(info.LastRun, runs[0]) if runs else None

    async def _runs(self, job_id: str, caller: Caller, limit: int) -> list[Run]:
        """Return the newest runs of a job that have begun or ended."""
        tenant = None if caller.tenant == EVERY_TENANT else caller.tenant
        wanted = RunFilter(job_id=job_id, tenant=tenant, states=BEGUN)
        found: list[Run] = []
        before: int | None = None
        for _ in range(MOST_PAGES):
            rows = await self._reader.runs(wanted, before, limit - len(found))
            found += rows.runs
            before = rows.next
            if before is None or len(found) >= limit:
                break
        return found

    async def job_log(self, call: HttpCall[op.ReadJobLog]) -> info.JobLog:
        job_id = call.request.job_id
        runs = await self._runs(job_id, call.caller, call.request.limit)
        if not runs:
            # A deleted job keeps its log; a job without runs must exist.
            await self._info(job_id)
        return info.JobLog(runs=[await self._logged(run) for run in runs])

    async def _logged(self, run: Run) -> info.LoggedRun:
        output, cut = await self._output(run.id)
        return copy_fields(info.LoggedRun, run, origin=origin_of(run.origin), output=output, cut=cut)

    async def _output(self, run_id: str) -> tuple[str, bool]:
        """Return the output of a run, and whether it is cut."""
        found, after = bytearray(), 0
        while lines := await self._reader.logs(run_id, after, LINES):
            for line in (line for line in lines if line.level != CHUNKS):
                found += line.text.encode("utf-8", "replace") + b"\n"
            after = lines[-1].position
            if len(found) > LONGEST_OUTPUT:
                # A character that is cut in two is left out.
                return found[:LONGEST_OUTPUT].decode("utf-8", "ignore") + f"\n{CUT}", True
            if len(lines) < LINES:
                break
        return found.decode().removesuffix("\n"), False

    # ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_times(self, call: HttpCall[op.ReadTimes]) -> info.FireTimes:
        after = moment_of(call.request.after, "after")
        # A time is shown cut to milliseconds, and the next after it is not the same one again.
        after = None if after is None else after + 0.000999
        message = r.AskNext(0, call.request.job_id, call.request.count, after)
        return info.FireTimes(times=await ask(self._connection, message))

    async def schedule_times(self, call: HttpCall[op.ReadScheduleTimes]) -> info.FireTimes:
        given = {name: getattr(call.request, name) for name in ("cron", "tz", "every", "wait", "at")}
        schedule = Schedule(**{name: value for name, value in given.items() if value is not None})
        start = moment_of(call.request.after, "after")
        start = time.time() if start is None else start
        return info.FireTimes(times=_times(schedule, start, first_time(schedule, start), call.request.count))

    async def timetable(self, call: HttpCall[op.ReadTimetable]) -> info.Timetable:
        span = seconds(call.request.span, "for")
        if not 1 <= span <= LONGEST_SPAN:
            raise BadValue("for", call.request.span, "a duration from 1s to 31d")
        until = time.time() + span
        report = await ask(self._connection, r.AskTimetable(0, until, call.request.limit, SOME_TIMES))
        jobs: list[info.JobTimes] = []
        left = ALL_TIMES
        for job_id, times, more in report.jobs:
            if more:
                times, more = await self._further(job_id, times, until, min(MOST_TIMES, left))
            left = max(0, left - len(times))
            jobs.append(info.JobTimes(job_id=job_id, times=times, more=more))
        return info.Timetable(now=report.now, until=until, jobs=jobs, left_out=report.left_out)

    async def _further(self, job_id: str, known: list[float], until: float, most: int) -> tuple[list[float], bool]:
        """Work out the times after the known ones here rather than in the scheduler."""
        try:
            schedule = (await self._info(job_id)).schedule
        except UnknownJob:
            schedule = None
        if schedule is None or not known:
            return known, True
        offset, room = schedule.offset(job_id), max(0, most - len(known))
        nominal = known[-1] - offset
        anchor = nominal - schedule.wait
        begin = following(schedule, anchor, nominal)
        later = await asyncio.to_thread(_times, schedule, anchor, begin, room + 1, until - offset)
        return [*known, *(at + offset for at in later[:room])], len(later) > room

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put_job(self, call: HttpCall[op.PutJob]) -> info.JobInfo:
        job_id, values = call.request.job_id, call.body
        if (given := values.pop("id", job_id)) != job_id:
            raise BadUse("id", f"{shown(given)} differs from {job_id!r} in the path; leave it out of the body")
        message = r.PutJobs(0, [self._read_job(values, job_id)], call.caller.name)
        return await self._shown((await ask(self._connection, message)).jobs[0], call.caller)

    async def put_jobs(self, call: HttpCall[op.PutManyJobs]) -> Defined:
        jobs = await asyncio.to_thread(_read_all, call.body.jobs, self._read_job)
        await ask(self._connection, r.PutJobs(0, jobs, call.caller.name))
        return Defined(ids=[job.id for job in jobs])

    async def delete_job(self, call: HttpCall[op.DeleteJob]) -> info.JobInfo:
        before = await self.job(call)
        await ask(self._connection, r.DropJob(0, before.id, call.caller.name))
        return before

    async def pause(self, call: HttpCall[op.JobChange]) -> info.JobInfo:
        message = r.SetPaused(0, call.request.job_id, isinstance(call.request, op.PauseJob), call.caller.name)
        return await self._shown((await ask(self._connection, message)).jobs[0], call.caller)

    resume = pause

    async def backfill(self, call: HttpCall[op.BackfillJob]) -> info.Backfilled:
        request, caller = call.request, call.caller
        start, end = instant(request.start, "from"), instant(request.end, "to")
        if start >= end:
            raise BadValue("from", request.start, f"earlier than 'to' ({request.end})")
        data = b"" if request.payload is None else payload.encode(request.payload, "payload")
        tenant = caller.tenant_for(request.tenant)
        message = r.Backfill(0, call.request.job_id, start, end, request.max_parallel, data, tenant, caller.name)
        message = msgspec.structs.replace(message, dry_run=request.dry_run)
        return await ask(self._connection, message)


def _times(schedule: Schedule, anchor: float, at: float | None, most: int, until: float = inf) -> list[float]:
    """Return at most `most` fire times, from `at` up to `until`."""
    found: list[float] = []
    while at is not None and at <= until and len(found) < most:
        found.append(at)
        at = following(schedule, anchor, at)
    return found


def _read_all(bodies: Sequence[Mapping[str, Any]], read_job: ReadJob) -> list[Job]:
    jobs: list[Job] = []
    faults: list[str] = []
    places: dict[str, int] = {}
    for place, values in enumerate(bodies):
        try:
            job_id = values.get("id")
            if not isinstance(job_id, str):
                raise BadValue("id", job_id, "the name of a job")
            if job_id in places:
                raise Repeated("id", job_id, f"jobs[{places[job_id]}] has it too")
            places[job_id] = place
            jobs.append(read_job({name: value for name, value in values.items() if name != "id"}, job_id))
        except InterlockError as error:
            first, *below = str(error).split("\n")
            faults += [f"jobs[{place}]: {line}" for line in below or [first]]
    if faults:
        head = [f"{len(faults)} faults"] if len(faults) > 1 else []
        rest = [f"… and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        raise BadConfig("\n".join([*head, *faults[:MOST_FAULTS], *rest]))
    return jobs
