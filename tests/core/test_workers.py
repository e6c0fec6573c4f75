"""Workers as they are shown, and what a person does with them: drain, resume and remove."""

from collections.abc import Callable
from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.core.routing.workers import report_all, report_one, report_pools
from interlock.error import UnknownWorker, WrongStatus
from interlock.model.pool import PoolInfo, PoolList, PoolSpec, PoolStatus, WorkerAction, WorkerInfo, WorkerState
from interlock.model.state import State
from interlock.wire.command import Define, WorkerUp
from interlock.wire.message import Drain, Leaving, Load, Seen
from interlock.wire.request import Request, ValueAnswer
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers
from tests.core.machine import Machine, at_once

pytestmark = pytest.mark.behaviour("ROU-10")

DRAIN, RESUME, REMOVE = WorkerAction


def ask(machine: Machine, request: Request[WorkerInfo]) -> WorkerInfo:
    answer = machine.step(("client", request)).answers[-1][1]
    if isinstance(answer, Failed):
        raise answer.error
    assert isinstance(answer, ValueAnswer)
    assert isinstance(answer.value, WorkerInfo)
    return answer.value


def act(machine: Machine, action: WorkerAction, worker_id: str = "one") -> WorkerInfo:
    return ask(machine, ActOnWorker(1, worker_id, action).by(actor="ann"))


def shown(machine: Machine, worker_id: str = "one") -> WorkerInfo:
    found = report_one(AskWorker(1, worker_id), machine.state, machine.now).value
    assert isinstance(found, WorkerInfo)
    return found


def listed(machine: Machine, pool: str | None = None) -> list[str]:
    return [one.id for one in report_all(AskWorkers(1, pool), machine.state, machine.now).value.workers]


def join(machine: Machine, worker_id: str, slots: int = 1, **fields: Any) -> None:
    machine.step(("", WorkerUp(worker_id, slots, 1, {"work": ""}, [], False, **fields)))


def test_a_worker_is_shown_as_it_announced_itself() -> None:
    machine = Machine()
    labels = {"region": "eu", "node.kind": "big"}
    join(
        machine, "b", 4, pool="gpu", capabilities=("cuda",), labels=labels, tenants=frozenset({"y", "x"}), skew=1.5
    )  # fmt: skip
    join(machine, "c")
    join(machine, "a", pool="gpu")
    machine.step(("b", Load(cpu=40.0, memory=50.0, gpu=60.0)))
    machine.mute = {"b"}
    machine.advance(3)
    assert listed(machine) == ["c", "a", "b"]
    assert listed(machine, "gpu") == ["a", "b"]
    assert listed(machine, "none") == []
    assert shown(machine, "b") == WorkerInfo(
        id="b", pool="gpu", region="eu", state=WorkerState.READY, drained=False, active=0, slots=4, processes=1,
        cpu=40.0, memory=50.0, gpu=60.0, heard_ago=3.0, skew=1.5, jobs=1, capabilities=["cuda"], labels=labels,
        tenants=["x", "y"],
    )  # fmt: skip
    assert (shown(machine, "c").region, shown(machine, "c").tenants) == (None, None)


def away(machine: Machine) -> None:
    machine.submit()
    machine.worker_down()


def silent(machine: Machine) -> None:
    machine.mute = {"one"}
    machine.advance(30)


def declare(machine: Machine, status: PoolStatus = PoolStatus.ACTIVE) -> None:
    pool = PoolSpec(topics=("*",), offers=("*",), status=status)
    machine.step(("", Define(1, machine.jobs, pools={"default": pool})))


def overloaded(machine: Machine) -> None:
    declare(machine)
    machine.step(("one", Load(cpu=90.0)))


STATES: dict[WorkerState, Callable[[Machine], object]] = {
    WorkerState.READY: lambda machine: machine.submit(),
    WorkerState.FULL: lambda machine: machine.submit_many(2),
    WorkerState.OVERLOADED: overloaded,
    WorkerState.DRAINING: lambda machine: act(machine, DRAIN),
    WorkerState.SILENT: silent,
    WorkerState.AWAY: away,
}


@pytest.mark.parametrize("state", list(WorkerState))
def test_the_state_of_a_worker(machine: Machine, state: WorkerState) -> None:
    join(machine, "one", 2)
    STATES[state](machine)
    assert shown(machine).state is state


def test_a_worker_of_a_pool_that_is_not_active_is_draining(machine: Machine) -> None:
    join(machine, "one")
    for status, state in zip(PoolStatus, (WorkerState.READY, *[WorkerState.DRAINING] * 2), strict=True):
        declare(machine, status)
        assert (shown(machine).state, shown(machine).drained) == (state, False)


def test_a_drained_worker_keeps_its_runs_and_gets_nothing_until_it_is_resumed(machine: Machine) -> None:
    machine.worker_up("one")
    first = machine.running()
    drained = act(machine, DRAIN)
    assert (drained.state, drained.drained, drained.active) == (WorkerState.DRAINING, True, 1)
    second = machine.submit()
    assert machine.state_of(second) is State.SCHEDULED
    machine.finished(first)
    assert (machine.state_of(first), machine.state_of(second)) == (State.SUCCEEDED, State.SCHEDULED)
    assert act(machine, RESUME).drained is False
    assert machine.state_of(second) is State.DISPATCHED
    assert not any(isinstance(message, Drain) for _, message in machine.sent)


AGAIN: dict[str, Callable[[Machine], object]] = {
    "a broken link": lambda machine: machine.worker_down(),
    "a restart": lambda machine: machine.restart(),
    "a recovery": lambda machine: machine.recover(),
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_a_drain_lasts(machine: Machine, again: Callable[[Machine], object]) -> None:
    machine.worker_up()
    act(machine, DRAIN)
    again(machine)
    assert (shown(machine).state, shown(machine).drained) == (WorkerState.AWAY, True)
    machine.worker_up()
    run_id = machine.submit()
    assert (shown(machine).state, machine.state_of(run_id)) == (WorkerState.DRAINING, State.SCHEDULED)
    act(machine, RESUME)
    again(machine)
    machine.worker_up()
    assert shown(machine).drained is False


@pytest.mark.parametrize("dead", [True, False])
def test_a_drained_worker_that_has_ended_is_forgotten(machine: Machine, dead: bool) -> None:
    machine.worker_up()
    act(machine, DRAIN)
    if not dead:
        act(machine, REMOVE)
    machine.worker_down(dead=dead)
    assert listed(machine) == []
    machine.advance(6)  # until the next snapshot
    machine.restart()
    assert listed(machine) == []


def test_a_connected_worker_that_is_removed_finishes_and_leaves(machine: Machine) -> None:
    machine.worker_up("one")
    first = machine.running()
    assert (removed := act(machine, REMOVE)).state is WorkerState.DRAINING
    assert (removed.drained, removed.active, machine.sent[-1]) == (False, 1, ("one", Drain()))
    second = machine.submit()
    with pytest.raises(WrongStatus, match="worker: 'one' is leaving, and cannot be resumed"):
        act(machine, RESUME)
    machine.finished(first)
    machine.worker_down()
    assert (machine.state_of(first), machine.state_of(second), listed(machine)) == (
        State.SUCCEEDED, State.SCHEDULED, [],
    )  # fmt: skip


def test_a_worker_that_is_away_is_removed_with_its_runs(machine: Machine) -> None:
    machine.worker_up("one")
    run_id = machine.running()
    machine.worker_down()
    machine.worker_up("two")
    removed = act(machine, REMOVE)
    assert (removed.state, removed.active, listed(machine)) == (WorkerState.AWAY, 1, ["two"])
    assert machine.run(run_id).crashes == 1
    assert "crash 1: worker one was removed by ann" in [entry.reason for entry in machine.history(run_id)]


def test_a_drain_ends_with_the_removal_of_its_absent_worker_even_if_that_returns_in_the_same_pass(
    machine: Machine,
) -> None:
    machine.worker_up()
    act(machine, DRAIN)
    machine.worker_down()
    run_id = machine.submit()
    joining = WorkerUp("one", 1, 1, {"work": ""}, [], False)
    machine.step(("client", ActOnWorker(1, "one", REMOVE).by(actor="ann")), ("", joining))
    assert machine.dispatched() == [run_id]


@pytest.mark.parametrize("action", list(WorkerAction))
def test_an_unknown_worker_is_named_with_a_close_one(machine: Machine, action: WorkerAction) -> None:
    machine.worker_up("gpu-1")
    with pytest.raises(UnknownWorker, match=r"^worker: 'gpu1' does not exist; did you mean 'gpu-1'\?$"):
        act(machine, action, "gpu1")


def test_the_audit_has_each_change_once(machine: Machine) -> None:
    machine.worker_up()
    for action in (RESUME, DRAIN, DRAIN, RESUME, REMOVE, REMOVE):
        act(machine, action)
    entries = at_once(machine.store.audit(0, 10)).entries
    found = [(one.kind, one.actor, one.subject, one.detail["action"]) for one in entries if one.subject == "one"]
    assert found == [("worker_changed", "ann", "one", action) for action in (DRAIN, RESUME, REMOVE)]


def test_a_worker_that_is_removed_leaves_though_its_link_broke(machine: Machine) -> None:
    run_id = machine.running()
    act(machine, REMOVE)
    machine.worker_down()
    machine.worker_up(held=[machine.held(run_id)])
    second = machine.submit()
    machine.sent.clear()
    machine.step(("one", Load()))
    assert machine.sent == [("one", Drain())], "the first may be lost"
    assert machine.state_of(second) is State.SCHEDULED


LEAVES: dict[str, Callable[[Machine], object]] = {
    "it is of an earlier start": lambda machine: machine.worker_up(draining=True),
    "it is removed": lambda machine: act(machine, REMOVE),
    "it says so": lambda machine: machine.step(("one", Leaving())),
}


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=LEAVES)
def test_a_worker_that_is_to_leave_is_told_so_at_each_sign_of_life(
    machine: Machine, leaves: Callable[[Machine], object]
) -> None:
    machine.worker_up()
    act(machine, DRAIN)
    machine.step(("one", Load()))
    assert machine.sent[-1] == ("one", Seen()), "a drained one stays"
    leaves(machine)
    for _ in range(3):
        machine.sent.clear()
        machine.step(("one", Load()))
        assert machine.sent == [("one", Drain())]


def test_a_worker_can_be_silent_again(machine: Machine) -> None:
    machine.worker_up()
    for _ in range(2):
        silent(machine)
        assert shown(machine).state is WorkerState.SILENT
        machine.step(("one", Load()))
        assert shown(machine).state is WorkerState.READY


@pytest.mark.behaviour("ROU-1")
def test_pools_show_their_workers_and_what_they_take(machine: Machine) -> None:
    def pools() -> list[PoolInfo]:
        found = report_pools(AskPools(1), machine.state, machine.now).value
        assert isinstance(found, PoolList)
        return found.pools

    assert pools() == []
    join(machine, "one", 2)
    machine.submit()
    (only,) = pools()
    assert (only.id, only.declared, only.status, only.topics) == ("default", False, PoolStatus.ACTIVE, ("*",))
    assert (only.workers, only.ready, only.active, only.slots) == (1, 1, 1, 2)
    gpu = PoolSpec(topics=("train.*",), offers=("cuda",), requires=("cuda",), status=PoolStatus.DRAINING)
    machine.step(("", Define(1, machine.jobs, pools={"gpu": gpu})))
    first, other = pools()
    assert (first.id, first.declared, first.status, first.topics) == ("gpu", True, PoolStatus.DRAINING, ("train.*",))
    assert (first.offers, first.requires, first.workers, first.slots) == (("cuda",), ("cuda",), 0, 0)
    assert (other.id, other.status, other.topics, other.workers) == ("default", PoolStatus.INACTIVE, (), 1)
    assert (other.ready, other.active) == (0, 1)
