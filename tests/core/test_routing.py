"""Runs that no worker can take: they hold up nobody, are tried again, and are given up in the end."""

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.attempts.silence import watch_silence
from interlock.core.explain import explain
from interlock.core.routing.dispatch import route_key
from interlock.model.explanation import Obstacle, ReasonKind
from interlock.model.job import ExecutorKind, Job
from interlock.model.letter import DeadLetter
from interlock.model.pool import Lack, PoolSpec, PoolStatus
from interlock.model.state import State
from interlock.wire.command import Define, WorkerUp
from interlock.wire.message import Dispatch, Load
from tests.core.machine import Machine

GPU = PoolSpec(topics=("video.*",), offers=("gpu",))
REST = PoolSpec(topics=("mail", "work"), offers=("cpu",))


def made(pools: dict[str, PoolSpec], *jobs: Job) -> Machine:
    machine = Machine(*(jobs or (Job(id="work"), Job(id="mail"), Job(id="video.cut", requires=("GPU",)))))
    machine.step(("", Define(0, machine.jobs, pools=pools)))
    return machine


def join(machine: Machine, worker_id: str = "one", slots: int = 4, **fields: Any) -> None:
    known = {job.id: job.code for job in machine.jobs}
    machine.step(("", WorkerUp(worker_id, slots, 2, known, [], False, **fields)))


def taken_by(machine: Machine, run_id: str) -> str | None:
    return machine.run(run_id).worker_id


@pytest.mark.behaviour("ROU-7")
@pytest.mark.parametrize(
    ("pools", "workers", "lack"),
    [
        ({"gpu": GPU}, [{"pool": "gpu"}], Lack.NO_POOL_MAPPING),
        ({"rest": PoolSpec(topics=("work",), status=PoolStatus.INACTIVE)}, [{"pool": "rest"}], Lack.NO_POOL_MAPPING),
        ({}, [], Lack.NO_WORKERS),
        ({"rest": REST, "gpu": GPU}, [{"pool": "gpu"}], Lack.NO_WORKERS),
        ({"rest": REST}, [{"pool": "rest", "tenants": frozenset({"other"})}], Lack.NO_WORKERS),
    ],
)
def test_a_run_that_nobody_can_take_is_tried_fifty_times_and_then_a_dead_letter(
    pools: dict[str, PoolSpec], workers: list[dict[str, Any]], lack: Lack
) -> None:
    machine = made(pools)
    for place, fields in enumerate(workers):
        join(machine, f"w{place}", **fields)
    run_id, later = machine.submit("work"), ""
    looks = [machine.elapsed]
    while machine.state_of(run_id) is State.SCHEDULED:
        (found,) = machine.state.roster.demands.values()
        machine.advance(found.alarm - machine.elapsed)
        looks.append(machine.elapsed)
        if len(looks) == 10:
            later = machine.submit("work")
    pauses = [after - before for before, after in pairwise(looks)]
    for number, pause in enumerate(pauses):
        assert min(2.0**number, 30.0) - 1e-6 <= pause <= min(2.0**number + 0.5, 30.0) + 1e-6
    assert len(pauses) == 50
    run = machine.run(run_id)
    assert run.state is State.FAILED
    assert run.reason.startswith(f"{lack}: ")
    assert machine.store.all_of(DeadLetter)[run_id].code.value == lack.value
    notes = [note.text for note in machine.run(run_id).notes]
    assert [note.split(", ")[1] for note in notes] == [f"try {n} of 50" for n in range(2, 51)]
    assert all(note.startswith(f"{lack}: ") for note in notes)
    assert machine.state_of(later) is State.SCHEDULED, "it came later, and its own tries count"


@pytest.mark.behaviour("ROU-7")
def test_a_pause_is_up_to_half_a_second_longer_at_random() -> None:
    machine = made({})
    machine.submit("work")
    (place,) = machine.state.roster.demands.values()
    extra = []
    for _ in range(100):
        place.tries.clear()
        machine.advance(place.alarm - machine.elapsed)
        extra.append(place.alarm - machine.elapsed - 1.0)
    assert 0.0 <= min(extra) < 0.05
    assert 0.45 < max(extra) < 0.5


@pytest.mark.behaviour("ROU-7")
def test_a_worker_that_joins_wakes_exactly_the_runs_that_it_could_take() -> None:
    machine = made({"gpu": GPU, "rest": REST})
    cut, mail = machine.submit("video.cut"), machine.submit("mail")
    machine.advance(5)
    join(machine, "g", pool="gpu")
    assert (machine.state_of(cut), machine.state_of(mail)) == (State.DISPATCHED, State.SCHEDULED)
    join(machine, "r", pool="rest")
    assert taken_by(machine, mail) == "r"
    assert all(not place.tries and not place.parked for place in machine.state.roster.demands.values())


def look_in_vain(machine: Machine, run_id: str, times: int) -> None:
    """Let the time pass until a run was looked at so often, or is given up."""
    for _ in range(times):
        job_id, _, _, needs = route_key(machine.state, machine.run(run_id))
        place = machine.state.roster.demands[job_id, needs, ""]
        machine.advance(place.alarm - machine.elapsed)


@pytest.mark.behaviour("ROU-7")
def test_a_worker_that_could_take_a_run_and_takes_another_begins_the_count_anew() -> None:
    machine = made({})
    first, second = machine.submit("mail"), machine.submit("work")
    look_in_vain(machine, second, 40)
    join(machine, slots=1)
    assert (machine.state_of(first), machine.state_of(second)) == (State.DISPATCHED, State.SCHEDULED)
    machine.worker_down(dead=True)
    look_in_vain(machine, second, 50)
    assert machine.state_of(second) is State.SCHEDULED
    look_in_vain(machine, second, 1)
    assert machine.state_of(second) is State.FAILED


@pytest.mark.behaviour("ROU-7")
def test_a_worker_that_joins_at_the_last_look_gets_the_run() -> None:
    machine = made({})
    run_id = machine.submit("mail")
    look_in_vain(machine, run_id, 49)
    (place,) = machine.state.roster.demands.values()
    machine.wall += place.alarm - machine.elapsed
    machine.elapsed = place.alarm
    join(machine)
    assert machine.state_of(run_id) is State.DISPATCHED


def test_only_a_counted_look_is_noted() -> None:
    machine = made({"rest": REST})
    join(machine, pool="rest")
    machine.mute.add("one")
    machine.step(("one", Load(95.0)))
    run_id = machine.submit("mail")
    look_in_vain(machine, run_id, 3)
    before = machine.run(run_id).notes
    for _ in range(5):
        machine.advance(0.1)
        machine.step(("one", Load(95.0)))
    assert len(before) == 3
    assert machine.run(run_id).notes == before


@pytest.mark.behaviour("ROU-7", "RUN-21")
def test_full_workers_are_no_reason_to_give_up() -> None:
    """However long the runs before it take, and however busy the machine is with them."""
    machine = made({"rest": REST})
    join(machine, slots=1, pool="rest")
    machine.mute.add("one")
    first, second = machine.submit("work"), machine.submit("work")
    machine.started(first)
    for _ in range(300):
        machine.advance(9)
        machine.step(("one", Load(cpu=99.0)))
        machine.heartbeat("one", first)
    assert machine.state_of(second) is State.SCHEDULED
    machine.finished(first)
    found = explain(machine.state, machine.run(second), machine.now)
    assert [one.obstacle for one in found.workers] == [Obstacle.OVERLOADED]
    assert "cpu 99 %" in found.sentence
    machine.step(("one", Load(cpu=50.0)))
    assert machine.state_of(second) is State.DISPATCHED


@pytest.mark.behaviour("ROU-7", "ROU-6")
def test_a_machine_that_is_busy_with_other_things_gives_up_in_the_end() -> None:
    machine = made({"rest": REST})
    join(machine, pool="rest")
    machine.mute.add("one")
    machine.step(("one", Load(cpu=95.0)))
    run_id = machine.submit("work")
    for _ in range(200):
        machine.advance(10)
        machine.step(("one", Load(cpu=95.0)))
    assert machine.run(run_id).reason.startswith("pool_overloaded: ")
    assert machine.store.all_of(DeadLetter)[run_id].code == "pool_overloaded"


@pytest.mark.behaviour("ROU-7")
@pytest.mark.parametrize("how", ["it leaves", "it ends its run and stays busy"])
def test_a_run_that_waited_for_a_full_worker_is_tried_when_there_is_nothing_left_to_wait_for(how: str) -> None:
    machine = made({"rest": REST, "gpu": GPU})
    join(machine, "free", pool="gpu")
    join(machine, "full", slots=1, pool="rest")
    machine.mute.add("full")
    first, second = machine.submit("mail"), machine.submit("mail")
    machine.started(first)
    (place,) = [one for one in machine.state.roster.demands.values() if one.parked]
    assert not place.tries
    if how == "it leaves":
        machine.worker_down("full", dead=True)
        lack = "no_workers"
    else:
        machine.step(("full", Load(cpu=99.0)))
        machine.finished(first)
        lack = "pool_overloaded"
    assert len(place.tries) == 1
    for _ in range(200):
        machine.advance(10)
        if "full" in machine.state.workers:
            machine.step(("full", Load(cpu=99.0)))
    assert machine.run(second).reason.startswith(lack)


def test_labels_that_no_worker_has_cost_nothing() -> None:
    machine = made({})
    join(machine, labels={"region": "eu"})
    for number in range(50):
        machine.submit("mail", labels={f"placement.x{number}": "y"})
    run_id = machine.submit("mail", labels={"placement.zone": "a"})
    join(machine, "two", labels={"zone": "a"})
    assert taken_by(machine, run_id) == "two"
    assert machine.state.roster._asked == ["placement.zone"]


def test_a_placement_that_nobody_can_serve_does_not_hold_up_those_behind_it() -> None:
    machine = made({"gpu": GPU, "rest": REST})
    join(machine, slots=100, pool="rest")
    stuck = machine.submit_many(20, "video.cut")
    odd = [machine.submit("mail", labels={"placement.rack": str(number)}) for number in range(20)]
    passing = machine.submit_many(20, "mail")
    assert {machine.state_of(one) for one in passing} == {State.DISPATCHED}
    assert {machine.state_of(one) for one in (*stuck, *odd)} == {State.SCHEDULED}
    before = [machine.run(one).notes for one in (*stuck, *odd)]
    assert sum(len(place.parked) for place in machine.state.roster.demands.values()) == 21
    machine.finished(passing[0])
    assert sum(len(place.parked) for place in machine.state.roster.demands.values()) == 21
    assert before == [machine.run(one).notes for one in (*stuck, *odd)]


@pytest.mark.behaviour("ROU-3", "ROU-4")
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"placement.region": "eu"}, {"a"}),
        ({"node.region": "us"}, {"b"}),
        ({"constraint.disk": "ssd"}, {"b"}),
        ({"placement.disk": "ssd", "placement.region": "eu"}, set()),
        ({"region": "nowhere"}, {"a", "b"}),
        ({"constraint.cuda": "true"}, {"a"}),
        ({"constraint.CUDA": "true"}, {"a"}),
        ({"constraint.cuda": "yes"}, set()),
        ({"constraint.cuda": "True"}, set()),
        ({"placement.cuda": "true"}, set()),
        ({"node.cuda": "true"}, set()),
        ({"constraint.fast": "true"}, {"b"}),
        ({"constraint.slow": "true"}, {"a", "b"}),
        ({"preferred_worker_id": "b"}, {"b"}),
        ({"preferred_worker_id": "gone"}, {"a", "b"}),
        ({"preferred_pool": "rest"}, {"a", "b"}),
        ({"preferred_pool": "gpu"}, set()),
    ],
)
def test_labels_of_a_run_and_of_workers(labels: dict[str, str], expected: set[str]) -> None:
    machine = made({"rest": REST, "gpu": GPU})
    join(machine, "a", slots=100, pool="rest", labels={"region": "eu", "slow": "true"}, capabilities=["Cuda"])
    labels_of_b = {"region": "us", "constraint.disk": "ssd", "fast": "true", "slow": "false"}
    join(machine, "b", slots=100, pool="rest", labels=labels_of_b, capabilities=["slow"])
    runs = [machine.submit("mail", labels=labels) for _ in range(12)]
    assert {taken_by(machine, one) for one in runs} - {None} == expected


@pytest.mark.behaviour("ROU-4")
def test_without_pools_a_constraint_still_asks_for_the_capability() -> None:
    machine = made({})
    join(machine, "a", slots=100, capabilities=["cuda"])
    join(machine, "b", slots=100)
    runs = [machine.submit("mail", labels={"constraint.cuda": "true"}) for _ in range(12)]
    assert {taken_by(machine, one) for one in runs} == {"a"}


@pytest.mark.behaviour("ROU-6")
@pytest.mark.parametrize(
    ("slots", "pools", "most"),
    [(64, {"rest": REST}, 58), (10, {"rest": REST}, 9), (9, {"rest": REST}, 9), (1, {"rest": REST}, 1), (64, {}, 64)],
)
def test_how_many_runs_a_worker_gets(slots: int, pools: dict[str, PoolSpec], most: int) -> None:
    machine = Machine(Job(id="work"), lanes={"main": 1000})
    machine.step(("", Define(0, machine.jobs, pools=pools)))
    join(machine, slots=slots, pool="rest")
    runs = machine.submit_many(70, "work")
    assert sum(machine.state_of(one) is State.DISPATCHED for one in runs) == most


@pytest.mark.behaviour("ROU-10")
@pytest.mark.parametrize(("silence", "expected"), [(29, State.DISPATCHED), (30, State.SCHEDULED)])
def test_a_worker_that_says_nothing_gets_nothing_until_it_speaks_again(silence: float, expected: State) -> None:
    machine = made({})
    join(machine)
    machine.mute.add("one")
    machine.advance(silence)
    run_id = machine.submit("mail")
    assert machine.state_of(run_id) is expected
    machine.step(("one", Load()))
    assert machine.state_of(run_id) is State.DISPATCHED


@pytest.mark.behaviour("ROU-10")
def test_a_worker_that_falls_silent_again_gets_nothing_again() -> None:
    machine = made({})
    join(machine)
    machine.mute.add("one")
    machine.advance(30)
    machine.step(("one", Load()))
    machine.advance(30)
    assert machine.state_of(machine.submit("mail")) is State.SCHEDULED


@pytest.mark.behaviour("ROU-10")
def test_a_worker_without_a_link_is_known_until_it_has_been_silent_for_long() -> None:
    machine = made({})
    join(machine)
    machine.state.workers["one"].drained = True
    machine.worker_down()
    machine.advance(20)
    join(machine)
    assert machine.state.workers["one"].drained
    machine.worker_down()
    machine.advance(60)
    assert list(machine.state.workers) == ["one"], "a person has drained it, and it may come back"
    machine.state.workers["one"].drained = False
    watch_silence(machine.state, machine.elapsed)
    machine.advance(30)
    assert not machine.state.workers


@pytest.mark.behaviour("RUN-21")
def test_the_explanation_names_the_reason_of_each_worker() -> None:
    machine = made({"rest": REST, "gpu": GPU, "old": PoolSpec(topics=("mail",), status=PoolStatus.DRAINING)})
    eu = {"region": "eu"}
    join(machine, "gpu", pool="gpu")
    join(machine, "old", pool="old")
    join(machine, "odd", pool="odd")
    join(machine, "red", pool="rest", labels=eu, tenants=frozenset({"red"}))
    join(machine, "bare", pool="rest")
    join(machine, "right", pool="rest", labels=eu)
    machine.state.workers["right"].drained = True
    machine.state.roster.changed(machine.state.workers["right"])
    run_id = machine.submit("mail", labels={"placement.region": "eu"})
    found = explain(machine.state, machine.run(run_id), machine.now)
    assert {one.id: (one.obstacle, one.text) for one in found.workers} == {
        "gpu": (Obstacle.POOL, "is in pool gpu, which does not take topic mail"),
        "old": (Obstacle.POOL, "is in pool old, which is draining"),
        "odd": (Obstacle.POOL, "is in pool odd, which is not declared"),
        "red": (Obstacle.TENANT, "is for other tenants"),
        "bare": (Obstacle.LABEL, "has no label placement.region=eu"),
        "right": (Obstacle.DRAINING, "is draining"),
    }
    (reason,) = [one for one in found.reasons if one.kind is ReasonKind.NO_WORKER]
    assert reason.name == "no_workers"
    assert reason.at is not None
    assert 1.0 <= reason.at - machine.wall <= 1.5


def test_no_worker_gets_the_payload_of_a_tenant_that_it_is_not_for() -> None:
    machine = made({})
    join(machine, "red", slots=100, tenants=frozenset({"red"}))
    join(machine, "blue", slots=100, tenants=frozenset({"blue"}))
    runs = {machine.submit("mail", tenant=tenant): tenant for tenant in ("red", "blue", "green") * 5}
    sent = {(worker, runs[one.run_id]) for worker, one in machine.sent if isinstance(one, Dispatch)}
    assert sent == {("red", "red"), ("blue", "blue")}


def test_a_run_for_a_process_of_its_own_waits_only_for_such_a_place() -> None:
    machine = made({"rest": REST}, Job(id="work", executor=ExecutorKind.PROCESS), Job(id="mail"))
    join(machine, slots=20, pool="rest")
    alone = machine.submit_many(3, "work")
    assert [machine.state_of(one) for one in alone] == [State.DISPATCHED, State.DISPATCHED, State.SCHEDULED]
    assert machine.state_of(machine.submit("mail")) is State.DISPATCHED
    machine.finished(alone[0])
    assert machine.state_of(alone[2]) is State.DISPATCHED


@pytest.mark.behaviour("ROU-7")
@pytest.mark.parametrize("change", ["labels", "pools"])
def test_a_change_of_what_tells_workers_apart_does_not_begin_the_tries_anew(change: str) -> None:
    machine = made({"gpu": GPU, "rest": REST})
    join(machine, "r", pool="rest", labels={f"n{turn}": "x" for turn in range(20)})
    run_id = machine.submit("video.cut")
    for turn in range(200):
        machine.advance(10)
        if turn % 10 == 0 and change == "labels":
            machine.submit("work", labels={f"node.n{turn // 10}": "y"})
        elif turn % 10 == 0:
            rest = PoolSpec(topics=(*REST.topics, f"t{turn}"))
            machine.step(("", Define(0, machine.jobs, pools={"gpu": GPU, "rest": rest})))
    assert machine.run(run_id).reason == "no_workers: no worker fits in 50 tries"


@pytest.mark.behaviour("ROU-7")
def test_the_tries_of_runs_that_are_gone_do_not_count_for_later_ones() -> None:
    machine = made({"gpu": GPU, "rest": REST})
    run_id = machine.submit("work")
    machine.advance(100)
    machine.cancel(run_id)
    machine.advance(100)
    (place,) = machine.state.roster.demands.values()
    assert not place.tries
    machine.submit("work")
    assert place.alarm - machine.elapsed < 2


@pytest.mark.behaviour("ROU-7")
def test_the_loads_of_a_busy_machine_add_no_tries() -> None:
    machine = made({"rest": REST})
    join(machine, "busy", pool="rest")
    machine.mute.add("busy")
    machine.step(("busy", Load(cpu=99.0)))
    run_id = machine.submit("work")
    for _ in range(300):
        machine.advance(1)
        machine.step(("busy", Load(cpu=99.0)))
    notes = [note.text for note in machine.run(run_id).notes]
    assert [note.split(", ")[1] for note in notes] == [f"try {n} of 50" for n in range(2, len(notes) + 2)]


@pytest.mark.behaviour("ROU-3")
def test_runs_that_prefer_different_workers_wait_in_one_queue() -> None:
    machine = made({"gpu": GPU, "rest": REST})
    join(machine, "r", pool="rest")
    join(machine, "g", pool="gpu", slots=1)
    runs = [machine.submit("video.cut", labels={"preferred_worker_id": f"gone-{number}"}) for number in range(20)]
    assert len(machine.state.roster.demands) == 1, "or a slot that gets free would wake each of them"
    for run_id in runs:
        machine.finished(run_id)
    assert machine.dispatched() == runs
