"""The choice of a worker, compared with a slow one that looks at every worker and is obviously right."""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from interlock.core.lanes.lane import RouteKey, SlotKind
from interlock.core.routing.roster import ANYWHERE, Attempt, Roster, Worker
from interlock.model.pool import PoolSpec, PoolStatus
from interlock.model.state import State
from tests.core.test_state_table import run_in

JOBS = ("mail.send", "mail.sort", "video")
TENANTS = ("red", "blue")
LABELS = ("region", "node.disk")
POOLS = {
    "default": PoolSpec(topics=("*",), offers=("CPU",), max_load=None),
    "gpu": PoolSpec(topics=("video", "mail.*"), offers=("gpu", "cpu"), requires=("cuda",)),
    "off": PoolSpec(topics=("*",), offers=("*",), status=PoolStatus.INACTIVE),
    "old": PoolSpec(topics=("*",), offers=("*",), status=PoolStatus.DRAINING),
}
_, RUN = run_in(State.RUNNING)

some = st.sampled_from
keys = st.builds(
    lambda job, any_worker, room, requires, labels, pool: (
        ANYWHERE if any_worker else job, room, (), (job, requires, labels, pool),
    ),
    some(JOBS), st.booleans(), some(SlotKind),
    st.lists(some(("cpu", "gpu", "cuda", "tape")), max_size=2, unique=True).map(tuple),
    st.dictionaries(some(("placement.region", "node.disk", "constraint.region")), some(("eu", "us")), max_size=1)
    .map(lambda found: tuple(found.items())),
    some(("", "", "gpu", "default", "none")),
)  # fmt: skip


def fits(pools: dict[str, PoolSpec], worker: Worker, key: RouteKey, tenant: str) -> bool:
    """ROU-1 to ROU-4, one after the other."""
    job_id, _, _, (topic, requires, labels, preferred_pool) = key
    if not (worker.connected and not worker.draining and not worker.drained and not worker.silent):
        return False
    if preferred_pool and worker.pool != preferred_pool:
        return False
    has = {one.lower() for one in worker.capabilities}
    if pools:
        pool = pools.get(worker.pool)
        if pool is None or pool.status is not PoolStatus.ACTIVE:
            return False
        if not any(glob in ("*", topic) or (glob == "mail.*" and topic.startswith("mail.")) for glob in pool.topics):
            return False
        has |= {one.lower() for one in (*pool.offers, *pool.requires)}
        if "*" not in has and not set(requires) <= has:
            return False
    for name, value in labels:
        if value not in (worker.labels.get(name), worker.labels.get(name.split(".", 1)[1])):
            return False
    if worker.tenants is not None and tenant not in worker.tenants:
        return False
    return job_id == ANYWHERE or job_id in worker.jobs


def is_open(pools: dict[str, PoolSpec], worker: Worker, room: SlotKind) -> bool:
    """ROU-6, and a free slot."""
    if worker.free(room) <= 0:
        return False
    if not pools:
        return True
    shared = len(worker.attempts) - len(worker.apart)
    full = room is SlotKind.SHARED and worker.slots >= 10 and shared / worker.slots >= 0.9
    return not full and (worker.pool == "default" or (worker.cpu < 90 and worker.gpu < 90))


class Choices(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.roster, self.rng, self.runs = Roster(), Random(0), 0

    @rule(
        name=some(("w1", "w2", "w3", "w4", "w5")), slots=some((1, 2, 10, 12)), jobs=st.sets(some(JOBS)),
        pool=some(("default", "gpu", "off", "old", "odd")), has=st.sets(some(("cpu", "GPU", "Cuda"))),
        labels=st.dictionaries(some(LABELS), some(("eu", "us"))), tenants=st.none() | st.sets(some(TENANTS)),
    )  # fmt: skip
    def join(
        self, name: str, slots: int, jobs: set[str], pool: str, has: set[str], labels: dict[str, str],
        tenants: set[str] | None,
    ) -> None:  # fmt: skip
        worker = self.roster.workers.setdefault(name, Worker(name))
        self.roster.leave(worker)
        worker.slots, worker.processes, worker.jobs = slots, 1, dict.fromkeys(jobs, "")
        worker.pool, worker.capabilities, worker.labels = pool, sorted(has), labels
        worker.tenants = None if tenants is None else frozenset(tenants)
        worker.connected = True
        self.roster.changed(worker)

    @precondition(lambda self: self.roster.workers)
    @rule(
        data=st.data(), cpu=some((0.0, 50.0, 89.9, 90.0)), gpu=some((0.0, 95.0)), silent=st.booleans(),
        drained=st.booleans(), draining=st.booleans(), connected=st.booleans(),
    )  # fmt: skip
    def change(
        self, data: st.DataObject, cpu: float, gpu: float, silent: bool, drained: bool, draining: bool, connected: bool
    ) -> None:
        worker = data.draw(some(sorted(self.roster.workers.values(), key=lambda one: one.id)))
        worker.cpu, worker.gpu, worker.silent, worker.drained = cpu, gpu, silent and drained, drained and not draining
        worker.draining, worker.connected = draining and not connected, connected or not silent
        self.roster.changed(worker)

    @precondition(lambda self: self.roster.workers)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        self.roster.forget(data.draw(some(sorted(self.roster.workers.values(), key=lambda one: one.id))))

    @rule(pools=some(({}, POOLS)))
    def adopt(self, pools: dict[str, PoolSpec]) -> None:
        self.roster.adopt(pools)

    @precondition(lambda self: any(worker.attempts for worker in self.roster.workers.values()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        held = [(one, run_id) for one in self.roster.workers.values() for run_id in one.attempts]
        self.roster.drop(*data.draw(some(held)))

    @rule(key=keys, tenant=some(TENANTS), wish=some(("", "", "w1", "w2", "gone")), count=st.integers(1, 12))
    def choose(self, key: RouteKey, tenant: str, wish: str, count: int) -> None:
        """Dispatch several, each as the slow choice would: what was just sent counts."""
        roster, room, pools = self.roster, key[1], dict(self.roster.pools)
        roster.settle(self.rng)
        for _ in range(count):
            place = roster.demand_of(key, tenant, self.rng)
            found = roster.pick(place, room, self.rng, wish)
            fitting = [one for one in roster.workers.values() if fits(pools, one, key, tenant)]
            ready = [one for one in fitting if is_open(pools, one, room)]
            preferred = [one for one in ready if one.id == wish]
            assert (found is None) == (not ready)
            if found is None:
                no_room = all(not is_open(pools, one, room) for one in roster.workers.values() if one.takes_work)
                assert roster.has_room((room,), self.rng) or no_room
                return
            assert found in (preferred or ready)
            assert preferred or found.score == min(one.score for one in ready)
            assert roster.has_room((room,), self.rng)
            self.runs += 1
            found.attempts[f"run-{self.runs}"] = Attempt(RUN, 0.0, True, self.runs)
            if room is not SlotKind.SHARED:
                found.set_apart(f"run-{self.runs}", room)


@pytest.mark.behaviour("ROU-1", "ROU-2", "ROU-3", "ROU-4", "ROU-5", "ROU-6")
def test_every_choice_is_the_one_of_a_slow_look_at_all_workers() -> None:
    run_state_machine_as_test(Choices, settings=settings(max_examples=150, stateful_step_count=40, deadline=None))


@pytest.mark.behaviour("ROU-5")
def test_ties_are_broken_at_random_and_what_was_just_sent_counts() -> None:
    roster, rng = Roster(), Random(1)
    for number in range(10):
        worker = roster.workers[f"w{number}"] = Worker(f"w{number}", slots=100, connected=True)
        roster.changed(worker)
    roster.settle(rng)
    place = roster.demand_of((ANYWHERE, SlotKind.SHARED, (), ("video", (), (), "")), "default", rng)
    orders = []
    for round in range(3):
        order: list[str] = []
        for _ in range(10):
            found = roster.pick(place, SlotKind.SHARED, rng)
            assert found is not None
            found.attempts[f"{round}-{len(order)}"] = Attempt(RUN, 0.0, True, 0)
            order.append(found.id)
        assert len(set(order)) == 10, "each got one before any got two"
        orders.append(order)
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.behaviour("ROU-5")
@pytest.mark.parametrize(
    ("runs", "cpu", "gpu", "chosen"),
    [
        (1, 50.0, 49.5, "loaded"),
        (1, 50.0, 50.5, "busy"),
        (1, 99.5, 0.0, "loaded"),
        (1, 0.0, 100.5, "busy"),
        (2, 100.0, 99.5, "loaded"),
        (2, 100.0, 100.5, "busy"),
    ],
)
def test_the_lowest_sum_of_runs_and_hundredths_of_load_wins(runs: int, cpu: float, gpu: float, chosen: str) -> None:
    roster, rng = Roster(), Random(1)
    busy, loaded = Worker("busy", slots=10, connected=True), Worker("loaded", slots=10, connected=True)
    busy.attempts.update({str(number): Attempt(RUN, 0.0, True, 0) for number in range(runs)})
    loaded.cpu, loaded.gpu = cpu, gpu
    for worker in (busy, loaded):
        roster.workers[worker.id] = worker
        roster.changed(worker)
    roster.settle(rng)
    place = roster.demand_of((ANYWHERE, SlotKind.SHARED, (), ("video", (), (), "")), "default", rng)
    found = roster.pick(place, SlotKind.SHARED, rng)
    assert found is not None
    assert found.id == chosen


def test_a_worker_without_a_free_place_for_a_process_takes_runs_that_need_none() -> None:
    roster, rng = Roster(), Random(1)
    worker = roster.workers["one"] = Worker("one", slots=1, processes=1, connected=True)
    worker.set_apart("a", SlotKind.OWN)
    roster.changed(worker)
    roster.settle(rng)
    place = roster.demand_of((ANYWHERE, SlotKind.OWN, (), ("video", (), (), "")), "default", rng)
    assert roster.pick(place, SlotKind.OWN, rng) is None
    assert not roster.has_room((SlotKind.OWN,), rng) or not worker.attempts
    roster.changed(worker)
    roster.settle(rng)
    assert roster.has_room((SlotKind.SHARED,), rng)
    assert roster.pick(place, SlotKind.SHARED, rng) is worker
