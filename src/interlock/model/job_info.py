"""What is shown of jobs and of the timetable: the same values from Python, over HTTP and on the command line."""

import msgspec

from interlock.model.schedule import Schedule
from interlock.model.state import State


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands. Times are seconds since 1970."""

    id: str
    source: str
    """where it is declared: `file.yaml:12`, `python`, or `api`"""
    kind: str
    """how it is run: `handler` (a function of the app), `function` or `process`"""
    command: str | None
    """what it runs, in words; null for a function of the app"""
    lane: str
    version: str
    max_concurrent_runs: int
    schedule: Schedule | None
    schedule_text: str | None
    """the same in words"""
    paused: bool
    next_at: float | None
    """when it fires next; null if it does not, or is paused"""
    live: int = 0
    """runs that have not ended, where they were asked for"""
    last_run: "LastRun | None" = None
    """the newest that has begun or ended, where it was asked for"""


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: State
    reason: str
    scheduled_at: float
    ended_at: float | None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of their declaration."""

    jobs: list[JobInfo]
    next: str | None
    """the cursor of the page that follows; null on the last"""


class FireTimes(msgspec.Struct, frozen=True, kw_only=True):
    times: list[float]
    """in order; fewer than asked for if there are no more"""


class JobTimes(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    times: list[float]
    more: bool
    """whether it fires more often than is told here"""


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """What fires from `now` until `until`; those jobs come first that fire first."""

    now: float
    until: float
    jobs: list[JobTimes]
    left_out: int
    """jobs that fire too, and would have been too many"""


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    created: list[str]
    """ids of the new runs"""
    existing: list[str]
    """ids of runs that those occurrences have already, and that were left as they are"""


class LoggedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a job's log."""

    id: str
    state: State
    reason: str
    origin: str
    scheduled_at: float
    started_at: float | None
    ended_at: float | None
    attempt: int
    exit_code: int | None
    error: str | None
    output: str
    """what it printed and logged; of much, the beginning, and a mark where it is cut"""
    cut: bool


class JobLog(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a job, the newest first."""

    runs: list[LoggedRun]
