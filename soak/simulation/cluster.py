"""A scheduler, its disk, its workers and its clients, on virtual time. All of it real but for what the ports hide."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from math import inf
from random import Random
from typing import Any

import msgspec

from interlock.client.connection import Connection
from interlock.core.decisions import Decisions
from interlock.core.effects import PendingEffects
from interlock.core.facts import Facts
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.step import Command
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.engine.effects import CheckPolicies, no_service
from interlock.engine.engine import Decide, Engine, EngineSettings
from interlock.engine.housekeeping import Housekeeping
from interlock.engine.metrics import Metrics
from interlock.engine.sweeper import Sweeper
from interlock.error import InterlockError, StoreUnavailable
from interlock.inspector.inspector import Inspector
from interlock.model.cluster import NodeFacts
from interlock.model.lane import with_limits
from interlock.model.policy.output import FailMode
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.sender.sender import Sender
from interlock.wire import message as m
from interlock.wire.command import Answered, PolicyMoved
from interlock.wire.effect import Effect
from interlock.worker.host import Host, HostSettings
from soak.simulation.careless_guards import CarelessGuards
from soak.simulation.executor import SimulatedExecutor
from soak.simulation.explanations import ExplainedPasses
from soak.simulation.functions import CODE_JOB
from soak.simulation.greedy import GreedyEngine
from soak.simulation.guards import GUARDED_JOBS, ForgetfulReceivers, Receivers
from soak.simulation.hasty import HastyEngine
from soak.simulation.heedless import HeedlessEngine
from soak.simulation.inbox import AnswerFaults, FaultyInbox
from soak.simulation.invariants import Invariants
from soak.simulation.link import Network, SimulatedBus
from soak.simulation.loop import Process, VirtualLoop
from soak.simulation.negligent import NegligentEngine
from soak.simulation.policies import COST, POLICIES, PolicyService, ServiceClient
from soak.simulation.routes import POOLS, ROUTED_JOBS, TENANTS, Profile, profile_of
from soak.simulation.sagas import SAGA_JOBS
from soak.simulation.scans import SCANNING, SimulatedPipe
from soak.simulation.scenario import (
    APPROVAL_TIMEOUT,
    JOBS,
    KEEP,
    LANES,
    LEAD,
    LEASE_TTL,
    OF_LANES,
    SCHEDULED,
    WALL,
    Faults,
    Sabotage,
    Scenario,
    jobs_of,
)
from soak.simulation.sessions import PATTERNS
from soak.simulation.store import Disk, FaultyStore, StoreFaults, StoreSabotage
from soak.simulation.sweeps import leads
from soak.simulation.sweeps import watch as watch_sweeps
from soak.simulation.trace import Trace
from soak.simulation.workflows import WORKFLOW_JOBS


class SimulatedClock(Clock):
    def __init__(self, loop: VirtualLoop, seen: dict[float, float]) -> None:
        """`seen` is wall time → elapsed time."""
        self._loop = loop
        self.offset = WALL
        self.seen = seen

    def now(self) -> Now:
        elapsed = self._loop.time()
        wall = elapsed + self.offset
        self.seen[wall] = elapsed
        return Now(wall, elapsed)


class WatchedMetrics(Metrics):
    """Sees the decisions of every pass that was committed."""

    def __init__(self, invariants: Invariants, holder: str) -> None:
        super().__init__()
        self._invariants = invariants
        self._holder = holder

    def add(self, decisions: Decisions, seconds: float) -> None:
        super().add(decisions, seconds)
        self._invariants.lanes.check_slots(self._state)
        self._invariants.policies.answered(decisions)
        for problem in decisions.problems:
            self._invariants.fail(f"the scheduler tried what it may not: {problem}")
        if decisions.put_back and leads(self._holder, self._invariants.disk):
            self._invariants.fail(f"the scheduler missed {decisions.put_back}")


class FencelessEngine(Engine):
    """Takes every message of an attempt for one of the current attempt."""

    def changed(self, commands: Sequence[Command]) -> Sequence[Command]:
        return [self._without_fence(*command) for command in commands]

    def _without_fence(self, origin: str, content: object) -> Command:
        run = self.state.runs.get(getattr(content, "run_id", ""))
        if run is not None and run.worker_id is not None and isinstance(content, m.Finished):
            return run.worker_id, msgspec.structs.replace(content, fence=run.fence)
        return origin, content


class OldDispatches:
    """Gives the number of an attempt that never began to the next, or suspects every run that was ever lost."""

    def __init__(self, decide: Decide, sabotage: Sabotage) -> None:
        self._decide = decide
        self._sabotage = sabotage

    def decide(
        self, state: SchedulerState, commands: Sequence[Command], now: Now, rng: Random, facts: Facts
    ) -> Decisions:
        decisions = self._decide(state, commands, now, rng, facts)
        for messages in decisions.sends.values():
            for index, message in enumerate(messages):
                run = state.runs.get(message.run_id) if isinstance(message, m.Dispatch) else None
                if run is not None and self._sabotage.engine_reuses_attempts:
                    messages[index] = msgspec.structs.replace(message, attempt=1 + run.failures + run.crashes)
                elif run is not None and run.crashes:
                    messages[index] = msgspec.structs.replace(message, isolated=True)
        return decisions


class EagerHost(Host):
    """Begins whatever it is sent."""

    def _take(self, dispatch: m.Dispatch) -> None:
        super()._take(msgspec.structs.replace(dispatch, begin_by=inf))
        self._begin_offered()


class PatientHost(Host):
    """Waits for three heartbeats before it leaves a link on which nothing comes."""

    def _welcome(self, message: m.Welcome) -> None:
        super()._welcome(msgspec.structs.replace(message, lease=0.0))


class ForgetfulEngine(Engine):
    """Goes on from now after a stop, as if nothing could have been missed."""

    async def start(self) -> None:
        await super().start()
        now = self.present.now()
        self.state.timetable.rows = {
            row[0]: (*row[:4], row[4] if row[4] is None else max(row[4], now), *row[5:])
            for row in self.state.timetable.rows.values()
        }


class _Kept(dict[Effect, float]):
    def pop(self, effect: Effect, default: Any = None) -> Any:
        return self.get(effect, default)


class _NeverDue(dict[Effect, float]):
    def __setitem__(self, effect: Effect, due: float) -> None:
        super().__setitem__(effect, inf)


class CarelessEngine(Engine):
    """Applies every answer that comes, or does not ask again, or loses sight of what its predecessor has dispatched."""

    sabotage = Sabotage()

    async def start(self) -> None:
        await super().start()
        if self.sabotage.engine_applies_answers_twice:
            self.state.of(PendingEffects).pending = _Kept()
        elif self.sabotage.engine_asks_once:
            self.state.of(PendingEffects).pending = _NeverDue()
        else:
            for worker in self.state.workers.values():
                worker.attempts = {one: has for one, has in worker.attempts.items() if has.accepted}


class WallClockEngine(Engine):
    """Has spans end when the wall clock says so."""

    async def _pass(self) -> None:
        now = self._clock.now()
        jump = now.wall - now.elapsed - self.state.timers.wall_ahead
        self.state.timers.wall_ahead += jump
        self.state.timers.spans = [(span[0] - jump, *span[1:]) for span in self.state.timers.spans]
        await super()._pass()


def _engine_kind(sabotage: Sabotage) -> type[Engine]:
    """Return the engine that a sabotage needs."""
    kind: type[Engine] = FencelessEngine if sabotage.engine_ignores_fences else Engine
    kind = ForgetfulEngine if sabotage.engine_forgets_times else kind
    if sabotage.engine_applies_answers_twice or sabotage.engine_asks_once or sabotage.engine_forgets_unsent:
        kind = CarelessEngine
        CarelessEngine.sabotage = sabotage
    forgets = (sabotage.engine_forgets_bulks, sabotage.engine_forgets_holds, sabotage.engine_forgets_turns)
    if any(forgets) or sabotage.engine_forgets_usage or sabotage.engine_loses_runs or sabotage.engine_loses_timers:
        kind = NegligentEngine
        NegligentEngine.sabotage = sabotage
    if sabotage.engine_ignores_delays or sabotage.engine_ignores_types:
        kind = HeedlessEngine
        HeedlessEngine.sabotage = sabotage
    if sabotage.of_lanes:
        kind = GreedyEngine
        GreedyEngine.sabotage = sabotage
    if sabotage.of_guards:
        kind = CarelessGuards
        CarelessGuards.sabotage = sabotage
    if sabotage.of_workflows:
        kind = HastyEngine
        HastyEngine.sabotage = sabotage
    return WallClockEngine if sabotage.engine_counts_wall_time else kind


def _node(name: str) -> NodeFacts:
    return NodeFacts(name=name, instance=name, roles=["scheduler"], version="", since=0.0, digests={})


class Scheduler:
    """One start of the scheduler."""

    def __init__(self, place: int, process: Process, inbox: FaultyInbox, engine: Engine, bus: SimulatedBus) -> None:
        self.place = place
        self.process = process
        self.inbox = inbox
        self.engine = engine
        self.bus = bus


class Worker:
    """One start of a worker."""

    def __init__(self, name: str, process: Process, host: Host, executor: SimulatedExecutor) -> None:
        self.name = name
        self.process = process
        self.host = host
        self.executor = executor


class Cluster:
    def __init__(self, seed: int, scenario: Scenario, sabotage: Sabotage) -> None:
        self.seed = seed
        self.scenario = scenario
        self.sabotage = sabotage
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop)
        self.disk = Disk(self.loop.time)
        self.invariants = Invariants(self.disk, LANES, self.loop, self.trace)
        self.invariants.is_synchronous = scenario.is_synchronous
        self.invariants.has_clocks = scenario.is_cluster and scenario.faults.jump_clock
        seen = self.invariants.lanes.elapsed
        self.clocks = [SimulatedClock(self.loop, seen) for _ in range(scenario.schedulers)]
        self.clock = self.clocks[0]
        self.network = Network(self.loop, self.random("network"), self.trace, scenario.schedulers)
        self.network.on_send = self.invariants.sent
        if sabotage.link_loses_stops:
            self.network.lose_all = (m.Stop,)
        self.store_faults = StoreFaults(cuts=self.network.cuts, has_sessions=scenario.is_cluster)
        self.answer_faults = AnswerFaults()
        self.starts = 0
        self.take_overs = 0  # of schedulers that stood by, the first one too
        self.scheduler: Scheduler | None = None
        self.schedulers: dict[Process, Scheduler] = {}  # all that live; at most one of them leads
        self.workers: dict[int, Worker] = {}
        self.timetable = scenario.timetable
        self.policy = 0
        self.invariants.policies.is_on = scenario.policy
        self.invariants.policies.fails_open = scenario.policy_fails_open
        if scenario.remote_policy:
            self.invariants.policies.service = PolicyService(self.random("policy"))
        self.invariants.routes.is_on = self.invariants.lanes.routed = scenario.routes
        self.pools, self.tenants = (POOLS[0], TENANTS[0]) if scenario.routes else ({}, {})
        self.profile_for: Callable[[int], Profile] | None = None  # by place; without it, profiles are random
        self.sender: Process | None = None
        self.inspector: Process | None = None
        if scenario.scans:
            self.invariants.scans.mode = self.random("scans").choice(list(FailMode))
            self.invariants.scans.has_faults = scenario.faults != Faults.only()
        self.receivers: Receivers | None = None
        self._rng = self.random("cluster")
        self._restarting = False
        self._outside = copy_context()  # belongs to no process: what dies cannot start its own successor

    def random(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    # ── the scheduler ───────────────────────────────────────────────────────────────────────────────────────────────

    def start_schedulers(self) -> None:
        chance = self.random("clocks")
        for place, clock in enumerate(self.clocks):
            if place and self.scenario.faults.jump_clock:
                clock.offset += chance.choice((0.0, 1.0, 200.0)) * chance.uniform(-1, 1)
            self.start_scheduler(place)

    def start_scheduler(self, place: int = 0) -> None:
        self._restarting = False
        self.starts += 1
        self.invariants.spans.scheduler_starts()
        process = Process(self.loop, f"scheduler-{self.starts}")
        process.at_end.append(lambda: self._scheduler_ended(place, process))
        clock = self.clocks[place]
        sabotage = self.sabotage
        rng = self.random(process.name)
        bad = {name: getattr(sabotage, f"store_{name}") for name in StoreSabotage.__struct_fields__}
        store = FaultyStore(self.disk, process, rng, self.store_faults, self.trace, StoreSabotage(**bad))
        kind = _engine_kind(sabotage)
        chance = self.random(f"{process.name}/answers")
        inbox = FaultyInbox(self._deliver, self.loop, chance, self.answer_faults, self.trace)
        self.explained = ExplainedPasses(self.invariants, self.random(f"{process.name}/explanations"), sabotage)
        decide: Decide = self.explained.decide
        if sabotage.engine_reuses_attempts or sabotage.engine_suspects_all:
            decide = OldDispatches(decide, sabotage).decide
        check: CheckPolicies = no_service
        if (service := self.invariants.policies.service) is not None:
            client = ServiceClient(
                service, lambda digest: inbox.post("", PolicyMoved(digest)), lambda: clock.now().wall
            )
            check = client.check
            process.spawn(client.watch())
        engine = kind(
            store=store,
            leases=store,
            inbox=inbox,
            metrics=WatchedMetrics(self.invariants, process.name),
            decide=decide,
            check_policy=check,
            clock=clock,
            rng=rng,
            catalog=self._catalog(),
            settings=EngineSettings(
                limits=CoreLimits(
                    heartbeat_interval=self.scenario.heartbeat,
                    small_payload=200,
                    lead=LEAD,
                    bulk_runs=self.scenario.bulk_runs,
                    session_patterns=PATTERNS,
                    approval_timeout=APPROVAL_TIMEOUT,
                    remote_policy=self.scenario.remote_policy,
                    policy_fails_open=self.scenario.policy_fails_open,
                    policy_cost=COST,
                ),
                lease_ttl=LEASE_TTL,
                batch_runs=self.scenario.batch_runs,
                holder=process.name,
                instance=process.name,
                node=_node(process.name) if self.scenario.is_cluster else None,
            ),
        )
        if isinstance(engine, FencelessEngine | GreedyEngine | HeedlessEngine | HastyEngine):
            inbox.change = engine.changed
        scheduler = Scheduler(place, process, inbox, engine, SimulatedBus(self.network, process, place))
        self.schedulers[process] = scheduler
        self.trace.add(f"{process.name} starts")
        if not self.scenario.is_cluster:
            self.scheduler = scheduler
        process.spawn(self._schedule(scheduler))
        process.spawn(watch_sweeps(engine, store, clock, self.invariants))
        chance = self.random(f"{process.name}/sweeps")
        own = FaultyStore(self.disk, process, chance, self.store_faults, self.trace, store.sabotage)
        process.spawn(Sweeper(engine.present, own, 30.0).run())
        if self.scenario.prunes:
            chance = self.random(f"{process.name}/pruning")
            own = FaultyStore(self.disk, process, chance, self.store_faults, self.trace, store.sabotage)
            keeper = Housekeeping(own, lambda: engine.owner.lease, KEEP, engine.metrics, clock, every=1.0)
            process.spawn(self._prune(keeper))

    def _deliver(self, answered: Answered) -> None:
        """To whichever scheduler there is by now."""
        if self.scheduler is not None:
            self.scheduler.process.call_soon(self.scheduler.inbox.arrive, answered)

    async def _prune(self, housekeeping: Housekeeping) -> None:
        while True:
            with suppress(StoreUnavailable):
                await housekeeping.run()
            await asyncio.sleep(1.0)

    def _catalog(self) -> Catalog:
        jobs = jobs_of(self.starts, self.timetable, self.scenario.lanes)
        jobs += GUARDED_JOBS if self.scenario.guards else ()
        jobs += WORKFLOW_JOBS if self.scenario.workflows else ()
        jobs += SAGA_JOBS if self.scenario.sagas else ()
        jobs += ROUTED_JOBS if self.scenario.routes else ()
        factor = 3 if self.sabotage.engine_forgets_limits else 1
        lanes = with_limits({name: limit * factor for name, limit in LANES.items()})
        policy = POLICIES[self.policy] if self.scenario.policy and not self.scenario.remote_policy else None
        if (mode := self.invariants.scans.mode) is not None:
            policy = SCANNING[mode]
        entries = [CatalogEntry(job, lambda payload: None) for job in jobs]
        return Catalog(entries, lanes, policy, self.pools, self.tenants)

    async def end_timetable(self) -> None:
        """Declare the jobs without their schedules, for with them there would be no end."""
        self.timetable = False
        while self.scenario.timetable:
            if await self.declare():
                return
            await asyncio.sleep(0.5)

    async def declare(self) -> bool:
        """Declare the jobs and the policy as they are now, in a scheduler that works; return whether that is stored."""
        scheduler = self.scheduler
        if scheduler is None or not scheduler.engine.present.available:
            return False
        for other in self.schedulers.values():
            if other is not scheduler:
                other.engine.present.catalog = self._catalog()  # every node has the same files
        try:
            await asyncio.wait_for(scheduler.engine.declarations.declare(self._catalog(), "simulation"), 5.0)
        except (InterlockError, TimeoutError) as error:
            self.trace.add(f"the declarations cannot be changed: {error!r}")
            return False
        return True

    async def _stand_by(self, scheduler: Scheduler) -> None:
        await scheduler.engine.start()
        self.take_overs += 1
        self.invariants.led[scheduler.process.name] = False
        self.trace.add(f"{scheduler.process.name} leads")
        self.scheduler = scheduler

    async def _schedule(self, scheduler: Scheduler) -> None:
        try:
            if self.scenario.is_cluster:
                await self._stand_by(scheduler)
            await scheduler.bus.listen(scheduler.engine.links)
            if not self.scenario.is_cluster:
                await scheduler.engine.start()
            await scheduler.engine.run()
            await scheduler.engine.requests.finish()
            await scheduler.bus.close()
        except InterlockError as error:
            self.trace.add(f"{scheduler.process.name} cannot start: {error.code}")
        scheduler.process.kill()

    def _scheduler_ended(self, place: int, process: Process) -> None:
        self.trace.add(f"{process.name} has ended")
        self.network.end_process(process)
        del self.schedulers[process]
        is_leader = self.scheduler is not None and self.scheduler.process is process
        if is_leader:
            self.scheduler = None
        if self.scenario.is_cluster:
            self.disk.left.setdefault(process.name, self.loop.time())
        else:
            if self.scheduler is not None or self._restarting:
                return
            self._restarting = True
        seconds = self._rng.choice((0.01, 0.5, 5.0)) * self._rng.random() + 0.01
        self.loop.call_later(seconds, self.start_scheduler, place, context=self._outside)

    # ── the sender ──────────────────────────────────────────────────────────────────────────────────────────────────

    def start_sender(self) -> None:
        """Start the process that makes requests; when it dies, another follows."""
        self.starts += 1
        if self.receivers is None:
            self.receivers = self.invariants.guards.receivers = Receivers(
                self.random("receivers"), self.invariants.check
            )
        process = self.sender = Process(self.loop, f"sender-{self.starts}")
        process.at_end.append(lambda: self._sender_ended(process))
        rng = self.random(process.name)
        store = FaultyStore(self.disk, process, rng, StoreFaults(), self.trace)
        transport = ForgetfulReceivers() if self.sabotage.sender_forgets else self.receivers
        sender = Sender(store, SimulatedBus(self.network, process), transport, self.clock, rng)
        process.spawn(sender.run())

    def _sender_ended(self, process: Process) -> None:
        self.network.end_process(process)
        self.loop.call_later(self._rng.uniform(0.1, 3.0), self.start_sender, context=self._outside)

    # ── the inspector ───────────────────────────────────────────────────────────────────────────────────────────────

    def start_inspector(self) -> None:
        """Start the process that scans; when it dies, another follows, in time or not."""
        self.starts += 1
        process = self.inspector = Process(self.loop, f"client-inspector-{self.starts}")
        process.at_end.append(lambda: self._inspector_ended(process))
        process.spawn(self._inspect(process))

    async def _inspect(self, process: Process) -> None:
        rng = self.random(process.name)
        store = FaultyStore(self.disk, process, rng, self.store_faults, self.trace)
        is_silent = self.sabotage.inspector_is_silent
        pipe = SimulatedPipe(self.loop, rng, self.invariants.scans, self.scenario.duration, is_silent)
        with suppress(InterlockError):
            await Inspector(store, Connection(SimulatedBus(self.network, process)), pipe).run()
        process.kill()

    def _inspector_ended(self, process: Process) -> None:
        self.trace.add(f"{process.name} has ended")
        self.network.end_process(process)
        seconds = self._rng.choice((0.1, 0.1, 2.0, 5.0, 80.0))
        self.loop.call_later(seconds, self.start_inspector, context=self._outside)

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start_worker(self, place: int) -> None:
        self.starts += 1
        name = f"w{place}" if self.scenario.named_workers else f"w{place}-{self.starts}"
        process = Process(self.loop, f"worker-{place}-{self.starts}")
        process.at_end.append(lambda: self._worker_ended(place, process))
        executor = SimulatedExecutor(
            process,
            self.random(process.name),
            self.invariants,
            begins_twice=self.sabotage.worker_begins_twice,
            begins_late=self.sabotage.worker_begins_late,
            starts_slowly=self.scenario.slow_starts,
        )
        instance = self.scheduler.process.name if self.scenario.own_workers and self.scheduler is not None else ""
        settings = HostSettings(
            worker_id=name,
            slots=self.scenario.slots,
            processes=self.scenario.processes,
            heartbeat_interval=self.scenario.heartbeat,
            instance=instance,
            stop_grace=1.0,
        )
        profile = self._profile(place, name) if self.scenario.routes else None
        process.spawn(self._work(place, name, process, executor, settings, profile))

    def replace_workers(self, profile_for: Callable[[int], Profile]) -> None:
        self.profile_for = profile_for
        for worker in list(self.workers.values()):
            worker.process.kill()

    def _profile(self, place: int, name: str) -> Profile:
        drawn = profile_of(self.random(f"profile-{self.starts}"))
        chosen = drawn if self.profile_for is None else self.profile_for(place)
        self.invariants.routes.profiles[name] = chosen
        return chosen

    async def _work(
        self,
        place: int,
        name: str,
        process: Process,
        executor: SimulatedExecutor,
        settings: HostSettings,
        profile: Profile | None,
    ) -> None:
        self.trace.add(f"{process.name} starts as {name}")
        known = {job.id: job.code for job in (*JOBS, *OF_LANES, *SCHEDULED, *GUARDED_JOBS, CODE_JOB)}
        kind = EagerHost if self.sabotage.worker_begins_late else Host
        kind = PatientHost if self.sabotage.worker_waits_longer else kind
        measure: Callable[[], m.Load] = m.Load
        if profile is not None:
            known |= {job.id: job.code for job in ROUTED_JOBS if job.id != profile.forgets}
            settings = profile.announced(settings)
            measure = profile.measure(self.random(f"{process.name}/load"))
        host = kind(SimulatedBus(self.network, process), executor, known, settings, measure=measure)
        self.workers[place] = Worker(name, process, host, executor)
        await executor.open(host.report)
        try:
            await host.run()
        except InterlockError as error:
            self.trace.add(f"{process.name} is refused: {error.code}")
        await executor.close()
        process.kill()

    def _worker_ended(self, place: int, process: Process) -> None:
        self.trace.add(f"{process.name} has ended")
        self.network.end_process(process)
        self.workers.pop(place, None)
        self.loop.call_later(self._rng.uniform(0.1, 3.0), self.start_worker, place, context=self._outside)
