"""What travels between scheduler, workers and clients, in batches of msgpack arrays.

A worker says `Hello`, hears `Welcome`, then `Dispatch`, `Stop` and `Settled`; it answers `Started`, `Finished`, `Lost`,
`Returned` and beats. A client says `Greeting`, then asks with a number that the answer carries. Every message of an
attempt names run and fence, so that one from the past is known as such.
"""

from math import inf
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from interlock.model.bulk import BulkAction, BulkRequest
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.job import Job
from interlock.model.job_info import JobInfo
from interlock.model.reloaded import Reloaded
from interlock.model.run import Transition
from interlock.model.run_filter import RunFilter
from interlock.model.state import State
from interlock.model.work import Work

PROTOCOL = 1

ExitCode = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Instant = Annotated[float, Meta(ge=0, le=1e11)]
Span = Annotated[float, Meta(ge=0, le=1e11)]
Percent = Annotated[float, Meta(ge=0, le=100)]


class Message(msgspec.Struct, array_like=True, tag=True, frozen=True, gc=False):
    pass


# ── worker → scheduler ──────────────────────────────────────────────────────────────────────────────────────────────


class Held(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt a worker has, finished or not, until the scheduler settled it."""

    run_id: str
    fence: int
    begun: bool = False
    """it executes, or has; said with every beat, for the word of its start may be lost with a link"""


class Hello(Message, frozen=True):
    worker_id: str
    protocol: int
    pid: int
    slots: Count
    processes: Count
    jobs: list[str]
    held: list[Held]
    instance: str
    """which start of `interlock up` the worker belongs to; empty for one that was started alone"""


class Started(Message, frozen=True):
    run_id: str
    fence: int
    ago: Span = 0.0
    """seconds since it began"""


class Finished(Message, frozen=True):
    run_id: str
    fence: int
    outcome: str
    result: bytes | None = None
    error: str | None = None
    exit_code: ExitCode | None = None
    ago: Span = 0.0
    """seconds since it ended"""
    took: Span = 0.0
    """seconds from its start to its end, if its start has not been told of"""


class Lost(Message, frozen=True):
    """The process that executed the attempt died under it."""

    run_id: str
    fence: int
    reason: str
    exit_code: ExitCode | None = None


class Returned(Message, frozen=True):
    """The worker gives an attempt back unharmed: it is leaving, or could not begin."""

    run_id: str
    fence: int
    reason: str


class Heartbeat(Message, frozen=True):
    held: list[Held]
    at: float = 0.0
    """the worker's elapsed time"""


class Progress(Message, frozen=True):
    run_id: str
    fence: int
    percent: Percent
    text: str


class LogLine(Message, frozen=True):
    run_id: str
    fence: int
    number: Count
    at: Instant
    level: str
    text: str


class Checkpoint(Message, frozen=True):
    run_id: str
    fence: int
    value: bytes


class Leaving(Message, frozen=True):
    """The worker takes nothing new and will close."""


# ── scheduler → worker ──────────────────────────────────────────────────────────────────────────────────────────────


class Welcome(Message, frozen=True):
    """The answer to `Hello`: how often to beat is the scheduler's to say, for it counts the beats that are missing."""

    heartbeat: Annotated[float, Meta(gt=0, lt=1e9)]
    now: float = 0.0
    """the scheduler's elapsed time"""
    offer: Annotated[float, Meta(gt=0)] = 30.0
    """seconds for which an offer stands"""


class Heard(Message, frozen=True):
    """The answer to a heartbeat. Every attempt it named stays with the worker, unless a `Stop` came before this."""

    at: float
    """as in the heartbeat"""
    now: float
    """the scheduler's elapsed time"""


class Dispatch(Message, frozen=True):
    run_id: str
    fence: int
    job_id: str
    attempt: int
    payload: bytes | None
    deadline: float | None
    isolated: bool
    grace: float
    checkpoint: bytes | None = None
    work: Work | None = None
    """what to do, where it is not a function of the app"""
    scheduled_at: float = 0.0
    hold: float = 0.0
    """seconds until its time: the worker keeps it so long"""
    begin_by: float = inf
    """elapsed time after which the worker must ask before it begins: the scheduler's time, and between a host and its
    executor processes the worker's own"""


class Stop(Message, frozen=True):
    """Stop this attempt: ask, then TERM, then KILL."""

    run_id: str
    fence: int
    reason: str


class Settled(Message, frozen=True):
    """What the worker reported of this attempt is stored, or was of no use: forget it."""

    run_id: str
    fence: int


class Drain(Message, frozen=True):
    """Take nothing new, finish what there is, then leave."""


class Ready(Message, frozen=True):
    """Executor to host: the app is loaded and has these jobs."""

    jobs: list[str]


class Expired(Message, frozen=True):
    """Executor to host: `begin_by` has passed, so it was not begun."""

    run_id: str
    fence: int


class Begun(Message, frozen=True):
    """Executor to host: these attempts are about to begin. Most need no `Started`, for they end at once."""

    keys: list[tuple[str, int]]


class Revoke(Message, frozen=True):
    """Host to executor: give this attempt back if it has not begun."""

    run_id: str
    fence: int


class Revoked(Message, frozen=True):
    """Executor to host: it had not begun and will not."""

    run_id: str
    fence: int


# ── client ↔ scheduler ──────────────────────────────────────────────────────────────────────────────────────────────


class Greeting(Message, frozen=True):
    protocol: int


class NewRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run to create. `payload` is JSON, or empty for what the job has of its own. It waits until `at`, or for
    `delay` seconds; `occurrence` makes it the job's run of that instant. `origin` is as in `Run`."""

    job_id: str
    payload: bytes
    tenant: str = "default"
    lane: str | None = None
    session: str | None = None
    idempotency_key: str | None = None
    deadline_at: float | None = None
    at: float | None = None
    occurrence: float | None = None
    origin: str | None = None
    delay: float | None = None


class Submit(Message, frozen=True):
    request: int
    runs: list[NewRun]
    actor: str = ""
    """on whose behalf; empty for the client itself"""


class Cancel(Message, frozen=True):
    request: int
    run_id: str
    reason: str
    actor: str = ""


class StartBulk(Message, frozen=True):
    """Act on every run that fits; the id makes it safe to repeat. The answer comes when it is stored, not when it is
    done."""

    request: int
    bulk_id: str
    action: BulkAction
    wanted: RunFilter
    reason: str
    actor: str = ""


class BulkReport(Message, frozen=True):
    request: int
    bulk: BulkRequest


class Ask(Message, frozen=True):
    """Ask for a run; with `wait`, the answer comes when it has ended."""

    request: int
    run_id: str
    wait: bool


class Forget(Message, frozen=True):
    """The answer to this question is no longer wanted."""

    request: int


class AskHistory(Message, frozen=True):
    request: int
    run_id: str


class AskLogs(Message, frozen=True):
    request: int
    run_id: str


class AskStatus(Message, frozen=True):
    request: int


class AskProgress(Message, frozen=True):
    """Ask for what a running attempt last reported; it is answered at once, for it is not stored."""

    request: int
    run_id: str


class ProgressReport(Message, frozen=True):
    request: int
    progress: tuple[float, str] | None


class AskMetrics(Message, frozen=True):
    request: int


class AskTree(Message, frozen=True):
    request: int


class TreeReport(Message, frozen=True):
    request: int
    root: ChildInfo


class ActOnService(Message, frozen=True):
    """Do this to a service, or to a group of them; answered when it is done, with the service as it stands then."""

    request: int
    name: str
    action: ServiceAction
    actor: str = ""


class ServiceReport(Message, frozen=True):
    request: int
    service: ChildInfo


class Reload(Message, frozen=True):
    """Read the files again and bring what runs in line with them."""

    request: int
    actor: str = ""


class ReloadReport(Message, frozen=True):
    request: int
    reloaded: Reloaded


class AskJobs(Message, frozen=True):
    """Ask for jobs as they stand, in the order of their declaration, behind the one of this id, or from the first."""

    request: int
    after: str | None
    limit: Count


class AskJob(Message, frozen=True):
    request: int
    job_id: str


class JobsReport(Message, frozen=True):
    request: int
    jobs: list[JobInfo]
    more: bool


class AskNext(Message, frozen=True):
    """Ask for the times at which a job fires, those that are later than `after`, or than now."""

    request: int
    job_id: str
    count: Count
    after: float | None = None


class NextReport(Message, frozen=True):
    request: int
    times: list[float]


class AskTimetable(Message, frozen=True):
    """Ask for what fires until then."""

    request: int
    until: float
    most_jobs: Count
    most_times: Count
    """of one job"""


class TimetableReport(Message, frozen=True):
    request: int
    now: float
    jobs: list[tuple[str, list[float], bool]]
    """job, its times, and whether there are more; those that fire first come first"""
    left_out: int
    """jobs that fire too, and would have been too many"""


class SetPaused(Message, frozen=True):
    """Pause a job or have it go on; answered with a `JobsReport` of that job."""

    request: int
    job_id: str
    paused: bool
    actor: str = ""


class Backfill(Message, frozen=True):
    """Create the occurrences of a job from `start` up to before `end`, of which so many may be live at once."""

    request: int
    job_id: str
    start: float
    end: float
    max_parallel: Count
    payload: bytes = b""
    tenant: str = "default"
    actor: str = ""


class BackfillReport(Message, frozen=True):
    request: int
    created: list[str]
    existing: list[str]
    """runs that those occurrences have already"""


class PutJobs(Message, frozen=True):
    """Define these jobs, or change them, all or none; answered with a `JobsReport` of them."""

    request: int
    jobs: list[Job]
    actor: str = ""


class DropJob(Message, frozen=True):
    """Remove a job that was put; answered with an empty `JobsReport`."""

    request: int
    job_id: str
    actor: str = ""


class Watch(Message, frozen=True):
    """From now on, or no longer, tell this client of what is committed and of progress."""

    request: int
    on: bool


class News(Message, frozen=True):
    """Everything up to `position` is stored; and the progress that attempts reported since the last news."""

    position: int
    progress: list[tuple[str, str, str, float, str]]
    """run, job, tenant, percent, text"""


class StatusReport(Message, frozen=True):
    """Whether the scheduler works, and whether it gets on."""

    request: int
    available: bool
    draining: bool
    since_pass: float
    """seconds since its loop last went round; it does so once a second when there is nothing to do"""
    since_write: float
    """seconds since the store last took a write; the lease is renewed every few seconds when there is nothing else"""
    live: int
    workers: int
    """that are there, heard of, and take work"""
    starved: float
    """seconds for which runs have been due with no such worker"""
    position: int


class Family(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One metric with its samples, as Prometheus has them."""

    name: str
    kind: str
    text: str
    samples: list[tuple[str, dict[str, str], float]]
    """what follows the name, labels, value"""


class MetricsReport(Message, frozen=True):
    request: int
    families: list[Family]


class Accepted(Message, frozen=True):
    request: int
    run_ids: list[str]


class RunReport(Message, frozen=True):
    request: int
    run_id: str
    state: State
    reason: str
    result: bytes | None
    error: str | None
    fields: dict[str, Any]


class HistoryReport(Message, frozen=True):
    request: int
    entries: list[Transition]


class LogReport(Message, frozen=True):
    request: int
    lines: list[tuple[float, int, str, str]]


class Problem(Message, frozen=True):
    """An error answer; request 0 means that the whole link is refused."""

    request: int
    code: str
    text: str


AnyMessage = (
    Hello | Started | Finished | Lost | Returned | Heartbeat | Progress | LogLine | Checkpoint | Leaving
    | Welcome | Heard | Dispatch | Stop | Settled | Drain | Ready | Revoke | Revoked | Expired | Begun
    | Greeting | Submit | Cancel | Ask | Forget | AskHistory | AskLogs | AskStatus | AskMetrics | Watch | News
    | StatusReport | MetricsReport | AskProgress | ProgressReport
    | AskTree | TreeReport | ActOnService | ServiceReport | Reload | ReloadReport
    | AskJobs | AskJob | JobsReport | AskNext | NextReport | AskTimetable | TimetableReport
    | SetPaused | Backfill | BackfillReport | PutJobs | DropJob | StartBulk | BulkReport
    | Accepted | RunReport | HistoryReport | LogReport | Problem
)  # fmt: skip
