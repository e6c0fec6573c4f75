"""The memory of the scheduler: live runs, lanes, workers, timers. `core/rebuild.py` makes it from the store."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from heapq import heapify, heappush
from itertools import islice
from math import inf
from typing import Any

import msgspec

from interlock.core.audit import AUDIT, Audit
from interlock.core.gates import (
    GATE,
    POLICY_LIMIT,
    RATE,
    TENANT_LIMIT,
    TENANT_RATE,
    UNLIMITED,
    Gate,
    LimitGate,
    RateGate,
    gate_names,
    limit_names,
    session_rate,
    value_rate,
)
from interlock.core.job_guard import JobGuard
from interlock.core.lane import Lane, LineKey, Offer, Requirements, RouteKey, SlotKind
from interlock.core.roster import ANYWHERE, DEMAND, PREFERRED_POOL, PREFIXES, Roster, Worker
from interlock.core.schedule_table import Series, Table
from interlock.core.session import Session, memo_name, read_memo
from interlock.core.tenant import Tenant
from interlock.error import UnknownJob
from interlock.fields.secret import SECRET_NAMES
from interlock.model.bulk import BulkRequest
from interlock.model.facets import ProgressInfo
from interlock.model.job import RANKS, ExecutorKind, Job
from interlock.model.lane import LaneMemo, LaneSpec, LaneStatus
from interlock.model.run import Now, Run, RunIds
from interlock.model.tenant import EVERYBODY
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows
from interlock.wire.effect import Effect

MOST_COMPARED = 10_000  # job names compared with an unknown one to suggest the closest
MOST_KEYS = 10_000
DEFAULT_LANES = {"main": 30, "subagent": 50, "team": 100, "cron": 30}


ROOMS = (SlotKind.SHARED,), tuple(SlotKind)  # without and with places outside the shared process


class Limits(msgspec.Struct, frozen=True):
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


class Lines(msgspec.Struct):
    """The received log lines of an attempt. A worker that reconnects repeats lines that may not be stored."""

    attempt: int
    mark: int = 0  # every line up to this number has arrived
    beyond: set[int] = set()
    of_key: int = 0  # most lines that may still belong to a private key

    def has(self, number: int) -> bool:
        return number <= self.mark or number in self.beyond

    def add(self, number: int) -> None:
        self.beyond.add(number)
        while self.mark + 1 in self.beyond:
            self.mark += 1
            self.beyond.discard(self.mark)


class KeptWorkers(msgspec.Struct):
    """The stored snapshot of the workers (`core/warm_start.py`)."""

    memo: bytes = b"[]"
    look_at: float = 0.0  # elapsed time of the next look for a change
    write_at: float = 0.0  # elapsed time from which a changed one may be stored
    warnings: list[str] = []  # problems with the one that was read


class SchedulerState:
    def __init__(self, limits: Limits, lanes: Mapping[str, LaneSpec], lane_memos: Mapping[str, LaneMemo] = {}) -> None:
        self.limits = limits
        self.lanes: dict[str, Lane] = {}
        self.startable: dict[str, Lane] = {}  # lanes that may be able to start a run since the last look
        # Two heaps of lanes that can; the second has those with `has_apart`.
        self.offers: tuple[list[Offer], list[Offer]] = [], []
        self.draining_lanes: set[str] = set()
        self.declared_lanes = lanes
        self.lane_memos = dict(lane_memos)
        self.runs: dict[str, Run] = {}  # every run that has not ended, in the order the store has them
        self.jobs: dict[str, Job] = {}  # the current definitions by id, in order of declaration
        self.declared: dict[str, str] = {}  # job declared at each start → version, in order
        self.sources: dict[str, str] = {}  # declared job → place of its declaration
        self.versions: dict[str, Job] = {}  # version → definition, for stored versions
        self.timetable = Table()
        self.series: dict[tuple[str, str], Series] = {}  # (job, its backfill or nothing) → live and waiting runs
        self.bulks: dict[str, BulkRequest] = {}  # oldest first; includes finished ones, to recognise a repeat
        self.walks: dict[str, list[Run]] = {}  # bulk request under way → runs not yet looked at, the next one last
        # (none for a retry, which reads them from the store)
        self.guards: dict[str, JobGuard] = {}  # by job, for those that have had a guarded run
        self.policy: Policy | None = None
        self.policy_digest = ""  # of the policy that judged the waiting runs
        self.windows = Windows()  # of rules with a velocity
        self.scanned: int | None = None  # position up to which results are scanned; None if none are
        self.scans_heard = 0.0  # elapsed time of the last sign of the scanners
        self.awaiting_approval: dict[str, Run] = {}  # runs that wait for an approval
        self.deferred_by_policy: dict[str, Run] = {}  # pending runs that are judged again later
        self.to_judge: dict[str, Run] = {}  # pending runs that the next pass judges
        self.unjudged: set[str] = set()  # runs to judge again when their constraints or their worker let them go
        self.gates: dict[str, Gate] = {}  # those with runs behind them, and rates
        self.open_gates: dict[str, Gate] = {}  # those that may have room for queues behind them
        self.tenants: dict[str, Tenant] = {}  # those that are declared, and those with runs under the limits of `*`
        self.sessions: dict[tuple[str, str], Session] = {}  # (tenant, name) → session with live runs
        self.has_session_memos = False
        self.audit = Audit()
        self.events = 0  # number of the last event of a lane or session; never above its position in the store
        self.roster = Roster()
        self.workers = self.roster.workers
        self.kept_workers = KeptWorkers()
        self.warm_until = 0.0  # elapsed time until which workers of the time before a restart are expected back
        self.timers: list[tuple[float, int, str]] = []  # a heap of (wall time, tie-breaker, run id)
        self.spans: list[Span] = []  # heap; runs also record these ends in wall time, for a restart
        self.wall_ahead = 0.0  # wall clock minus elapsed time, in the recorded ends of waits
        self.unsettled: list[str] = []  # runs to look at in the next step regardless of time
        self.progress: dict[str, ProgressInfo] = {}  # live run → its latest progress
        self.log_sizes: dict[str, tuple[int, int]] = {}  # run with a log → its lines, and bytes of their text
        self.lines: dict[str, Lines] = {}
        self.log_lines_dropped = 0
        self.ids = RunIds()
        self.prover: hashlib.blake2b | None = None  # hash with the key of proofs (`core/lineage.py`)
        self.plain_keys: dict[tuple[str, str], tuple[LineKey, RouteKey]] = {}  # version and tenant → `keys_of`
        self.draining = False
        self.restored_at = 0.0  # wall time of the last restore of the store
        self.first_fence = 0  # number after which the fences of new runs begin
        self.liveness_due: float | None = None  # elapsed time of the next check for silence
        self.effects: dict[Effect, float] = {}  # effect without an answer → elapsed time at which to ask again
        self.overdue: dict[Effect, float] = {}  # effect that was asked again → elapsed time since when
        self.effects_due = inf  # no later than the earliest of these
        self.stale_messages = 0
        self.put_back: dict[str, int] = {}  # run that a sweep has put back → how often
        self._arrivals = 0
        self.settle_lanes()

    @property
    def has_more(self) -> bool:
        """Whether another pass has something to do even if nothing arrives."""
        return bool(self.walks or self.to_judge)

    def settle_lanes(self) -> list[Lane]:
        """Make the lanes that are declared or were created, with the values that count now; return removed ones."""
        before, self.lanes = self.lanes, {}
        created = [name for name, memo in self.lane_memos.items() if memo.created]
        for name in dict.fromkeys([*self.declared_lanes, *created]):
            lane = self.lanes[name] = before.pop(name) if name in before else Lane(name)
            memo = self.lane_memos.get(name) or LaneMemo()
            spec = memo.spec_over(self.declared_lanes.get(name))
            lane.limit, lane.rate, lane.burst, lane.status = spec.limit, spec.rate, spec.burst, memo.status
        self.draining_lanes = {name for name, lane in self.lanes.items() if lane.status is LaneStatus.DRAINING}
        self.startable = dict(self.lanes)
        for heap in self.offers:
            heap.clear()
        for lane in self.lanes.values():
            lane.offer = None
        return list(before.values())

    def mark_startable(self, name: str) -> Lane:
        """Return a lane that may be able to start a run now."""
        lane = self.startable[name] = self.lanes[name]
        return lane

    def arrival(self) -> int:
        """Return the next number in the order of everything that queues."""
        self._arrivals += 1
        return self._arrivals

    def job(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None:
            raise unknown_job(job_id, self.jobs)
        return job

    @property
    def is_judged(self) -> bool:
        """Whether a policy judges runs, here or elsewhere."""
        return self.policy is not None or self.limits.remote_policy

    def job_of(self, run: Run) -> Job:
        return self.versions[run.job_version]

    def route_key(self, run: Run) -> RouteKey:
        job = self.job_of(run)
        needs = needs_of(job, run.labels)
        gates = gate_names(job, run) if job.rate is not None or run.facets is not None else ()
        if run.session is not None and self.sessions[run.tenant, run.session].rate is not None:
            gates = (session_rate(run.tenant, run.session), *gates)
        if run.tenant in self.tenants:
            gates = (*gates, *self.tenants[run.tenant].gate_names)
        worker_of = run.job_id
        if job.work is not None:
            worker_of = job.work.function_of or ANYWHERE
            if not job.work.is_function:
                return worker_of, SlotKind.SHARED, gates, needs
            job = self.jobs.get(worker_of, job)  # its executor may have changed since
        if job.executor is ExecutorKind.PROCESS:
            room = SlotKind.OWN
        else:
            # Only a process that died during its attempt leaves an exit code without an outcome.
            died = run.crashes > 0 and run.exit_code is not None and run.outcome is None
            room = SlotKind.SUSPECT if died else SlotKind.SHARED
        return worker_of, room, gates, needs

    def line_key(self, run: Run) -> LineKey:
        own = None if run.facets is None else run.facets.priority
        return RANKS[own or self.job_of(run).priority], run.tenant

    def keys_of(self, run: Run) -> tuple[LineKey, RouteKey]:
        """Return the line and the queue in which a run waits."""
        if run.facets is not None or run.session is not None or run.crashes:
            return self.line_key(run), self.route_key(run)
        found = self.plain_keys.get((run.job_version, run.tenant))
        if found is None:
            found = self.line_key(run), self.route_key(run)
            if self.job_of(run).function_of is None:  # that of the other job may change
                if len(self.plain_keys) > MOST_KEYS:
                    self.plain_keys.clear()
                self.plain_keys[run.job_version, run.tenant] = found
        return found

    def hold_slot(self, run: Run) -> None:
        self.lanes[run.lane].holding[run.id] = run
        if run.facets is not None:
            for name in limit_names(run):
                self.limit_gate(name).holders.add(run.id)
        if self.tenants and run.tenant in self.tenants:
            self.tenants[run.tenant].holders.add(run.id)

    def free_slot(self, run: Run) -> None:
        del self.mark_startable(run.lane).holding[run.id]
        if run.facets is not None:
            for name in limit_names(run):
                gate = self.open_gates[name] = self.limit_gate(name)
                gate.holders.discard(run.id)
        if self.tenants and run.tenant in self.tenants:
            tenant = self.tenants[run.tenant]
            tenant.holders.discard(run.id)
            self.open_gates[tenant.name] = tenant

    def limit_gate(self, name: str) -> LimitGate:
        gate = self.gates.get(name)
        if not isinstance(gate, LimitGate):
            gate = self.gates[name] = self.open_gates[name] = LimitGate(name=name)
        return gate

    def rate_gate(self, name: str, rate: float, burst: int) -> RateGate:
        gate = self.gates.get(name)
        if not isinstance(gate, RateGate):
            gate = self.gates[name] = self.open_gates[name] = RateGate(name=name)
        gate.interval, gate.burst = 1.0 / rate, burst
        return gate

    def gates_of(self, run: Run, key: RouteKey) -> list[Gate]:
        """Return the gates of a queue with this run."""
        job, found = self.job_of(run), list[Gate]()
        if run.session is not None and key[2][0] == (name := session_rate(run.tenant, run.session)):
            rate = self.sessions[run.tenant, run.session].rate
            found += [] if rate is None else [self.rate_gate(name, *rate)]
        if job.rate is not None:
            found.append(self.rate_gate(f"{RATE}job:{job.id}", job.rate, job.burst))
        if (rated_value := value_rate(job, run)) is not None and job.limit is not None and job.limit.rate is not None:
            found.append(self.rate_gate(rated_value, job.limit.rate, job.limit.burst))
        for name in limit_names(run):
            limit, allowed = self.limit_gate(name), run.limits.max_concurrent
            if not name.startswith(POLICY_LIMIT):
                limit.most = limit.most if job.limit is None else job.limit.max or UNLIMITED
            elif allowed is not None:
                limit.most = allowed
            found.append(limit)
        if (tenant := self.tenants.get(run.tenant)) is not None:
            rated = self.tenant_rate(tenant)
            found += [one for one in (rated, tenant) if one is not None and one.name in tenant.gate_names]
        return found

    def tenant(self, name: str) -> Tenant | None:
        """Return a tenant with limits: its own, or those of `*`. One that is not in memory stays out of it."""
        found, usual = self.tenants.get(name), self.tenants.get(EVERYBODY)
        if found is None and usual is not None:
            found = Tenant(name=TENANT_LIMIT + name, spec=usual.spec, is_declared=False)
            found.adopt(usual.spec)
        return found

    def tenant_rate(self, tenant: Tenant) -> RateGate | None:
        return None if tenant.rate is None else self.rate_gate(TENANT_RATE + tenant.id, *tenant.rate)

    def open_session(self, tenant: str, name: str, stored: Callable[[str], bytes | None]) -> Session:
        session = self.sessions.get((tenant, name))
        if session is None:
            memo = read_memo(stored(memo_name(tenant, name)))
            session = self.sessions[tenant, name] = Session(tenant, name, memo)
        return session

    def waits_in_session(self, run: Run) -> bool:
        """Return whether a cleared run waits for its turn, and not in its lane."""
        session = None if run.session is None else self.sessions.get((run.tenant, run.session))
        return session is not None and run.id in session.waiting

    def set_timer(self, when: float, run: Run) -> None:
        heappush(self.timers, (when, self.arrival(), run.id))

    def set_span(self, end: float, run: Run, kind: str) -> None:
        heappush(self.spans, (end, self.arrival(), run.id, kind, getattr(run, kind)))

    def jump(self, now: Now) -> float:
        """Return by how much the wall clock has jumped since the last pass that followed it."""
        jump = now.wall - now.elapsed - self.wall_ahead
        return jump if abs(jump) >= JUMP else 0.0

    def sweep(self) -> None:
        """Drop timers, spans and definitions that no live run needs, once they are the majority."""
        most = 1000 + 4 * len(self.runs)
        if len(self.timers) > most:
            self.timers = [timer for timer in self.timers if timer[2] in self.runs]
            heapify(self.timers)
        if len(self.spans) > most:
            self.spans = [span for span in self.spans if span[2] in self.runs or span[3] in (GATE, AUDIT, DEMAND)]
            heapify(self.spans)
        if len(self.guards) > 100 + 2 * len(self.jobs):
            self.guards = {job_id: one for job_id, one in self.guards.items() if job_id in self.jobs or one.is_used}
        if len(self.versions) > 1000 + 2 * len(self.jobs) + len(self.runs):
            used = {run.job_version for run in self.runs.values()} | {job.version for job in self.jobs.values()}
            self.versions = {version: job for version, job in self.versions.items() if version in used}

    def hear(self, worker: Worker, elapsed: float) -> None:
        """Note a sign of life of a worker."""
        worker.heard = elapsed
        if worker.silent:
            worker.silent = False
            self.roster.changed(worker)
            self.watch_silence(elapsed)

    def watch_silence(self, since: float) -> None:
        due = since + self.limits.silence
        if self.liveness_due is None or due < self.liveness_due:
            self.liveness_due = due


def needs_of(job: Job, labels: Mapping[str, str]) -> Requirements:
    """Return what a run of a job with these labels demands of its worker."""
    wanted = tuple(sorted((name, value) for name, value in labels.items() if name.startswith(PREFIXES)))
    required = tuple(sorted(one.casefold() for one in job.requires))
    return job.policy_topic, required, wanted, labels.get(PREFERRED_POOL, "")


def unknown_job(job_id: str, names: Iterable[str]) -> UnknownJob:
    close = get_close_matches(job_id, islice(names, MOST_COMPARED), 1)
    return UnknownJob(job_id, close[0] if close else None)
