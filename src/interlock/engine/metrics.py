"""Counts and histograms of what was committed, and what they look like to Prometheus.

A pass adds to them in a few sweeps that count equal things together: at full load a run has forty microseconds for
everything. No label is ever a run's id; there are only so many jobs, lanes, states and error codes.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter

from interlock.core.decisions import Decisions
from interlock.core.state import Limits, SchedulerState
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch
from interlock.model.exposition import Family
from interlock.model.message import Dispatch
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State
from interlock.ports.clock import Clock

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
FRESH = 0.1
"""seconds for which metrics are told again as they are"""
ROWS = (1, 10, 100, 1000, 10_000)

Sample = tuple[str, dict[str, str], float]

MOST_JOBS = 1000
"""that are told apart; the others are counted together"""
OTHERS = "(others)"

_JOB_OF_ROW = itemgetter(Run.__struct_fields__.index("job_id"))
_JOB = attrgetter("job_id")
_ENDED = attrgetter("job_id", "state", "started_at")
_STATE = attrgetter("state")
_PAUSED = attrgetter("paused")


class Histogram:
    """How often a value fell between which bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        # The wall clock may have been set back in between.
        value = max(0.0, value)
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def samples(self, labels: Mapping[str, str]) -> list[Sample]:
        found: list[Sample] = []
        count = 0
        for bound, one in zip((*map(_number, self.bounds), "+Inf"), self.counts, strict=True):
            count += one
            found.append(("_bucket", {**labels, "le": bound}, float(count)))
        return [*found, ("_sum", dict(labels), self.total), ("_count", dict(labels), float(count))]


class Metrics:
    """Counts since the start, and the latest runs that ended."""

    def __init__(self) -> None:
        self.commits = 0
        self.by_job: dict[str, dict[str, int]] = {}
        """job → state → how many runs ended so"""
        self.recent: list[Run] = []
        self._received: Counter[str] = Counter()
        self._dispatched: Counter[str] = Counter()
        self._retried: Counter[str] = Counter()
        self._crashed: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._latency = Histogram(SECONDS)
        self._lag = Histogram(SECONDS)
        self._jobs: set[str] = set()
        """those that have a label of their own"""
        self._missed: Counter[str] = Counter()
        self._durations: dict[str, Histogram] = {}
        self._commit_seconds = Histogram(SECONDS)
        self._commit_rows = Histogram(ROWS)
        self._dead_letters = 0
        self.ended_total = 0
        self._pruned = 0
        self._behind = 0.0
        self._recoveries = 0
        self._leases_lost = 0
        self._state = SchedulerState(Limits(), {})
        self._stale_before = 0
        """messages that were stale in the states before this one"""
        self._dropped_before = 0
        self._families: list[Family] = []
        self._was_available = False
        self._fresh_until = 0.0

    @property
    def submitted(self) -> int:
        return self._received.total()

    @property
    def ended(self) -> dict[str, int]:
        """State → how many runs ended so."""
        found: dict[str, int] = {}
        for states in self.by_job.values():
            for state, count in states.items():
                found[state] = found.get(state, 0) + count
        return found

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, state: SchedulerState) -> None:
        """The scheduler goes on with this state, rebuilt from the store."""
        self._stale_before += self._state.stale_messages
        self._dropped_before += self._state.log_lines_dropped
        self._state = state

    def failed(self, error: InterlockError) -> None:
        """The state is void and has to be rebuilt, for this reason."""
        self._recoveries += 1
        if isinstance(error, (LeaseLost, StaleEpoch)):
            self._leases_lost += 1

    def refused(self, code: str) -> None:
        """A submit was refused."""
        self._refused[code] += 1

    def pruned(self, runs: int, behind: float) -> None:
        """Count pruned runs, and note for how many seconds pruning has been behind."""
        self._pruned += runs
        self._behind = behind

    def add(self, decisions: Decisions, seconds: float) -> None:
        """These decisions are stored; it took so long."""
        batch = decisions.batch
        if batch:
            self.commits += 1
            self._commit_seconds.add(seconds)
            runs = len(batch.created) + sum(map(len, batch.updated.values())) + len(batch.history) + len(batch.logs)
            self._commit_rows.add(runs + len(batch.kept) + len(batch.service_log))
        if batch.created:
            self._received.update(self._labels(map(_JOB_OF_ROW, batch.created)))
        if decisions.sends:
            self._add_dispatched(decisions)
        if decisions.ended:
            self._add_ended(decisions.ended)
        if decisions.retried:
            self._retried.update(self._labels(map(_JOB, decisions.retried)))
        if decisions.crashed:
            self._crashed.update(self._labels(map(_JOB, decisions.crashed)))
        for lag in decisions.lags:
            self._lag.add(lag)
        self._dead_letters += len(batch.dead_letters)

    def _labels(self, job_ids: Iterable[str]) -> list[str]:
        """What jobs are called: there may be a million of them, and a label for each would help nobody."""
        known = self._jobs
        found = []
        for job_id in job_ids:
            if job_id not in known:
                if len(known) >= MOST_JOBS:
                    job_id = OTHERS
                known.add(job_id)
            found.append(job_id)
        return found

    def _add_dispatched(self, decisions: Decisions) -> None:
        out = [one for messages in decisions.sends.values() for one in messages if type(one) is Dispatch]
        if not out:
            return
        self._dispatched.update(self._labels(map(_JOB, out)))
        # All of a pass happens at one time, and most of its runs were due at few: a look at each time is enough.
        now = decisions.now
        for due, count in Counter([one.scheduled_at for one in out if one.attempt == 1]).items():
            self._latency.add(now - due, count)

    def _add_ended(self, ended: Sequence[Run]) -> None:
        self.ended_total += len(ended)
        now = ended[-1].ended_at
        for (job_id, state, started_at), count in Counter(map(_ENDED, ended)).items():
            (job_id,) = self._labels((job_id,))
            states = self.by_job.setdefault(job_id, {})
            states[state] = states.get(state, 0) + count
            if started_at is not None and now is not None:
                if job_id not in self._durations:
                    self._durations[job_id] = Histogram(SECONDS)
                self._durations[job_id].add(now - started_at, count)
            if state is State.SKIPPED:
                self._missed[job_id] += count
        self.recent = [*self.recent, *ended[-8:]][-8:]

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────

    def latest(self, clock: Clock, *, available: bool, position: int) -> list[Family]:
        """The families, made anew as often as takes a hundredth of the time, however many runs have to be counted."""
        now = clock.now().elapsed
        if now >= self._fresh_until or available != self._was_available:
            self._families = self.families(available=available, position=position)
            self._was_available = available
            self._fresh_until = now + max(FRESH, 100 * (clock.now().elapsed - now))
        return self._families

    def families(self, *, available: bool, position: int) -> list[Family]:
        state = self._state
        workers = [worker for worker in state.workers.values() if worker.connected]
        lanes = state.lanes.values()
        found = Counter(map(_STATE, state.runs.values()))
        live = {str(one): found[one] for one in State if one not in TERMINAL}
        ended = [
            ({"job": job_id, "state": one}, count)
            for job_id, states in self.by_job.items()
            for one, count in states.items()
        ]
        durations = [
            sample for job_id, histogram in self._durations.items() for sample in histogram.samples({"job": job_id})
        ]
        return [
            _counter("runs_received_total", "Runs that were created.", _by("job", self._received)),
            _counter("runs_dispatched_total", "Attempts handed to a worker.", _by("job", self._dispatched)),
            _counter("runs_completed_total", "Runs that have ended, by the state they ended in.", ended),
            _counter("runs_retried_total", "Failed attempts that are tried again.", _by("job", self._retried)),
            _counter("runs_crashed_total", "Attempts lost with their process or worker.", _by("job", self._crashed)),
            _counter("submits_refused_total", "Submits that were refused.", _by("code", self._refused)),
            _counter("runs_pruned_total", "Runs that were pruned.", [({}, self._pruned)]),
            _gauge(
                "pruning_behind_seconds",
                "For how long more runs than may be kept have been stored; 0 while pruning keeps up.",
                [({}, self._behind)],
            ),
            _counter("dead_letters_total", "Runs put among the dead letters.", [({}, self._dead_letters)]),
            _histogram(
                "dispatch_latency_seconds",
                "From when a run is due until its first attempt is handed to a worker.",
                self._latency.samples({}),
            ),
            _histogram(
                "schedule_lag_seconds",
                "From the time of an occurrence until it goes on, or has its turn.",
                self._lag.samples({}),
            ),
            _counter(
                "occurrences_skipped_total", "Occurrences that were missed or not wanted.", _by("job", self._missed)
            ),
            _gauge("schedules", "Jobs that have a schedule.", [({}, len(state.timetable.entries))]),
            _gauge(
                "schedules_paused",
                "Those that are paused.",
                [({}, sum(map(_PAUSED, state.timetable.entries.values())))],
            ),
            _histogram("run_duration_seconds", "From a run's first start to its end.", durations),
            _histogram("commit_duration_seconds", "How long a commit takes.", self._commit_seconds.samples({})),
            _histogram("commit_rows", "Rows in a commit.", self._commit_rows.samples({})),
            _gauge("runs_live", "Runs that have not ended.", _by("state", live)),
            _gauge("lane_active", "Runs that hold a slot.", [({"lane": one.name}, len(one.holding)) for one in lanes]),
            _gauge("lane_limit", "Slots.", [({"lane": one.name}, one.limit) for one in lanes]),
            _gauge(
                "lane_waiting", "Runs that wait for a slot.", [({"lane": one.name}, one.waiting()) for one in lanes]
            ),
            _gauge("workers", "Workers that are connected.", [({}, len(workers))]),
            _gauge("worker_slots", "Attempts they take.", [({}, sum(one.slots for one in workers))]),
            _gauge("worker_attempts", "Attempts they have.", [({}, sum(len(one.attempts) for one in workers))]),
            _counter(
                "stale_messages_total",
                "Messages of attempts that are no longer the live one.",
                [({}, self._stale_before + state.stale_messages)],
            ),
            _counter(
                "log_lines_dropped_total",
                "Log lines left out because a run's log was full.",
                [({}, self._dropped_before + state.log_lines_dropped)],
            ),
            _counter("leases_lost_total", "Times the scheduler lost its lease.", [({}, self._leases_lost)]),
            _counter("recoveries_total", "Times the state was thrown away and rebuilt.", [({}, self._recoveries)]),
            _gauge("store_available", "Whether the store works: 1 or 0.", [({}, int(available))]),
            _gauge("store_position", "The position of the latest entry in the store.", [({}, position)]),
        ]


def _number(value: float) -> str:
    return f"{value:g}"


Values = Iterable[tuple[dict[str, str], float]]


def _by(label: str, counts: Mapping[str, int]) -> Values:
    return [({label: key}, count) for key, count in counts.items()]


def _family(name: str, kind: str, text: str, values: Values) -> Family:
    return Family(f"interlock_{name}", kind, text, [("", labels, float(value)) for labels, value in values])


def _counter(name: str, text: str, values: Values) -> Family:
    return _family(name, "counter", text, values)


def _gauge(name: str, text: str, values: Values) -> Family:
    return _family(name, "gauge", text, values)


def _histogram(name: str, text: str, samples: list[Sample]) -> Family:
    return Family(f"interlock_{name}", "histogram", text, samples)
