"""What a client may ask of a scheduler: each request with its answer, and what everybody needs to know of it.

The class is the whole declaration. Links, gateway and clients read from it; `engine/requests.py` says how each is
carried out.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from interlock.model.access import Permission
from interlock.model.bulk import BulkRequest
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.exposition import Family
from interlock.model.job import Job
from interlock.model.job_info import JobInfo
from interlock.model.message import Count, Message
from interlock.model.new_run import LONGEST_KEY as LONGEST_KEY
from interlock.model.new_run import NewRun as NewRun
from interlock.model.reload_report import Reloaded
from interlock.model.run import Run, Transition
from interlock.model.run_action import RunAction
from interlock.model.run_filter import RunFilter
from interlock.model.state import State

A_co = TypeVar("A_co", bound=Message, covariant=True)


class Request(Message, Generic[A_co], frozen=True):
    """A question or a change, with a number that its answer carries."""

    request: int

    answer: ClassVar[type[Message]] = Message
    permission: ClassVar[Permission] = Permission.READ
    patience: ClassVar[float] = 10.0
    """seconds that the gateway waits for the answer"""
    once: ClassVar[bool] = False
    """if it was not answered, nobody knows whether it was carried out, so it is not sent again"""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.answer = cls.__orig_bases__[0].__args__[0]  # type: ignore[attr-defined]

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again to a scheduler that went away before it answered."""
        return not self.once


class Probe(Request[A_co], Generic[A_co], frozen=True):
    """A question that is of use only if it is answered at once."""

    patience: ClassVar = 2.0
    once: ClassVar = True


class Change(Request[A_co], Generic[A_co], frozen=True):
    """Answered when it is stored."""

    permission: ClassVar = Permission.OPERATE
    patience: ClassVar = 60.0


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Accepted(Message, frozen=True):
    request: int
    run_ids: list[str]
    run: Run | None = None
    """the run as it was created, if the submit asked to see it and created it"""


class StateReport(Message, frozen=True):
    """The state that a run has now, after what was asked for; one on a worker is only being stopped."""

    request: int
    run_id: str
    state: State


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


class ProgressReport(Message, frozen=True):
    request: int
    progress: tuple[float, str] | None


class BulkReport(Message, frozen=True):
    request: int
    bulk: BulkRequest


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


class MetricsReport(Message, frozen=True):
    request: int
    families: list[Family]


class TreeReport(Message, frozen=True):
    request: int
    root: ChildInfo


class ServiceReport(Message, frozen=True):
    request: int
    service: ChildInfo


class ReloadReport(Message, frozen=True):
    request: int
    reloaded: Reloaded


class JobsReport(Message, frozen=True):
    request: int
    jobs: list[JobInfo]
    more: bool


class NextReport(Message, frozen=True):
    request: int
    times: list[float]


class TimetableReport(Message, frozen=True):
    request: int
    now: float
    jobs: list[tuple[str, list[float], bool]]
    """job, its times, and whether there are more; those that fire first come first"""
    left_out: int
    """jobs that fire too, and would have been too many"""


class BackfillReport(Message, frozen=True):
    request: int
    created: list[str]
    existing: list[str]
    """runs that those occurrences have already"""


class News(Message, frozen=True):
    """Everything up to `position` is stored; and the progress that attempts reported since the last news."""

    position: int
    progress: list[tuple[str, str, str, float, str]]
    """run, job, tenant, percent, text"""


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_RUNS, MOST_RUNS_OVER_HTTP = 10_000, 1000
"""in one submit"""


class Submit(Change[Accepted], frozen=True):
    runs: list[NewRun]
    actor: str = ""
    """on whose behalf; empty for the client itself"""
    show: bool = False
    """whether the answer is to have the run, of a single one"""

    permission: ClassVar = Permission.SUBMIT

    @property
    def repeatable(self) -> bool:
        return all(run.idempotency_key is not None or run.occurrence is not None for run in self.runs)


class ActOnRun(Change[StateReport], frozen=True):
    action: RunAction
    run_id: str
    reason: str = ""
    actor: str = ""

    permission: ClassVar = Permission.CANCEL


class StartBulk(Change[BulkReport], frozen=True):
    """Act on every run that fits; the id makes it safe to repeat. The answer comes when it is stored, not when it is
    done."""

    bulk_id: str
    action: RunAction
    wanted: RunFilter
    reason: str
    actor: str = ""

    permission: ClassVar = Permission.CANCEL


class Ask(Request[RunReport], frozen=True):
    """Ask for a run; with `wait`, the answer comes when it has ended."""

    run_id: str
    wait: bool


class Forget(Message, frozen=True):
    """The answer to this question is no longer wanted."""

    request: int


class AskHistory(Request[HistoryReport], frozen=True):
    run_id: str


class AskLogs(Request[LogReport], frozen=True):
    run_id: str


class AskStatus(Probe[StatusReport], frozen=True):
    pass


class AskProgress(Probe[ProgressReport], frozen=True):
    """Ask for what a running attempt last reported; it is answered at once, for it is not stored."""

    run_id: str


class AskMetrics(Probe[MetricsReport], frozen=True):
    pass


class AskTree(Request[TreeReport], frozen=True):
    pass


class ActOnService(Change[ServiceReport], frozen=True):
    """Do this to a service, or to a group of them; answered when it is done, with the service as it stands then."""

    name: str
    action: ServiceAction
    actor: str = ""

    patience: ClassVar = 300.0
    once: ClassVar = True


class Reload(Change[ReloadReport], frozen=True):
    """Read the files again and bring what runs in line with them."""

    actor: str = ""

    patience: ClassVar = 300.0
    once: ClassVar = True


class AskJobs(Request[JobsReport], frozen=True):
    """Ask for jobs as they stand, in the order of their declaration, behind the one of this id, or from the first."""

    after: str | None
    limit: Count


class AskJob(Request[JobsReport], frozen=True):
    job_id: str


class AskNext(Request[NextReport], frozen=True):
    """Ask for the times at which a job fires, those that are later than `after`, or than now."""

    job_id: str
    count: Count
    after: float | None = None


class AskTimetable(Request[TimetableReport], frozen=True):
    """Ask for what fires until then."""

    until: float
    most_jobs: Count
    most_times: Count
    """of one job"""


class SetPaused(Change[JobsReport], frozen=True):
    """Pause a job or have it go on; answered with a `JobsReport` of that job."""

    job_id: str
    paused: bool
    actor: str = ""


MOST_PARALLEL = 1000
"""runs of one backfill that may be live at once"""


class Backfill(Change[BackfillReport], frozen=True):
    """Create the occurrences of a job from `start` up to before `end`, of which so many may be live at once."""

    job_id: str
    start: float
    end: float
    max_parallel: Count
    payload: bytes = b""
    tenant: str = "default"
    actor: str = ""


class PutJobs(Change[JobsReport], frozen=True):
    """Define these jobs, or change them, all or none; answered with a `JobsReport` of them."""

    jobs: list[Job]
    actor: str = ""


class DropJob(Change[JobsReport], frozen=True):
    """Remove a job that was put; answered with an empty `JobsReport`."""

    job_id: str
    actor: str = ""

    once: ClassVar = True


class Watch(Probe[StatusReport], frozen=True):
    """From now on, or no longer, tell this client of what is committed and of progress."""

    on: bool


def _sent(parent: type[Message]) -> Iterator[type[Message]]:
    """Every kind of message but the generic ones, which others are derived from."""
    for kind in parent.__subclasses__():
        below = list(_sent(kind))
        yield from below if kind.__dict__.get("__parameters__") else [kind, *below]


MESSAGES = tuple(_sent(Message))
