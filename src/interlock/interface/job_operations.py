"""The operations on jobs and the timetable that the gateway carries out."""

from typing import Annotated, Any, ClassVar

import msgspec

from interlock import error as e
from interlock.fields.field import doc
from interlock.interface.bodies import Defined, JobsBody, TriggerBody
from interlock.interface.operation import PageRequest
from interlock.interface.run_operations import REFUSALS, RUN_KEY, Wait
from interlock.interface.run_view import RunInfo
from interlock.model.access import Permission
from interlock.model.job_info import Backfilled, FireTimes, JobInfo, JobLog, JobPage, Timetable
from interlock.wire.new_run import TENANT
from interlock.wire.operation import GatewayRequest, Http
from interlock.wire.parameter import FilterText, Moment, NameText, PageSize, ShortText, text
from interlock.wire.request import MOST_PARALLEL

# The form of a text that the handlers check themselves, with clearer errors than a pattern gives.
SPAN = r"^([1-9][0-9]{0,5}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h|([1-9]|[12][0-9]|3[01])d)$"
JOB_REFUSALS = e.BadConfig, e.NotPut, e.DuplicateJob, e.BadSchedule


class ReadJobs(PageRequest[JobPage], frozen=True, kw_only=True):
    """List jobs. Jobs in the order of their declaration, each with its newest run that has begun or ended."""

    limit: PageSize = 100

    cursors: ClassVar = "j"
    http: ClassVar = Http("jobs", "GET /jobs")


class ReadJob(GatewayRequest[JobInfo], frozen=True):
    """Show a job."""

    job_id: str

    http: ClassVar = Http("job", "GET /jobs/{job_id}")


class ReadJobLog(GatewayRequest[JobLog], frozen=True):
    """Show the log of a job. Runs that have begun or ended, newest first, with up to 16 KiB of output. Deleted jobs
    keep theirs."""

    job_id: str
    limit: Annotated[int, doc("Most runs to return.", ge=1, le=200)] = 20

    http: ClassVar = Http("job_log", "GET /jobs/{job_id}/log")


Count = Annotated[int, doc("Most times to return.", ge=1, le=100)]
After = Annotated[
    Moment | None, doc("Only times after this one, in RFC 3339 or seconds since 1970; by default after now.")
]


class ReadTimes(GatewayRequest[FireTimes], frozen=True):
    """Show when a job fires. The next fire times of the job, paused or not."""

    job_id: str
    count: Count = 5
    after: After = None

    http: ClassVar = Http("next_times", "GET /jobs/{job_id}/next", raises=(e.BadSchedule,))


class ReadScheduleTimes(GatewayRequest[FireTimes], frozen=True, kw_only=True):
    """Show when a schedule would fire. The first fire times of a schedule that no job has, as if it were declared now,
    or at `after`."""

    count: Count = 5
    after: After = None
    cron: Annotated[FilterText | None, doc("Cron expression of five fields.")] = None
    tz: Annotated[ShortText | None, doc("Time zone of `cron`; UTC by default.")] = None
    every: Annotated[ShortText | None, doc("Interval, such as `10m`, instead of `cron`.")] = None
    wait: Annotated[ShortText | None, doc("Time until the first run of `every`.")] = None
    at: Annotated[ShortText | None, doc("Time, such as `2030-01-31T02:00:00Z`, instead of `cron`.")] = None

    http: ClassVar = Http("schedule_times", "GET /next", "jobs")


class ReadTimetable(GatewayRequest[Timetable], frozen=True):
    """Show the timetable. Jobs that fire from now on, and when. Jobs that fire first come first."""

    span: Annotated[str, text("Time to look ahead, such as `24h`; 1 second to 31 days.", SPAN)] = msgspec.field(
        default="24h", name="for"
    )
    limit: Annotated[int, doc("Most jobs to return.", ge=1, le=1000)] = 100

    http: ClassVar = Http("timetable", "GET /timetable", "jobs")


class TriggerJob(GatewayRequest[RunInfo], frozen=True):
    """Run a job now. Create a run of the job besides its schedule, paused or not. The answer is that of a submit."""

    job_id: str
    wait: Wait = None

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "trigger",
        "POST /jobs/{job_id}/trigger",
        raises=REFUSALS,
        body=TriggerBody,
        body_required=False,
        key=RUN_KEY,
        status=201,
    )


class JobChange(GatewayRequest[JobInfo], frozen=True):
    job_id: str

    permission: ClassVar = Permission.OPERATE


class PauseJob(JobChange, frozen=True):
    """Pause a job. Stop the schedule of the job until it is resumed. Active runs continue. May be repeated."""

    http: ClassVar = Http("pause", "POST /jobs/{job_id}/pause", every_tenant="jobs", raises=(e.BadSchedule,))


class ResumeJob(JobChange, frozen=True):
    """Resume a job. Let a paused job fire again from its next time on; nothing is caught up. May be repeated."""

    http: ClassVar = Http("resume", "POST /jobs/{job_id}/resume", every_tenant="jobs", raises=(e.BadSchedule,))


class BackfillJob(GatewayRequest[Backfilled], frozen=True):
    """Backfill a range of time. Create the runs that the job's schedule has from `from` up to before `to`, at most
    `max_parallel` of them live at once. Occurrences that already have a run are left alone, so it may be repeated."""

    job_id: str
    start: Annotated[Moment, doc("First time wanted, in RFC 3339 or seconds since 1970.")] = msgspec.field(name="from")
    end: Annotated[Moment, doc("End of the range, itself excluded, in the same form.")] = msgspec.field(name="to")
    max_parallel: Annotated[int, doc("Most of these runs that may be live at once.", ge=1, le=MOST_PARALLEL)] = 1
    payload: Annotated[dict[str, Any] | None, doc("Arguments of every run; by default the job's own.")] = None
    tenant: Annotated[NameText | None, doc(TENANT)] = None
    dry_run: Annotated[bool, doc("`true`: create nothing; `created` has the ids of the runs that would be made.")] = (
        False
    )

    permission: ClassVar = Permission.OPERATE
    http: ClassVar = Http(
        "backfill",
        "POST /jobs/{job_id}/backfill",
        every_tenant="jobs",
        raises=(e.BadSchedule, e.TenantLimit),
        body="BackfillBody",
    )


class PutJob(JobChange, frozen=True):
    """Define a job. Create a job, or replace one that was put before. It stays until it is deleted, whatever files
    say."""

    http: ClassVar = Http(
        "put_job", "PUT /jobs/{job_id}", every_tenant="jobs", raises=JOB_REFUSALS, body=dict[str, Any]
    )


class PutManyJobs(GatewayRequest[Defined], frozen=True):
    """Define many jobs. Up to 10,000, all or none."""

    permission: ClassVar = Permission.OPERATE
    patience: ClassVar = 300.0
    http: ClassVar = Http("put_jobs", "POST /jobs", every_tenant="jobs", raises=JOB_REFUSALS, body=JobsBody)


class DeleteJob(JobChange, frozen=True):
    """Delete a job. Delete a job that was put. The answer is the job as it was. Its runs and their log are kept."""

    once: ClassVar = True
    http: ClassVar = Http("delete_job", "DELETE /jobs/{job_id}", every_tenant="jobs", raises=(e.NotPut,))
