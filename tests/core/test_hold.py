"""Hold and release: a held run does not start, whatever it waits for, until it is released."""

import pytest

from interlock.core.bulk.table import Bulks
from interlock.core.state import CoreLimits
from interlock.model.bulk import RunAction
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.wire.message import Dispatch, Returned
from interlock.wire.request import StartBulk
from tests.core.machine import AT_ONCE, START, Machine, acted_on, retrying_job

pytestmark = pytest.mark.behaviour("RUN-24")


def dispatched(machine: Machine, run_id: str) -> bool:
    return any(isinstance(one, Dispatch) and one.run_id == run_id for _, one in machine.sent)


def holder(machine: Machine, run_id: str) -> str | None:
    facets = machine.run(run_id).facets
    return None if facets is None or facets.hold is None else facets.hold.by


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("waits", [State.PRERUN, State.SCHEDULED, State.RETRYING])
def test_a_held_run_waits_until_it_is_released(waits: State, restart: bool) -> None:
    machine = Machine(retrying_job(3))
    if waits is State.RETRYING:
        machine.worker_up()
    run_id = machine.submit(at=START + 100) if waits is State.PRERUN else machine.submit()
    if waits is State.RETRYING:
        machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is waits
    machine.sent.clear()

    machine.act(RunAction.HOLD, run_id)
    if restart:
        machine.restart()
    machine.worker_up()
    machine.advance(10_000)
    assert machine.state_of(run_id) is State.PENDING
    assert holder(machine, run_id) == "ann"
    assert not dispatched(machine, run_id)
    machine.act(RunAction.HOLD, run_id)
    assert not dispatched(machine, run_id)

    acted_on(machine.act(RunAction.RELEASE, run_id))
    assert dispatched(machine, run_id)
    assert holder(machine, run_id) is None


def test_one_released_before_its_time_waits_for_it(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit(at=START + 100)
    machine.act(RunAction.HOLD, run_id)
    machine.act(RunAction.RELEASE, run_id)
    assert machine.state_of(run_id) is State.PRERUN
    machine.advance(101)
    assert dispatched(machine, run_id)


def test_one_that_executes_goes_on_and_is_held_before_its_next_attempt() -> None:
    machine = Machine(retrying_job(3))
    machine.worker_up()
    run_id = machine.submit()
    assert machine.state_of(run_id) is State.DISPATCHED
    machine.act(RunAction.HOLD, run_id)
    machine.finished(run_id, "failed")
    machine.sent.clear()
    machine.advance(10_000)
    assert machine.state_of(run_id) is State.PENDING
    assert not dispatched(machine, run_id)


def test_one_that_its_worker_gives_back_is_not_handed_out_again(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.act(RunAction.HOLD, run_id)
    machine.sent.clear()
    machine.step(("one", Returned(run_id, machine.run(run_id).fence, "leaving")))
    assert machine.state_of(run_id) is State.PENDING
    assert not dispatched(machine, run_id)
    machine.act(RunAction.RELEASE, run_id)
    assert dispatched(machine, run_id)


def test_a_hold_does_not_stop_the_deadline_and_a_held_run_can_be_cancelled(machine: Machine) -> None:
    machine.worker_up()
    late, unwanted = machine.submit(deadline=START + 60, at=START + 10), machine.submit(at=START + 10)
    for run_id in (late, unwanted):
        machine.act(RunAction.HOLD, run_id)
    machine.advance(50)
    assert machine.state_of(late) is State.PENDING
    machine.cancel(unwanted)
    machine.advance(11)
    assert (machine.state_of(late), machine.state_of(unwanted)) == (State.TIMEOUT, State.CANCELLED)


@pytest.mark.behaviour("RUN-25")
def test_by_filter_over_a_restart() -> None:
    machine = Machine(limits=CoreLimits(session_patterns=AT_ONCE))
    held, other = machine.submit_many(3, session="a"), machine.submit(session="b")
    machine.step(("client", StartBulk(1, "b1", RunAction.HOLD, RunFilter(session="a"), "wait", "ann")))
    machine.step()
    assert machine.state.of(Bulks).requests["b1"].done == 3
    machine.restart_with_worker()
    assert [dispatched(machine, one) for one in (*held, other)] == [False, False, False, True]
    machine.step(("client", StartBulk(2, "b2", RunAction.RELEASE, RunFilter(), "go", "ann")))
    machine.step()
    assert machine.state.of(Bulks).requests["b2"].done == 3
    assert all(dispatched(machine, one) for one in held)


@pytest.mark.behaviour("RUN-25")
@pytest.mark.parametrize("set_back", [0.0, 3600.0])
def test_a_bulk_hold_does_not_come_back_to_a_run_after_a_restart(set_back: float) -> None:
    machine = Machine(limits=CoreLimits(bulk_runs=2))
    runs = [*machine.submit_many(4)]
    machine.wall -= set_back
    runs += machine.submit_many(4)
    machine.step(("client", StartBulk(1, "b1", RunAction.HOLD, RunFilter(), "wait", "ann")))
    machine.step()
    released = next(one for one in runs if holder(machine, one))
    machine.act(RunAction.RELEASE, released)
    machine.restart()
    while machine.state.of(Bulks).walks:
        machine.step()
    assert machine.state.of(Bulks).requests["b1"].done == 8
    assert [one for one in runs if holder(machine, one) is None] == [released]


def test_runs_that_were_held_and_released_are_counted_and_handed_out_once(machine: Machine) -> None:
    runs = machine.submit_many(900)
    for action in (RunAction.HOLD, RunAction.RELEASE, RunAction.HOLD, RunAction.RELEASE):
        for run_id in runs[1:]:
            machine.act(action, run_id)
        assert machine.state.lanes["main"].waiting == (1 if action is RunAction.HOLD else 900)
    machine.sent.clear()
    machine.worker_up(slots=30)
    handed: list[str] = []
    while machine.sent:
        new = [one.run_id for _, one in machine.sent if isinstance(one, Dispatch)]
        handed += new
        machine.sent.clear()
        for run_id in new:
            machine.finished(run_id)
    assert sorted(handed) == runs
    assert machine.state.lanes["main"].waiting == 0


def test_one_whose_inputs_are_still_read_is_not_sent() -> None:
    machine = Machine()
    run_id = machine.submit(payload=b'{"a":"' + b"x" * 1000 + b'"}')
    machine.holds_answers = True
    machine.worker_up()
    assert machine.state_of(run_id) is State.DISPATCHED
    machine.act(RunAction.HOLD, run_id)
    machine.holds_answers = False
    machine.step()
    assert (machine.state_of(run_id), dispatched(machine, run_id)) == (State.PENDING, False)
    machine.act(RunAction.RELEASE, run_id)
    assert dispatched(machine, run_id)


def test_a_suspect_that_was_held_once_is_still_tried_apart() -> None:
    machine = Machine(lanes={"main": 1})
    machine.worker_up()
    first, run_id, other = machine.submit_many(3)
    machine.act(RunAction.HOLD, run_id)
    machine.act(RunAction.RELEASE, run_id)
    last = machine.submit()
    for one in (first, other):
        machine.finished(one)
    machine.started(run_id)
    machine.lost(run_id)
    machine.finished(last)
    assert [one.isolated for _, one in machine.sent if isinstance(one, Dispatch) and one.run_id == run_id] == [
        False,
        True,
    ]
    assert machine.state.lanes["main"].waiting == 0
