"""What becomes of a timetable whose old runs were deleted: nothing, for its cursors are beyond them."""

import pytest

from interlock.engine.housekeeping import STAY
from interlock.error import IdempotencyConflict
from interlock.model.schedule.schedule import CatchUp
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from tests.core.machine import START, Machine, at_once
from tests.core.scheduling import job, machine_of, pass_time, pause, times
from tests.core.test_backfill import backfill
from tests.helpers import pruning


def backfilled(machine: Machine, start: float, end: float) -> tuple[list[str], list[str]]:
    """The ids of the runs that it has created, and of those that were there."""
    answer = backfill(machine, start, end, max_parallel=100)
    return answer.created, answer.existing


def ids(*at: int) -> list[str]:
    return [f"work:{int(START) + one}" for one in at]


def prune(machine: Machine) -> int:
    return at_once(pruning.prune(machine.store, PruneLimits(0, machine.wall + 1e6))).runs


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
        machine.restart_with_worker()
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
    machine.restart_with_worker()
    pass_time(machine, 600)
    assert times(machine) == []


@pytest.mark.behaviour("TIM-16", "RUN-5")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_occurrence_that_was_deleted_is_not_run_again_by_a_submit_or_a_backfill(restarts: bool) -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 605)
    assert prune(machine) == 10
    if restarts:
        machine.restart_with_worker()
    sent = len(machine.dispatched())
    assert [machine.submit(occurrence=START + at) for at in (0, 60, 540.5)] == ids(0, 60, 540)
    assert backfilled(machine, 0, 600) == ([], ids(*range(0, 600, 60)))
    assert times(machine) == [600]
    # What its schedule has no time for, or was before it, did not run.
    assert [machine.submit(occurrence=START + at) for at in (30, -60)] == ids(30, -60)
    assert backfilled(machine, -120, 0) == (ids(-120), ids(-60))
    assert times(machine) == [-120, -60, 30, 600]
    assert len(machine.dispatched()) == sent + 3


@pytest.mark.behaviour("TIM-16", "RUN-5", "RUN-6")
def test_what_was_submitted_or_backfilled_for_a_time_is_known_after_it_was_deleted() -> None:
    machine = machine_of(job(every=60))
    submitted = machine.submit(occurrence=START - 30)
    pass_time(machine, 5)
    made_up, _ = backfilled(machine, -300, -200)
    pass_time(machine, 5)
    assert made_up == ids(-300, -240)
    pass_time(machine, 60)
    assert prune(machine) == 4
    machine.restart_with_worker()
    assert [machine.submit(occurrence=START + at) for at in (-30, -300)] == [submitted, made_up[0]]
    assert backfilled(machine, -300, -200) == ([], made_up)
    with pytest.raises(IdempotencyConflict):
        machine.submit(payload=b'{"other":1}', occurrence=START - 300)


@pytest.mark.behaviour("TIM-11", "TIM-16")
def test_a_pause_can_be_made_up_for_though_older_runs_were_deleted() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 305)
    pause(machine, True)
    pass_time(machine, 600)
    pause(machine, False)
    pass_time(machine, 125)
    third = at_once(machine.store.run(ids(120)[0]))
    assert third is not None
    assert at_once(pruning.prune(machine.store, PruneLimits(10**6, third.ended_at or 0.0))).runs == 2
    created, existing = backfilled(machine, 0, 900)
    assert existing == ids(*range(0, 301, 60)), "two of them are gone"
    assert created == [*ids(*range(360, 900, 60))]


@pytest.mark.behaviour("TIM-16", "RUN-5")
def test_a_clock_that_is_set_back_brings_nothing_again_that_has_run() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 2 * STAY + 5)
    assert at_once(pruning.prune(machine.store, PruneLimits(1, 0.0, occurrences_before=machine.wall - STAY))).runs > 50
    machine.wall -= STAY - 60
    machine.step()
    pass_time(machine, STAY)
    assert len(set(machine.dispatched())) == len(machine.dispatched()) > 120


@pytest.mark.behaviour("TIM-16", "RUN-5")
def test_a_future_occurrence_that_was_cancelled_and_deleted_is_not_fired_by_its_schedule() -> None:
    machine = machine_of(job(every=60))
    machine.cancel(machine.submit(occurrence=START + 120))
    pass_time(machine, 65)
    assert prune(machine) > 1
    assert 120 not in times(machine)
    pass_time(machine, 135)
    assert 120 not in times(machine)
    assert {60.0, 180.0} <= set(times(machine))


def test_an_occurrence_that_is_not_over_is_not_deleted() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 65, length=1000)
    assert times(machine, State.RUNNING) == [0]
    assert times(machine, State.PRERUN) == [60]
    assert prune(machine) == 0
    pass_time(machine, 1000, length=1000)
    assert 0 in times(machine, State.SUCCEEDED)
