"""Lanes at run time: create, set, pause, resume and drain them; restarts and reloads keep all of it."""

from collections.abc import Callable

import pytest

from interlock.core.decisions import Failed
from interlock.error import BadValue, Draining, UnknownLane
from interlock.model.bulk import RunAction
from interlock.model.job import Job
from interlock.model.lane import LaneAction, LaneInfo, LaneSpec, LaneStatus, LaneValues
from interlock.model.record import Memo
from interlock.model.run import RunFilter
from interlock.model.state import ON_WORKER, State
from interlock.wire.command import Define, Refill
from interlock.wire.lane_request import ActOnLane, CreateLane, LaneChangeBody, SetLane
from interlock.wire.request import NewRun, Request, StartBulk, ValueAnswer
from tests.core.machine import WORK, Machine, specs

Again = Callable[[Machine], None]


def ask(machine: Machine, request: Request[LaneInfo]) -> LaneInfo:
    answer = machine.step(("client", request)).answers[-1][1]
    if isinstance(answer, Failed):
        raise answer.error
    assert isinstance(answer, ValueAnswer)
    assert isinstance(answer.value, LaneInfo)
    return answer.value


def create(machine: Machine, name: str = "gpu", **values: object) -> LaneInfo:
    return ask(machine, CreateLane(1, name, **values))  # type: ignore[arg-type] # as a test gives them


def change(machine: Machine, name: str = "main", **values: object) -> LaneInfo:
    return ask(machine, SetLane(1, name, LaneChangeBody(**values)))  # type: ignore[arg-type] # as a test gives them


def act(machine: Machine, action: LaneAction, name: str = "main") -> LaneInfo:
    return ask(machine, ActOnLane(1, name, action))


def reload(machine: Machine) -> None:
    machine.step(("", Define(1, machine.jobs, lanes=specs(machine.lanes))))


def restart(machine: Machine) -> None:
    machine.restart()
    rejoin(machine)


def recover(machine: Machine) -> None:
    machine.recover()
    rejoin(machine)


def rejoin(machine: Machine) -> None:
    held = [machine.held(run.id) for run in machine.state.runs.values() if run.state in ON_WORKER]
    machine.worker_up(held=held)


AGAIN = pytest.mark.parametrize("again", [reload, restart, recover])


def shown(machine: Machine, name: str) -> LaneInfo:
    # Creating a lane that exists shows it, and changes nothing.
    return create(machine, name, limit=99)


@pytest.mark.behaviour("LAN-2")
@AGAIN
def test_a_created_lane_lasts(again: Again) -> None:
    machine = Machine(lanes={"main": 1})
    machine.worker_up()
    made = create(machine, limit=2, rate="6/m", burst=3)
    assert (made.limit, made.rate, made.burst, made.declared, made.status) == (2, "6/m", 3, None, LaneStatus.OPEN)
    runs = machine.submit_many(3, lane="gpu")
    assert machine.dispatched() == runs[:2]
    again(machine)
    found = shown(machine, "gpu")
    assert (found.limit, found.rate, found.active, found.waiting) == (2, "6/m", 2, 1)
    assert machine.run(runs[2]).lane == "gpu"


@pytest.mark.behaviour("LAN-2")
def test_creating_a_lane_that_exists_changes_nothing() -> None:
    machine = Machine(lanes={"main": 5})
    assert create(machine, "main", limit=9, rate="1/s").limit == 5
    create(machine, limit=3)
    assert create(machine, limit=9) == create(machine, limit=3)
    assert machine.last.batch.records == {}


@pytest.mark.behaviour("LAN-1")
@AGAIN
def test_set_values_count_more_than_the_declaration(again: Again) -> None:
    machine = Machine(lanes={"main": 1, "cron": 4})
    machine.worker_up()
    runs = machine.submit_many(4)
    assert change(machine, limit=3).declared == LaneValues(limit=1)
    assert machine.dispatched() == runs[:3]
    change(machine, "cron", rate=2.0, burst=5)
    machine.lanes = {"main": LaneSpec(limit=7, burst=2), "cron": 6}
    again(machine)
    found = shown(machine, "main")
    assert (found.limit, found.burst, found.declared) == (3, 2, LaneValues(limit=7, burst=2))
    cron = shown(machine, "cron")
    assert (cron.limit, cron.rate, cron.burst) == (6, "2/s", 5)


@pytest.mark.behaviour("LAN-1")
def test_a_value_set_to_the_declared_one_follows_the_declaration_again() -> None:
    machine = Machine(lanes={"main": LaneSpec(limit=4, rate=1.0)})
    change(machine, limit=9, rate=None)
    assert shown(machine, "main").rate is None
    change(machine, limit=4, rate=1.0)
    assert machine.last.batch.records == {(Memo.kind, "lane:main"): None}
    machine.lanes = {"main": 6}
    reload(machine)
    assert (shown(machine, "main").limit, shown(machine, "main").rate) == (6, None)


@pytest.mark.behaviour("LAN-1")
def test_a_created_lane_may_be_declared_and_again_not() -> None:
    machine = Machine(lanes={"main": 4})
    create(machine, limit=2)
    machine.lanes = {"main": 4, "gpu": 8}
    reload(machine)
    change(machine, "gpu", limit=8)
    machine.lanes = {"main": 4}
    for again in (reload, restart):
        again(machine)
        assert (shown(machine, "gpu").limit, shown(machine, "gpu").declared) == (8, None)


@pytest.mark.behaviour("LAN-1")
def test_a_removed_lane_keeps_what_was_set_until_it_is_declared_again() -> None:
    machine = Machine(lanes={"main": 4, "gpu": 2})
    change(machine, "gpu", limit=3)
    act(machine, LaneAction.PAUSE, "gpu")
    machine.lanes = {"main": 4}
    reload(machine)
    assert list(machine.state.lanes) == ["main"]
    machine.lanes = {"main": 4, "gpu": 2}
    restart(machine)
    assert (shown(machine, "gpu").limit, shown(machine, "gpu").status) == (3, LaneStatus.PAUSED)


@pytest.mark.behaviour("LAN-6", "LAN-7")
@pytest.mark.parametrize("action", [LaneAction.PAUSE, LaneAction.DRAIN])
@AGAIN
def test_a_closed_lane_starts_nothing_and_keeps_its_backlog(action: LaneAction, again: Again) -> None:
    machine = Machine(lanes={"main": 2, "cron": 5})
    machine.worker_up()
    runs = machine.submit_many(5)
    status = act(machine, action).status
    again(machine)
    found = shown(machine, "main")
    assert (found.status, found.active, found.waiting) == (status, 2, 3)
    for run_id in runs[:2]:
        machine.finished(run_id)
    other = machine.submit(lane="cron")
    assert machine.dispatched() == [*runs[:2], other]
    assert shown(machine, "main").waiting == 3
    assert act(machine, LaneAction.RESUME).status is LaneStatus.OPEN
    assert machine.dispatched() == [*runs[:2], other, *runs[2:4]]
    restart(machine)
    assert shown(machine, "main").status is LaneStatus.OPEN


@pytest.mark.behaviour("LAN-7")
def test_a_draining_lane_refuses_whatever_is_new() -> None:
    machine = Machine(WORK, Job(id="nightly", lane="cron"), lanes={"main": 1, "cron": 1})
    machine.worker_up()
    first = machine.submit(idempotency_key="k", lane="cron")
    machine.finished(first, "failed")
    act(machine, LaneAction.DRAIN, "cron")
    before = dict(machine.store.runs_by_id)
    for new in ([NewRun("nightly", b"{}")], [NewRun("work", b"{}"), NewRun("work", b"{}", lane="cron")]):
        answer = machine.ask(*new)
        assert isinstance(answer, Failed)
        assert isinstance(answer.error, Draining)
    retried = machine.act(RunAction.RETRY, first)
    refilled = machine.step(("", Refill(7, "nightly", [1000.0], b"", "default", 1, "ann"))).answers[-1][1]
    for answer in (retried, refilled):
        assert isinstance(answer, Failed)
        assert answer.error.code == "draining"
    machine.step(("client", StartBulk(7, "bulk", RunAction.RETRY, RunFilter(lane="cron"), "again", "ann")))
    assert machine.store.runs_by_id == before
    assert machine.submit(idempotency_key="k", lane="cron") == first, "a repeated submit finds its run"
    assert machine.state_of(machine.submit()) is State.DISPATCHED
    act(machine, LaneAction.RESUME, "cron")
    assert machine.state_of(machine.submit("nightly")) is State.DISPATCHED


@pytest.mark.behaviour("LAN-7")
def test_an_unknown_lane_falls_back_to_main_even_where_that_is_draining() -> None:
    machine = Machine(lanes={"main": 1})
    act(machine, LaneAction.DRAIN)
    with pytest.raises(Draining):
        machine.submit(lane="nowhere")


@pytest.mark.behaviour("LAN-8")
def test_a_new_rate_counts_at_once() -> None:
    machine = Machine(lanes={"main": LaneSpec(limit=50, rate=1 / 3600)})
    machine.worker_up()
    runs = machine.submit_many(4)
    assert machine.dispatched() == runs[:1]
    change(machine, rate=2.0)
    for count in (2, 3, 4):
        assert machine.last.wake_at is not None
        assert machine.last.wake_at <= machine.wall + 0.5
        machine.advance_to(machine.last.wake_at)
        assert machine.dispatched() == runs[:count]
    late = machine.submit_many(3)
    change(machine, rate=None)
    assert machine.dispatched() == [*runs, *late]


@pytest.mark.behaviour("LAN-8")
def test_the_rate_of_a_lane_outlasts_a_restart() -> None:
    machine = Machine(lanes={"main": LaneSpec(limit=50, rate=0.1, burst=2)})
    machine.worker_up()
    runs = machine.submit_many(4)
    machine.advance(4.0)
    restart(machine)
    assert machine.dispatched() == runs[:2]
    machine.advance(5.9)
    assert machine.dispatched() == runs[:2]
    machine.advance(0.1)
    assert machine.dispatched() == runs[:3]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many", None])
@pytest.mark.behaviour("LAN-1")
def test_a_bad_limit_is_refused(limit: object) -> None:
    machine = Machine(lanes={"main": 4})
    with pytest.raises(BadValue) as caught:
        change(machine, limit=limit)
    assert (caught.value.field, caught.value.value) == ("limit", limit)
    assert shown(machine, "main").limit == 4


@pytest.mark.behaviour("LAN-2")
@pytest.mark.parametrize("name", ["", "a b", "a/b", "-x", "x" * 65, "gpu\n"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(BadValue) as caught:
        create(Machine(), name, limit=1)
    assert caught.value.field == "id"


@pytest.mark.behaviour("LAN-2")
@pytest.mark.parametrize("request_of", [lambda name: SetLane(1, name, LaneChangeBody(limit=2)),
                                        lambda name: ActOnLane(1, name, LaneAction.PAUSE)])  # fmt: skip
def test_a_lane_that_does_not_exist_is_unknown(
    machine: Machine, request_of: Callable[[str], Request[LaneInfo]]
) -> None:
    with pytest.raises(UnknownLane, match="'main'"):
        ask(machine, request_of("mian"))
    assert machine.last.batch.records == {}
