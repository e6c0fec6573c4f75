"""Requests to a scheduler, each with its answer, permission and patience.

The class is the whole declaration. Links, gateway and clients read it; `engine/requests.py` carries requests out.
"""

from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from interlock.model.access import Permission
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.explanation import Explanation
from interlock.model.exposition import Family
from interlock.model.facets import ProgressInfo
from interlock.model.job import Job
from interlock.model.job_info import Backfilled, JobInfo
from interlock.model.run import Run, RunFilter, RunStats, Transition
from interlock.model.state import State
from interlock.wire.message import Count, Message
from interlock.wire.new_run import LONGEST_KEY as LONGEST_KEY
from interlock.wire.new_run import NewRun as NewRun

A_co = TypeVar("A_co", covariant=True)
LogRow = tuple[float, int, str, str, str]  # time, attempt, level, text, logger


def answer_of(kind: Any) -> None:
    """Note the type that a request names as that of its answer: `class AskJob(Request[JobsReport])`."""
    kind.answer = kind.__orig_bases__[0].__args__[0]


class Request(Message, Generic[A_co], frozen=True):
    """A question or a change. Its answer carries the same number."""

    request: int

    answer: ClassVar[Any] = None  # type of the answer: an `Answer`, or of the value of a `ValueAnswer`
    permission: ClassVar[Permission] = Permission.READ
    patience: ClassVar[float] = 10.0  # seconds for which the gateway waits for the answer
    once: ClassVar[bool] = False  # whether it must not be sent again unanswered: it may have been carried out

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_of(cls)

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again if it was not answered."""
        return not self.once

    def by(self, **caller: str | None) -> Self:
        """Return the request with the values of its caller that it has fields for."""
        given = {name: value for name, value in caller.items() if name in self.__struct_fields__}
        return msgspec.structs.replace(self, **given)


class Probe(Request[A_co], Generic[A_co], frozen=True):
    """A question that is useful only if it is answered at once."""

    patience: ClassVar = 2.0
    once: ClassVar = True


class ChangeRequest(Request[A_co], Generic[A_co], frozen=True):
    """Answered when it is stored."""

    permission: ClassVar = Permission.OPERATE
    patience: ClassVar = 60.0


class Answer(Message, frozen=True):
    request: int


class ValueAnswer(Answer, frozen=True):
    """An answer that is one value. Its request names the type."""

    value: Any = None


class Accepted(Answer, frozen=True):
    run_ids: list[str]
    run: Run | None = None  # the run as it was created, if the submit asked to see it and created it


class Detail(msgspec.Struct, array_like=True, frozen=True):
    """The rest of a run: its payload, with the names by which its secrets are masked, and its figures."""

    payload: bytes | None
    secrets: tuple[str, ...]  # arguments that are secrets
    secret_names: tuple[str, ...]  # words that mark a text as a secret when its name ends in one of them
    stats: RunStats


class RunReport(Answer, frozen=True):
    run_id: str
    state: State
    reason: str
    result: bytes | None
    error: str | None
    fields: dict[str, Any]
    detail: "Detail | None" = None  # only in an answer that does not wait


class StatusReport(Answer, frozen=True):
    """The health of the scheduler."""

    available: bool
    draining: bool
    since_pass: float  # seconds since the last pass of the loop, which runs once a second when idle
    since_write: float  # seconds since the last write; an idle scheduler renews its lease every few seconds
    live: int
    workers: int  # workers that are connected, heard from, and take work
    starved: float  # seconds for which runs have been due without such a worker
    position: int
    loss: str = ""  # what the store has lost since the scheduler started, and when that was found


class JobsReport(Answer, frozen=True):
    jobs: list[JobInfo]
    more: bool


class TimetableReport(Answer, frozen=True):
    now: float
    jobs: list[tuple[str, list[float], bool]]  # job, its times, and whether there are more; the first to fire first
    left_out: int  # further jobs that fire


ProgressRow = tuple[str, str, str, float, str]  # run, job, tenant, percent, text


class News(Message, frozen=True):
    """The stored position, and the progress reported since the last news."""

    position: int
    progress: list[ProgressRow]


MOST_RUNS, MOST_RUNS_OVER_HTTP = 10_000, 1000  # in one submit


class Submit(ChangeRequest[Accepted], frozen=True):
    runs: list[NewRun]
    actor: str = ""  # the caller behind the client; empty for the client itself
    show: bool = False  # whether the answer is to have the run, of a single one
    only_tenant: str | None = None  # the one tenant for which the caller acts; None for every tenant
    parent: str = ""  # claim of the attempt whose code submits them

    permission: ClassVar = Permission.SUBMIT

    @property
    def repeatable(self) -> bool:
        return all(run.is_repeatable for run in self.runs)


class StartBulk(ChangeRequest[BulkRequest], frozen=True):
    """Act on every run that matches. The id makes it safe to repeat. The answer comes when it is stored, not when it is
    done."""

    bulk_id: str
    action: RunAction
    wanted: RunFilter
    reason: str
    actor: str = ""
    parent: str = ""  # claim of the attempt whose code asks; counts for retries

    permission: ClassVar = Permission.CANCEL


class Ask(Request[RunReport], frozen=True):
    """Ask for a run; with `wait`, the answer comes at its end."""

    run_id: str
    wait: bool


class Forget(Message, frozen=True):
    """The answer to this question is no longer wanted."""

    request: int


class AskHistory(Request[list[Transition]], frozen=True):
    run_id: str


class AskExplanation(Request[Explanation], frozen=True):
    run_id: str
    tenant: str | None = None  # the only tenant whose runs the answer may name


class AskLogs(Request[list[LogRow]], frozen=True):
    run_id: str
    chunks: bool = False  # the chunks of its stream instead


class AskStatus(Probe[StatusReport], frozen=True):
    pass


class AskProgress(Probe[ProgressInfo | None], frozen=True):
    """Ask for the latest progress of a running attempt, which is not stored."""

    run_id: str


class AskMetrics(Probe[list[Family]], frozen=True):
    pass


class AskJobs(Request[JobsReport], frozen=True):
    """Ask for jobs in the order of their declaration, after the job with this id, or from the first."""

    after: str | None
    limit: Count


class AskJob(Request[JobsReport], frozen=True):
    job_id: str


class AskNext(Request[list[float]], frozen=True):
    """Ask for the fire times of a job after `after`, or after now."""

    job_id: str
    count: Count
    after: float | None = None


class AskTimetable(Request[TimetableReport], frozen=True):
    """Ask for every fire time until `until`."""

    until: float
    most_jobs: Count
    most_times: Count  # of one job


class SetPaused(ChangeRequest[JobsReport], frozen=True):
    """Pause or resume a schedule; answered with the job."""

    job_id: str
    paused: bool
    actor: str = ""


MOST_PARALLEL = 1000  # runs of one backfill that may be live at once


class Backfill(ChangeRequest[Backfilled], frozen=True):
    """Create the occurrences of a job from `start` until before `end`; at most `max_parallel` are live at once."""

    job_id: str
    start: float
    end: float
    max_parallel: Count
    payload: bytes = b""
    tenant: str = "default"
    actor: str = ""
    dry_run: bool = False


class PutJobs(ChangeRequest[JobsReport], frozen=True):
    """Create or replace these jobs, all or none; answered with them."""

    jobs: list[Job]
    actor: str = ""


class DropJob(ChangeRequest[JobsReport], frozen=True):
    """Remove a job that was put; answered with an empty report."""

    job_id: str
    actor: str = ""

    once: ClassVar = True


class WatchNews(Probe[StatusReport], frozen=True, tag="Watch"):
    """Start or stop sending `News` to this client."""

    on: bool
