"""The memory of the scheduler. `recovery/rebuild.py` makes it from the store; each part has a slice of its own."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from heapq import heapify, heappush
from itertools import count, islice
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.core.lanes.gate import Gates
from interlock.core.lanes.lane import Lanes
from interlock.core.part import Machine
from interlock.core.routing.roster import Roster, Worker
from interlock.core.timetable.table import Table
from interlock.error import UnknownJob
from interlock.fields.secret import SECRET_NAMES
from interlock.model.job import Job
from interlock.model.lane import LaneSpec
from interlock.model.run import Now, Run, RunIds

T = TypeVar("T")
MOST_COMPARED = 10_000  # job names compared with an unknown one to suggest the closest
DEFAULT_LANES = {"main": 30, "subagent": 50, "team": 100, "cron": 30}


class CoreLimits(msgspec.Struct, frozen=True):
    """The core's settings."""

    heartbeat_interval: float = 10.0
    missed_heartbeats: int = 3
    small_payload: int = 256  # bytes up to which a waiting run keeps its payload in memory
    log_lines: int = 10_000  # lines of a run's log, over all attempts
    log_bytes: int = 4 * 1024 * 1024  # bytes of text of these lines
    prerun: float = 10.0  # seconds ahead of its time that an occurrence becomes a run
    lead: float = 0.0  # seconds ahead of its time that an occurrence may go to a worker; half of it is for the commit
    session_patterns: Mapping[str, Mapping[str, Any]] = {}  # pattern of session names → options
    approval_timeout: float = 86_400.0
    remote_policy: bool = False  # whether a service judges runs, and not this process
    policy_fails_open: bool = False  # whether a run may start if that service cannot be reached
    policy_cost: int = 10_000_000  # of the expressions that one pass evaluates; the next pass judges the other runs
    secret_names: tuple[str, ...] = SECRET_NAMES  # words that mark a text as a secret when its name ends in one
    bulk_runs: int = 1000  # runs that bulk requests act on in one pass

    @property
    def silence(self) -> float:
        """Seconds without a heartbeat after which an attempt is lost."""
        return self.heartbeat_interval * self.missed_heartbeats

    @property
    def log_full(self) -> str:
        """The last line of a log that has reached a limit."""
        return f"log is full: {self.log_lines:,} lines or {_size(self.log_bytes)}; further lines are left out"


def _size(count: int) -> str:
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,} bytes"


WAIT, RUNTIME, ATTEMPT_RUNTIME, LATE = "seq", "started_at", "attempt_started_at", "late_since"
"""The kinds of spans: the wait for a delay or a retry, the run time of a run, that of an attempt, and the expected one.
Each is the name of a field of the run; a change of that field voids the span."""

JUMP = 1.0  # least jump of the wall clock, in seconds, that moves the recorded ends of waits
Span = tuple[float, int, str, str, float]  # elapsed time of its end, tie-breaker, run id, kind, value of the field


class Timers:
    """Times at which runs are looked at."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, str]] = []  # (wall time, tie-breaker, run id)
        self.spans: list[Span] = []  # heap; runs also record these ends in wall time, for a restart
        self.unsettled: list[str] = []  # runs to look at in the next step regardless of time
        self.kept = 0  # spans that the last sweep has left
        self.wall_ahead = 0.0  # wall clock minus elapsed time, in the recorded ends of waits


class Numbers(msgspec.Struct):
    """Numbers that only grow."""

    ids: RunIds = msgspec.field(default_factory=RunIds)
    first_fence: int = 0  # after which the fences of new runs and attempts begin
    events: int = 0  # number of the last event of a lane or session; never above its position in the store


class Slices(dict[type, Any]):
    """The memory of each part, by its type. A part that is left out has an empty one."""

    def __missing__(self, kind: type[T]) -> T:
        found = self[kind] = kind()
        return found


class SliceOf(Protocol):
    def __call__(self, kind: type[T], /) -> T: ...


class SchedulerState:
    def __init__(self, machine: Machine, limits: CoreLimits, lanes: Mapping[str, LaneSpec]) -> None:
        self.machine = machine
        self.limits = limits
        self.runs: dict[str, Run] = {}  # every run that has not ended, in the order the store has them
        self.jobs: dict[str, Job] = {}  # the current definitions by id, in order of declaration
        self.versions: dict[str, Job] = {}  # version → definition, for stored versions
        self.lanes = Lanes(lanes)
        self.gates = Gates()
        self.roster = Roster()
        self.timetable = Table()
        self.timers = Timers()
        self.numbers = Numbers()
        self.draining = False
        self.arrival: Callable[[], int] = count(1).__next__  # the next number in the order of everything that queues
        self.slices = Slices((kind, kind()) for kind in machine.slices)
        self.of: SliceOf = self.slices.__getitem__  # the slice of a part, by its type
        self.choose_machine()

    def choose_machine(self) -> None:
        """Take note of what is declared: a part may concern plain runs now."""
        self.machine = self.machine.chosen(self)

    @property
    def has_more(self) -> bool:
        """Whether another pass has something to do even if nothing arrives."""
        return any(has_more(self) for has_more in self.machine.has_more)

    @property
    def workers(self) -> dict[str, Worker]:
        return self.roster.workers

    def job(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None:
            raise unknown_job(job_id, self.jobs)
        return job

    def job_of(self, run: Run) -> Job:
        return self.versions[run.job_version]

    def set_timer(self, when: float, run: Run) -> None:
        heappush(self.timers.heap, (when, self.arrival(), run.id))

    def set_span(self, end: float, run: Run, kind: str) -> None:
        heappush(self.timers.spans, (end, self.arrival(), run.id, kind, getattr(run, kind)))

    def set_alarm(self, end: float, kind: str, name: str) -> None:
        """Set a span that belongs to no run."""
        heappush(self.timers.spans, (end, self.arrival(), name, kind, end))

    def jump(self, now: Now) -> float:
        """Return by how much the wall clock has jumped since the last pass that followed it."""
        jump = now.wall - now.elapsed - self.timers.wall_ahead
        return jump if abs(jump) >= JUMP else 0.0

    def sweep(self) -> None:
        """Drop timers, spans and definitions that no live run needs, once they are the majority."""
        most, timers = 1000 + 4 * len(self.runs), self.timers
        if len(timers.heap) > most:
            timers.heap = [timer for timer in timers.heap if timer[2] in self.runs]
            heapify(timers.heap)
        if len(timers.spans) > max(most, 2 * timers.kept):  # the others may be alarms, which stay
            alarms = self.machine.alarms
            timers.spans = [span for span in timers.spans if span[2] in self.runs or span[3] in alarms]
            heapify(timers.spans)
            timers.kept = len(timers.spans)
        if len(self.versions) > 1000 + 2 * len(self.jobs) + len(self.runs):
            used = {run.job_version for run in self.runs.values()} | {job.version for job in self.jobs.values()}
            self.versions = {version: job for version, job in self.versions.items() if version in used}


def unknown_job(job_id: str, names: Iterable[str]) -> UnknownJob:
    close = get_close_matches(job_id, islice(names, MOST_COMPARED), 1)
    return UnknownJob(job_id, close[0] if close else None)
