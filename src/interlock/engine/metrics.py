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
from interlock.core.workflows.saga import SAGAS
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
Labelled = tuple[str, str, str, str, Mapping[Any, float]]  # kind, name, text, labels, and value by their values
MOST_JOBS = 1000  # jobs and topics with a label of their own; the others share one
OTHERS = "(others)"

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
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)  # event → job or error code → count
        self._latency: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # topic → seconds
        self._topics: dict[str, str] = {}  # job → topic that its runs count for
        self._completed: Counter[tuple[str, str]] = Counter()  # topic and final state → runs
        self._results: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)  # event → topic and phase → results
        self._verdicts: Counter[tuple[str, str]] = Counter()  # topic and decision → verdicts
        self._circuit_state = circuit_state
        self._lag = Histogram(SECONDS)
        self._jobs: set[str] = set()  # jobs and topics with a label of their own
        self._output: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))  # phase → seconds of its checks
        self._durations: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._commit_seconds = Histogram(SECONDS)
        self._rollbacks = Histogram(SECONDS)
        self._commit_rows = Histogram(ROWS)
        self._replays = 0
        self.ended_total = 0
        self._pruned = 0
        self._behind = 0.0
        self._recoveries = 0
        self._leases_lost = 0
        self.lease_waits = 0
        self._state = new_state(CoreLimits(), {})
        self._stale_before = 0  # stale messages of the states before this one
        self._dropped_before = 0
        self._families: list[Family] = []
        self._was_available = False
        self._fresh_until = 0.0

    @property
    def submitted(self) -> int:
        return self._counts["received"].total()

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
        self._recoveries += 1
        if isinstance(error, (LeaseLost, StaleEpoch)):
            self._leases_lost += 1

    def refused(self, code: str) -> None:
        self._counts["refused"][code] += 1

    def pruned(self, runs: int, behind: float) -> None:
        """Count pruned runs, and note for how many seconds pruning has been behind."""
        self._pruned += runs
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
        if batch.created:
            self._counts["received"].update(self._by_topic(map(_JOB_OF_ROW, batch.created)))
        if decisions.sends:
            self._add_dispatched(decisions)
        if decisions.ended:
            self._add_ended(decisions.ended)
        if decisions.retried:
            self._counts["retried"].update(self._labels(map(_JOB, decisions.retried)))
        if decisions.crashed:
            self._counts["crashed"].update(self._labels(map(_JOB, decisions.crashed)))
        for lag in decisions.lags:
            self._lag.add(lag)
        self._counts["unavailable"].update(self._labels(decisions.unavailable))
        self._counts["lacks"].update(decisions.lacks)
        self._counts["letters"].update(str(letter.code) for letter in batch.of(DeadLetter) if letter.seq == 1)
        self._replays += decisions.reruns
        if decisions.violations or decisions.owed or decisions.sent or decisions.sagas or decisions.rolled_back:
            self._add_guards(decisions)
        found = decisions.rulings or decisions.bypassed or decisions.quarantined
        if found or decisions.scans or decisions.scans_skipped:
            self._add_policy(decisions)
        self._counts["stale"].update(state for state, _ in decisions.put_back)
        self._counts["replayed"].update(self._labels(topic for _, topic in decisions.put_back))

    def judged(self, job_ids: Sequence[str], seconds: float) -> None:
        """Count results of these jobs, whose metadata was judged in a pass of `seconds`."""
        self._output["1"].add(seconds, len(job_ids))
        self._results["checked"].update(self._by_topic(job_ids, "1"))

    def _add_policy(self, decisions: Decisions) -> None:
        topics = self._labels(topic for topic, _ in decisions.rulings)
        self._verdicts.update(zip(topics, (ruling for _, ruling in decisions.rulings), strict=True))
        self._counts["bypassed"].update(self._labels(decisions.bypassed))
        for run in decisions.quarantined:
            if run.facets is not None and run.facets.output is not None:
                self._results["quarantined"][self._topic_of(run.job_id), str(run.facets.output.phase)] += 1
        for _, seconds in decisions.scans:
            self._output["2"].add(seconds)
        self._results["checked"].update(self._by_topic((job_id for job_id, _ in decisions.scans), "2"))
        self._results["skipped"].update(self._by_topic(decisions.scans_skipped, "2"))

    def _add_guards(self, decisions: Decisions) -> None:
        self._counts["sagas"].update(decisions.sagas)
        for seconds in decisions.rolled_back:
            self._rollbacks.add(seconds)
        for _, violation in decisions.violations:
            self._counts["violated"][violation.constraint.partition(" ")[0]] += 1
        self._counts["deliveries"]["owed"] += decisions.owed
        for sent in decisions.sent:
            event = "retried" if sent.ended_at is None else "failed" if sent.error else "delivered"
            self._counts["deliveries"][event] += 1

    def _labels(self, job_ids: Iterable[str]) -> list[str]:
        """Return a label for each job; beyond a limit, jobs share one."""
        known = self._jobs
        found = []
        for job_id in job_ids:
            if job_id not in known:
                if len(known) >= MOST_JOBS:
                    job_id = OTHERS
                known.add(job_id)
            found.append(job_id)
        return found

    def _by_topic(self, job_ids: Iterable[str], phase: str = "") -> Counter[Any]:
        """Count jobs by the labels of their topics, and the phase if one is given."""
        found = Counter[Any]()
        for job_id, count in Counter(job_ids).items():
            topic = self._topic_of(job_id)
            found[(topic, phase) if phase else topic] += count
        return found

    def _topic_of(self, job_id: str) -> str:
        """Return the topic of a job, as a label."""
        topic = self._topics.get(job_id)
        if topic is None:
            job = self._state.jobs.get(job_id)
            topic = self._topics[job_id] = job_id if job is None else job.policy_topic
        return self._labels((topic,))[0]

    def _add_dispatched(self, decisions: Decisions) -> None:
        out = [message for messages in decisions.sends.values() for message in messages if type(message) is Dispatch]
        if not out:
            return
        self._counts["dispatched"].update(self._by_topic(map(_JOB, out)))
        for worker_id, messages in decisions.sends.items():
            if (worker := self._state.workers.get(worker_id)) is not None:
                (pool,) = self._labels((worker.pool,))
                self._counts["sent"][pool] += sum(type(message) is Dispatch for message in messages)
        # A pass has one time, and most of its runs share few due times: count by time.
        now = decisions.now
        for (job_id, due), count in Counter(
            [(dispatch.job_id, dispatch.scheduled_at) for dispatch in out if dispatch.attempt == 1]
        ).items():
            self._latency[self._topic_of(job_id)].add(now - due, count)

    def _add_ended(self, ended: Sequence[Run]) -> None:
        self.ended_total += len(ended)
        now = ended[-1].ended_at
        for (job_id, state, started_at), count in Counter(map(_ENDED, ended)).items():
            self._completed[self._topic_of(job_id), state] += count
            (job_id,) = self._labels((job_id,))
            self.by_job[job_id][state] += count
            if started_at is not None and now is not None:
                self._durations[job_id].add(now - started_at, count)
            if state is State.SKIPPED:
                self._counts["skipped"][job_id] += count
        for run in ended:
            if run.facets is not None and (guarded := run.facets.constraints) is not None:
                self._counts["guards"]["checked"] += guarded.checked
                self._counts["guards"]["actions"] += guarded.actions
                self._counts["guards"]["failed"] += guarded.failed
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
        state, counts = self._state, self._counts
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
            ("gauge", "output_scan_lag", "Entries of the store that the scans have not reached.", behind),
            ("counter", "runs_pruned_total", "Runs that were pruned.", self._pruned),
            ("gauge", "pruning_behind_seconds", "Time since pruning last kept up; 0 while it does.", self._behind),
            ("counter", "replays_total", "Ended runs that were run again, from dead letters or not.", self._replays),
            *(("counter", f"saga_{name}_total", text, counts["sagas"][name]) for name, text in SAGAS.items()),
            ("gauge", "saga_active", "Workflows that undo their steps.", undoing),
            ("counter", "constraints_checked_total", "Constraints that ended runs have checked.",
             counts["guards"]["checked"]),
            ("counter", "actions_total", "Actions on violations that ended runs have carried out.",
             counts["guards"]["actions"]),
            ("counter", "actions_failed_total", "Those that failed.", counts["guards"]["failed"]),
            ("gauge", "policy_circuit", "Circuit to the policy service: 0 closed, 1 probing, 2 open.",
             self._circuit_state()),
            ("gauge", "sessions", "Sessions with runs that have not ended.", len(state.of(Sessions))),
            ("gauge", "sessions_active_runs", "Runs that have had their turn in their session.",
             sum(len(session.active) for session in state.of(Sessions).values())),
            ("gauge", "sessions_waiting_runs", "Runs that wait for their turn in their session.",
             sum(len(session.waiting) for session in state.of(Sessions).values())),
            ("gauge", "schedules", "Jobs that have a schedule.", len(entries)),
            ("gauge", "schedules_paused", "Jobs whose schedule is paused.", sum(entry.paused for entry in entries)),
            ("gauge", "workers", "Workers that are connected.", len(workers)),
            ("gauge", "approvals_waiting", "Runs that wait for an approval.", len(state.of(Judging).awaiting_approval)),
            ("counter", "stale_messages_total", "Messages of attempts that are no longer live.", stale),
            ("counter", "log_lines_dropped_total", "Log lines dropped because a run's log was full.", dropped),
            ("counter", "leases_lost_total", "Times the scheduler lost its lease.", self._leases_lost),
            ("counter", "lease_waits_total", "Tries for the lease while another scheduler had it.", self.lease_waits),
            ("counter", "recoveries_total", "Times the state was rebuilt from the store.", self._recoveries),
            ("gauge", "store_available", "Whether the store works: 1 or 0.", int(available)),
            ("gauge", "store_position", "Position of the latest entry in the store.", position),
        )  # fmt: skip
        labelled: tuple[Labelled, ...] = (
            *((kind, name, text, "", {"": number}) for kind, name, text, number in numbers),
            ("counter", "runs_received_total", "Runs that were created.", "topic", counts["received"]),
            ("counter", "runs_dispatched_total", "Attempts dispatched to a worker.", "topic", counts["dispatched"]),
            ("counter", "runs_retried_total", "Failed attempts that were retried.", "job", counts["retried"]),
            ("counter", "runs_crashed_total", "Attempts lost with their process or worker.", "job", counts["crashed"]),
            ("counter", "constraints_violated_total", "Violations of constraints, and checks and actions that failed.",
             "constraint", counts["violated"]),
            ("counter", "deliveries_total", "Webhooks by event: owed, retried, delivered, failed.",
             "event", counts["deliveries"]),
            ("counter", "input_fail_open_total", "Runs that started without a verdict: the policy was out of reach.",
             "topic", counts["bypassed"]),
            ("counter", "policy_unavailable_total", "Questions that the policy service gave no verdict on.",
             "topic", counts["unavailable"]),
            ("counter", "runs_denied_total", "Runs that the policy or a person denied.", "topic",
             {topic: count for (topic, state), count in self._completed.items() if state == State.DENIED}),
            ("counter", "stale_runs_total", "Runs that the scheduler had missed, by their state.",
             "state", counts["stale"]),
            ("counter", "orphan_replayed_total", "The same runs, put back by a sweep.",
             "topic", counts["replayed"]),
            ("counter", "dead_letters_total", "Dead letters by reason code.", "reason", counts["letters"]),
            ("counter", "submits_refused_total", "Submits that were refused.", "code", counts["refused"]),
            ("counter", "occurrences_skipped_total", "Occurrences that were skipped.", "job", counts["skipped"]),
            ("gauge", "runs_live", "Runs that have not ended.", "state", live),
            *_of_pools(workers),
            ("counter", "dispatch_waits_total", "Tries that found no worker.", "reason", counts["lacks"]),
            ("counter", "pool_dispatches_total", "Attempts dispatched to workers.", "pool", counts["sent"]),
            ("gauge", "lane_active", "Runs that hold a slot.", "lane", {k: len(v.holding) for k, v in lanes.items()}),
            ("gauge", "lane_limit", "Slots.", "lane", {k: v.limit for k, v in lanes.items()}),
            ("gauge", "lane_waiting", "Runs that wait for a slot.", "lane", {k: v.waiting for k, v in lanes.items()}),
            ("gauge", "tenant_running", "Runs of a declared tenant that hold a slot.", "tenant",
             {name: running for name, (running, _) in tenants.items()}),
            ("gauge", "tenant_waiting", "Its runs that have not ended and hold no slot.", "tenant",
             {name: waiting for name, (_, waiting) in tenants.items()}),
            ("counter", "tenant_refused_total", "Requests refused with `tenant_limit`.", "tenant",
             {name: tenant.refused for name, tenant in state.of(Tenants).items() if tenant.is_declared}),
            ("counter", "runs_completed_total", "Runs that ended, by their final state.", "topic status",
             self._completed),
            ("counter", "output_checked_total", "Results that the output policy checked.", "topic phase",
             self._results["checked"]),
            ("counter", "output_quarantined_total", "Results that were quarantined.", "topic phase",
             self._results["quarantined"]),
            ("counter", "output_skipped_total", "Results that could not be scanned.", "topic phase",
             self._results["skipped"]),
            ("gauge", "pool_workers", "Workers by pool and state.", "pool state",
             Counter((worker.pool, str(state_of(state, worker))) for worker in state.workers.values())),
            ("counter", "verdicts_total", "Verdicts of the policy other than a plain allow.", "topic decision",
             self._verdicts),
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
        families = [(kind, name, text, _samples(labels, values)) for kind, name, text, labels, values in labelled]
        for name, text, label, by_value in histograms:
            parts = [each.samples({label: value} if label else {}) for value, each in by_value.items()]
            families.append(("histogram", name, text, list(chain.from_iterable(parts))))
        return [Family(f"interlock_{name}", kind, text, samples) for kind, name, text, samples in families]


def _samples(labels: str, values: Mapping[Any, float]) -> list[Sample]:
    """Return a sample for each value: its key has the values of the labels, as a tuple if there are several."""
    names = labels.split()
    if len(names) > 1:
        return [("", dict(zip(names, key, strict=True)), float(value)) for key, value in values.items()]
    return [("", dict.fromkeys(names, key), float(value)) for key, value in values.items()]


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
        yield "gauge", name, text, "pool", {pool: figure(some) for pool, some in pools.items()}
