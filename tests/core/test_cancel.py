"""Cancel: from every state that is not an end, as often as one likes."""

import pytest

from interlock.core.decisions import Failed
from interlock.core.lanes.fill import enqueue
from interlock.error import UnknownRun
from interlock.model.letter import DeadLetter
from interlock.model.state import ON_WORKER, TERMINAL, State
from interlock.wire.message import Dispatch, Stop
from tests.core.machine import START, Machine, acted_on, retrying_job

LIVE = sorted(set(State) - TERMINAL)


def state_in(answer: object) -> State:
    return acted_on(answer).state


@pytest.mark.behaviour("RUN-10")
@pytest.mark.parametrize("state", LIVE)
def test_cancel_works_from_every_state_that_is_not_an_end(state: State) -> None:
    machine = Machine()
    machine.worker_up()
    run_id = machine.submit(at=START + 100) if state is State.PRERUN else machine.submit()
    run = machine.run(run_id)
    if run.state is not state and state not in ON_WORKER:
        # Stages that are still to come are entered by hand: cancelling must not depend on how a run got there.
        machine.state.lanes["main"].holding.pop(run_id, None)
        machine.state.roster.drop(machine.state.workers["one"], run_id)
        if state is State.TERMINATING:
            machine.state.lanes["main"].holding[run_id] = run
    run.state = state
    if state is State.SCHEDULED:
        enqueue(machine.state, run)

    answer = state_in(machine.cancel(run_id))

    if state in ON_WORKER:
        assert answer is state, "it is asked to stop, and keeps its slot until it has"
        machine.finished(run_id, "cancelled")
    assert machine.state_of(run_id) is State.CANCELLED
    assert machine.history(run_id)[-1].after is State.CANCELLED
    assert machine.state.runs == {}
    assert machine.state.lanes["main"].holding == {}
    assert [run.id for run in machine.ended] == [run_id]


@pytest.mark.behaviour("RUN-10")
def test_cancelling_what_waits_records_why_and_by_whom(machine: Machine) -> None:
    run_id = machine.submit()
    assert state_in(machine.cancel(run_id)) is State.CANCELLED
    last = machine.history(run_id)[-1]
    assert (last.reason, last.actor, last.attempt) == ("asked to", "client", 0)
    machine.worker_up()
    assert machine.dispatched() == []


@pytest.mark.behaviour("RUN-10", "RUN-11")
def test_cancel_of_running_work_asks_once_however_often_it_is_called(machine: Machine) -> None:
    run_id = machine.running()
    fence = machine.run(run_id).fence
    for _ in range(3):
        assert state_in(machine.cancel(run_id)) is State.RUNNING
    assert machine.messages(Stop) == [Stop(run_id, fence, "cancel")]
    assert len(machine.state.lanes["main"].holding) == 1, "it keeps its slot until it has really stopped"
    machine.finished(run_id, "cancelled")
    assert machine.state_of(run_id) is State.CANCELLED
    assert [run.id for run in machine.ended] == [run_id]


@pytest.mark.behaviour("RUN-11")
def test_the_dispatch_carries_the_grace_between_asking_and_killing(machine: Machine) -> None:
    machine.running()
    assert [message.grace for message in machine.messages(Dispatch)] == [10.0]


@pytest.mark.behaviour("RUN-10")
@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
def test_cancel_in_the_pass_in_which_a_run_ended_answers_with_its_end(machine: Machine, outcome: str) -> None:
    run_id = machine.running()
    decisions = machine.step(machine.finish_command(run_id, outcome), machine.cancel_command(run_id))
    assert state_in(decisions.answers[-1][1]) is State(outcome)


def test_a_run_the_core_does_not_have_is_unknown_to_it(machine: Machine) -> None:
    answer = machine.cancel("nothing")
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, UnknownRun)
    assert "'nothing'" in str(answer.error)


@pytest.mark.behaviour("RUN-11")
@pytest.mark.parametrize("outcome", ["failed", "cancelled", "timeout", "failed_fatal"])
def test_whatever_stopped_work_reports_it_ends_as_cancelled(outcome: str) -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    machine.cancel(run_id)
    machine.finished(run_id, outcome)
    assert machine.state_of(run_id) is State.CANCELLED


@pytest.mark.behaviour("RUN-11")
@pytest.mark.parametrize("how", ["worker died", "silence", "process died", "given back"])
def test_a_cancelled_run_that_is_lost_is_cancelled_not_tried_again(how: str) -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    machine.cancel(run_id)
    if how == "worker died":
        machine.worker_down(dead=True)
    elif how == "silence":
        machine.advance(30)
    elif how == "process died":
        machine.lost(run_id)
    else:
        machine.worker_up(held=[])
    assert machine.state_of(run_id) is State.CANCELLED
    assert machine.store.all_of(DeadLetter) == {}
    assert [run.id for run in machine.ended] == [run_id]


@pytest.mark.behaviour("RUN-11")
def test_a_worker_that_comes_back_is_asked_again_to_stop_what_was_cancelled_meanwhile(machine: Machine) -> None:
    run_id = machine.running()
    held = machine.held(run_id)
    machine.worker_down()
    machine.cancel(run_id)
    machine.restart()
    machine.sent.clear()
    machine.worker_up(held=[held])
    assert machine.messages(Stop) == [Stop(run_id, held.fence, "cancel")]


@pytest.mark.behaviour("RUN-10")
def test_cancel_while_a_retry_waits() -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    assert state_in(machine.cancel(run_id)) is State.CANCELLED
    assert machine.store.runs_by_id[run_id].due_at is None
    machine.advance(1000)
    assert machine.dispatched() == [run_id]
