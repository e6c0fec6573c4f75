"""What is shown of runs: the same values from Python, over HTTP and on the command line."""

from typing import Any

import msgspec

from interlock.model.bulk import BulkRequest
from interlock.model.child_info import ChildInfo
from interlock.model.facets import shown
from interlock.model.run import Run, RunStats, Transition, update_id
from interlock.model.run_action import RunAction
from interlock.model.state import State


class ProgressInfo(msgspec.Struct, frozen=True):
    percent: float
    text: str


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands. Times are seconds since 1970."""

    id: str
    job_id: str
    tenant: str
    session: str | None
    idempotency_key: str | None
    created_at: float
    scheduled_at: float
    deadline_at: float | None
    job_version: str
    lane: str
    state: State
    previous: State | None
    reason: str
    actor: str
    changed_at: float
    seq: int
    attempt: int
    fence: int
    failures: int
    crashes: int
    worker_id: str | None
    due_at: float | None
    started_at: float | None
    attempt_started_at: float | None
    stop: str | None
    stop_reason: str | None
    stop_actor: str | None
    ended_at: float | None
    outcome: str | None
    exit_code: int | None
    heartbeats: int
    has_checkpoint: bool
    origin: str
    """how it came to be: `submit`, `schedule`, `catch_up`, `trigger` or `backfill`"""
    error: str | None
    facets: dict[str, dict[str, Any]] = {}
    """name → fields of what only some runs have"""
    progress: ProgressInfo | None = None
    """the latest that a running attempt reported"""


class RunDetail(RunInfo, frozen=True, kw_only=True):
    """A run with what went in and what came out; secrets in the payload are masked."""

    payload: Any
    result: Any
    stats: RunStats


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One transition. Its id is the same wherever and however often it is read: what was seen once is known again."""

    id: str
    seq: int
    before: State | None
    after: State
    at: float
    attempt: int
    reason: str
    actor: str


class LogLine(msgspec.Struct, frozen=True):
    at: float
    attempt: int
    level: str
    text: str


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, the newest first. A page may be short, even empty, though more follow: go on while there is a `next`."""

    runs: list[RunInfo]
    next: str | None
    """the cursor of the page that follows; null on the last"""


class History(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[HistoryEntry]


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[LogLine]
    next: str | None
    """the cursor of the page that follows; null on the last"""


class BulkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A request for many runs at once: which, and how far it has come."""

    id: str
    action: RunAction
    state: list[State]
    """empty for any"""
    job: str | None
    tenant: str | None
    session: str | None
    lane: str | None
    since: float | None
    until: float | None
    reason: str
    actor: str
    created_at: float
    ended_at: float | None
    """null while it is under way"""
    done: int
    """runs that have ended by it"""
    asked: int
    """running runs that were asked to stop besides; each ends when it has"""
    left: int
    """runs that it has not looked at yet"""


class ServiceLine(msgspec.Struct, frozen=True):
    """Something a service printed, or that happened to it."""

    at: float
    stream: str
    """stdout or stderr; status if it is not the service that says it"""
    text: str


class ServiceLogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[ServiceLine]
    next: str
    """the cursor of what follows, now or later"""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit did to one run; `state` is where that left it."""

    run_id: str
    job_id: str
    tenant: str
    state: State
    transitions: list[HistoryEntry]


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    job_id: str
    tenant: str
    at: float
    attempt: int
    level: str
    text: str


class ProgressEvent(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    job_id: str
    tenant: str
    percent: float
    text: str


class ServiceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a service."""

    service: str
    at: float
    text: str
    """in words"""
    path: str
    """where it is in the tree"""
    before: ChildInfo | None
    """null if it was added"""
    after: ChildInfo | None
    """null if it was removed"""


class ServiceLogEvent(msgspec.Struct, frozen=True, kw_only=True):
    service: str
    at: float
    stream: str
    """stdout or stderr; status if it is not the service that says it"""
    text: str


class GapEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Events after the cursor `after`, up to and including `until`, were left out. A stream opened with `after` sends
    them."""

    after: str
    until: str


class HelloEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of a stream, which sends everything after this cursor."""

    cursor: str


Event = HelloEvent | RunEvent | LogEvent | ProgressEvent | ServiceEvent | ServiceLogEvent | GapEvent

EVENT_NAMES: dict[type, str] = {
    HelloEvent: "hello",
    RunEvent: "run",
    LogEvent: "log",
    ProgressEvent: "progress",
    ServiceEvent: "service",
    ServiceLogEvent: "service_log",
    GapEvent: "gap",
}
"""what each is called in the stream"""


def info_of(run: Run, progress: ProgressInfo | None = None) -> RunInfo:
    fields = {name: getattr(run, name) for name in _SHOWN}
    return RunInfo(
        **fields,
        has_checkpoint=bool(run.has_checkpoint),
        origin=origin_of(run.origin),
        facets=shown(run.facets),
        progress=progress,
    )


_SHOWN = set(RunInfo.__struct_fields__) - {"has_checkpoint", "origin", "facets", "progress"}


def origin_of(origin: str | None) -> str:
    """How a run came to be, in a word."""
    return "submit" if origin is None else origin.partition(":")[0]


def bulk_info_of(bulk: BulkRequest) -> BulkInfo:
    wanted = bulk.wanted
    return BulkInfo(
        id=bulk.id,
        action=bulk.action,
        state=sorted(wanted.states),
        job=wanted.job_id,
        tenant=wanted.tenant,
        session=wanted.session,
        lane=wanted.lane,
        since=wanted.since,
        until=wanted.until,
        reason=bulk.reason,
        actor=bulk.actor,
        created_at=bulk.created_at,
        ended_at=bulk.ended_at,
        done=bulk.done,
        asked=bulk.asked,
        left=bulk.left,
    )


def entries_of(run_id: str, transitions: list[Transition]) -> list[HistoryEntry]:
    return [
        HistoryEntry(
            id=update_id(run_id, one.attempt, one.seq),
            seq=one.seq,
            before=one.before,
            after=one.after,
            at=one.at,
            attempt=one.attempt,
            reason=one.reason,
            actor=one.actor,
        )
        for one in transitions
    ]
