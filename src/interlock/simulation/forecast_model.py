"""What a forecast is made from, and what it says: jobs, lanes, what is worth a look, and every run."""

import msgspec

from interlock.model.error import InterlockError
from interlock.model.state import State

LANE, WORKER, PREVIOUS = "lane", "worker", "previous run"
"""what a run may wait for once it is due: a slot of its lane, room on a worker, or the job's run before it"""


class Length(msgspec.Struct, frozen=True):
    """How long the runs of a job are taken to last."""

    seconds: float
    source: str
    """how that is known, for people"""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings in which the jobs are to run."""

    start: float
    until: float
    lanes: dict[str, int]
    lengths: dict[str, Length]
    """of every job"""
    workers: int = 1
    slots: int = 64
    processes: int = 2
    failing: frozenset[str] = frozenset()
    """jobs of which every attempt fails"""


class RunForecast(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One occurrence. Times are seconds since 1970."""

    id: str
    job_id: str
    nominal_at: float
    """as the schedule has it"""
    due_at: float
    """the same with the job's jitter"""
    started_at: float | None
    ended_at: float | None
    """null if it still ran when the forecast stopped looking"""
    state: State
    reason: str
    attempts: int
    waited: float
    """seconds from when it was due until it began"""
    waited_for: str | None
    """what took most of them: lane, worker or previous run"""
    beside: int
    """how many other runs of the job were going on as it began"""


class JobForecast(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    schedule: str
    lane: str
    length: Length
    max_concurrent_runs: int
    runs: int
    """its occurrences, whatever became of them"""
    states: dict[str, int]
    """how they ended, or stood at the end"""
    missed: int
    overlaps: int
    """runs that began while another of the job was going on"""
    most_at_once: int
    waited: int
    """runs that began later than they were due"""
    longest_wait: float
    longest_wait_at: float | None
    waited_for: dict[str, int]
    """what for, and how many"""
    busy: float
    """seconds that its runs took together"""


class LaneForecast(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    limit: int
    most: int
    """how many ran at once at the most"""
    most_at: float | None
    """when that was first so"""
    full: float
    """seconds for which there was no slot left"""


class Notable(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to a job and may not be wanted, counted together."""

    job_id: str
    what: str
    """missed, waited, overlap, or a state in which runs end that do not succeed"""
    count: int
    first_at: float
    last_at: float
    text: str


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    start: float
    until: float
    jobs: list[JobForecast]
    """in order of declaration, those without a schedule left out"""
    lanes: list[LaneForecast]
    """those that were used"""
    notable: list[Notable]
    runs: list[RunForecast]
    """by the time at which they are due"""


class TooManyRuns(InterlockError):
    code = "bad_value"

    def __init__(self, count: int, limit: int, job_id: str, most: int) -> None:
        super().__init__(
            f"--for: about {count:,} runs are more than {limit:,}; {job_id!r} alone has about {most:,}: "
            "take a shorter time, or leave that job out"
        )
