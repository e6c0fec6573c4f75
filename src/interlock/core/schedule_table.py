"""What is kept in memory of schedules: when each job fires next, and which of its occurrences hold up the others."""

from collections import deque
from heapq import heapify, heappush
from typing import TYPE_CHECKING

import msgspec

from interlock.core.fire_times import following
from interlock.model.job import Job
from interlock.model.run import CATCH_UP, SCHEDULE, Run, parallel_of
from interlock.model.schedule import Schedule
from interlock.model.state import State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState

ScheduleRow = tuple[str, str, float, float, float | None, bool, bool, float]
"""As it is stored: job, what its times are made of, anchor, cursor, next time, whether it is paused, whether it is
done, and up to which time it may have runs, of this schedule or of another. Of a job that is not there any more all
that is left is that it is paused, if it is."""

FEW_QUEUES = 10
"""of a lane that is quickly looked through; one with more of them is busy"""
GONE = ""
"""in place of what its times are made of, for a job that is not there any more"""


class Entry(msgspec.Struct, gc=False):
    """One scheduled job in the timetable. Times are nominal: without the job's place within the jitter."""

    job: Job
    order: int
    """its place among those that fire at the same time"""
    anchor: float
    """when the job was first known with this schedule"""
    cursor: float
    """up to here everything is a run"""
    next: float | None
    """the first time after that; None if there is none"""
    paused: bool = False
    done: bool = False
    """its one run has ended, and it is not to be kept"""
    reached: float = 0.0
    """up to here there may be runs: of the schedule it had before, or from when the clock was ahead"""

    @property
    def schedule(self) -> Schedule:
        assert self.job.schedule is not None
        return self.job.schedule

    @property
    def fires_at(self) -> float | None:
        """The next time that it really fires."""
        if self.next is None or self.paused:
            return None
        # The very number where nothing is added to it: it is kept twice for each of very many.
        return self.next if not self.schedule.jitter else self.next + self.schedule.offset(self.job.id)

    def row(self) -> ScheduleRow:
        identity = self.schedule.identity
        return self.job.id, identity, self.anchor, self.cursor, self.next, self.paused, self.done, self.reached


class Series:
    """The occurrences of one job, or of one backfill of it, of which only so many may be live at once."""

    __slots__ = ("live", "waiting")

    def __init__(self) -> None:
        self.live: set[str] = set()
        """those that are due, and have not ended"""
        self.waiting: deque[Run] = deque()
        """those whose time has come, in prerun still; one that has ended meanwhile is met and dropped later"""


class Table:
    """Every scheduled job. What it costs grows with what is due, not with what is there."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.heap: list[tuple[float, int, str]] = []
        """when a job fires, its order, its id; one that does not fit its entry any more is dropped when it is met"""
        self.ahead: dict[str, list[Run]] = {}
        """job → those of its occurrences whose time has not come"""
        self.rows: dict[str, ScheduleRow] = {}
        """what the store has of jobs that are not defined, or not yet"""
        self.unsure: dict[str, list[str]] = {}
        """job → ids of runs that may exist and are not live: the next pass needs their states"""
        self.recorded = 0
        """how many missed occurrences were recorded one by one, since there were none"""
        self.wall = 0.0
        """the time of the last pass"""
        self.orders = 0

    def place(self, entry: Entry) -> None:
        """Have it looked at when its next time is near."""
        fires_at = entry.fires_at
        if fires_at is None:
            return
        heappush(self.heap, (fires_at, entry.order, entry.job.id))
        if len(self.heap) > 1000 + 2 * len(self.entries):
            # Most do not fit any more, and may not be met for years.
            self.rebuild()

    def fits(self, item: tuple[float, int, str]) -> Entry | None:
        entry = self.entries.get(item[2])
        if entry is None or entry.order != item[1]:
            return None
        return entry if entry.fires_at == item[0] else None

    def rebuild(self) -> None:
        """The heap made anew, for many entries at once."""
        found = ((entry.fires_at, entry) for entry in self.entries.values())
        self.heap = [(at, entry.order, entry.job.id) for at, entry in found if at is not None]
        heapify(self.heap)

    def leave(self, run: Run) -> None:
        """A run's time has come, or will not come."""
        ahead = self.ahead.get(run.job_id)
        if ahead is not None and run in ahead:
            ahead.remove(run)
            if not ahead:
                del self.ahead[run.job_id]


def series_of(series: dict[tuple[str, str], Series], run: Run) -> Series | None:
    """The one that a run belongs to, made if it is not there; None for a run that is beside all schedules."""
    key = series_key(run)
    if key is None:
        return None
    found = series.get(key)
    if found is None:
        found = series[key] = Series()
    return found


def series_key(run: Run) -> tuple[str, str] | None:
    if run.origin in (SCHEDULE, CATCH_UP):
        return run.job_id, ""
    if parallel_of(run.origin) is not None:
        return run.job_id, str(run.origin)
    return None


def goes_early(state: "SchedulerState", run: Run) -> bool:
    """Whether a run may be handed over ahead of its time: an occurrence that has to wait for nothing else, and nobody
    for it: while it waits at its worker it holds a slot."""
    if run.state is not State.PRERUN or run.origin != SCHEDULE or run.due_at is None or state.draining:
        return False
    lane = state.lanes[run.lane]
    if len(lane.queues) > FEW_QUEUES or 2 * (len(lane.holding) + lane.waiting()) >= lane.limit:
        return False
    series, job = state.series.get((run.job_id, "")), state.jobs.get(run.job_id)
    return series is None or (job is not None and len(series.live) < job.max_concurrent_runs)


def has_passed(entry: Entry, at: float) -> bool:
    """Whether this second is one of the schedule's times, and has had its turn."""
    found = following(entry.schedule, entry.anchor, int(at) - 1e-6)
    return found is not None and int(found) == int(at) and entry.anchor <= found <= entry.cursor
