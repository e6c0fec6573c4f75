"""Views of runs: the same values from Python, over HTTP and on the command line."""

from typing import Annotated, Any

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time, shape_of
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.child_info import ChildInfo
from interlock.model.facets import Facets, ProgressInfo
from interlock.model.guard import ViolationEvent
from interlock.model.job_info import Cursor, ExitCode, JobEvent, Origin, RunId
from interlock.model.lane import LaneEvent
from interlock.model.letter import LetterFilter
from interlock.model.overview import Overview
from interlock.model.run import Run, RunStats, Transition, shown_facets, update_id
from interlock.model.session_info import SessionEvent
from interlock.model.state import State

LISTED_ERROR = 1024  # characters of an error in a list
CUT = "(cut) … "  # before what is left of it

JobOf = Annotated[str, doc("Job of the run.")]
TenantOf = Annotated[str, doc("Tenant of the run.")]


class RunInternals(msgspec.Struct, frozen=True, kw_only=True):
    """Figures by which the scheduler keeps a run in order."""

    seq: Annotated[int, doc("Number of transitions so far.")]
    fence: Annotated[int, doc("Number of the dispatch; reports of an older one have no effect.")]
    stop_actor: Annotated[str | None, doc("Who or what asked for the stop under way.")]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is now."""

    id: Annotated[str, doc("Id. A later run has a greater id, occurrences excepted.")]
    job_id: JobOf
    tenant: TenantOf
    session: Annotated[str | None, doc("Session given at the submit.")]
    idempotency_key: Annotated[str | None, doc("Idempotency key given at the submit.")]
    created_at: Annotated[Time, doc("Time of creation.")]
    scheduled_at: Annotated[Time, doc("Time at which the run is, or was, first due.")]
    deadline_at: Annotated[Time | None, doc("Time by which the run must have ended.")]
    job_version: Annotated[str, doc("Hash of the job's definition that the run uses.")]
    lane: Annotated[str, doc("Lane whose slots the run uses.")]
    state: Annotated[State, doc("State.")]
    previous: Annotated[State | None, doc("State before this one.")]
    reason: Annotated[str, doc("Reason for the state.")]
    actor: Annotated[str, doc("Who or what caused the state.")]
    created_by: Annotated[str, doc("Who submitted the run; `scheduler` for an occurrence, `run ID` for a run's code.")]
    parent: Annotated[str | None, doc("Run that made this one: by a submit, an action, a check or a retry.")] = None
    root: Annotated[str | None, doc("Run at the top of its tree; null for a run without a parent.")] = None
    changed_at: Annotated[Time, doc("Time of the last transition.")]
    attempt: Annotated[int, doc("Number of the current attempt, from 1; 0 before the first.")]
    failures: Annotated[int, doc("Attempts that failed.")]
    crashes: Annotated[int, doc("Attempts lost with their process or worker.")]
    worker_id: Annotated[str | None, doc("Worker that has the run, or had it last.")]
    due_at: Annotated[Time | None, doc("Time for which the run waits.")]
    started_at: Annotated[Time | None, doc("Start of the first attempt.")]
    attempt_started_at: Annotated[Time | None, doc("Start of the latest attempt.")]
    stop: Annotated[str | None, doc("Kind of stop under way, such as `cancel` or `timeout`.")]
    stop_reason: Annotated[str | None, doc("Reason given for the stop.")]
    ended_at: Annotated[Time | None, doc("Time of the end.")]
    outcome: Annotated[str | None, doc("Outcome of the latest attempt.")]
    exit_code: ExitCode
    heartbeats: Annotated[int, doc("Signs of life received from workers.")]
    has_checkpoint: Annotated[bool, doc("Whether an attempt left a checkpoint.")]
    origin: Origin
    internals: Annotated[RunInternals, doc("Figures by which the scheduler keeps the run in order.")]
    error: Annotated[
        str | None,
        doc("Text and traceback of the latest failure, without secrets. A list has its last 1,024 characters."),
    ]
    facets: Annotated[
        dict[str, Any], doc("Parts that only some runs have, such as `hold`, by name."), shape_of(Facets)
    ] = {}
    progress: Annotated[ProgressInfo | None, doc("Latest progress. A list has it only for ended runs.")] = None


class RunDetail(RunInfo, frozen=True, kw_only=True):
    """A run with payload, result and figures."""

    payload: Annotated[Any, doc("Arguments; secrets are shown as `•••`.")]
    result: Annotated[Any, doc("Return value of the handler.")]
    stats: Annotated[RunStats, doc("Figures.")]


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One transition."""

    id: Annotated[str, doc("Id; the same transition always has the same one.")]
    seq: Annotated[int, doc("Number of the transition, from 1.")]
    before: Annotated[State | None, doc("State before; null for the first transition.")]
    after: Annotated[State, doc("State after.")]
    at: Annotated[Time, doc("Time.")]
    attempt: Annotated[int, doc("Attempt at that time.")]
    reason: Annotated[str, doc("Reason.")]
    actor: Annotated[str, doc("Who or what caused it.")]


class LogLine(msgspec.Struct, frozen=True):
    at: Annotated[Time, doc("Time of writing.")]
    attempt: Annotated[int, doc("Attempt that wrote the line.")]
    level: Annotated[str, doc("Level, such as `info`.")]
    text: Annotated[str, doc("Line, without secrets.")]
    logger: Annotated[str, doc("Name of the logger, `stdout` or `stderr`; empty for lines of `ctx.log`.")] = ""


class Chunk(msgspec.Struct, frozen=True):
    """A chunk of the stream of a run."""

    value: Annotated[Any, doc("The chunk: a text or another JSON value, without secrets.")]
    attempt: Annotated[int, doc("Attempt that emitted it. A retry begins the stream again.")]
    id: Annotated[str, doc("Position, for `stream(after=...)`.")]


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of runs."""

    runs: Annotated[list[RunInfo], doc("Runs, newest first. A page may be short, even empty, although more follow.")]
    next: Cursor
    reached: Annotated[
        Time | None, doc("With `text` and a next page: creation of the oldest run looked at so far.")
    ] = None


class History(msgspec.Struct, frozen=True, kw_only=True):
    entries: Annotated[list[HistoryEntry], doc("Every transition, in order.")]


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: Annotated[list[LogLine], doc("Lines, oldest first.")]
    next: Cursor


class BulkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk request: its filter and its progress."""

    id: Annotated[str, doc("Id of the request.")]
    action: Annotated[RunAction, doc("Action on each run.")]
    state: Annotated[list[State], doc("Only runs in one of these states; empty for any.")]
    job: Annotated[str | None, doc("Only runs of this job.")]
    tenant: Annotated[str | None, doc("Only runs of this tenant.")]
    session: Annotated[str | None, doc("Only runs of this session.")]
    lane: Annotated[str | None, doc("Only runs in this lane.")]
    since: Annotated[Time | None, doc("Only runs created at this time or later.")]
    until: Annotated[Time | None, doc("Only runs created before this time.")]
    parent: Annotated[str | None, doc("Only runs that this run made.")] = None
    root: Annotated[str | None, doc("Only runs whose root is this run: it made them, directly or not.")] = None
    text: Annotated[str | None, doc("Only runs with this text in id, job, session, reason, error or a label.")] = None
    letters: Annotated[LetterFilter | None, doc("Only runs with such a dead letter.")]
    reason: Annotated[str, doc("Reason.")]
    actor: Annotated[str, doc("Who asked for it.")]
    created_at: Annotated[Time, doc("Time of the request; runs created later are not touched.")]
    ended_at: Annotated[Time | None, doc("Time at which every run had been looked at; null until then.")]
    done: Annotated[int, doc("Runs on which the action is complete.")]
    asked: Annotated[int, doc("Running runs asked to stop, not counted in `done`; each ends once it has stopped.")]
    left: Annotated[int | None, doc("Runs not looked at yet; null for a retry, which does not count them.")]
    matching: Annotated[
        int | None, doc("Of a dry run: runs that it would act on now; 10,000 means 10,000 or more.")
    ] = None


class ServiceLine(msgspec.Struct, frozen=True):
    """A line that a service printed, or something that happened to it."""

    at: Annotated[Time, doc("Time.")]
    stream: Annotated[str, doc("`stdout` or `stderr`; `status` for something that happened to the service.")]
    text: Annotated[str, doc("Line.")]


class ServiceLogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: Annotated[list[ServiceLine], doc("Lines, oldest first.")]
    next: Annotated[str, doc("Cursor of what follows; never null, because more may come.")]


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The transitions that one commit made to one run."""

    run_id: RunId
    job_id: JobOf
    tenant: TenantOf
    state: Annotated[State, doc("State after the transitions.")]
    transitions: Annotated[list[HistoryEntry], doc("Transitions, in order.")]


class LogEvent(LogLine, frozen=True, kw_only=True):
    run_id: RunId
    job_id: JobOf
    tenant: TenantOf


class ChunkEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Chunks that a run has emitted to its stream. No chunks: the stream is cut at a limit."""

    run_id: RunId
    job_id: JobOf
    tenant: TenantOf
    at: Annotated[Time, doc("Time of the last chunk.")]
    attempt: Annotated[int, doc("Attempt that emitted the chunks. A retry begins the stream again.")]
    chunks: Annotated[list[Any], doc("Chunks, in order; each a text or another JSON value, without secrets.")]


class ProgressEvent(ProgressInfo, frozen=True, kw_only=True):
    run_id: RunId
    job_id: JobOf
    tenant: TenantOf


class ServiceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a service."""

    service: Annotated[str, doc("Name of the service.")]
    at: Annotated[Time, doc("Time.")]
    text: Annotated[str, doc("Change, in words.")]
    path: Annotated[str, doc("Place in the tree.")]
    before: Annotated[ChildInfo | None, doc("Service before, without its children; null if it was added.")]
    after: Annotated[ChildInfo | None, doc("Service after, without its children; null if it was removed.")]


class ServiceLogEvent(ServiceLine, frozen=True, kw_only=True):
    service: Annotated[str, doc("Name of the service.")]


class GapEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Events were left out. A stream opened with `after` sends them."""

    after: Annotated[str, doc("Cursor before the first event left out.")]
    until: Annotated[str, doc("Cursor of the last event left out.")]


class HelloEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of a stream. A stream of one run with `after` sends it again after the stored events."""

    cursor: Annotated[str, doc("Cursor after which the stream sends everything.")]


Event = (
    HelloEvent
    | RunEvent
    | LogEvent
    | ChunkEvent
    | ProgressEvent
    | ServiceEvent
    | ServiceLogEvent
    | LaneEvent
    | JobEvent
    | SessionEvent
    | ViolationEvent
    | Overview
    | GapEvent
)

EVENT_NAMES: dict[type, str] = {
    HelloEvent: "hello",
    RunEvent: "run",
    LogEvent: "log",
    ChunkEvent: "chunk",
    ProgressEvent: "progress",
    ServiceEvent: "service",
    ServiceLogEvent: "service_log",
    LaneEvent: "lane",
    JobEvent: "job",
    SessionEvent: "session",
    ViolationEvent: "violation",
    Overview: "overview",
    GapEvent: "gap",
}
"""type → name in the stream"""


def info_of(run: Run, progress: ProgressInfo | None = None, cut: bool = False) -> RunInfo:
    """Return the run as it is shown; `cut` for a list, which has the end of a long error, where its cause stands."""
    fields = {name: getattr(run, name) for name in _SHOWN}
    if cut and run.error is not None and len(run.error) > LISTED_ERROR:
        fields["error"] = CUT + run.error[-LISTED_ERROR:]
    return RunInfo(
        **fields,
        internals=RunInternals(seq=run.seq, fence=run.fence, stop_actor=run.stop_actor),
        has_checkpoint=bool(run.has_checkpoint),
        origin=origin_of(run.origin),
        facets=shown_facets(run),
        progress=progress or (None if run.facets is None else run.facets.progress),
    )


_SHOWN = set(RunInfo.__struct_fields__) - {"has_checkpoint", "origin", "internals", "facets", "progress"}


def origin_of(origin: str | None) -> str:
    """Return the origin of a run as one word."""
    return "submit" if origin is None else origin.partition(":")[0]


def bulk_info_of(bulk: BulkRequest) -> BulkInfo:
    parts, names = (bulk.wanted, bulk), BulkInfo.__struct_fields__
    fields = {name: getattr(part, name) for part in parts for name in names if hasattr(part, name)}
    return BulkInfo(state=sorted(bulk.wanted.states), job=bulk.wanted.job_id, **fields)


def entries_of(run_id: str, transitions: list[Transition]) -> list[HistoryEntry]:
    return [
        HistoryEntry(id=update_id(run_id, transition.attempt, transition.seq), **msgspec.structs.asdict(transition))
        for transition in transitions
    ]
