"""Every HTTP operation, once: the server, OpenAPI, the reference and the clients are made from this table."""

from typing import Any

from interlock.model import bodies as b
from interlock.model import error as e
from interlock.model import queries as q
from interlock.model import request as r
from interlock.model.access import Permission
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.job_info import Backfilled, FireTimes, JobInfo, JobLog, JobPage, Timetable
from interlock.model.new_run import NewRunBody, TriggerBody
from interlock.model.operation import Key, Operation
from interlock.model.reload_report import Reloaded
from interlock.model.run_action import RunAction
from interlock.model.run_view import BulkInfo, History, LogPage, RunDetail, RunInfo, RunPage, ServiceLogPage

API = "/api/v1"
JOB = f"{API}/jobs/{{job_id}}"
RUN = f"{API}/runs/{{run_id}}"
SERVICE = f"{API}/services/{{name}}"

RUN_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same run.")
BATCH_KEY = Key("Makes the request safe to repeat: run i (from 0) gets this key, a slash and i.", r.LONGEST_KEY - 4)
BULK_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same bulk request.")
READ = Permission.READ

# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

submit = Operation(
    name="submit",
    route=f"POST {API}/runs",
    summary="Submit a run",
    description="The answer comes once the run is durable, with the run as it was created. With `wait`, it comes once "
    "the run has ended, if that is in time, and has every field of [RunDetail](#rundetail).",
    answer=RunInfo,
    status=201,
    query=q.WaitQuery,
    body=NewRunBody,
    key=RUN_KEY,
    asks=r.Submit,
    raises=(e.UnknownJob, e.BadPayload, e.PayloadTooLarge, e.IdempotencyConflict, e.RunPruned),
)
submit_many = Operation(
    name="submit_many",
    route=f"POST {API}/runs/batch",
    summary="Submit many runs",
    description="Create up to 1,000 runs, all or none. With an `Idempotency-Key` K, run i (from 0) gets the key `K/i`.",
    answer=b.SubmittedBatch,
    status=201,
    body=b.BatchBody,
    key=BATCH_KEY,
    asks=r.Submit,
    raises=(e.UnknownJob, e.BadPayload, e.PayloadTooLarge, e.IdempotencyConflict, e.RunPruned),
)
runs = Operation(
    name="runs",
    route=f"GET {API}/runs",
    summary="List runs",
    description="Runs, newest first. A page may be short although more follow: go on while `next` is not null.",
    answer=RunPage,
    query=q.RunsQuery,
    permission=READ,
)
run = Operation(
    name="run",
    route=f"GET {RUN}",
    summary="Show a run",
    description="The run as it is now; with `wait`, once it has ended, if that is in time.",
    answer=RunDetail,
    query=q.WaitQuery,
    permission=READ,
)
history = Operation(
    name="history",
    route=f"GET {RUN}/history",
    summary="Show the history of a run",
    description="Every transition, in order.",
    answer=History,
    permission=READ,
)
logs = Operation(
    name="logs",
    route=f"GET {RUN}/logs",
    summary="Show the log of a run",
    description="Log lines of the run's attempts, oldest first.",
    answer=LogPage,
    query=q.LogsQuery,
    permission=READ,
)
bulk = Operation(
    name="bulk",
    route=f"GET {API}/bulk/{{bulk_id}}",
    summary="Show a bulk request",
    description="Filter and progress of a bulk request. The newest 1,000 are kept.",
    answer=BulkInfo,
    permission=READ,
)
run_actions = {
    action: Operation(
        name=str(action),
        route=f"POST {RUN}/{action}",
        summary=f"{action.capitalize()} a run",
        description=f"{action.meaning} May be repeated.",
        answer=b.ActedOn,
        body=b.ActionBody,
        body_required=False,
        asks=r.ActOnRun,
    )
    for action in RunAction
}
bulk_actions = {
    action: Operation(
        name=f"{action}_many",
        route=f"POST {API}/runs/{action}",
        summary=f"{action.capitalize()} many runs",
        description=f"{action.capitalize()} the runs that have not ended and match every field given. The answer comes "
        "once the request is durable. The scheduler then carries it out a part at a time, and finishes it after a "
        "restart. Runs created later are not touched. `state` is compared when a run's turn comes.",
        answer=BulkInfo,
        status=202,
        body=b.BulkBody,
        key=BULK_KEY,
        asks=r.StartBulk,
        raises=(e.IdempotencyConflict, e.Overloaded),
    )
    for action in RunAction
}

# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

jobs = Operation(
    name="jobs",
    route=f"GET {API}/jobs",
    summary="List jobs",
    description="Jobs in the order of their declaration, each with its newest run that has begun or ended.",
    answer=JobPage,
    query=q.JobsQuery,
    asks=r.AskJobs,
)
job = Operation(name="job", route=f"GET {JOB}", summary="Show a job", answer=JobInfo, asks=r.AskJob)
job_log = Operation(
    name="job_log",
    route=f"GET {JOB}/log",
    summary="Show the log of a job",
    description="Runs that have begun or ended, newest first, with up to 16 KiB of output. Deleted jobs keep theirs.",
    answer=JobLog,
    query=q.JobLogQuery,
    permission=READ,
)
next_times = Operation(
    name="next_times",
    route=f"GET {JOB}/next",
    summary="Show when a job fires",
    description="The next fire times of the job, paused or not.",
    answer=FireTimes,
    query=q.TimesQuery,
    asks=r.AskNext,
    raises=(e.BadSchedule,),
)
schedule_times = Operation(
    name="schedule_times",
    route=f"GET {API}/next",
    summary="Show when a schedule would fire",
    description="The first fire times of a schedule that no job has, as if it were declared now, or at `after`.",
    answer=FireTimes,
    query=q.ScheduleQuery,
    permission=READ,
)
timetable = Operation(
    name="timetable",
    route=f"GET {API}/timetable",
    summary="Show the timetable",
    description="Jobs that fire from now on, and when. Jobs that fire first come first.",
    answer=Timetable,
    query=q.TimetableQuery,
    asks=r.AskTimetable,
)
trigger = Operation(
    name="trigger",
    route=f"POST {JOB}/trigger",
    summary="Run a job now",
    description="Create a run of the job besides its schedule, paused or not. The answer is that of a submit.",
    answer=RunInfo,
    status=201,
    query=q.WaitQuery,
    body=TriggerBody,
    body_required=False,
    key=RUN_KEY,
    asks=r.Submit,
    raises=(e.BadPayload, e.PayloadTooLarge, e.IdempotencyConflict, e.RunPruned),
)
pause = Operation(
    name="pause",
    route=f"POST {JOB}/pause",
    summary="Pause a job",
    description="Stop the schedule of the job until it is resumed. Active runs continue. May be repeated.",
    answer=JobInfo,
    asks=r.SetPaused,
    every_tenant="jobs",
    raises=(e.BadSchedule,),
)
resume = Operation(
    name="resume",
    route=f"POST {JOB}/resume",
    summary="Resume a job",
    description="Let a paused job fire again from its next time on; nothing is caught up. May be repeated.",
    answer=JobInfo,
    asks=r.SetPaused,
    every_tenant="jobs",
    raises=(e.BadSchedule,),
)
backfill = Operation(
    name="backfill",
    route=f"POST {JOB}/backfill",
    summary="Backfill a range of time",
    description="Create the runs that the job's schedule has from `from` up to before `to`, at most `max_parallel` of "
    "them live at once. Occurrences that already have a run are left alone, so it may be repeated.",
    answer=Backfilled,
    body=b.BackfillBody,
    asks=r.Backfill,
    every_tenant="jobs",
    raises=(e.BadSchedule,),
)
put_job = Operation(
    name="put_job",
    route=f"PUT {JOB}",
    summary="Define a job",
    description="Create a job, or replace one that was put before. It stays until it is deleted, whatever files say.",
    answer=JobInfo,
    body=dict[str, Any],
    asks=r.PutJobs,
    every_tenant="jobs",
    raises=(e.BadConfig, e.NotPut, e.DuplicateJob, e.BadSchedule),
)
put_jobs = Operation(
    name="put_jobs",
    route=f"POST {API}/jobs",
    summary="Define many jobs",
    description="Up to 10,000, all or none.",
    answer=b.Defined,
    body=b.JobsBody,
    asks=r.PutJobs,
    every_tenant="jobs",
    raises=(e.BadConfig, e.NotPut, e.DuplicateJob, e.BadSchedule),
    patience=300.0,
)
delete_job = Operation(
    name="delete_job",
    route=f"DELETE {JOB}",
    summary="Delete a job",
    description="Delete a job that was put. The answer is the job as it was. Its runs and their log are kept.",
    answer=JobInfo,
    asks=r.DropJob,
    every_tenant="jobs",
    raises=(e.NotPut,),
)
lanes = Operation(
    name="lanes",
    route=f"GET {API}/lanes",
    summary="List lanes",
    description="Lanes with their limits and the runs in them, which are of all tenants.",
    answer=r.LaneList,
    asks=r.AskLanes,
    every_tenant="lanes",
)

# ── services ────────────────────────────────────────────────────────────────────────────────────────────────────────

tree = Operation(
    name="tree",
    route=f"GET {API}/tree",
    summary="Show the supervision tree",
    description="The supervisors and their children, from the top.",
    answer=ChildInfo,
    asks=r.AskTree,
    every_tenant="services",
)
services = Operation(
    name="services",
    route=f"GET {API}/services",
    summary="List services",
    description="Services and groups, in the order in which they start, without their members.",
    answer=b.ServiceList,
    asks=r.AskTree,
    every_tenant="services",
)
service = Operation(
    name="service",
    route=f"GET {SERVICE}",
    summary="Show a service",
    description="A service, or a group with its members.",
    answer=ChildInfo,
    asks=r.AskTree,
    every_tenant="services",
)
service_logs = Operation(
    name="service_logs",
    route=f"GET {SERVICE}/logs",
    summary="Show the log of a service",
    description="Lines that the service printed, and changes of its status, oldest first. Go on with `next`: at the "
    "end of the log a page is empty, or with `wait` the answer comes with the next line.",
    answer=ServiceLogPage,
    query=q.ServiceLogsQuery,
    permission=READ,
    every_tenant="services",
)
_SERVICE_ACTIONS = {
    ServiceAction.START: "Start a service that is down or waits to be restarted.",
    ServiceAction.STOP: "Stop a service. It stays down until it is started again.",
    ServiceAction.RESTART: "Stop a service if it is up, and start it.",
    ServiceAction.SUSPEND: "Freeze the processes of a service.",
    ServiceAction.RESUME: "Let a suspended service continue.",
}
service_actions = {
    action: Operation(
        name=f"{action}_service",
        route=f"POST {SERVICE}/{action}",
        summary=f"{action.capitalize()} a service",
        description=f"{meaning} The answer comes when that is done, and shows the service as it is then.",
        answer=ChildInfo,
        asks=r.ActOnService,
        every_tenant="services",
        raises=(e.WrongStatus,),
    )
    for action, meaning in _SERVICE_ACTIONS.items()
}
reload = Operation(
    name="reload",
    route=f"POST {API}/reload",
    summary="Reload the files",
    description="Bring jobs and services in line with the files that declare them; what is the same there is left "
    "alone. With any fault in the files nothing is changed, and the problem lists all faults.",
    answer=Reloaded,
    asks=r.Reload,
    every_tenant="services",
    raises=(e.BadConfig,),
)

# ── events and health ───────────────────────────────────────────────────────────────────────────────────────────────

events = Operation(
    name="events",
    route=f"GET {API}/events",
    summary="Stream events",
    description="Server-sent events: transitions, log lines and progress of runs; changes and output of services. The "
    "`id` of an event is a cursor. A stream opened with `Last-Event-ID` or `after` first sends every event stored "
    "after that one. A `gap` event names a range that was left out, and where to resume for it. A reader that does not "
    "keep up is cut off and may resume. Services belong to no tenant: only callers who see every tenant get their "
    "events, and only without `run`, `job` and `tenant`.",
    answer=str,
    media_type="text/event-stream",
    query=q.EventsQuery,
    permission=READ,
)
healthz = Operation(
    name="healthz",
    route="GET /healthz",
    summary="Show whether the server is alive",
    answer=b.Health,
)
readyz = Operation(
    name="readyz",
    route="GET /readyz",
    summary="Show whether the server can work",
    description="The store can be read, and the scheduler makes progress: its loop turns, its writes are stored, and "
    "workers take runs. The status is 503 if a check fails. Without a token, where tokens are needed, the checks have "
    "no details.",
    answer=b.Readiness,
)
metrics = Operation(
    name="metrics",
    route="GET /metrics",
    summary="Show metrics for Prometheus",
    description="Figures of the whole scheduler, so only for callers who see every tenant.",
    answer=str,
    media_type="text/plain; version=0.0.4; charset=utf-8",
    asks=r.AskMetrics,
    every_tenant="metrics",
)
openapi = Operation(
    name="openapi",
    route="GET /openapi.json",
    summary="Show this description",
    answer=dict[str, Any],
)

GROUPS: dict[str, tuple[Operation[Any], ...]] = {
    "runs": (submit, submit_many, runs, run, history, logs, *run_actions.values(), *bulk_actions.values(), bulk),
    "jobs": (jobs, job, job_log, next_times, schedule_times, timetable, trigger, pause, resume, backfill, put_job,
             put_jobs, delete_job, lanes),
    "services": (tree, services, service, service_logs, *service_actions.values(), reload),
    "events": (events,),
    "health": (healthz, readyz, metrics, openapi),
}  # fmt: skip
"""the operations as the documentation groups them"""
OPERATIONS = tuple(one for group in GROUPS.values() for one in group)
