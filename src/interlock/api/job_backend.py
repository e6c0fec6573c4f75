"""What the routes of jobs stand on: the scheduler, asked for its jobs and told what to do with them, and their runs in
the store."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.api.cursors import job_cursor, read_job_cursor
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.core.fire_times import first_time, following
from interlock.model import payload
from interlock.model import request as r
from interlock.model.access import EVERY_TENANT, Caller
from interlock.model.bodies import BackfillBody, Defined
from interlock.model.error import BadConfig, BadValue, InterlockError, UnknownJob
from interlock.model.job import Job
from interlock.model.job_info import (
    Backfilled,
    FireTimes,
    JobInfo,
    JobLog,
    JobPage,
    JobTimes,
    LastRun,
    LoggedRun,
    Timetable,
)
from interlock.model.run import Run
from interlock.model.run_view import origin_of
from interlock.model.schedule import Schedule, instant
from interlock.model.state import ON_WORKER, TERMINAL, State
from interlock.ports.store import Reader, RunFilter

ReadJob = Callable[[Mapping[str, Any], str], Job]
"""Makes a job of what a body says of it; raises with every fault there is."""

BEGUN = TERMINAL | ON_WORKER | {State.TERMINATING, State.RETRYING}
"""the states of a run that has begun or ended"""
MOST_PAGES = 20
"""pages of the store that are looked through for the runs of one job"""
TOGETHER = 8
"""jobs whose last runs are looked up at once"""
LONGEST_OUTPUT = 16 * 1024
"""bytes of what a run printed, in its job's log"""
CUT = "… cut at 16 KiB"
LINES = 500
"""log lines that are read at once"""
SOME_TIMES = 24
"""times of a job that the scheduler itself works out for the timetable; the others are worked out here"""
MOST_TIMES = 20_000
"""times of one job in the timetable"""
ALL_TIMES = 50_000
"""times in one timetable"""
MOST_FAULTS = 200


class KnownJobs:
    def __init__(self, reader: Reader, connection: Connection, read_job: ReadJob) -> None:
        self._reader = reader
        self._connection = connection
        self._read_job = read_job

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def page(self, cursor: str | None, limit: int, caller: Caller) -> JobPage:
        after = read_job_cursor(cursor)
        report = await ask(self._connection, r.AskJobs(0, after, limit))
        jobs = await self._with_runs(report.jobs, caller)
        return JobPage(jobs=jobs, next=job_cursor(jobs[-1].id) if report.more and jobs else None)

    async def job(self, job_id: str, caller: Caller) -> JobInfo:
        (found,) = await self._with_runs([await self._info(job_id)], caller)
        return found

    async def _info(self, job_id: str) -> JobInfo:
        return (await ask(self._connection, r.AskJob(0, job_id))).jobs[0]

    async def _with_runs(self, jobs: Sequence[JobInfo], caller: Caller) -> list[JobInfo]:
        """With what is the caller's to see of their runs."""
        live = await self._reader.live_counts(None if caller.tenant == EVERY_TENANT else caller.tenant)
        found: list[JobInfo] = []
        for place in range(0, len(jobs), TOGETHER):
            some = jobs[place : place + TOGETHER]
            for job, last in zip(
                some, await asyncio.gather(*(self._last(one.id, caller) for one in some)), strict=True
            ):
                found.append(msgspec.structs.replace(job, live=live.get(job.id, 0), last_run=last))
        return found

    async def _last(self, job_id: str, caller: Caller) -> LastRun | None:
        for run in await self._runs(job_id, caller, 1):
            return LastRun(
                id=run.id, state=run.state, reason=run.reason, scheduled_at=run.scheduled_at, ended_at=run.ended_at
            )
        return None

    async def _runs(self, job_id: str, caller: Caller, limit: int) -> list[Run]:
        """The newest of a job's runs that have begun or ended."""
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

    async def log(self, job_id: str, limit: int, caller: Caller) -> JobLog:
        runs = await self._runs(job_id, caller, limit)
        if not runs:
            # A job that is no more still has its log; one without any may never have been.
            await self._info(job_id)
        return JobLog(runs=[await self._logged(run) for run in runs])

    async def _logged(self, run: Run) -> LoggedRun:
        output, cut = await self._output(run.id)
        return LoggedRun(
            id=run.id,
            state=run.state,
            reason=run.reason,
            origin=origin_of(run.origin),
            scheduled_at=run.scheduled_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
            attempt=run.attempt,
            exit_code=run.exit_code,
            error=run.error,
            output=output,
            cut=cut,
        )

    async def _output(self, run_id: str) -> tuple[str, bool]:
        """What it printed and logged, and whether that is only the beginning."""
        found, size, after = bytearray(), 0, 0
        while lines := await self._reader.logs(run_id, after, LINES):
            for line in lines:
                found += line.text.encode("utf-8", "replace") + b"\n"
            after, size = lines[-1].position, len(found)
            if size > LONGEST_OUTPUT:
                # A character that is cut through is left out.
                return found[:LONGEST_OUTPUT].decode("utf-8", "ignore") + f"\n{CUT}", True
            if len(lines) < LINES:
                break
        return found.decode().removesuffix("\n"), False

    # ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_times(self, job_id: str, count: int, after: float | None) -> FireTimes:
        return FireTimes(times=(await ask(self._connection, r.AskNext(0, job_id, count, after))).times)

    async def timetable(self, span: float, limit: int) -> Timetable:
        now = time.time()
        until = now + span
        report = await ask(self._connection, r.AskTimetable(0, until, limit, SOME_TIMES))
        jobs: list[JobTimes] = []
        left = ALL_TIMES
        for job_id, times, more in report.jobs:
            if more:
                times, more = await self._further(job_id, times, until, min(MOST_TIMES, left))
            left = max(0, left - len(times))
            jobs.append(JobTimes(job_id=job_id, times=times, more=more))
        return Timetable(now=report.now, until=until, jobs=jobs, left_out=report.left_out)

    async def _further(self, job_id: str, known: list[float], until: float, most: int) -> tuple[list[float], bool]:
        """The times that follow those that are known, worked out here: it is nothing that the scheduler should do."""
        try:
            schedule = (await self._info(job_id)).schedule
        except UnknownJob:
            schedule = None
        if schedule is None or not known:
            return known, True
        return await asyncio.to_thread(_extended, schedule, schedule.offset(job_id), known, until, most)

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, job_id: str, values: Mapping[str, Any], caller: Caller) -> JobInfo:
        job = self._read_job(values, job_id)
        report = await self._put([job], caller)
        (found,) = await self._with_runs(report.jobs, caller)
        return found

    async def put_many(self, bodies: Sequence[Mapping[str, Any]], caller: Caller) -> Defined:
        """All or none; where there are faults all of them are told."""
        jobs = await asyncio.to_thread(_read_all, bodies, self._read_job)
        await self._put(jobs, caller)
        return Defined(ids=[job.id for job in jobs])

    async def _put(self, jobs: list[Job], caller: Caller) -> r.JobsReport:
        return await ask(self._connection, r.PutJobs(0, jobs, caller.name))

    async def delete(self, job_id: str, caller: Caller) -> JobInfo:
        """The job as it was."""
        before = await self.job(job_id, caller)
        await ask(self._connection, r.DropJob(0, job_id, caller.name))
        return before

    async def pause(self, job_id: str, paused: bool, caller: Caller) -> JobInfo:
        report = await ask(self._connection, r.SetPaused(0, job_id, paused, caller.name))
        (found,) = await self._with_runs(report.jobs, caller)
        return found

    async def backfill(self, job_id: str, body: BackfillBody, caller: Caller) -> Backfilled:
        start, end = instant(body.start, "from"), instant(body.end, "to")
        if start >= end:
            raise BadValue("from", body.start, f"earlier than 'to' ({body.end})")
        data = b"" if body.payload is None else payload.encode(body.payload, "payload")
        tenant = caller.tenant_for(body.tenant)
        message = r.Backfill(0, job_id, start, end, body.max_parallel, data, tenant, caller.name)
        report = await ask(self._connection, message)
        return Backfilled(created=report.created, existing=report.existing)


def times_of(schedule: Schedule, count: int, start: float) -> FireTimes:
    """The first times of a schedule that is made known at `start`."""
    found: list[float] = []
    at = first_time(schedule, start)
    while at is not None and len(found) < count:
        found.append(at)
        at = following(schedule, start, at)
    return FireTimes(times=found)


def _extended(
    schedule: Schedule, offset: float, known: list[float], until: float, most: int
) -> tuple[list[float], bool]:
    found = list(known)
    nominal = known[-1] - offset
    anchor = nominal - schedule.wait
    while len(found) < most:
        after = following(schedule, anchor, nominal)
        if after is None or after + offset > until:
            return found, False
        nominal = after
        found.append(nominal + offset)
    return found, True


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
                raise BadValue("id", job_id, f"another than that of jobs[{places[job_id]}]")
            places[job_id] = place
            jobs.append(read_job({name: value for name, value in values.items() if name != "id"}, job_id))
        except InterlockError as error:
            faults += [f"jobs[{place}]: {line}" for line in _lines(error)]
    if len(faults) == 1:
        raise BadConfig(faults[0])
    if faults:
        rest = [f"… and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        raise BadConfig("\n".join([f"{len(faults)} faults", *faults[:MOST_FAULTS], *rest]))
    return jobs


def _lines(error: InterlockError) -> list[str]:
    first, *below = str(error).split("\n")
    return below or [first]
