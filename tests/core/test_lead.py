"""Occurrences that are handed to a worker a moment ahead of their time, which keeps them until then."""

import pytest

from interlock.core.explain import explain
from interlock.core.state import CoreLimits
from interlock.model.explanation import ReasonKind
from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.policy.verdict import Ruling, Verdict
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.message import Dispatch, Returned
from tests.core.machine import START, Machine

LEAD = 0.05


def machine_of(*jobs: Job) -> Machine:
    machine = Machine(*jobs, limits=CoreLimits(lead=LEAD))
    machine.worker_up()
    return machine


def job(job_id: str, wait: float, every: float = 60.0, max_concurrent_runs: int | None = None) -> Job:
    return Job(
        id=job_id,
        schedule=Schedule(every=every, wait=wait),
        constraints=Constraints(max_concurrent_runs=max_concurrent_runs),
    )


def handed_out(machine: Machine) -> dict[str, float]:
    """By job, for how long the worker is to keep what it was given last."""
    return {one.job_id: round(one.hold, 6) for _, one in machine.sent if isinstance(one, Dispatch)}


@pytest.mark.behaviour("TIM-2")
def test_what_is_due_together_is_handed_out_together_and_kept_until_its_time() -> None:
    machine = machine_of(job("first", 20), job("second", 20.02), job("third", 20.1))
    machine.advance(15)
    assert machine.last.wake_at == START + 20 - LEAD / 2
    assert handed_out(machine) == {}
    machine.advance(5 - LEAD / 2)
    assert handed_out(machine) == {"first": 0.025, "second": 0.045}
    assert machine.last.wake_at == START + 20.1 - LEAD / 2


@pytest.mark.behaviour("TIM-2")
def test_one_that_is_given_back_ahead_of_its_time_is_still_kept_until_then() -> None:
    machine = machine_of(job("work", 20))
    machine.advance(15)
    machine.advance(4.96)
    assert handed_out(machine) == {"work": 0.04}
    machine.wall += 0.01
    machine.step(("one", Returned(f"work:{int(START) + 20}", 1, "the worker is leaving")))
    assert handed_out(machine) == {"work": 0.03}


@pytest.mark.behaviour("TIM-5")
def test_one_that_may_have_to_wait_for_the_run_before_it_is_not_handed_out_early() -> None:
    machine = machine_of(job("work", 0, every=20))
    machine.step()
    first, second = f"work:{int(START)}", f"work:{int(START) + 20}"
    machine.started(first)
    machine.advance(15)
    assert machine.last.wake_at == START + 20, "there is nothing to wake up for before"
    machine.advance(5 - LEAD / 4)
    assert machine.state_of(second) is State.PRERUN
    machine.advance(LEAD / 4)
    assert machine.state_of(second) is State.PRERUN
    machine.finished(first)
    assert machine.state_of(second) is State.DISPATCHED
    assert handed_out(machine) == {"work": 0.0}


def test_its_time_is_forgotten_when_it_has_begun() -> None:
    machine = machine_of(job("work", 20))
    machine.advance(15)
    machine.advance(4.96)
    run_id = f"work:{int(START) + 20}"
    assert machine.store.runs_by_id[run_id].due_at == START + 20
    machine.advance(0.05)
    machine.started(run_id)
    assert machine.store.runs_by_id[run_id].due_at is None
    assert machine.store.runs_by_id[run_id].started_at == pytest.approx(START + 20.01)


@pytest.mark.behaviour("TIM-2", "RET-5")
def test_what_was_handed_out_ahead_and_lost_does_not_begin_before_its_time() -> None:
    machine = machine_of(job("first", 20))
    machine.worker_up("two")
    machine.advance(15)
    machine.advance(5 - LEAD / 2)
    (run_id,) = machine.dispatched()
    machine.worker_down(str(machine.run(run_id).worker_id), dead=True)
    machine.step()
    assert machine.dispatched() == [run_id]
    machine.advance(LEAD / 2)
    assert machine.dispatched() == [run_id, run_id]


@pytest.mark.behaviour("RUN-21")
@pytest.mark.parametrize(("jump", "kind"), [(0.0, ReasonKind.SCHEDULED_TIME), (-10.0, ReasonKind.SENT)])
def test_the_explanation_of_one_that_its_worker_keeps(jump: float, kind: ReasonKind) -> None:
    """Its worker counts elapsed time, so a clock that is set back does not make the wait longer."""
    machine = machine_of(job("work", 20))
    machine.advance(15)
    machine.advance(4.96)
    machine.wall += jump
    run = machine.run(f"work:{int(START) + 20}")
    assert [one.kind for one in explain(machine.state, run, machine.now).reasons] == [kind]


def early(machine: Machine) -> str:
    """Let an occurrence pass its stages a moment ahead of its time, with no worker to take it."""
    machine.advance(15)
    machine.advance(4.96)
    run_id = f"work:{int(START) + 20}"
    assert machine.state_of(run_id) is State.SCHEDULED
    assert machine.run(run_id).due_at == START + 20
    return run_id


@pytest.mark.behaviour("TIM-9", "POL-7")
def test_one_that_is_judged_again_is_not_held_up_by_a_clock_that_was_set_back_before_a_restart() -> None:
    machine = Machine(job("work", 20), limits=CoreLimits(lead=LEAD, remote_policy=True))
    machine.remote = lambda _: Verdict(ruling=Ruling.ALLOW)
    run_id = early(machine)
    machine.remote = None
    machine.restart()
    machine.wall -= 50
    asked = len(machine.checked)
    machine.restart()
    assert machine.state_of(run_id) is State.PENDING
    assert [one.run_id for one in machine.checked[asked:]] == [run_id]


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize(("jump", "hold"), [(0.0, 0.04), (-50.0, LEAD), (50.0, 0.0)])
def test_a_worker_keeps_no_occurrence_for_longer_than_it_may_be_ahead(jump: float, hold: float) -> None:
    machine = Machine(job("work", 20), limits=CoreLimits(lead=LEAD))
    early(machine)
    machine.wall += jump
    machine.worker_up()
    assert handed_out(machine)["work"] == hold


@pytest.mark.behaviour("TIM-9", "RET-5")
def test_one_that_is_lost_ahead_of_its_time_is_not_held_up_by_a_clock_that_was_set_back() -> None:
    machine = machine_of(job("work", 20))
    machine.worker_up("two")
    machine.advance(15)
    machine.advance(5 - LEAD / 2)
    (run_id,) = machine.dispatched()
    machine.wall -= 50
    machine.worker_down(str(machine.run(run_id).worker_id), dead=True)
    machine.advance(2 * LEAD)
    assert machine.dispatched() == [run_id, run_id]
