"""The question a forecast answers, and its answer: jobs, lanes, notable findings, every run."""

from collections.abc import Mapping

import msgspec

from interlock.error import BadInput
from interlock.fields.json_form import Time
from interlock.model.lane import LaneSpec
from interlock.model.state import State
from interlock.model.tenant import TenantSpec

LANE, TENANT, WORKER, PREVIOUS, CONSTRAINTS = "lane", "tenant", "worker", "previous run", "constraints"
"""causes of the wait of a due run: a slot of its lane, the limit of its tenant, room on a worker, the job's previous
run, its constraints"""


class Length(msgspec.Struct, frozen=True):
    """How long the runs of a job last."""

    seconds: float
    source: str  # where that figure comes from, in words


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    start: float
    until: float
    lanes: Mapping[str, LaneSpec]
    lengths: dict[str, Length]  # for every job
    tenants: Mapping[str, TenantSpec] = {}
    workers: int = 1
    slots: int = 64
    processes: int = 2
    failing: frozenset[str] = frozenset()  # jobs whose every attempt fails


class RunForecast(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One occurrence."""

    id: str
    job_id: str
    nominal_at: Time  # scheduled time, without jitter
    due_at: Time
    started_at: Time | None
    ended_at: Time | None  # null if it still ran when the forecast stopped
    state: State
    reason: str
    attempts: int
    waited: float  # seconds from due to started
    waited_for: str | None  # cause of most of that wait: lane, tenant, worker, previous run or constraints
    beside: int  # other runs of the job that were running when it started

    @property
    def is_missed(self) -> bool:
        return self.state is State.SKIPPED


class JobForecast(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    schedule: str
    lane: str
    length: Length
    max_concurrent_runs: int | None
    runs: int  # occurrences, missed ones included
    states: dict[str, int]  # final state → runs
    missed: int
    overlaps: int  # runs that started while another of the job was running
    most_at_once: int
    waited: int  # runs that started late
    longest_wait: float
    longest_wait_at: Time | None
    waited_for: dict[str, int]  # cause → runs that waited
    busy: float  # seconds of all its runs together


class LaneForecast(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    limit: int
    most: int  # peak number of running runs
    most_at: Time | None  # first time of that peak
    full: float  # seconds without a free slot


class Notable(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one job with the same trouble."""

    job_id: str
    what: str  # missed, skipped, waited, overlap, or an unsuccessful state
    count: int
    first_at: Time
    last_at: Time
    text: str


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    start: float
    until: float
    jobs: list[JobForecast]  # jobs with a schedule, and those that their actions ran, in order of declaration
    lanes: list[LaneForecast]  # lanes that had runs
    notable: list[Notable]
    runs: list[RunForecast]  # in the order in which they are due


class TooManyRuns(BadInput, code="bad_value"):
    """The forecast would have too many runs."""

    def __init__(self, count: int, limit: int, job_id: str, most: int) -> None:
        super().__init__(
            f"--for: about {count:,} runs are more than {limit:,}, and {job_id!r} alone has about {most:,}; "
            "shorten the time, or leave that job out"
        )
