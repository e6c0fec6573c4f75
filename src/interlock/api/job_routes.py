"""Routes for jobs and the timetable. What a job is belongs to the whole installation: everybody may see it, and those
who may see every tenant may change it."""

import time
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import PathParameter, QueryParameter
from msgspec import Meta

from interlock.api.job_backend import KnownJobs, times_of
from interlock.api.runs import (
    Asked,
    Cursor,
    Limit,
    Wait,
    backend_of,
    caller_of,
    key_of,
    look,
    read_body,
    seconds_of,
)
from interlock.model.access import Caller, Permission
from interlock.model.bodies import MOST_JOBS, BackfillBody, Defined, NewRunBody, Submitted, TriggerBody
from interlock.model.duration import seconds
from interlock.model.error import BadValue
from interlock.model.job_info import Backfilled, FireTimes, JobInfo, JobLog, JobPage, Timetable
from interlock.model.run import TRIGGER
from interlock.model.run_view import RunDetail
from interlock.model.schedule import Schedule, instant

JOB = "/api/v1/jobs/{job_id:str}"
LONGEST_SPAN = 31 * 86400.0
"""of a timetable, in seconds"""

JobName = Annotated[str, PathParameter(description="The id of the job.", max_length=128)]
Times = Annotated[int, QueryParameter(description="How many times at the most.", ge=1, le=100)]
After = Annotated[
    str | None,
    QueryParameter(
        description="Only times later than this one, as in `2030-01-31T02:00:00Z`, or seconds; than now by default.",
        max_length=64,
    ),
]


class _Jobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jobs: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MOST_JOBS)]


_job = msgspec.json.Decoder(dict[str, Any])
_jobs = msgspec.json.Decoder(_Jobs)
_trigger = msgspec.json.Decoder(TriggerBody)
_backfill = msgspec.json.Decoder(BackfillBody)


def _operator(request: Asked) -> Caller:
    caller = caller_of(request, Permission.OPERATE)
    caller.need_every_tenant("jobs")
    return caller


def _known(request: Asked) -> KnownJobs:
    return backend_of(request).jobs


def _after(text: str | None) -> float | None:
    """What is a number is no date, though eight digits may be read as one."""
    if text is None:
        return None
    try:
        return instant(float(text), "after")
    except ValueError:
        return instant(text, "after")


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/api/v1/jobs", summary="List jobs", operation_id="jobs", tags=["jobs"])
async def jobs(request: Asked, limit: Limit = 100, cursor: Cursor = None) -> JobPage:
    """Jobs in the order of their declaration, each with the last of its runs that has begun or ended."""
    caller = caller_of(request, Permission.READ)
    return await _known(request).page(cursor, limit, caller)


@get(JOB, summary="A job", operation_id="job", tags=["jobs"])
async def job(request: Asked, job_id: JobName) -> JobInfo:
    """As it stands."""
    caller = caller_of(request, Permission.READ)
    return await _known(request).job(job_id, caller)


@get(f"{JOB}/log", summary="Log of a job", operation_id="job_log", tags=["jobs"])
async def job_log(request: Asked, job_id: JobName, limit: Annotated[int, QueryParameter(ge=1, le=200)] = 20) -> JobLog:
    """Its runs that have begun or ended, the newest first, each with what it printed and logged, up to 16 KiB. A job
    that is no more still has its log."""
    caller = caller_of(request, Permission.READ)
    return await _known(request).log(job_id, limit, caller)


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@get(f"{JOB}/next", summary="When a job fires", operation_id="next_times", tags=["jobs"])
async def next_times(request: Asked, job_id: JobName, count: Times = 5, after: After = None) -> FireTimes:
    """The next times at which a job fires, or would if it were not paused."""
    caller_of(request, Permission.READ)
    return await _known(request).next_times(job_id, count, _after(after))


@get("/api/v1/next", summary="When a schedule would fire", operation_id="schedule_times", tags=["jobs"])
async def schedule_times(
    request: Asked,
    cron: Annotated[str | None, QueryParameter(description="A cron expression of five fields.", max_length=256)] = None,
    tz: Annotated[str | None, QueryParameter(description="Its time zone, UTC by default.", max_length=64)] = None,
    every: Annotated[
        str | None, QueryParameter(description="An interval, as in `10m`, in the place of `cron`.", max_length=32)
    ] = None,
    wait: Annotated[
        str | None, QueryParameter(description="How long until the first time, for `every`.", max_length=32)
    ] = None,
    at: Annotated[
        str | None,
        QueryParameter(description="A time, as in `2030-01-31T02:00:00Z`, in the place of `cron`.", max_length=64),
    ] = None,
    count: Times = 5,
    after: After = None,
) -> FireTimes:
    """The first times of a schedule that no job has, as if it were made known now, or at `after`."""
    caller_of(request, Permission.READ)
    given = {"cron": cron, "tz": tz, "every": every, "wait": wait, "at": at}
    given = {name: value for name, value in given.items() if value is not None}
    schedule = Schedule(**given)  # type: ignore[arg-type] # it checks itself, and takes what people write
    start = _after(after)
    return times_of(schedule, count, time.time() if start is None else start)


@get("/api/v1/timetable", summary="What fires", operation_id="timetable", tags=["jobs"])
async def timetable(
    request: Asked,
    span: Annotated[
        str, QueryParameter(name="for", description="How far ahead to look, as in `24h`; 31 days at the most.")
    ] = "24h",
    limit: Limit = 100,
) -> Timetable:
    """What fires from now on, and when; those jobs first that fire first."""
    caller_of(request, Permission.READ)
    length = seconds(span, "for")
    if not 1 <= length <= LONGEST_SPAN:
        raise BadValue("for", span, "a duration from 1s to 31d")
    return await _known(request).timetable(length, limit)


# ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@post(f"{JOB}/trigger", status_code=201, summary="Run a job now", operation_id="trigger", tags=["jobs"])
async def trigger(request: Asked, job_id: JobName, wait: Wait = None) -> Response[Submitted | RunDetail]:
    """Create a run of it, beside its schedule, paused or not. The answer is that of a submit."""
    caller = caller_of(request, Permission.SUBMIT)
    limit = seconds_of(wait)
    body = await read_body(request, _trigger, TriggerBody) if await request.body() else TriggerBody()
    new = NewRunBody(job=job_id, **{name: getattr(body, name) for name in TriggerBody.__struct_fields__})
    (run_id,) = await backend_of(request).submit([new], [key_of(request)], caller, TRIGGER)
    headers = {"location": f"/api/v1/runs/{run_id}"}
    if wait is None:
        return Response(Submitted(id=run_id), status_code=201, headers=headers)
    return Response(await look(request, run_id, caller, limit), status_code=200, headers=headers)


@post(f"{JOB}/pause", status_code=200, summary="Pause a job", operation_id="pause", tags=["jobs"])
async def pause(request: Asked, job_id: JobName) -> JobInfo:
    """Have a job not fire any more, until it is resumed. What runs goes on. May be repeated."""
    caller = _operator(request)
    return await _known(request).pause(job_id, True, caller)


@post(f"{JOB}/resume", status_code=200, summary="Resume a job", operation_id="resume", tags=["jobs"])
async def resume(request: Asked, job_id: JobName) -> JobInfo:
    """Have a paused job fire again, from its next time on: nothing is caught up. One that is not paused is left as it
    is."""
    caller = _operator(request)
    return await _known(request).pause(job_id, False, caller)


@post(f"{JOB}/backfill", status_code=200, summary="Make up for a range of time", operation_id="backfill", tags=["jobs"])
async def backfill(request: Asked, job_id: JobName) -> Backfilled:
    """Create the runs that the job's schedule has from `from` up to before `to`, at most `max_parallel` of them live at
    once. What has a run already is left as it is, so it may be repeated."""
    caller = _operator(request)
    body = await read_body(request, _backfill, BackfillBody)
    return await _known(request).backfill(job_id, body, caller)


# ── defining ────────────────────────────────────────────────────────────────────────────────────────────────────────


@put(JOB, status_code=200, summary="Define a job", operation_id="put_job", tags=["jobs"])
async def put_job(request: Asked, job_id: JobName) -> JobInfo:
    """It is new, or takes the place of one that was put before; it stays until it is removed, whatever files say."""
    caller = _operator(request)
    values = await read_body(request, _job, JobInfo)
    if values.get("id", job_id) != job_id:
        raise BadValue("id", values["id"], f"the one in the path ({job_id!r})")
    return await _known(request).put(job_id, {name: values[name] for name in values if name != "id"}, caller)


@post("/api/v1/jobs", status_code=200, summary="Define many jobs", operation_id="put_jobs", tags=["jobs"])
async def put_jobs(request: Asked) -> Defined:
    """Up to 10,000, all or none."""
    caller = _operator(request)
    body = await read_body(request, _jobs, _Jobs)
    return await _known(request).put_many(body.jobs, caller)


@delete(JOB, status_code=200, summary="Remove a job", operation_id="delete_job", tags=["jobs"])
async def delete_job(request: Asked, job_id: JobName) -> JobInfo:
    """Remove a job that was put, and answer with what it was. Its runs, and their log, are kept."""
    caller = _operator(request)
    return await _known(request).delete(job_id, caller)


LOOKING = [jobs, job, job_log, next_times, schedule_times, timetable]
HANDLERS = [*LOOKING, trigger, pause, resume, backfill, put_job, put_jobs, delete_job]
