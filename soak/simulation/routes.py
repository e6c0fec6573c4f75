"""Pools, tenants and workers of many kinds, and what must hold of routing whatever changes, leaves and lies.

A slow model sees what each pass takes in and decides, and believes nothing of the roster: which workers there are and
what they may have, who is at a limit, and how long nobody could take a run.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch, Decisions, Failed
from interlock.core.sessions.session import Sessions
from interlock.core.state import SchedulerState
from interlock.core.step import Command
from interlock.model.job import ExecutorKind, Job
from interlock.model.lane import LaneStatus
from interlock.model.letter import DeadLetter
from interlock.model.pool import Lack, PoolSpec, PoolStatus, WorkerAction, WorkerInfo, WorkerState
from interlock.model.run import Now, Run
from interlock.model.state import HOLDS_SLOT, ON_WORKER, TERMINAL, State
from interlock.model.tenant import OverLimit, TenantSpec
from interlock.wire.command import Define, Stalled, WorkerDown, WorkerUp
from interlock.wire.message import Leaving, Load
from interlock.wire.request import ValueAnswer
from interlock.wire.worker_request import ActOnWorker
from interlock.worker.host import HostSettings
from soak.simulation.lanes import Lanes
from soak.simulation.store import Disk

SNAPSHOT = "workers"  # memo of the workers that a scheduler expects back
SHORTEST = 1 + 2 + 4 + 8 + 16 + 45 * 30.0  # seconds that fifty looks for a worker take at least
SLACK = 1e-6

ROUTED_JOBS = (
    Job(id="anywhere", lane="wide"),
    Job(id="gpu_work", lane="wide", requires=("CUDA",)),
    Job(id="gpu_alone", requires=("cuda",), executor=ExecutorKind.PROCESS),
    Job(id="topical", lane="wide", topic="gpu_topic"),
)

_MAIN, _GPU = PoolSpec(topics=("*",)), PoolSpec(topics=("gpu_*",), offers=("cuda",))
POOLS: tuple[Mapping[str, PoolSpec], ...] = (
    {"main": _MAIN, "gpu": _GPU},
    {"main": replace(_MAIN, status=PoolStatus.DRAINING), "gpu": _GPU},
    {"main": _MAIN, "gpu": replace(_GPU, status=PoolStatus.INACTIVE)},
    {"main": replace(_MAIN, topics=("a*", "t*", "gpu_a*")), "gpu": replace(_GPU, topics=("gpu_work", "plain"))},
    {"main": replace(_MAIN, requires=("big",), max_load=None), "gpu": replace(_GPU, max_load=50)},
    {"main": _MAIN, "gpu": _GPU, "third": replace(_MAIN, offers=("*",))},
    {},
)
"""declarations, one after the other; the first is the one with which every run can end"""
WITHOUT_GPU: Mapping[str, PoolSpec] = {"main": replace(_MAIN, topics=("a*", "pl*", "na*", "t*"))}

_TENANTS: Mapping[str, TenantSpec] = {
    "tight": TenantSpec(max_running=1),
    "roomy": TenantSpec(max_running=3, max_waiting=4),
    "strict": TenantSpec(max_running=2, over_limit=OverLimit.REFUSE),
    "paced": TenantSpec(rate=2.0, burst=2),
    "metered": TenantSpec(rate=1.0, burst=3, max_running=2, over_limit=OverLimit.REFUSE),
    "placed": TenantSpec(labels={"placement.zone": "a"}),
    "*": TenantSpec(max_running=2, rate=2.0, burst=2),
    "default": TenantSpec(),
}
SUBMITTING = (None, "guest", "visitor", *(name for name in _TENANTS if name not in ("*", "default")))
TENANTS: tuple[Mapping[str, TenantSpec], ...] = (
    _TENANTS,
    {**_TENANTS, "tight": TenantSpec(max_running=2), "roomy": TenantSpec(max_running=1, max_waiting=6)},
    {**{name: spec for name, spec in _TENANTS.items() if name != "strict"}, "*": TenantSpec(rate=2.0, burst=2)},
)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is and says of itself."""

    pool: str
    zone: str
    slots: int
    capabilities: list[str] = []
    tenants: frozenset[str] | None = None
    loads: tuple[float, ...] = ()  # values that it may report
    forgets: str = ""  # the job that it does not know

    def announced(self, settings: HostSettings) -> HostSettings:
        labels = {"zone": self.zone, "node.name": settings.worker_id}
        return replace(settings, pool=self.pool, labels=labels, capabilities=self.capabilities, slots=self.slots)

    def measure(self, rng: Random) -> Callable[[], Load]:
        return lambda: Load(rng.choice(self.loads), 0.0, rng.choice(self.loads)) if self.loads else Load()


def profile_of(rng: Random) -> Profile:
    tenants = rng.choice((None, None, None, frozenset({"tight", "roomy"}), frozenset({"default"})))
    return Profile(
        pool=rng.choice(("main", "main", "gpu", "third", "default")),
        zone=rng.choice("abc"),
        slots=rng.choice((1, 3, 12)),
        capabilities=rng.choice(([], ["Cuda"], ["big"], ["big", "CUDA"])),
        tenants=tenants,
        loads=rng.choice(((), (), (0.0, 0.0, 50.0, 89.9, 90.0, 400.0))),
        forgets=rng.choice(("", "", "anywhere", "gpu_work")),
    )


def last_profile_of(place: int) -> Profile:
    """Return the profile with which, together with that of three others, every run can end."""
    return Profile(pool=("main", "gpu")[place % 2], zone="ab"[place // 2 % 2], slots=3, capabilities=["cuda", "big"])


def without_gpu(place: int) -> Profile:
    return replace(last_profile_of(place), pool="main", capabilities=["big"])


def overloaded(place: int) -> Profile:
    return replace(last_profile_of(place), loads=(95.0,))


class Known(msgspec.Struct):
    """A worker as it has introduced itself, and what has happened to it since."""

    up: WorkerUp
    heard: float  # when it has sent anything
    loaded: float  # when it last said what its load is
    connected: bool = True
    leaves: bool = False
    silent: bool = False
    cpu: float = 0.0
    gpu: float = 0.0
    own: int = 0  # attempts with a process of their own, by job
    suspects: int = 0
    shared: int = 0

    @property
    def busy(self) -> bool:
        return self.own + self.suspects + self.shared > 0


class View(msgspec.Struct):
    """What one start of a scheduler knows, as far as it matters here."""

    state: SchedulerState | None
    drained: set[str] = set()
    workers: dict[str, Known] = {}
    pools: Mapping[str, PoolSpec] = {}
    tenants: Mapping[str, TenantSpec] = {}
    unserved: dict[str, float] = {}  # run that nobody can take → since when
    lacks: dict[tuple[str, str], Lack | None] = {}  # run and room → why nobody takes it, while the facts stay the same
    facts: Any = None


class Standing(msgspec.Struct):
    """What a tenant has at one moment."""

    live: set[str] = set()
    waiting: set[str] = set()


class Routes:
    def __init__(self, disk: Disk, lanes: Lanes, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._lanes = lanes
        self._require = require
        self.is_on = False
        self.profiles: dict[str, Profile] = {}  # by worker
        self._view = View(None)
        self._views: list[View] = []  # the last few: a scheduler that was replaced may still decide
        self._before: dict[str, Standing] = {}
        self._passes: dict[int, tuple[Batch, Mapping[str, TenantSpec]]] = {}  # not stored → tenants as declared then
        self._given_up: dict[str, str] = {}  # run → code of its dead letter
        self.seen: Counter[str] = Counter()

    # ── before and after each pass ──────────────────────────────────────────────────────────────────────────────────

    def bound(self, state: SchedulerState, commands: Sequence[Command]) -> Sequence[Command]:
        """Return the commands with the tenants that the token of each worker would give it."""
        if not self.is_on:
            return commands
        if state is not self._view.state:
            found = next((view for view in self._views if view.state is state), None)
            if found is None:
                kept = msgspec.json.decode(self._disk.memo(SNAPSHOT) or b"[]")
                found = View(state, {one["id"] for one in kept if one.get("drained")})
                self._views = [*self._views[-3:], found]
            self._view = found
        self._before = _standings(state)
        return [
            (origin, replace(content, tenants=self.profiles[content.worker_id].tenants))
            if isinstance(content, WorkerUp)
            else (origin, content)
            for origin, content in commands
        ]

    def decided(self, state: SchedulerState, commands: Sequence[Command], now: Now, decisions: Decisions) -> None:
        if not self.is_on:
            return
        for origin, content in commands:
            self._take_in(state, origin, content, now, decisions)
        self._view.workers = {name: one for name, one in self._view.workers.items() if name in state.workers}
        self._note_drains(state, commands, decisions)
        for known in self._view.workers.values():
            known.silent = known.silent or now.elapsed >= known.heard + state.limits.silence
            known.own = known.suspects = known.shared = 0
        for run in state.runs.values():
            self._count_attempt(state, run)
        self._check_dispatches(state, decisions)
        if not any(isinstance(content, Define) for _, content in commands):
            self._check_refusals(decisions)
        self._check_ends(decisions, now.elapsed)
        self._check_waiting(state, now.elapsed)
        if decisions.batch:
            self._passes[id(decisions.batch)] = decisions.batch, self._view.tenants

    def _take_in(self, state: SchedulerState, origin: str, content: Any, now: Now, decisions: Decisions) -> None:
        if isinstance(content, Define):
            failed = [(who, one.request) for who, one in decisions.answers if isinstance(one, Failed)]
            if (origin, content.request) not in failed:
                self._view.pools, self._view.tenants = content.pools, content.tenants
        elif isinstance(content, WorkerUp):
            before = state.workers[content.worker_id]  # whose load counts until the worker says something else
            known = self._view.workers.get(content.worker_id)
            # One that was leaving still is, unless it was forgotten in between.
            leaves = content.draining or (known is not None and known.leaves and (known.connected or before.draining))
            known = Known(content, now.elapsed, now.elapsed, leaves=leaves, cpu=before.cpu, gpu=before.gpu)
            self._view.workers[content.worker_id] = known
        elif isinstance(content, Stalled):
            for one in self._view.workers.values():
                one.heard += content.seconds
                one.loaded += content.seconds
        elif (sender := self._view.workers.get(getattr(content, "worker_id", origin))) is not None:
            self._hear(sender, origin, content, now.elapsed)

    def _hear(self, known: Known, origin: str, content: Any, elapsed: float) -> None:
        if origin == known.up.worker_id and not isinstance(content, WorkerDown):
            known.heard, known.silent = elapsed, False
        if isinstance(content, WorkerDown):
            known.connected = False
        elif isinstance(content, Leaving) or (
            isinstance(content, ActOnWorker) and content.action is WorkerAction.REMOVE and known.connected
        ):
            known.leaves = True
        elif isinstance(content, Load):
            known.loaded, known.cpu, known.gpu = elapsed, content.cpu, content.gpu

    def _note_drains(self, state: SchedulerState, commands: Sequence[Command], decisions: Decisions) -> None:
        drained = self._view.drained
        asked = {(origin, one.request): one.action for origin, one in commands if isinstance(one, ActOnWorker)}
        for origin, answer in decisions.answers:
            if isinstance(answer, ValueAnswer) and isinstance(worker := answer.value, WorkerInfo):
                action = asked.get((origin, answer.request))
                # An absent one is forgotten, and its mark with it: it may have come back in the same pass.
                is_forgotten = action is WorkerAction.REMOVE and worker.state is WorkerState.AWAY
                stays = worker.drained and not is_forgotten
                (drained.add if stays else drained.discard)(worker.id)
        ended = {content.worker_id for _, content in commands if isinstance(content, WorkerDown)}
        drained -= {name for name in drained if name not in state.workers}  # the mark goes with the worker
        drained -= {name for name in ended & drained if not state.workers[name].drained}

    def _count_attempt(self, state: SchedulerState, run: Run) -> None:
        known = self._view.workers.get(run.worker_id or "")
        if known is not None and run.state in ON_WORKER:
            kind = _room(state.versions[run.job_version], run)
            setattr(known, kind, getattr(known, kind) + 1)

    # ── who may have a run ──────────────────────────────────────────────────────────────────────────────────────────

    def misfit(self, known: Known, job: Job, run: Run) -> str:
        """Return why a worker may not have a run; empty if it may."""
        up, labels = known.up, run.labels
        drained = up.worker_id in self._view.drained
        if not known.connected or known.leaves or known.silent or drained:
            standing = f"connected: {known.connected}, leaves: {known.leaves}, silent: {known.silent}"
            return f"takes no work ({standing}, drained: {drained})"
        if self._view.pools and not _takes(self._view.pools.get(up.pool), job):
            return f"is in pool {up.pool}"
        if labels.get("preferred_pool", up.pool) != up.pool:
            return "is in another pool than the preferred one"
        spec = self._view.pools.get(up.pool)
        has = {one.lower() for one in (*up.capabilities, *(() if spec is None else (*spec.offers, *spec.requires)))}
        if self._view.pools and "*" not in has and not {require.lower() for require in job.requires} <= has:
            return f"has only {sorted(has)}"
        for name, value in labels.items():
            prefix, _, rest = name.partition(".")
            is_able = prefix == "constraint" and value == "true" and not has.isdisjoint((rest.lower(), "*"))
            is_equal = up.labels.get(name, up.labels.get(rest)) == value
            if prefix in ("placement", "constraint", "node") and not is_able and not is_equal:
                return f"has no {name}={value}"
        if up.tenants is not None and run.tenant not in up.tenants:
            return f"is for {sorted(up.tenants)}"
        return "" if job.work is not None or job.id in up.jobs else "does not know the job"

    def _can_take(self, known: Known, room: str, more: int = 1) -> bool:
        """Return whether a worker has room for this many more runs."""
        up, more = known.up, more - 1
        if room == "own":
            free = max(1, up.processes) - known.own
        elif room == "suspects":
            free = max(1, up.slots // 4) - known.suspects
        else:
            free = up.slots - known.shared
            if self._view.pools and up.slots >= 10 and (known.shared + more) / up.slots >= 0.9:
                return False
        spec = self._view.pools.get(up.pool)
        most = None if spec is None else spec.max_load
        return free > more and (most is None or (known.cpu < most and known.gpu < most))

    def _check_dispatches(self, state: SchedulerState, decisions: Decisions) -> None:
        for run_id, entries in decisions.batch.history:
            if entries[-1].after is not State.DISPATCHED:
                continue
            run, worker = decisions.changed[run_id], entries[-1].reason
            job, known = state.versions[run.job_version], self._view.workers.get(worker)
            why = "is unknown" if known is None else self.misfit(known, job, run)
            self._require(not why, f"{run_id} goes to {worker}, which {why}")
            if known is None:
                continue
            fits = self._can_take(known, _room(job, run), 0)
            self._require(fits, f"{run_id} goes to {worker}, which is full or overloaded: {known}")
            self.seen["bound"] += known.up.tenants is not None
            self.seen["placed"] += any("." in name for name in run.labels)
            self.seen["pool " + known.up.pool] += 1
            wanted = self._view.workers.get(run.labels.get("preferred_worker_id", ""))
            if wanted is not None and wanted is not known and not self.misfit(wanted, job, run):
                free = self._can_take(wanted, _room(job, run))
                self._require(not free, f"{run_id} goes to {worker}, and {wanted.up.worker_id} was preferred and free")

    # ── tenants ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_refusals(self, decisions: Decisions) -> None:
        """Check that no submit was accepted that a tenant had no room for, whatever else the pass took in."""
        new = [decisions.changed[row[0]] for row in decisions.batch.created]
        for name in {*self._view.tenants, *(run.tenant for run in new)} - {"*"}:
            if (spec := _spec_of(self._view.tenants, name)) is None:
                continue
            before = self._before.get(name) or Standing()
            count = sum(run.tenant == name and run.state not in TERMINAL for run in new)
            ended = {run.id for run in decisions.ended if run.tenant == name}
            if spec.max_waiting is not None and count:
                most = spec.max_waiting - len(before.waiting - ended)
                self._require(count <= most, f"{count} runs of {name} are accepted, {most} may wait")
                self.seen["waiting at the limit"] += count == most
            if spec.over_limit is OverLimit.REFUSE and spec.max_running is not None and count:
                most = spec.max_running - len(before.live - ended)
                self._require(count <= most, f"{count} runs of {name} are accepted, {most} may be live")
        for _, answer in decisions.answers:
            if isinstance(answer, Failed) and answer.error.code == "tenant_limit":
                self.seen["refused"] += 1

    def after(self, batch: Batch) -> None:
        """Check the limits of tenants on what is stored, by the declarations as of the pass."""
        if not self.is_on or id(batch) not in self._passes:
            return
        _, tenants = self._passes.pop(id(batch))
        begun = Counter[str]()
        for run_id, entries in batch.history:
            run = self._disk.runs_by_id[run_id]
            spec = _spec_of(tenants, run.tenant)
            if spec is None:
                continue
            for entry in entries:
                begun[run.tenant] += entry.after is State.DISPATCHED
                counted = entry.seq == 1 if spec.over_limit is OverLimit.REFUSE else entry.after is State.DISPATCHED
                if spec.rate is not None and counted:
                    self.seen["rated"] += 1
                    name = f"tenant:{run.tenant}"
                    self._lanes.count_start(name, spec.rate, spec.burst or 1, self._lanes.elapsed[entry.at])
        for name in +begun:
            spec = _spec_of(tenants, name)
            most = None if spec is None else spec.max_running
            self.seen["not declared"] += name not in tenants
            live = [one for one in self._disk.runs_by_id.values() if one.tenant == name and one.state in HOLDS_SLOT]
            fits = most is None or len(live) <= most
            self._require(fits, f"tenant {name} has {len(live)} active runs, {most} allowed")
            self.seen["at its limit"] += len(live) == most

    # ── runs that nobody takes ──────────────────────────────────────────────────────────────────────────────────────

    def _lack(self, job: Job, run: Run) -> Lack | None:
        """Return why no worker serves a run, now and after what they have."""
        pool = run.labels.get("preferred_pool")
        open_pools = [name for name, spec in self._view.pools.items() if pool in (None, name) and _takes(spec, job)]
        if self._view.pools and not open_pools:
            return Lack.NO_POOL_MAPPING
        fitting = [worker for worker in self._view.workers.values() if not self.misfit(worker, job, run)]
        if not fitting:
            return Lack.NO_WORKERS
        serves = any(one.busy or self._can_take(one, _room(job, run)) for one in fitting)
        return None if serves else Lack.POOL_OVERLOADED

    def _check_waiting(self, state: SchedulerState, elapsed: float) -> None:
        """Check that no run waits that could start, and note since when nobody can take a run."""
        held = Counter(run.lane for run in state.runs.values() if run.state in HOLDS_SLOT)
        active = Counter(run.tenant for run in state.runs.values() if run.state in HOLDS_SLOT)
        unserved: dict[str, float] = {}
        workers = [replace(worker, heard=0.0, loaded=0.0) for worker in self._view.workers.values()]
        facts = workers, self._view.pools, set(self._view.drained)
        if facts != self._view.facts:
            self._view.facts, self._view.lacks = facts, {}
        lacks = self._view.lacks
        for run in state.runs.values():
            if run.state is not State.SCHEDULED or run.is_held or state.of(Sessions).keeps(run):
                continue
            job = state.versions[run.job_version]
            room = _room(job, run)
            if (run.id, room) not in lacks:
                lacks[run.id, room] = self._lack(job, run)
            if lacks[run.id, room] is not None:
                unserved[run.id] = self._view.unserved.get(run.id, elapsed)
                continue
            spec, lane = _spec_of(self._view.tenants, run.tenant), state.lanes[run.lane]
            rated = lane.rate is not None or job.rate is not None or job.limit is not None
            rated = rated or (spec is not None and spec.rate is not None and spec.over_limit is OverLimit.WAIT)
            most = None if spec is None else spec.max_running
            closed = lane.status is not LaneStatus.OPEN or held[run.lane] >= lane.limit
            if state.draining or rated or closed or (most is not None and active[run.tenant] >= most):
                continue
            free = [
                worker.up.worker_id
                for worker in self._view.workers.values()
                if elapsed < worker.loaded + state.limits.silence
                and not self.misfit(worker, job, run)
                and self._can_take(worker, room)
            ]
            self._require(not free, f"{run.id} waits, and {', '.join(free)} could take it")
            self.seen["waits for a slot"] += 1
        self._view.unserved = unserved

    def _check_ends(self, decisions: Decisions, elapsed: float) -> None:
        codes = {letter.id: str(letter.code) for letter in decisions.batch.of(DeadLetter)}
        for run in decisions.ended:
            code = codes.get(run.id)
            if code is None or code not in list(Lack):
                continue
            self.seen[code] += 1
            self._given_up[run.id] = code
            waited = elapsed - self._view.unserved.get(run.id, elapsed)
            text = f"{run.id} is given up ({code}) after {waited:.3f}s in which nobody could take it"
            self._require(waited >= SHORTEST - SLACK, text)

    def explains_end(self, run: Run) -> bool:
        """Return whether a run was given up because nobody took or began it, with a dead letter that says so."""
        if run.reason.startswith("dispatch_failed: "):
            return run.attempt >= 50 and run.started_at is None and not run.crashes
        return run.id in self._given_up and run.reason.startswith(f"{self._given_up[run.id]}: ")


def _spec_of(tenants: Mapping[str, TenantSpec], name: str) -> TenantSpec | None:
    return tenants.get(name) or tenants.get("*")


def _takes(spec: PoolSpec | None, job: Job) -> bool:
    topic = job.topic or job.id
    return spec is not None and spec.status is PoolStatus.ACTIVE and any(fnmatchcase(topic, one) for one in spec.topics)


def _room(job: Job, run: Run) -> str:
    """Return the name of the field of `Known` that counts the run."""
    if job.executor is ExecutorKind.PROCESS:
        return "own"
    return "suspects" if run.crashes and run.exit_code is not None and run.outcome is None else "shared"


def _standings(state: SchedulerState) -> dict[str, Standing]:
    found: dict[str, Standing] = {}
    for run in state.runs.values():
        one = found.setdefault(run.tenant, Standing())
        one.live.add(run.id)
        if run.state not in HOLDS_SLOT:
            one.waiting.add(run.id)
    return found
