"""Every HTTP operation, once: the server, OpenAPI, the reference and the clients are made from this table."""

from typing import Any, TypeVar

from interlock import error as e
from interlock.interface import bodies as b
from interlock.interface import queries as q
from interlock.interface import record_operations as records
from interlock.interface.new_run_body import NewRunBody, TriggerBody
from interlock.interface.operation import API, Key, Operation, name_all, operations_of
from interlock.interface.run_view import BulkInfo, History, LogPage, RunDetail, RunInfo, RunPage, ServiceLogPage
from interlock.interface.step_view import StepPage
from interlock.model.bulk import RunAction
from interlock.model.child_info import ChildInfo
from interlock.model.explanation import Explanation
from interlock.model.job_info import Backfilled, FireTimes, JobInfo, JobLog, JobPage, Timetable
from interlock.model.lane import LaneInfo
from interlock.wire import delivery_request, lane_request, session_request, worker_request, workflow_request
from interlock.wire import request as r
from interlock.wire.lane_request import CreateLane, SetLane
from interlock.wire.operation import Order, Question, declared
from interlock.wire.service_request import AskTree

A = TypeVar("A")
LOADED = delivery_request, lane_request, session_request, worker_request, workflow_request
"""modules whose requests are operations"""

JOB = f"{API}/jobs/{{job_id}}"
RUN = f"{API}/runs/{{run_id}}"
SERVICE = f"{API}/services/{{name}}"

RUN_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same run.")
BATCH_KEY = Key("Makes the request safe to repeat: run i (from 0) gets this key, a slash and i.", r.LONGEST_KEY - 4)
RETRY_KEY = Key("Makes the request safe to repeat: the same key for the same run finds the same new run.")
BULK_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same bulk request.")
RETRY = RunAction.RETRY

REFUSALS = e.BadPayload, e.PayloadTooLarge, e.IdempotencyConflict, e.QueueFull, e.TenantLimit, e.RunPruned

submit = Operation(
    f"POST {API}/runs",
    "Submit a run. The answer comes once the run is durable, with the run as it was created. With `wait`, it comes "
    "once the run has ended, if that is in time, and has every field of [RunDetail](#rundetail).",
    RunInfo,
    status=201,
    query=q.WaitQuery,
    body=NewRunBody,
    key=RUN_KEY,
    asks=r.Submit,
    raises=(e.UnknownJob, *REFUSALS),
)
submit_many = Operation(
    f"POST {API}/runs/batch",
    "Submit many runs. Up to 1,000, all or none. With an `Idempotency-Key` K, run i (from 0) gets the key `K/i`.",
    b.SubmittedBatch,
    status=201,
    body=b.BatchBody,
    key=BATCH_KEY,
    asks=r.Submit,
    raises=(e.UnknownJob, *REFUSALS),
)
runs = Operation(
    f"GET {API}/runs",
    "List runs. Runs, newest first. A page may be short although more follow: go on while `next` is not null.",
    RunPage,
    query=q.RunsQuery,
)
run = Operation(
    f"GET {RUN}",
    "Show a run. The run as it is now; with `wait`, once it has ended, if that is in time.",
    RunDetail,
    query=q.WaitQuery,
)
steps = Operation(
    f"GET {RUN}/steps",
    "List the steps of a run. The steps of a workflow, or the items of a step with `for_each`, in the order in which "
    "they began; any other run has none. The facet `step` has the number of each.",
    StepPage,
    query=q.StepsQuery,
)
history = Operation(f"GET {RUN}/history", "Show the history of a run. Every transition, in order.", History)
explanation = Operation(
    f"GET {RUN}/explanation",
    "Explain a run. Why it is where it is, what it waits for, and roughly until when; for a run that has ended, how "
    "and why it ended. A token of one tenant sees the ids of that tenant's runs only, and how many others there are.",
    Explanation,
    asks=r.AskExplanation,
)
logs = Operation(
    f"GET {RUN}/logs",
    "Show the log of a run. Log lines of the run's attempts, oldest first.",
    LogPage,
    query=q.LogsQuery,
)
bulk = Operation(
    f"GET {API}/bulk/{{bulk_id}}",
    "Show a bulk request. Filter and progress of a bulk request. The newest 1,000 are kept.",
    BulkInfo,
)
run_actions = {
    action: Operation(
        f"POST {RUN}/{action}",
        f"{action.capitalize()} a run. {action.meaning} "
        + ("The answer is the new run." if action is RETRY else "May be repeated."),
        b.ActedOn,
        name=str(action),
        status=201 if action is RETRY else 200,
        body=b.CancelBody if action is RunAction.CANCEL else b.ReasonBody,
        body_required=False,
        key=RETRY_KEY if action is RETRY else None,
        asks=r.ActOnRun,
        raises=(e.RunNotEnded, e.QueueFull, e.TenantLimit, e.UnknownJob) if action is RETRY else (),
    )
    for action in RunAction
}
bulk_actions = {
    action: Operation(
        f"POST {API}/runs/{action}",
        f"{action.capitalize()} many runs. Act on the runs that match every field given and {action.reach}. The answer "
        "comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after "
        "a restart. Runs created later are not touched. `state` is compared when a run's turn comes.",
        BulkInfo,
        name=f"{action}_many",
        status=202,
        body=b.BulkBody,
        key=BULK_KEY,
        asks=r.StartBulk,
        raises=(e.IdempotencyConflict, e.Overloaded, *((e.UnknownJob,) if action is RETRY else ())),
    )
    for action in RunAction
}

jobs = Operation(
    f"GET {API}/jobs",
    "List jobs. Jobs in the order of their declaration, each with its newest run that has begun or ended.",
    JobPage,
    query=q.JobsQuery,
    asks=r.AskJobs,
)
job = Operation(f"GET {JOB}", "Show a job.", JobInfo, asks=r.AskJob)
job_log = Operation(
    f"GET {JOB}/log",
    "Show the log of a job. Runs that have begun or ended, newest first, with up to 16 KiB of output. Deleted jobs "
    "keep theirs.",
    JobLog,
    query=q.JobLogQuery,
)
next_times = Operation(
    f"GET {JOB}/next",
    "Show when a job fires. The next fire times of the job, paused or not.",
    FireTimes,
    query=q.TimesQuery,
    asks=r.AskNext,
    raises=(e.BadSchedule,),
)
schedule_times = Operation(
    f"GET {API}/next",
    "Show when a schedule would fire. The first fire times of a schedule that no job has, as if it were declared now, "
    "or at `after`.",
    FireTimes,
    query=q.ScheduleQuery,
)
timetable = Operation(
    f"GET {API}/timetable",
    "Show the timetable. Jobs that fire from now on, and when. Jobs that fire first come first.",
    Timetable,
    query=q.TimetableQuery,
    asks=r.AskTimetable,
)
trigger = Operation(
    f"POST {JOB}/trigger",
    "Run a job now. Create a run of the job besides its schedule, paused or not. The answer is that of a submit.",
    RunInfo,
    status=201,
    query=q.WaitQuery,
    body=TriggerBody,
    body_required=False,
    key=RUN_KEY,
    asks=r.Submit,
    raises=REFUSALS,
)
pause = Operation(
    f"POST {JOB}/pause",
    "Pause a job. Stop the schedule of the job until it is resumed. Active runs continue. May be repeated.",
    JobInfo,
    asks=r.SetPaused,
    every_tenant="jobs",
    raises=(e.BadSchedule,),
)
resume = Operation(
    f"POST {JOB}/resume",
    "Resume a job. Let a paused job fire again from its next time on; nothing is caught up. May be repeated.",
    JobInfo,
    asks=r.SetPaused,
    every_tenant="jobs",
    raises=(e.BadSchedule,),
)
backfill = Operation(
    f"POST {JOB}/backfill",
    "Backfill a range of time. Create the runs that the job's schedule has from `from` up to before `to`, at most "
    "`max_parallel` of them live at once. Occurrences that already have a run are left alone, so it may be repeated.",
    Backfilled,
    body=b.BackfillBody,
    asks=r.Backfill,
    every_tenant="jobs",
    raises=(e.BadSchedule, e.TenantLimit),
)
put_job = Operation(
    f"PUT {JOB}",
    "Define a job. Create a job, or replace one that was put before. It stays until it is deleted, whatever files say.",
    JobInfo,
    body=dict[str, Any],
    asks=r.PutJobs,
    every_tenant="jobs",
    raises=(e.BadConfig, e.NotPut, e.DuplicateJob, e.BadSchedule),
)
put_jobs = Operation(
    f"POST {API}/jobs",
    "Define many jobs. Up to 10,000, all or none.",
    b.Defined,
    body=b.JobsBody,
    asks=r.PutJobs,
    every_tenant="jobs",
    raises=(e.BadConfig, e.NotPut, e.DuplicateJob, e.BadSchedule),
    patience=300.0,
)
delete_job = Operation(
    f"DELETE {JOB}",
    "Delete a job. Delete a job that was put. The answer is the job as it was. Its runs and their log are kept.",
    JobInfo,
    asks=r.DropJob,
    every_tenant="jobs",
    raises=(e.NotPut,),
)

create_lane = Operation(
    f"POST {API}/lanes",
    "Create a lane. It outlasts restarts and reloads. A lane that exists is returned unchanged.",
    LaneInfo,
    body=b.LaneBody,
    asks=CreateLane,
    every_tenant="lanes",
)
set_lane = Operation(
    f"PATCH {API}/lanes/{{lane}}",
    "Set values of a lane. They outlast restarts and reloads, whatever is declared. Setting a value back to "
    "the declared one removes the override. A lowered limit stops no run.",
    LaneInfo,
    body=b.LaneChangeBody,
    asks=SetLane,
    every_tenant="lanes",
)
services = Operation(
    f"GET {API}/services",
    "List services. Services and groups, in the order in which they start, without their members.",
    b.ServiceList,
    asks=AskTree,
    every_tenant="services",
)
service = Operation(
    f"GET {SERVICE}",
    "Show a service. A service, or a group with its members.",
    ChildInfo,
    asks=AskTree,
    every_tenant="services",
)
service_logs = Operation(
    f"GET {SERVICE}/logs",
    "Show the log of a service. Lines that the service printed, and changes of its status, oldest first. Go on with "
    "`next`: at the end of the log a page is empty, or with `wait` the answer comes with the next line.",
    ServiceLogPage,
    query=q.ServiceLogsQuery,
    every_tenant="services",
)

events = Operation(
    f"GET {API}/events",
    "Stream events. Server-sent events: transitions, log lines and progress of runs; changes and output of services; "
    "changes of lanes and jobs; acts on sessions. "
    "The `id` of an event is a cursor. A stream opened with `Last-Event-ID` or `after` first sends every event stored "
    "after that one. A `gap` event names a range that was left out, and where to resume for it. A reader that does "
    "not keep up is cut off and may resume. Services and lanes belong to no tenant: only callers who see every tenant "
    "get their events, and only without `run`, `job` and `tenant`.",
    str,
    media_type="text/event-stream",
    query=q.EventsQuery,
)
healthz = Operation("GET /healthz", "Show whether the server is alive.", b.Health, permission=None)
readyz = Operation(
    "GET /readyz",
    "Show whether the server can work. The store can be read, and the scheduler makes progress: its loop turns, its "
    "writes are stored, and workers take runs. The status is 503 if a check fails. Without a token, where tokens are "
    "needed, the checks have no details.",
    b.Readiness,
    permission=None,
)
metrics = Operation(
    "GET /metrics",
    "Show metrics for Prometheus. Figures of the whole scheduler, so only for callers who see every tenant.",
    str,
    media_type="text/plain; version=0.0.4; charset=utf-8",
    asks=r.AskMetrics,
    every_tenant="metrics",
)
openapi = Operation("GET /openapi.json", "Show this description.", dict[str, Any], permission=None)

DECLARED = {(kind, operation.action): operation for kind in declared() for operation in operations_of(kind)}
"""request and action → operation, of the requests that are operations as they are"""

name_all(vars())

GROUPS: dict[str, list[Operation[Any]]] = {
    "runs": [submit, submit_many, runs, run, steps, explanation, history, logs, *run_actions.values(),
             *bulk_actions.values(), bulk],
    "jobs": [jobs, job, job_log, next_times, schedule_times, timetable, trigger, pause, resume, backfill, put_job,
             put_jobs, delete_job],
    "workflows": [],
    "lanes": [create_lane, set_lane],
    "tenants": [],
    "sessions": [],
    "workers": [],
    "deliveries": [records.deliveries, records.delivery],
    "dead letters": [records.letters, records.letter, records.replay, records.replay_many,
                     records.drop_letter, records.drop_letters],
    "approvals": [records.approvals, records.approval, records.approve, records.reject, records.release_output],
    "audit": [records.audit],
    "services": [services, service, service_logs],
    "events": [events],
    "health": [healthz, readyz, metrics, openapi],
}  # fmt: skip
"""the operations as the documentation groups them"""
for _operation in DECLARED.values():
    GROUPS[_operation.group].append(_operation)
OPERATIONS = tuple(operation for group in GROUPS.values() for operation in group)


def operation_of(request: Question[A] | Order[A]) -> Operation[A]:
    """Return the operation that a request is."""
    return DECLARED[type(request), getattr(request, "action", None)]
