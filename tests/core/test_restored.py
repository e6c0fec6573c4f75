"""A store that went back in time: what the lost time did is not done again, and not taken for something new."""

from copy import deepcopy

import pytest

from interlock.model.job import Job
from interlock.model.record import Memo
from interlock.model.state import State
from interlock.wire.message import Dispatch, Finished, Held, Stop
from tests.core.machine import START, Machine
from tests.core.scheduling import begun, job, machine_of, pass_time, times


def go_back(machine: Machine, store: object, ahead: float = 0) -> None:
    """As `interlock restore` does, after a while without a scheduler, on a clock that may be ahead."""
    machine.wall += 5
    machine.elapsed += 5
    machine.store = store  # type: ignore[assignment] # a copy of it
    machine.store.put_record(Memo("restored:at", repr(machine.wall + ahead).encode()))
    for run in machine.store.runs_by_id.values():
        if run.ended_at is None:
            run.fence = int(machine.wall * 1000)
    machine.restart()


@pytest.mark.behaviour("REC-7")
@pytest.mark.parametrize("catch_up", ["all", "latest", "none"])
def test_occurrences_of_the_lost_time_are_missed_and_do_not_run_again(catch_up: str) -> None:
    machine = machine_of(job(every=10, catch_up=catch_up, catch_up_window=3600.0))
    pass_time(machine, 25)
    backup = deepcopy(machine.store)
    pass_time(machine, 30)
    before = machine.dispatched()
    assert [at for at, _ in begun(machine)] == [0, 10, 20, 30, 40, 50]
    go_back(machine, backup)
    machine.worker_up()
    pass_time(machine, 25)
    assert machine.dispatched()[len(before) :] == [f"work:{int(START) + at}" for at in (60, 70, 80)]
    assert times(machine, State.SKIPPED) == [30, 40, 50]
    for at in (30, 40, 50):
        assert "before the restore: it may have run" in machine.history(f"work:{int(START) + at}")[-1].reason


@pytest.mark.behaviour("REC-7", "TIM-9")
def test_a_clock_that_was_ahead_at_the_restore_silences_no_schedule() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 25)
    before = machine.dispatched()
    go_back(machine, deepcopy(machine.store), ahead=3600)
    machine.worker_up()
    pass_time(machine, 25)
    assert machine.dispatched()[len(before) :] == [f"work:{int(START) + at}" for at in (30, 40, 50)]


@pytest.mark.behaviour("REC-7", "RUN-7")
def test_a_worker_that_executes_a_run_of_the_lost_time_is_not_heard() -> None:
    machine = Machine(Job(id="work"))
    waits = machine.submit("work")
    backup = deepcopy(machine.store)
    machine.worker_up()
    machine.started(waits)
    lost = machine.submit("work", occurrence=START - 100)
    machine.started(lost)
    held = [Held(run_id, machine.run(run_id).fence, True) for run_id in (waits, lost)]
    assert [one.fence for one in held] == [1, 1]
    go_back(machine, backup)
    assert machine.submit("work", occurrence=START - 100) == lost
    machine.worker_up("two")
    fresh = [(one.run_id, one.fence) for one in machine.messages(Dispatch)[-2:]]
    assert {run_id for run_id, _ in fresh} == {waits, lost}
    assert all(fence > START * 1000 for _, fence in fresh)
    machine.worker_up("one", held=held)
    assert [(one.run_id, one.fence) for one in machine.messages(Stop)[-2:]] == [(waits, 1), (lost, 1)]
    for run_id in (waits, lost):
        machine.step(("one", Finished(run_id, 1, "succeeded")))
        assert machine.state_of(run_id) is State.DISPATCHED
        machine.finished(run_id)
        assert machine.state_of(run_id) is State.SUCCEEDED
