"""Schedules in memory: the fire times of each job, and the occurrences that others wait for."""

from collections import deque
from heapq import heapify, heappush
from math import floor
from typing import TYPE_CHECKING

import msgspec

from interlock.model.job import Job
from interlock.model.run import CATCH_UP, SCHEDULE, Run, parallel_of
from interlock.model.schedule.cron import NeverAgain, cron_of
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState

ScheduleRow = tuple[str, str, float, float, float | None, bool, bool, float]  # from `Entry.row`
GONE = ""  # identity in the row of a removed job, which keeps only its pause


class TimetableEntry(msgspec.Struct, gc=False):
    """A scheduled job in the timetable. Times are nominal, without the job's offset within the jitter."""

    job: Job
    order: int  # rank among jobs that fire at the same time
    anchor: float  # first declaration of the job with this schedule
    cursor: float  # last time whose run exists, with all before
    next: float | None  # the first time after the cursor, if any
    paused: bool = False
    done: bool = False  # its one run has ended, and the job is not kept
    reached: float = 0.0  # last time that may have a run of an earlier schedule, or from a clock that was ahead

    @property
    def schedule(self) -> Schedule:
        assert self.job.schedule is not None
        return self.job.schedule

    @property
    def fires_at(self) -> float | None:
        """The next time with the offset; None while paused."""
        if self.next is None or self.paused:
            return None
        # Without jitter, return the same object: very many entries hold it twice.
        return self.next if not self.schedule.jitter else self.next + self.schedule.offset(self.job.id)

    def row(self) -> ScheduleRow:
        identity = self.schedule.identity
        return self.job.id, identity, self.anchor, self.cursor, self.next, self.paused, self.done, self.reached


class Series(msgspec.Struct, eq=False):
    """The occurrences of a job, or of one of its backfills, that share a limit on live runs."""

    live: set[str] = set()  # due and not ended
    waiting: deque[Run] = msgspec.field(default_factory=deque)  # due but still in prerun; some may have ended


class Table:
    """Every scheduled job. The cost of a pass grows with what is due, not with the number of jobs."""

    def __init__(self) -> None:
        self.entries: dict[str, TimetableEntry] = {}
        self.heap: list[tuple[float, int, str]] = []  # heap of (fire time, order, job); may contain stale items
        self.ahead: dict[str, list[Run]] = {}  # job → its occurrences created ahead
        self.series: dict[tuple[str, str], Series] = {}  # (job, its backfill or nothing) → live and waiting runs
        self.rows: dict[str, ScheduleRow] = {}  # stored rows of jobs that are not defined, or not yet
        self.unsure: dict[str, list[str]] = {}  # job → possible runs whose states the next pass needs
        self.recorded = 0  # missed occurrences recorded one by one in an unbroken sequence of passes
        self.wall = 0.0  # latest wall time since the clock was last set back
        self.orders = 0
        self.created = 0  # runs that this pass has created
        self.restored_at = 0.0  # wall time of the last restore of the store

    def place(self, entry: TimetableEntry) -> None:
        """Add the next fire time of an entry to the heap."""
        fires_at = entry.fires_at
        if fires_at is None:
            return
        heappush(self.heap, (fires_at, entry.order, entry.job.id))
        if len(self.heap) > 1000 + 2 * len(self.entries):
            # Most items are stale, and may stay for years.
            self.rebuild()

    def fits(self, item: tuple[float, int, str]) -> TimetableEntry | None:
        """Return the entry of an item unless the item is stale."""
        entry = self.entries.get(item[2])
        return entry if entry is not None and (entry.fires_at, entry.order) == item[:2] else None

    def rebuild(self) -> None:
        """Rebuild the heap, for many entries at once."""
        found = ((entry.fires_at, entry) for entry in self.entries.values())
        self.heap = [(at, entry.order, entry.job.id) for at, entry in found if at is not None]
        heapify(self.heap)

    def leave(self, run: Run) -> None:
        """Remove a run from those created ahead."""
        ahead = self.ahead.get(run.job_id)
        if ahead is not None and run in ahead:
            ahead.remove(run)
            if not ahead:
                del self.ahead[run.job_id]


def series_of(series: dict[tuple[str, str], Series], run: Run) -> Series | None:
    """Return the series of a run, making it if needed; None for a run beside all schedules."""
    key = series_key(run)
    return None if key is None else series.get(key) or series.setdefault(key, Series())


def series_key(run: Run) -> tuple[str, str] | None:
    if run.origin in (SCHEDULE, CATCH_UP):
        return run.job_id, ""
    return None if parallel_of(run.origin) is None else (run.job_id, str(run.origin))


def goes_early(state: "SchedulerState", run: Run) -> bool:
    """Return whether a run may go to a worker early. It holds a slot while it waits there, so it must be an occurrence
    that waits for nothing but its time, in an open lane without a rate that is less than half full."""
    if run.state is not State.PRERUN or run.origin != SCHEDULE or run.due_at is None or state.draining:
        return False
    lane = state.lanes[run.lane]
    if lane.rate is not None or not lane.has_slot or 2 * (len(lane.holding) + lane.waiting) >= lane.limit:
        return False
    series, job = state.timetable.series.get((run.job_id, "")), state.jobs.get(run.job_id)
    if job is None or job.constraints.before:
        return False
    return series is None or len(series.live) < job.occurrences_at_once


def first_time(schedule: Schedule, now: float) -> float | None:
    """Return the first fire time of a schedule declared now."""
    if schedule.cron is not None:
        return following(schedule, now, now)
    return schedule.at if schedule.at is not None else now + schedule.wait


def following(schedule: Schedule, anchor: float, after: float) -> float | None:
    """Return the first fire time later than `after`, or None."""
    if schedule.every is not None:
        first, every = anchor + schedule.wait, schedule.every
        # Count from the anchor each time, so that no error adds up; the loops correct a rounded division.
        count = floor((after - first) / every) + 1
        while first + (count - 1) * every > after:
            count -= 1
        while first + count * every <= after:
            count += 1
        return first + count * every
    if schedule.cron is not None:
        try:
            return cron_of(schedule.cron, schedule.zone).after(after)
        except NeverAgain:
            return None
    only = schedule.at if schedule.at is not None else anchor + schedule.wait
    return only if only > after else None


def times_between(schedule: Schedule, anchor: float, start: float, end: float, most: int) -> list[float]:
    """Return the fire times from `start` up to but not including `end`, in order; `most + 1` if there are more."""
    found: list[float] = []
    at = following(schedule, anchor, start - 1e-6)
    while at is not None and at < end and len(found) <= most:
        found.append(at)
        at = following(schedule, anchor, at)
    return found


def newest_between(schedule: Schedule, anchor: float, start: float, end: float, most: int) -> list[float]:
    """Return the newest `most` fire times from `start` up to and including `end`, in order."""
    if most <= 0 or start > end:
        return []
    # Most schedules fire far less often than this maximum: look back farther until there are enough.
    span = (schedule.every or 60.0) * (most + 1)
    while True:
        begin = max(start, end - span)
        found: deque[float] = deque(maxlen=most)
        at = following(schedule, anchor, begin - 1e-6)
        while at is not None and at <= end:
            found.append(at)
            at = following(schedule, anchor, at)
        if begin == start or len(found) == most:
            return list(found)
        span *= 8
