"""The roster: the workers, and which of them takes a run.

Workers that no run tells apart are a group: they have the same pool, jobs, capabilities and tenants, and the same
values of the labels that runs ask for. A demand is what a run asks of its worker, and knows the groups that fit. So a
choice compares the best worker of each such group, and never looks at all workers. Queues that no worker takes are
parked at their demand until a worker of one of its groups can take a run.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from random import Random
from typing import Optional

import msgspec

from interlock.core.lanes.lane import SHARED, LineKey, Requirements, RouteKey, SlotKind
from interlock.model.explanation import Obstacle
from interlock.model.pool import DEFAULT_POOL, EVERYTHING, ONE_POOL, Lack, PoolSpec, PoolStatus
from interlock.model.run import Run
from interlock.policy.glob import matcher

SUSPECT_SHARE = 4  # slots of a worker per suspect that it takes
MOST_TURNS = 256  # turns of workflows that a worker takes at once; it executes them one after the other
_OF_RUNS = (SHARED, SlotKind.OWN, SlotKind.SUSPECT)  # rooms for which queues wait in lanes
ANYWHERE = ""  # stands for the job id if the dispatch carries the work, so that any worker can do it
NOT_OUT = inf  # `Attempt.heard` before the attempt is sent: it cannot be silent
DEMAND = "demand"  # the kind of a span that ends with another look for a worker
PREFERRED_POOL, PREFERRED_WORKER = "preferred_pool", "preferred_worker_id"  # names of labels
CONSTRAINT = "constraint."
PREFIXES = ("placement.", CONSTRAINT, "node.")  # of the labels of a run that its worker must have, too
UNDECLARED = PoolSpec(topics=(EVERYTHING,))
MOST_DEMANDS = 10_000
MOST_TRIES = 50  # looks for a worker, or dispatches that none begins, before a run is given up

Parked = tuple[str, LineKey, RouteKey]  # lane, line and key of a queue


class Attempt(msgspec.Struct, gc=False):
    """A run on a worker."""

    run: Run
    heard: float  # elapsed time of the last sign of life
    accepted: bool  # whether the worker has ever reported it
    order: int  # its place in the queue it came from


class Worker(msgspec.Struct, eq=False):
    """A worker as the scheduler sees it. Its load is the number of its attempts, counted on demand."""

    id: str
    slots: int = 0
    processes: int = 0
    jobs: Mapping[str, str] = {}  # of its app, with the digests of their code
    connected: bool = False
    draining: bool = False
    silent: bool = False  # has sent nothing for too long
    pool: str = DEFAULT_POOL
    capabilities: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    tenants: Set[str] | None = None  # those whose runs it may have; None for all
    skew: float = 0.0  # its wall clock minus the scheduler's
    drained: bool = False  # whether a person has asked that it gets nothing new
    heard: float = 0.0  # elapsed time of its last message
    cpu: float = 0.0  # percent, as it says
    memory: float = 0.0
    gpu: float = 0.0
    attempts: dict[str, Attempt] = {}
    apart: dict[str, SlotKind] = {}  # attempts in another room than the shared one
    taken: dict[SlotKind, int] = {}  # how many they are in each room
    group: Optional["WorkerGroup"] = None  # its group while it takes work
    stamp: int = 0  # number of its latest change; entries of heaps with another are stale

    @property
    def takes_work(self) -> bool:
        return self.connected and not self.silent and not self.draining and not self.drained

    @property
    def shared(self) -> int:
        """Attempts in its shared processes."""
        return len(self.attempts) - len(self.apart)

    @property
    def score(self) -> float:
        return len(self.attempts) + (self.cpu + self.gpu) / 100

    def free(self, room: SlotKind) -> int:
        if room is SHARED:
            return self.slots - len(self.attempts) + len(self.apart)
        # At least one, or a run that needs this room would wait for ever.
        most = self.processes if room is SlotKind.OWN else self.slots // SUSPECT_SHARE
        if room is SlotKind.TURN:
            most = MOST_TURNS
        return max(1, most) - self.taken.get(room, 0)

    def set_apart(self, run_id: str, room: SlotKind) -> None:
        self.apart[run_id] = room
        self.taken[room] = self.taken.get(room, 0) + 1

    def obstacle(self, room: SlotKind, pool: PoolSpec | None) -> Obstacle | None:
        """Return why it takes no run there now. In a declared pool it also keeps some of its strength."""
        if self.free(room) <= 0:
            return Obstacle.FULL
        if pool is None:
            return None
        is_high = room is SlotKind.SHARED and self.slots >= 10 and self.shared * 10 >= self.slots * 9
        is_busy = pool.max_load is not None and max(self.cpu, self.gpu) >= pool.max_load
        return Obstacle.OVERLOADED if is_high or is_busy else None


HeapEntry = tuple[float, float, str, int, Worker]  # score, or a lower one, random number, id, stamp
CrewKey = tuple[str, Set[str], Set[str], Set[str] | None, tuple[str | None, ...]]
DemandKey = tuple[str, Requirements, str]  # job id or `ANYWHERE`, needs, tenant


class WorkerGroup(msgspec.Struct, eq=False):
    key: CrewKey
    pool: PoolSpec | None  # None if no pools are declared
    members: dict[str, Worker] = {}
    heaps: dict[SlotKind, list[HeapEntry]] = {}  # for each kind of room that was asked for: who can take a run
    demands: list["Demand"] = []  # those that it serves

    def best(self, room: SlotKind, rng: Random) -> HeapEntry | None:
        """Return the entry of a worker that has the least to do."""
        heap = self.heaps.get(room)
        if heap is None:
            heap = self.heaps[room] = []
            for worker in self.members.values():
                self.push(heap, room, worker, rng)
        while heap:
            score, _, _, stamp, worker = first = heap[0]
            if stamp == worker.stamp and score == (true := worker.score):
                return first
            # Since its entry was made, the worker may have got runs: it has more to do, or no room left.
            if stamp == worker.stamp and worker.obstacle(room, self.pool) is None:
                entry = (true, rng.random(), worker.id, stamp, worker)
                heapreplace(heap, entry)
                if heap[0] is entry:
                    return entry
            else:
                heappop(heap)
        return None

    def push(self, heap: list[HeapEntry], room: SlotKind, worker: Worker, rng: Random) -> bool:
        """Add a worker to the heap of a room if it can take a run there; return whether it can."""
        if worker.obstacle(room, self.pool) is not None:
            return False
        heappush(heap, (worker.score, rng.random(), worker.id, worker.stamp, worker))
        if len(heap) > 16 + 4 * len(self.members):
            heap[:] = [entry for entry in heap if entry[3] == entry[4].stamp]
            heapify(heap)
        return True


class Demand(msgspec.Struct, eq=False):
    key: DemandKey
    groups: dict[int, WorkerGroup] = {}  # by identity
    parked: dict[Parked, None] = {}  # queues that no worker takes now
    tries: list[int] = []  # numbers of arrival at each look in vain, while nobody can serve it
    alarm: float = inf  # elapsed time of the next look
    tried: float = -inf  # elapsed time of the latest one in vain

    def tries_of(self, order: int) -> int:
        """Return how many looks in vain there have been since a run with this number arrived."""
        return len(self.tries) - bisect_right(self.tries, order)


class Roster:
    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.plain_keys: dict[tuple[str, str], tuple[LineKey, RouteKey]] = {}  # version and tenant → `route.keys_of`
        self.pools: Mapping[str, PoolSpec] = {}
        self.demands: dict[DemandKey, Demand] = {}
        self.open: dict[int, Demand] = {}  # demands with parked queues that a worker may take now
        self.alarms: dict[str, Demand] = {}  # name of a span → the demand to look at when it ends
        self._groups: dict[CrewKey, WorkerGroup] = {}
        self._idle: dict[SlotKind, dict[int, WorkerGroup]] = {room: {} for room in SlotKind}
        """groups that may have a worker that can take a run there"""
        self._changed: dict[str, Worker] = {}
        self._announced: set[str] = set()  # names of labels of workers
        self._asked: list[str] = []  # those that runs have asked for
        self._most_demands = MOST_DEMANDS
        self._bound = False  # whether any worker is for some tenants only

    def adopt(self, pools: Mapping[str, PoolSpec]) -> None:
        if pools != self.pools:
            self.pools = pools
            self._regroup()

    def changed(self, worker: Worker) -> None:
        """Note anything that may decide whether a worker takes a run, or when."""
        self._changed[worker.id] = worker

    def drop(self, worker: Worker, run_id: str) -> None:
        """Take an attempt off its worker."""
        worker.attempts.pop(run_id, None)
        if (room := worker.apart.pop(run_id, None)) is not None:
            worker.taken[room] -= 1
        self._changed[worker.id] = worker

    def forget(self, worker: Worker) -> None:
        self.leave(worker)
        self.workers.pop(worker.id, None)
        self._changed.pop(worker.id, None)

    def settle(self, rng: Random) -> None:
        """Give every changed worker its new place in its group, and open the demands that it may serve."""
        while self._changed:
            changed, self._changed = self._changed, {}
            for worker in changed.values():
                if (worker.tenants is not None and not self._bound) or not self._announced.issuperset(worker.labels):
                    self._bound = self._bound or worker.tenants is not None
                    self._announced.update(worker.labels)
                    self._regroup()
                    if worker.tenants is not None:
                        self.demands = {}  # their keys may be without tenants
                if not worker.takes_work:
                    self.leave(worker)
                    continue
                if worker.group is None:
                    worker.group = self._crew_of(worker)
                    worker.group.members[worker.id] = worker
                self._offer(worker.group, worker, rng)

    def _offer(self, group: WorkerGroup, worker: Worker, rng: Random) -> None:
        worker.stamp += 1
        can_take = False
        for room, heap in group.heaps.items():
            if group.push(heap, room, worker, rng):
                self._idle[room][id(group)] = group
                can_take = can_take or room is not SlotKind.TURN
        if can_take or any(worker.obstacle(room, group.pool) is None for room in _OF_RUNS if room not in group.heaps):
            self._open(group.demands, served=True)
        elif not worker.attempts:
            self._open(demand for demand in group.demands if demand.alarm == inf)  # nobody may be left to wait for

    def _open(self, demands: Iterable[Demand], served: bool = False) -> None:
        for demand in demands:
            if demand.parked:
                self.open[id(demand)] = demand
                if served:
                    demand.tries.clear()

    def has_room(self, rooms: Sequence[SlotKind], rng: Random) -> bool:
        """Return whether a look at the waiting runs makes sense: a worker can take a run in one of these rooms, or no
        worker has any, so that nothing is about to end that they could wait for."""
        for room in rooms:
            idle = self._idle[room]
            while idle:
                name, group = next(iter(idle.items()))
                if group.best(room, rng) is not None:
                    return True
                del idle[name]
        return not any(worker.attempts for worker in self.workers.values())

    def pick(self, demand: Demand, room: SlotKind, rng: Random, preferred: str = "") -> Worker | None:
        """Return the preferred worker if it can take the run, or else the one that has the least to do."""
        if preferred and (worker := self.workers.get(preferred)) is not None:
            group = demand.groups.get(id(worker.group))
            if group is not None and worker.obstacle(room, group.pool) is None:
                return worker
        best: HeapEntry | None = None
        if len(demand.groups) == 1:
            for group in demand.groups.values():
                best = group.best(room, rng)
            return None if best is None else best[4]
        # Whichever are fewer: the groups that fit, or those that may have room.
        idle = self._idle[room]
        groups, others = (demand.groups, idle) if len(demand.groups) <= len(idle) else (idle, demand.groups)
        for name, group in groups.items():
            found = group.best(room, rng) if name in others else None
            if found is not None and (best is None or found < best):
                best = found
        return None if best is None else best[4]

    def demand_of(self, key: RouteKey, tenant: str, rng: Random) -> Demand:
        """Return the demand of the runs with this key."""
        name = (key[0], key[3], tenant if self._bound else "")
        found = self.demands.get(name)
        if found is not None:
            return found
        new = [label for label, _ in key[3][2] if label not in self._asked and self._is_announced(label)]
        if new:
            self._asked += new
            self._regroup()
            self.settle(rng)
        if len(self.demands) >= self._most_demands:
            self._drop_places()
        found = self.demands[name] = Demand(name)
        for group in self._groups.values():
            self._join(found, group)
        return found

    def known_demand(self, key: DemandKey) -> Demand | None:
        return self.demands.get(key if self._bound else (*key[:2], ""))

    def lack(self, demand: Demand) -> Lack | None:
        """Return why nobody can serve a demand; None if its workers have only to finish something first."""
        if not any(self._maps(pool, spec, demand.key[1]) for pool, spec in self._declared()):
            return Lack.NO_POOL_MAPPING
        if not demand.groups:
            return Lack.NO_WORKERS
        members = (worker for group in demand.groups.values() for worker in group.members.values())
        return None if any(worker.attempts for worker in members) else Lack.POOL_OVERLOADED

    def misfit(self, worker: Worker, key: DemandKey) -> tuple[Obstacle, str] | None:
        """Return why a worker never gets a run with these needs, while both stay as they are."""
        job_id, (topic, capabilities, labels, pool), tenant = key
        spec = self.pools.get(worker.pool, UNDECLARED) if self.pools else ONE_POOL
        if why := _closed(spec, topic) or (pool not in ("", worker.pool) and f"and not in {pool}"):
            return Obstacle.POOL, f"is in pool {worker.pool}, {why}"
        has = {capability.casefold() for capability in (*spec.offers, *spec.requires, *worker.capabilities)}
        if EVERYTHING not in has and (missing := [capability for capability in capabilities if capability not in has]):
            return Obstacle.CAPABILITY, f"lacks {', '.join(missing)}"
        for name, value in labels:
            if value_of(worker.labels, name) == value:
                continue
            ability = name.removeprefix(CONSTRAINT) if value == "true" and name.startswith(CONSTRAINT) else ""
            if not ability:
                return Obstacle.LABEL, f"has no label {name}={value}"
            if ability.casefold() not in has and (EVERYTHING not in has or spec is ONE_POOL):
                return Obstacle.LABEL, f"has neither label {name}={value} nor capability {ability}"
        if worker.tenants is not None and tenant not in worker.tenants:
            return Obstacle.TENANT, "is for other tenants"
        if job_id != ANYWHERE and job_id not in worker.jobs:
            return Obstacle.UNKNOWN_JOB, f"does not know job {job_id}"
        return None

    def _is_announced(self, label: str) -> bool:
        """Return whether any worker has ever had a label that this one of a run may ask for."""
        return label in self._announced or label.partition(".")[2] in self._announced

    def _declared(self) -> Iterator[tuple[str, PoolSpec]]:
        yield from self.pools.items() if self.pools else [("", ONE_POOL)]

    def _maps(self, pool: str, spec: PoolSpec, needs: Requirements) -> bool:
        return (not self.pools or needs[3] in ("", pool)) and not _closed(spec, needs[0])

    def _crew_of(self, worker: Worker) -> WorkerGroup:
        values = tuple(value_of(worker.labels, name) for name in self._asked)
        capabilities = frozenset(capability.casefold() for capability in worker.capabilities)
        key = (worker.pool, frozenset(worker.jobs), capabilities, worker.tenants, values)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = WorkerGroup(key, self.pools.get(worker.pool))
            for idle in self._idle.values():
                idle[id(group)] = group
            group.members[worker.id] = worker
            for demand in self.demands.values():
                self._join(demand, group)
        return group

    def _join(self, demand: Demand, group: WorkerGroup) -> None:
        """Let a group serve a demand if its workers fit: one stands for all."""
        if self.misfit(next(iter(group.members.values())), demand.key) is None:
            demand.groups[id(group)] = group
            group.demands.append(demand)

    def leave(self, worker: Worker) -> None:
        """Take a worker out of its group; it joins one again if it is `changed` and takes work."""
        group, worker.group = worker.group, None
        worker.stamp += 1
        if group is None:
            return
        group.members.pop(worker.id, None)
        if not group.members:
            self._groups.pop(group.key, None)
            for idle in self._idle.values():
                idle.pop(id(group), None)
            for demand in group.demands:
                demand.groups.pop(id(group), None)
            self._open(demand for demand in group.demands if demand.alarm == inf)  # as above

    def _regroup(self) -> None:
        """Form all groups anew, and let every parked queue try again. The tries of a demand still count."""
        self._drop_places()
        for demand in self.demands.values():
            demand.groups = {}
        self._open(self.demands.values())
        wanted = {label for key in self.demands for label, _ in key[1][2]}
        self._asked += sorted(filter(self._is_announced, wanted.difference(self._asked)))
        self._groups = {}
        self._idle = {room: {} for room in SlotKind}
        for worker in self.workers.values():
            worker.group = None
            worker.stamp += 1
            self.changed(worker)

    def _drop_places(self) -> None:
        self.demands = {key: demand for key, demand in self.demands.items() if demand.parked or demand.tries}
        self._most_demands = max(MOST_DEMANDS, 2 * len(self.demands))
        kept = {id(demand) for demand in self.demands.values()}
        for group in self._groups.values():
            group.demands = [demand for demand in group.demands if id(demand) in kept]


def _closed(spec: PoolSpec, topic: str) -> str:
    """Return why a pool takes no runs of a topic; empty if it does."""
    if spec is UNDECLARED:
        return "which is not declared"
    if spec.status is not PoolStatus.ACTIVE:
        return f"which is {spec.status}"
    return "" if matcher(tuple(spec.topics))(topic) else f"which does not take topic {topic}"


def value_of(labels: Mapping[str, str], name: str) -> str | None:
    """Return the value of a worker's label, under the full name or the one without its prefix."""
    found = labels.get(name)
    return labels.get(name.partition(".")[2]) if found is None else found
