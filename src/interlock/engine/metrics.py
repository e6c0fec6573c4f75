"""Counts and histograms of committed decisions, as families for Prometheus.

A pass adds to them in a few sweeps that count equal values together: at full load, a run has forty microseconds in
all. Labels are jobs, topics, lanes, pools, declared tenants, states and error codes, never ids of runs or workers.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from interlock.core.attempts.log_table import Logs
from interlock.core.attempts.silence import Silence
from interlock.core.decisions import Decisions
from interlock.core.output import Scans
from interlock.core.policy.judge_state import Judging
from interlock.core.routing.roster import Worker
from interlock.core.routing.workers import state_of
from interlock.core.sessions.session import Sessions
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.step import new_state
from interlock.core.tenants.limits import runs_of
from interlock.core.tenants.tenant import Tenants
from interlock.core.workflows.flow import Flows
from interlock.error import InterlockError, LeaseLost, StaleEpoch
from interlock.model.exposition import Family
from interlock.model.letter import DeadLetter
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State
from interlock.ports.clock import Clock
from interlock.wire.message import Dispatch

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
FRESH = 0.1  # seconds for which computed metrics are reused
ROWS = (1, 10, 100, 1000, 10_000)
Sample = tuple[str, dict[str, str], float]
Labelled = tuple[str, str, str, Mapping[Any, float]]  # name, text, labels, and value by their values
MOST_JOBS = 1000  # jobs and topics with a label of their own; the others share one
OTHERS = "(others)"

COUNTERS = {
    "runs_received_total": ("Runs that were created.", "topic"),
    "runs_dispatched_total": ("Attempts dispatched to a worker.", "topic"),
    "runs_retried_total": ("Failed attempts that were retried.", "job"),
    "runs_crashed_total": ("Attempts lost with their process or worker.", "job"),
    "runs_completed_total": ("Runs that ended, by their final state.", "topic status"),
    "runs_denied_total": ("Runs that the policy or a person denied.", "topic"),
    "runs_pruned_total": ("Runs that were pruned.", ""),
    "replays_total": ("Ended runs that were run again, from dead letters or not.", ""),
    "constraints_checked_total": ("Constraints that ended runs have checked.", ""),
    "constraints_violated_total": ("Violations of constraints, and checks and actions that failed.", "constraint"),
    "actions_total": ("Actions on violations that ended runs have carried out.", ""),
    "actions_failed_total": ("Those that failed.", ""),
    "deliveries_total": ("Webhooks by event: owed, retried, delivered, failed.", "event"),
    "input_fail_open_total": ("Runs that started without a verdict: the policy was out of reach.", "topic"),
    "policy_unavailable_total": ("Questions that the policy service gave no verdict on.", "topic"),
    "verdicts_total": ("Verdicts of the policy other than a plain allow.", "topic decision"),
    "rule_verdicts_total": (
        "Verdicts of the policy by rule, plain allows too; the default has no rule.",
        "rule decision",
    ),
    "stale_runs_total": ("Runs that the scheduler had missed, by their state.", "state"),
    "orphan_replayed_total": ("The same runs, put back by a sweep.", "topic"),
    "dead_letters_total": ("Dead letters by reason code.", "reason"),
    "submits_refused_total": ("Submits that were refused.", "code"),
    "occurrences_skipped_total": ("Occurrences that were skipped.", "job"),
    "dispatch_waits_total": ("Tries that found no worker.", "reason"),
    "pool_dispatches_total": ("Attempts dispatched to workers.", "pool"),
    "output_checked_total": ("Results that the output policy checked.", "topic phase"),
    "output_quarantined_total": ("Results that were quarantined.", "topic phase"),
    "output_skipped_total": ("Results that could not be scanned.", "topic phase"),
    "saga_recorded_total": ("Compensations recorded by the success of their steps.", ""),
    "saga_rollbacks_total": ("Rollbacks of workflows.", ""),
    "saga_compensations_dispatched_total": ("Compensations that were made.", ""),
    "saga_compensations_failed_total": ("Compensations that did not succeed.", ""),
    "saga_unreadable_total": ("Compensations that could not be made.", ""),
    "leases_lost_total": ("Times the scheduler lost its lease.", ""),
    "lease_waits_total": ("Tries for the lease while another scheduler had it.", ""),
    "recoveries_total": ("Times the state was rebuilt from the store.", ""),
}
"""text and labels of everything that is counted; `Pass.count` counts for the core"""
MANY = ("job", "topic", "pool")  # labels with any number of values

_JOB_OF_ROW = itemgetter(Run.__struct_fields__.index("job_id"))
_JOB = attrgetter("job_id")
_ENDED = attrgetter("job_id", "state", "started_at")


class Histogram:
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
        for bound, own in zip((*(f"{bound:g}" for bound in self.bounds), "+Inf"), self.counts, strict=True):
            count += own
            found.append(("_bucket", {**labels, "le": bound}, float(count)))
        return [*found, ("_sum", dict(labels), self.total), ("_count", dict(labels), float(count))]


class Metrics:
    def __init__(self, circuit_state: Callable[[], int] = lambda: 0) -> None:
        """`circuit_state` is that of the circuit to the policy service."""
        self.commits = 0
        self.by_job: dict[str, Counter[str]] = defaultdict(Counter)  # job → final state → runs
        self.recent: list[Run] = []
        self._counts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)  # counter → values of its labels
        self._latency: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # topic → seconds
        self._topics: dict[str, str] = {}  # job → topic that its runs count for
        self._circuit_state = circuit_state
        self._lag = Histogram(SECONDS)
        self._labels: set[str] = set()  # jobs, topics and pools with a label of their own
        self._output: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # phase → seconds of its checks
        self._durations: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._commit_seconds = Histogram(SECONDS)
        self._rollbacks = Histogram(SECONDS)
        self._commit_rows = Histogram(ROWS)
        self.ended_total = 0
        self._behind = 0.0
        self._state = new_state(CoreLimits(), {})
        self._stale_before = 0  # stale messages of the states before this one
        self._dropped_before = 0
        self._families: list[Family] = []
        self._was_available = False
        self._fresh_until = 0.0

    @property
    def submitted(self) -> int:
        return self._counts["runs_received_total"].total()

    @property
    def ended(self) -> dict[str, int]:
        """Final state → runs."""
        return sum(self.by_job.values(), Counter())

    def begin(self, state: SchedulerState) -> None:
        """Read gauges from this state from now on; its counts continue the previous ones."""
        self._stale_before += self._state.of(Silence).stale_messages
        self._dropped_before += self._state.of(Logs).dropped
        self._state = state

    def failed(self, error: InterlockError) -> None:
        self.count("recoveries_total")
        if isinstance(error, (LeaseLost, StaleEpoch)):
            self.count("leases_lost_total")

    def pruned(self, runs: int, behind: float) -> None:
        """Count pruned runs, and note for how many seconds pruning has been behind."""
        self.count("runs_pruned_total", by=runs)
        self._behind = behind

    def add(self, decisions: Decisions, seconds: float) -> None:
        """Count decisions whose commit took `seconds`."""
        batch = decisions.batch
        if batch:
            self.commits += 1
            self._commit_seconds.add(seconds)
            runs = (
                len(batch.created) + sum(map(len, batch.updated.values())) + len(batch.history) + len(batch.logs.lines)
            )
            self._commit_rows.add(runs + len(batch.records) + len(batch.service_log))
        self._topics.update((job.id, job.policy_topic) for job in batch.jobs)
        for (counter, *labels), times in decisions.counts.items():
            self.count(counter, *labels, by=times)
        self._count_jobs("runs_received_total", map(_JOB_OF_ROW, batch.created))
        if decisions.sends:
            self._add_dispatched(decisions)
        if decisions.ended:
            self._add_ended(decisions.ended)
        self._add_events(decisions)

    def _add_events(self, decisions: Decisions) -> None:
        for lag in decisions.lags:
            self._lag.add(lag)
        for seconds in decisions.rolled_back:
            self._rollbacks.add(seconds)
        for letter in decisions.batch.of(DeadLetter):
            if letter.seq == 1:
                self.count("dead_letters_total", str(letter.code))
        for _, violation in decisions.violations:
            self.count("constraints_violated_total", violation.constraint.partition(" ")[0])
        if decisions.owed:
            self.count("deliveries_total", "owed", by=decisions.owed)
        for topic, took in decisions.scans:
            self._output["2"].add(took)
            self.count("output_checked_total", topic, "2")
        for state, topic in decisions.put_back:
            self.count("stale_runs_total", state)
            self.count("orphan_replayed_total", topic)

    def count(self, counter: str, *labels: str, by: int = 1) -> None:
        names = COUNTERS[counter][1].split()
        values = (self._label(value) if name in MANY else value for name, value in zip(names, labels, strict=True))
        self._counts[counter][tuple(values)] += by

    def judged(self, job_ids: Sequence[str], seconds: float) -> None:
        """Count results of these jobs, whose metadata was judged in a pass of `seconds`."""
        self._output["1"].add(seconds, len(job_ids))
        self._count_jobs("output_checked_total", job_ids, "1")

    def counts(self, counter: str) -> Mapping[tuple[str, ...], int]:
        """Return the counts of a counter by the values of its labels."""
        return self._counts.get(counter, {})

    def _count_jobs(self, counter: str, job_ids: Iterable[str], *labels: str) -> None:
        """Count jobs by their topics."""
        for job_id, count in Counter(job_ids).items():
            self.count(counter, self._topic_of(job_id), *labels, by=count)

    def _label(self, value: str) -> str:
        """Return the label of a job, topic or pool; beyond a limit, they share one."""
        if value not in self._labels:
            value = value if len(self._labels) < MOST_JOBS else OTHERS
            self._labels.add(value)
        return value

    def _topic_of(self, job_id: str) -> str:
        topic = self._topics.get(job_id)
        if topic is None:
            job = self._state.jobs.get(job_id)
            topic = self._topics[job_id] = job_id if job is None else job.policy_topic
        return topic

    def _add_dispatched(self, decisions: Decisions) -> None:
        out = [message for messages in decisions.sends.values() for message in messages if type(message) is Dispatch]
        if not out:
            return
        self._count_jobs("runs_dispatched_total", map(_JOB, out))
        for worker_id, messages in decisions.sends.items():
            if (worker := self._state.workers.get(worker_id)) is not None:
                given = sum(type(message) is Dispatch for message in messages)
                self.count("pool_dispatches_total", worker.pool, by=given)
        # A pass has one time, and most of its runs share few due times: count by time.
        now = decisions.now
        for (job_id, due), count in Counter(
            [(dispatch.job_id, dispatch.scheduled_at) for dispatch in out if dispatch.attempt == 1]
        ).items():
            self._latency[self._label(self._topic_of(job_id))].add(now - due, count)

    def _add_ended(self, ended: Sequence[Run]) -> None:
        self.ended_total += len(ended)
        now = ended[-1].ended_at
        for (job_id, state, started_at), count in Counter(map(_ENDED, ended)).items():
            topic, job_id = self._topic_of(job_id), self._label(job_id)
            self.count("runs_completed_total", topic, state, by=count)
            self.by_job[job_id][state] += count
            if started_at is not None and now is not None:
                self._durations[job_id].add(now - started_at, count)
            if state is State.SKIPPED:
                self.count("occurrences_skipped_total", job_id, by=count)
            elif state is State.DENIED:
                self.count("runs_denied_total", topic, by=count)
        for run in ended:
            if run.facets is not None and (guarded := run.facets.constraints) is not None:
                self.count("constraints_checked_total", by=guarded.checked)
                self.count("actions_total", by=guarded.actions)
                self.count("actions_failed_total", by=guarded.failed)
        self.recent = [*self.recent, *ended[-8:]][-8:]

    def latest(self, clock: Clock, *, available: bool, position: int) -> list[Family]:
        """Return the families; computing them takes at most a hundredth of the time."""
        now = clock.now().elapsed
        if now >= self._fresh_until or available != self._was_available:
            self._families = self.families(available=available, position=position)
            self._was_available = available
            self._fresh_until = now + max(FRESH, 100 * (clock.now().elapsed - now))
        return self._families

    def families(self, *, available: bool, position: int) -> list[Family]:
        state = self._state
        workers = [worker for worker in state.workers.values() if worker.connected]
        tenants = {name: runs_of(state, tenant) for name, tenant in state.of(Tenants).items() if tenant.is_declared}
        lanes, entries = state.lanes, state.timetable.entries.values()
        states = Counter(run.state for run in state.runs.values())
        live = {str(value): states[value] for value in State if value not in TERMINAL}
        undoing = sum(flow.saga is not None for flow in state.of(Flows).values())
        stale = self._stale_before + state.of(Silence).stale_messages
        dropped, scanned = self._dropped_before + state.of(Logs).dropped, state.of(Scans).position
        behind = 0 if scanned is None else max(0, position - scanned)
        numbers = (
            ("output_scan_lag", "Entries of the store that the scans have not reached.", behind),
            ("pruning_behind_seconds", "Time since pruning last kept up; 0 while it does.", self._behind),
            ("saga_active", "Workflows that undo their steps.", undoing),
            ("policy_circuit", "Circuit to the policy service: 0 closed, 1 probing, 2 open.", self._circuit_state()),
            ("sessions", "Sessions with runs that have not ended.", len(state.of(Sessions))),
            ("sessions_active_runs", "Runs that have had their turn in their session.",
             sum(len(session.active) for session in state.of(Sessions).values())),
            ("sessions_waiting_runs", "Runs that wait for their turn in their session.",
             sum(len(session.waiting) for session in state.of(Sessions).values())),
            ("schedules", "Jobs that have a schedule.", len(entries)),
            ("schedules_paused", "Jobs whose schedule is paused.", sum(entry.paused for entry in entries)),
            ("workers", "Workers that are connected.", len(workers)),
            ("approvals_waiting", "Runs that wait for an approval.", len(state.of(Judging).awaiting_approval)),
            ("stale_messages_total", "Messages of attempts that are no longer live.", stale),
            ("log_lines_dropped_total", "Log lines dropped because a run's log was full.", dropped),
            ("store_available", "Whether the store works: 1 or 0.", int(available)),
            ("store_position", "Position of the latest entry in the store.", position),
        )  # fmt: skip
        labelled: tuple[Labelled, ...] = (
            *((name, text, labels, self._counts[name]) for name, (text, labels) in COUNTERS.items()),
            *((name, text, "", {(): number}) for name, text, number in numbers),
            ("runs_live", "Runs that have not ended.", "state", live),
            *_of_pools(workers),
            ("lane_active", "Runs that hold a slot.", "lane", {k: len(v.holding) for k, v in lanes.items()}),
            ("lane_limit", "Slots.", "lane", {k: v.limit for k, v in lanes.items()}),
            ("lane_waiting", "Runs that wait for a slot.", "lane", {k: v.waiting for k, v in lanes.items()}),
            ("tenant_running", "Runs of a declared tenant that hold a slot.", "tenant",
             {name: running for name, (running, _) in tenants.items()}),
            ("tenant_waiting", "Its runs that have not ended and hold no slot.", "tenant",
             {name: waiting for name, (_, waiting) in tenants.items()}),
            ("tenant_refused_total", "Requests refused with `tenant_limit`.", "tenant",
             {name: tenant.refused for name, tenant in state.of(Tenants).items() if tenant.is_declared}),
            ("pool_workers", "Workers by pool and state.", "pool state",
             Counter((worker.pool, str(state_of(state, worker))) for worker in state.workers.values())),
        )  # fmt: skip
        histograms: tuple[tuple[str, str, str, Mapping[str, Histogram]], ...] = (
            ("output_check_seconds", "Scan of a result (phase 2), or pass that judged its metadata (1).", "phase",
             self._output),
            ("dispatch_latency_seconds", "From a run's due time to its first dispatch.", "topic", self._latency),
            ("schedule_lag_seconds", "From an occurrence's time to the first line of its work.", "", {"": self._lag}),
            ("saga_duration_seconds", "Time from a decided end to the end of its rollback.", "", {"": self._rollbacks}),
            ("commit_duration_seconds", "Duration of a commit.", "", {"": self._commit_seconds}),
            ("commit_rows", "Rows in a commit.", "", {"": self._commit_rows}),
            ("run_duration_seconds", "From a run's first start to its end.", "job", self._durations),
        )  # fmt: skip
        families = [(_kind(name), name, text, _samples(labels, values)) for name, text, labels, values in labelled]
        for name, text, label, by_value in histograms:
            parts = [each.samples({label: value} if label else {}) for value, each in by_value.items()]
            families.append(("histogram", name, text, list(chain.from_iterable(parts))))
        return [Family(f"interlock_{name}", kind, text, samples) for kind, name, text, samples in families]


def _kind(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def _samples(labels: str, values: Mapping[Any, float]) -> list[Sample]:
    """Return a sample for each value: its key has the value of the label, or a tuple of those of several labels."""
    names, found = labels.split(), values.items() if labels or values else [((), 0)]
    keyed = ((key if isinstance(key, tuple) else (key,), value) for key, value in found)
    return [("", dict(zip(names, key, strict=True)), float(value)) for key, value in keyed]


def pass_age(seconds: float) -> Family:
    text = "Time since the scheduler last began a pass."
    return Family("interlock_last_pass_age_seconds", "gauge", text, [("", {}, seconds)])


def _of_pools(workers: Iterable[Worker]) -> Iterator[Labelled]:
    """Yield the figures of each pool with a connected worker."""
    pools: dict[str, list[Worker]] = defaultdict(list)
    for worker in workers:
        pools[worker.pool].append(worker)
    figures: tuple[tuple[str, str, Callable[[list[Worker]], float]], ...] = (
        ("pool_slots", "Slots of connected workers.", lambda some: sum(worker.slots for worker in some)),
        ("pool_active", "Attempts of connected workers.", lambda some: sum(len(worker.attempts) for worker in some)),
        ("pool_cpu_percent", "Mean load of processors.", lambda some: sum(worker.cpu for worker in some) / len(some)),
    )
    for name, text, figure in figures:
        yield name, text, "pool", {pool: figure(some) for pool, some in pools.items()}
