"""What the scheduler keeps in memory: live runs, lanes, workers, timers. All of it is rebuilt from the store."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum
from heapq import heapify, heappush
from itertools import islice
from math import inf

import msgspec

from interlock.core.schedule_table import ScheduleRow, Series, Table, series_of
from interlock.model.bulk import BulkRequest
from interlock.model.effect import Effect
from interlock.model.error import UnknownJob
from interlock.model.job import ExecutorKind, Job
from interlock.model.run import Now, Run, RunIds
from interlock.model.state import HOLDS_SLOT, ON_WORKER, State
from interlock.model.work import ProcessWork

MOST_COMPARED = 10_000
"""names of jobs that are looked through for the one that was meant"""
DEFAULT_LANES = {"main": 30, "subagent": 50, "team": 100, "cron": 30}


class Room(IntEnum):
    """Where on its worker a run executes. Each kind has its own places, so none takes those of another."""

    SHARED = 0
    """in the process that most runs share"""
    OWN = 1
    """in a process of its own, because its job wants one"""
    SUSPECT = 2
    """in a process of its own, because the last process died while it executed there"""


RouteKey = tuple[str, Room]
"""job id and room: runs with equal keys can go to the same workers"""

SUSPECT_SHARE = 4
"""slots of a worker for each suspect that it takes"""

ANYWHERE = ""
"""in place of the job's id where any worker can do it, for it is told what to do"""


class Limits(msgspec.Struct, frozen=True):
    """The core's settings."""

    heartbeat_interval: float = 10.0
    missed_heartbeats: int = 3
    small_payload: int = 256
    """bytes up to which a waiting run keeps its payload in memory"""
    log_lines: int = 10_000
    """lines of a run's log, over all its attempts"""
    log_bytes: int = 4 * 1024 * 1024
    """bytes of their text"""
    prerun: float = 10.0
    """seconds ahead of its time that an occurrence becomes a run"""
    lead: float = 0.0
    """seconds ahead of its time that it may be handed to a worker, which keeps it until then; half of that is meant to
    be enough to store it, and the rest lets several go together"""

    bulk_runs: int = 1000
    """runs that bulk requests act on in one pass"""

    @property
    def silence(self) -> float:
        """Seconds without a heartbeat after which an attempt is lost."""
        return self.heartbeat_interval * self.missed_heartbeats

    @property
    def log_full(self) -> str:
        """The last line of a log that has reached a limit."""
        return f"log is full: {self.log_lines:,} lines or {_size(self.log_bytes)}; what follows is left out"


def _size(count: int) -> str:
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,} bytes"


WAIT, RUNTIME, ATTEMPT_RUNTIME = "seq", "started_at", "attempt_started_at"
"""The kinds of spans: a delay or a retry that is waited for, the run time of a run, and that of an attempt. Each is the
name of a field of the run: once that field has changed, the span is void."""

Span = tuple[float, int, str, str, float]
"""elapsed time at which it ends, tie-breaker, run id, kind, and the value of that field"""

NOT_OUT = inf
"""when an attempt was last heard of that has not been sent yet: it cannot be silent"""


class Lines(msgspec.Struct):
    """Which log lines of the attempt of a run have come: a worker that is back says again what may not be stored."""

    attempt: int
    mark: int = 0
    """up to which number all have"""
    beyond: set[int] = msgspec.field(default_factory=set)

    def has(self, number: int) -> bool:
        return number <= self.mark or number in self.beyond

    def add(self, number: int) -> None:
        self.beyond.add(number)
        while self.mark + 1 in self.beyond:
            self.mark += 1
            self.beyond.discard(self.mark)


class Attempt(msgspec.Struct, gc=False):
    """A run on a worker: when it was last heard of, and whether the worker ever said that it has it."""

    run: Run
    heard: float
    accepted: bool
    order: int
    """its place in the queue it came from"""


class Worker:
    """A worker as the scheduler sees it. Its load is the attempts it has, counted anew whenever asked."""

    __slots__ = ("apart", "attempts", "connected", "draining", "id", "jobs", "processes", "silent", "slots")

    def __init__(self, worker_id: str) -> None:
        self.id = worker_id
        self.slots = 0
        self.processes = 0
        self.jobs: frozenset[str] = frozenset()
        self.connected = False
        self.draining = False
        self.silent = False
        """has let an attempt go unheard of for too long, and has said nothing since"""
        self.attempts: dict[str, Attempt] = {}
        self.apart: dict[str, Room] = {}
        """the attempts that have a process of their own"""

    @property
    def takes_work(self) -> bool:
        """Whether it is there, heard of, and not about to leave."""
        return self.connected and not self.silent and not self.draining

    def free(self, room: Room) -> int:
        if room is Room.SHARED:
            return self.slots - (len(self.attempts) - len(self.apart))
        # One at a time is always possible, or a run that needs the room would wait for ever.
        places = self.processes if room is Room.OWN else self.slots // SUSPECT_SHARE
        return max(1, places) - sum(one is room for one in self.apart.values())

    @property
    def has_room(self) -> bool:
        """Whether it could take anything at all."""
        return self.connected and not self.draining and any(self.free(room) > 0 for room in Room)

    def drop(self, run_id: str) -> None:
        self.attempts.pop(run_id, None)
        self.apart.pop(run_id, None)


class Lane:
    """A bound on how many runs execute at once, and the queue before it."""

    __slots__ = ("dead", "heads", "holding", "limit", "moved", "name", "queues")

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.holding: dict[str, Run] = {}
        """the runs that have a slot: its size is the number of slots taken"""
        self.queues: dict[RouteKey, deque[tuple[int, Run]]] = {}
        """waiting runs in order of arrival; one that left otherwise stays as a dead entry until it is met or swept"""
        self.heads: list[tuple[int, RouteKey]] = []
        """a heap with the first of every queue; what is none any more is dropped when it is met"""
        self.dead = 0
        self.moved: dict[str, int] = {}
        """the order under which a run waits that left the queue and came back; its other entries are dead"""

    def add(self, key: RouteKey, order: int, run: Run) -> None:
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = deque()
        if not queue:
            heappush(self.heads, (order, key))
        queue.append((order, run))
        if run.id in self.moved:
            self.moved[run.id] = order

    def waits(self, entry: tuple[int, Run]) -> bool:
        """Whether that is the place of a run that waits."""
        order, run = entry
        return run.state is State.SCHEDULED and (not self.moved or self.moved.get(run.id, order) == order)

    def waiting(self) -> int:
        return sum(len(queue) for queue in self.queues.values()) - self.dead


class SchedulerState:
    def __init__(self, limits: Limits, lanes: dict[str, int]) -> None:
        self.limits = limits
        self.lanes = {name: Lane(name, limit) for name, limit in lanes.items()}
        self.runs: dict[str, Run] = {}
        """every run that has not ended"""
        self.jobs: dict[str, Job] = {}
        """the current definitions by id, in the order of their declaration"""
        self.declared: dict[str, str] = {}
        """those that are told anew at every start, with their versions, and in order; the others are stored"""
        self.sources: dict[str, str] = {}
        """where those are declared"""
        self.versions: dict[str, Job] = {}
        """by version, the definitions that are stored because a run refers to them"""
        self.timetable = Table()
        self.series: dict[tuple[str, str], Series] = {}
        """job, and which backfill of it if any → its occurrences that are live, and those that wait for them"""
        self.bulks: dict[str, BulkRequest] = {}
        """oldest first, finished ones too: one that comes again is known"""
        self.walks: dict[str, list[Run]] = {}
        """bulk request that is under way → the runs it has yet to look at, the next one last"""
        self.workers: dict[str, Worker] = {}
        self.timers: list[tuple[float, int, str]] = []
        """a heap of (wall time, tie-breaker, run id): when a run wants to be looked at"""
        self.spans: list[Span] = []
        """a heap of what counts elapsed time; a run's record has the same in wall time, for a restart"""
        self.wall_ahead = 0.0
        """seconds that the wall clock is ahead of elapsed time, by which the ends of waits are recorded"""
        self.unsettled: list[str] = []
        """runs to look at in the next step whatever the time"""
        self.progress: dict[str, tuple[float, str]] = {}
        self.log_sizes: dict[str, tuple[int, int]] = {}
        """log lines and bytes of their text, of the runs that have any"""
        self.lines: dict[str, Lines] = {}
        self.log_lines_dropped = 0
        self.ids = RunIds()
        self.draining = False
        self.liveness_due: float | None = None
        """elapsed time at which attempts must be checked for silence"""
        self.effects: dict[Effect, float] = {}
        """effects without an answer → elapsed time at which they are asked again"""
        self.effects_due = inf
        """the earliest of these, or earlier"""
        self.stale_messages = 0
        self._arrivals = 0

    def arrival(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def tie(self) -> int:
        return self.arrival()

    def job(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None:
            close = get_close_matches(job_id, islice(self.jobs, MOST_COMPARED), 1)
            raise UnknownJob(job_id, close[0] if close else None)
        return job

    def job_of(self, run: Run) -> Job:
        return self.versions[run.job_version]

    def route_key(self, run: Run) -> RouteKey:
        """Only a process that died under its attempt leaves an exit code and no outcome. A worker that died leaves
        neither."""
        job = self.job_of(run)
        if type(job.work) is ProcessWork:
            return ANYWHERE, Room.SHARED
        if job.executor is ExecutorKind.PROCESS:
            room = Room.OWN
        else:
            died = run.crashes > 0 and run.exit_code is not None and run.outcome is None
            room = Room.SUSPECT if died else Room.SHARED
        return ANYWHERE if job.work is not None else run.job_id, room

    def set_timer(self, when: float, run: Run) -> None:
        heappush(self.timers, (when, self.tie(), run.id))

    def set_span(self, end: float, run: Run, kind: str) -> None:
        heappush(self.spans, (end, self.tie(), run.id, kind, getattr(run, kind)))

    def sweep_timers(self) -> None:
        """Drop the timers and spans of runs that have ended, once they are most of them."""
        if len(self.timers) > 1000 + 4 * len(self.runs):
            self.timers = [timer for timer in self.timers if timer[2] in self.runs]
            heapify(self.timers)
        if len(self.spans) > 1000 + 4 * len(self.runs):
            self.spans = [span for span in self.spans if span[2] in self.runs]
            heapify(self.spans)

    def sweep_versions(self) -> None:
        """Drop the definitions that nobody refers to any more, once they are most of them."""
        if len(self.versions) > 1000 + 2 * len(self.jobs) + len(self.runs):
            used = {run.job_version for run in self.runs.values()} | {job.version for job in self.jobs.values()}
            self.versions = {version: job for version, job in self.versions.items() if version in used}

    def watch_silence(self, since: float) -> None:
        due = since + self.limits.silence
        if self.liveness_due is None or due < self.liveness_due:
            self.liveness_due = due


def waits_for_span(run: Run) -> bool:
    """Whether `due_at` is the end of a delay, of a submit or a retry, and not an instant that was asked for."""
    return run.due_at is not None and (run.state is State.RETRYING or run.delay is not None)


def rebuild(
    limits: Limits,
    lanes: dict[str, int],
    runs: Sequence[Run],
    versions: Iterable[Job],
    now: Now,
    log_sizes: Mapping[str, tuple[int, int]],
    log_marks: Mapping[str, tuple[int, int]],
    stored: Iterable[Job] = (),
    schedules: Iterable[ScheduleRow] = (),
    bulks: Iterable[tuple[BulkRequest, int]] = (),
    before: SchedulerState | None = None,
) -> SchedulerState:
    """The state as the store has it. Work that was on a worker is taken to be there still, until silence says no.

    `before` is this scheduler's previous state, if it had one: its spans continue. For all others the wall clock
    decides what is left.
    """
    state = SchedulerState(limits, lanes)
    state.wall_ahead = now.wall - now.elapsed if before is None else before.wall_ahead
    state.log_sizes = dict(log_sizes)
    state.lines = {run_id: Lines(*mark) for run_id, mark in log_marks.items()}
    state.jobs = {job.id: job for job in stored}
    state.timetable.rows = {row[0]: row for row in schedules}
    for bulk, reach in bulks:
        state.bulks[bulk.id] = bulk
        if bulk.ended_at is None:
            tenant = bulk.wanted.tenant
            state.walks[bulk.id] = [run for run in runs[:reach] if tenant in (None, run.tenant)]
    known = {} if before is None else {span[2:]: span[0] for span in before.spans}
    for job in versions:
        state.versions[job.version] = job
    for run in sorted(runs, key=lambda run: (run.created_at, run.id)):
        state.runs[run.id] = run
        if run.lane not in state.lanes:
            run.lane = "main"
        _place(state, run, now.elapsed)
        if run.deadline_at is not None:
            state.set_timer(run.deadline_at, run)
        for kind, left in _spans_left(run, state.job_of(run), now.wall):
            state.set_span(known.get((run.id, kind, getattr(run, kind)), now.elapsed + left), run, kind)
    return state


def _spans_left(run: Run, job: Job, wall: float) -> Iterator[tuple[str, float]]:
    """Yield what is left of a run's spans by the wall clock, never more than the whole if it was set back."""
    kind = ATTEMPT_RUNTIME if job.max_runtime_per_attempt else RUNTIME
    start = getattr(run, kind)
    if job.max_runtime is not None and start is not None:
        yield kind, min(start + job.max_runtime - wall, job.max_runtime)
    if run.due_at is not None and waits_for_span(run):
        whole = job.retry.longest_delay if run.state is State.RETRYING else run.delay
        yield WAIT, min(run.due_at - wall, inf if whole is None else whole)


def _place(state: SchedulerState, run: Run, elapsed: float) -> None:
    """Put a run where its state says it is."""
    lane = state.lanes[run.lane]
    series = None if run.origin is None else series_of(state.series, run)
    if series is not None and run.state is State.PRERUN:
        if run.due_at is None:
            series.waiting.append(run)
            return
        state.timetable.ahead.setdefault(run.job_id, []).append(run)
    elif series is not None:
        series.live.add(run.id)
    if run.state in HOLDS_SLOT:
        lane.holding[run.id] = run
    if run.state in ON_WORKER and run.worker_id is not None:
        worker = state.workers.setdefault(run.worker_id, Worker(run.worker_id))
        worker.attempts[run.id] = Attempt(run, elapsed, run.state is not State.DISPATCHED, state.arrival())
        if (room := state.route_key(run)[1]) is not Room.SHARED:
            worker.apart[run.id] = room
        state.watch_silence(elapsed)
    elif run.state is State.SCHEDULED:
        lane.add(state.route_key(run), state.arrival(), run)
    elif run.due_at is None:
        state.unsettled.append(run.id)
    elif not waits_for_span(run):
        state.set_timer(run.due_at, run)
