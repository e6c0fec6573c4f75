"""Events reported late are recorded at the time they happened."""

import pytest

from interlock.model.job import Job, Retry
from interlock.model.state import State
from interlock.wire.message import Finished
from tests.core.machine import START, Machine


def tell(machine: Machine, run_id: str, outcome: str, ago: float, took: float) -> None:
    run = machine.run(run_id)
    machine.step((str(run.worker_id), Finished(run_id, run.fence, outcome, b"1", None, None, ago, took)))


@pytest.mark.behaviour("RUN-18")
def test_an_end_that_is_told_late_is_recorded_at_its_time(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.wall += 60
    tell(machine, run_id, "succeeded", 20.0, 5.0)
    run = machine.run(run_id)
    assert (run.state, run.started_at, run.ended_at) == (State.SUCCEEDED, START + 35, START + 40)
    assert [entry.at - START for entry in machine.history(run_id)] == [0, 0, 0, 35, 40, 40]


def test_nothing_is_recorded_before_what_led_to_it(machine: Machine) -> None:
    """However long ago a worker says it was: its clock may run fast, and it may be wrong."""
    machine.worker_up()
    run_id = machine.submit()
    machine.wall += 10
    machine.started(run_id)
    machine.wall += 10
    tell(machine, run_id, "succeeded", 1e9, 1e9)
    times = [entry.at for entry in machine.history(run_id)]
    assert times == sorted(times)
    assert machine.run(run_id).ended_at == machine.run(run_id).started_at == START + 10


def test_a_retry_waits_from_when_its_failure_is_heard_of() -> None:
    machine = Machine(Job(id="work", retry=Retry(max_retries=1, initial_delay=4.0, jitter=0)))
    machine.worker_up()
    run_id = machine.submit()
    machine.wall += 60
    tell(machine, run_id, "failed", 30.0, 1.0)
    assert machine.run(run_id).due_at == START + 64
    assert machine.state_of(run_id) is State.RETRYING
