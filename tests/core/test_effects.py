"""Effects: asked once stored, answered late, twice, after a restart or never."""

from math import nextafter

import pytest

from interlock.core.effects import PendingEffects
from interlock.core.state import CoreLimits
from interlock.model.state import State
from interlock.wire.command import Answered, WorkerUp
from interlock.wire.effect import LIMIT, ReadInputs
from interlock.wire.message import Checkpoint, Dispatch
from tests.core.machine import Machine, retrying_job

LARGE = b'{"text": "' + b"x" * 1000 + b'"}'


def asking() -> tuple[Machine, str]:
    """A machine that has asked for the inputs of a run, and has no answer yet."""
    machine = Machine(retrying_job(3))
    machine.holds_answers = True
    run_id = machine.submit(payload=LARGE)
    machine.worker_up()
    assert machine.last.effects == [ReadInputs(run_id, machine.run(run_id).seq)]
    assert (machine.state_of(run_id), machine.dispatched()) == (State.DISPATCHED, [])
    return machine, run_id


@pytest.mark.behaviour("RUN-6")
def test_a_dispatch_goes_out_once_its_inputs_are_read_however_often_they_are() -> None:
    machine, run_id = asking()
    machine.advance(1)
    machine.answered(machine.answers * 2)
    machine.answered(machine.answers)
    (dispatch,) = machine.messages(Dispatch)
    assert (dispatch.run_id, dispatch.fence, dispatch.payload, dispatch.checkpoint) == (run_id, 1, LARGE, None)
    assert dispatch.begin_by == machine.elapsed + machine.limits.silence
    assert not machine.state.of(PendingEffects).pending


@pytest.mark.behaviour("RUN-12")
def test_an_effect_without_an_answer_is_asked_again_at_its_limit() -> None:
    machine, run_id = asking()
    machine.elapsed = nextafter(asked := machine.elapsed + LIMIT, 0)
    assert machine.step().effects == []
    for again in range(3):
        machine.elapsed = asked + again * LIMIT
        assert [effect.run_id for effect in machine.step().effects] == [run_id]
        assert machine.state.of(PendingEffects).due == machine.elapsed + LIMIT
    machine.answered(machine.answers[-1:])
    assert machine.dispatched() == [run_id]
    machine.elapsed += LIMIT
    assert machine.step().effects == []


@pytest.mark.behaviour("RUN-6", "LIV-4")
def test_an_answer_means_nothing_once_its_run_has_moved_on() -> None:
    machine, run_id = asking()
    late = machine.answers
    machine.worker_down(dead=True)
    assert (machine.state_of(run_id), machine.run(run_id).crashes) == (State.SCHEDULED, 0), "it was never sent"
    machine.answers = []
    machine.worker_up("two")
    machine.answered(late)
    assert machine.dispatched() == []
    machine.answered(machine.answers)
    assert [(one.run_id, one.fence) for one in machine.messages(Dispatch)] == [(run_id, machine.run(run_id).fence)]
    machine.elapsed += LIMIT
    assert machine.step().effects == []


@pytest.mark.behaviour("RUN-7")
def test_an_answer_that_comes_with_its_worker_sends_nothing_to_the_new_link() -> None:
    machine, run_id = asking()
    up = WorkerUp("one", 100, 10, {"work": ""}, [], False)
    machine.step(("", Answered(machine.answers)), ("", up))
    assert machine.dispatched() == []
    machine.answered(machine.answers)
    assert [one.fence for one in machine.messages(Dispatch)] == [machine.run(run_id).fence]


@pytest.mark.behaviour("RUN-12")
def test_an_answer_from_before_a_restart_is_void_and_the_run_goes_out_anew() -> None:
    machine, run_id = asking()
    late, machine.answers = machine.answers, []
    machine.restart()
    machine.answered(late)
    machine.worker_up()
    machine.answered(late)
    assert machine.dispatched() == []
    machine.answered(machine.answers)
    assert [one.fence for one in machine.messages(Dispatch)] == [machine.run(run_id).fence]


@pytest.mark.behaviour("RUN-10")
def test_a_run_cancelled_while_its_inputs_are_read_is_never_sent() -> None:
    machine, run_id = asking()
    machine.cancel(run_id)
    machine.answered(machine.answers)
    assert (machine.state_of(run_id), machine.dispatched()) == (State.CANCELLED, [])


@pytest.mark.behaviour("RUN-7")
def test_only_a_large_payload_or_a_checkpoint_is_read() -> None:
    machine = Machine(retrying_job(3), limits=CoreLimits(small_payload=10))
    machine.holds_answers = True
    run_id = machine.running(payload=b"{}")
    machine.finished(run_id, "failed")
    assert machine.advance(2).effects == []
    machine.step(("one", Checkpoint(run_id, machine.run(run_id).fence, b"7")))
    machine.finished(run_id, "failed")
    assert len(machine.advance(4).effects) == 1
    machine.answered(machine.answers)
    assert [(one.payload, one.checkpoint) for one in machine.messages(Dispatch)] == [(b"{}", None)] * 2 + [
        (b"{}", b"7")
    ]


def test_nothing_remembers_an_overdue_effect_of_a_run_that_has_ended() -> None:
    machine, run_id = asking()
    machine.advance(LIMIT)
    assert machine.state.of(PendingEffects).overdue
    machine.worker_down(dead=True)
    machine.cancel(run_id)
    machine.answered(machine.answers)
    assert (machine.state.of(PendingEffects).pending, machine.state.of(PendingEffects).overdue) == ({}, {})
