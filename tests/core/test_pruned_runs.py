"""What becomes of a timetable whose old runs were deleted: nothing, for its cursors are beyond them."""

import pytest

from interlock.model.schedule import CatchUp
from interlock.model.state import State
from tests.core.machine import START, Machine, at_once
from tests.core.scheduling import job, machine_of, pass_time, times


def prune(machine: Machine) -> int:
    return at_once(machine.store.prune_runs(0, machine.wall + 1e6)).runs


@pytest.mark.behaviour("TIM-16")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_an_occurrence_that_was_deleted_does_not_come_again(restarts: bool, catch_up: CatchUp) -> None:
    machine = machine_of(job(every=60, catch_up=catch_up, catch_up_window=1e6, catch_up_max=1000))
    pass_time(machine, 605)
    assert times(machine) == [60.0 * number for number in range(11)]
    assert prune(machine) == 10
    assert times(machine) == [600], "the newest position is its"
    if restarts:
        machine.restart()
        machine.worker_up()
    pass_time(machine, 120)
    assert times(machine) == [600, 660, 720]
    assert len(machine.dispatched()) == 13


@pytest.mark.behaviour("TIM-16", "TIM-4")
@pytest.mark.parametrize("kind", ["once", "at"])
def test_a_job_that_fires_once_does_not_fire_again_when_its_run_is_deleted(kind: str) -> None:
    only = job(once=True, wait=30) if kind == "once" else job(at=START + 30)
    machine = machine_of(only, job("other", every=60))
    pass_time(machine, 65)
    assert times(machine) == [30]
    assert prune(machine) > 0
    assert times(machine) == []
    machine.restart()
    machine.worker_up()
    pass_time(machine, 600)
    assert times(machine) == []


def test_an_occurrence_that_is_not_over_is_not_deleted() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 65, length=1000)
    assert times(machine, State.RUNNING) == [0]
    assert times(machine, State.PRERUN) == [60]
    assert prune(machine) == 0
    pass_time(machine, 1000, length=1000)
    assert 0 in times(machine, State.SUCCEEDED)
