"""A wall clock that is set: spans count elapsed time, instants follow the clock."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

import interlock as il
from interlock.core.state import WAIT, CoreLimits
from interlock.engine import catalog
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.error import BadDuration, BadValue
from interlock.model.job import Job, Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.message import Dispatch, Stop
from interlock.wire.request import NewRun, Submit
from tests.core.machine import ELAPSED, START, Machine
from tests.core.scheduling import DAY, check_records, declare, job, machine_of, pass_time, stop_for, times

SPAN = 10.0
RETRY = Retry(max_retries=1, initial_delay=SPAN, max_delay=SPAN, jitter=0)
SPANS = {
    "retry": Job(id="work", retry=RETRY),
    "delay": Job(id="work"),
    "max_runtime": Job(id="work", max_runtime=SPAN),
    "max_runtime_per_attempt": Job(id="work", max_runtime=SPAN, max_runtime_per_attempt=True),
}
HOUR, TEN_MINUTES = 3600.0, -600.0


def begin(kind: str) -> tuple[Machine, str]:
    """A run of which a span of ten seconds has just begun."""
    machine = Machine(SPANS[kind], limits=CoreLimits(heartbeat_interval=1e6))
    machine.worker_up()
    if kind == "delay":
        return machine, machine.submit(delay=SPAN)
    run_id = machine.running()
    if kind == "retry":
        machine.finished(run_id, "failed")
    return machine, run_id


def is_over(machine: Machine, run_id: str) -> bool:
    """Whether what waited went on, or what executes was asked to stop."""
    if machine.state_of(run_id) is State.RUNNING:
        return bool(machine.messages(Stop))
    return machine.state_of(run_id) not in (State.PRERUN, State.RETRYING)


def check_end(machine: Machine, run_id: str, elapsed: float) -> None:
    """It is over at this very instant of elapsed time."""
    for moment, over in ((math.nextafter(elapsed, 0), False), (elapsed, True)):
        machine.wall += moment - machine.elapsed
        machine.elapsed = moment
        machine.step()
        assert is_over(machine, run_id) is over


@pytest.mark.behaviour("RUN-22", "RET-4")
@pytest.mark.parametrize("recovers", [False, True])
@pytest.mark.parametrize("jump", [HOUR, TEN_MINUTES])
@pytest.mark.parametrize("kind", SPANS)
def test_a_span_counts_elapsed_time_while_the_scheduler_lives(kind: str, jump: float, recovers: bool) -> None:
    machine, run_id = begin(kind)
    machine.advance(4)
    machine.wall += jump
    machine.step()
    if recovers:
        held = [machine.held(run_id)] if machine.state_of(run_id) is State.RUNNING else []
        machine.recover()
        machine.worker_up(held=held)
    assert not is_over(machine, run_id)
    check_end(machine, run_id, ELAPSED + SPAN)


@pytest.mark.behaviour("RUN-22", "RET-4")
@pytest.mark.parametrize(("away", "left"), [(3.0, 3.0), (HOUR, 0.0), (TEN_MINUTES, SPAN)])
@pytest.mark.parametrize("kind", SPANS)
def test_over_a_restart_a_span_counts_wall_time_and_is_never_longer_than_it_was(
    kind: str, away: float, left: float
) -> None:
    machine, run_id = begin(kind)
    machine.advance(4)
    held = [machine.held(run_id)] if machine.state_of(run_id) is State.RUNNING else []
    machine.wall += away
    machine.elapsed = 7.0  # of another boot
    machine.restart_with_worker(held=held)
    if not left:
        assert is_over(machine, run_id)
        return
    machine.wall += HOUR
    machine.step()
    check_end(machine, run_id, 7.0 + left)


@pytest.mark.behaviour("RUN-22", "POL-10")
def test_a_jump_counts_once_for_a_pause_that_began_anew_before_it_ended() -> None:
    """A new remote policy ends a pause early; if the service then fails again, the run has two spans."""
    machine, run_id = begin("retry")
    machine.advance(4)
    run = machine.state.runs[run_id]
    run.due_at = machine.wall + SPAN
    machine.state.set_span(machine.elapsed + SPAN, run, WAIT)
    machine.wall += HOUR
    machine.step()
    assert run.due_at == pytest.approx(machine.wall + SPAN, abs=0.001)


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("jump", [HOUR, TEN_MINUTES])
@pytest.mark.parametrize("kind", ["retry", "delay"])
def test_the_record_of_a_wait_moves_with_the_clock(kind: str, jump: float) -> None:
    machine, run_id = begin(kind)
    machine.advance(4)
    machine.wall += 0.9
    machine.step()
    assert machine.store.runs_by_id[run_id].due_at == START + SPAN, "clocks are corrected by little all the time"
    machine.wall += jump - 0.9
    machine.step()
    assert machine.store.runs_by_id[run_id].due_at == pytest.approx(START + SPAN + jump, abs=0.001)
    assert machine.store.runs_by_id[run_id].due_at == pytest.approx(machine.wall + 6, abs=0.001)
    machine.restart()
    machine.advance(5.9)
    assert not is_over(machine, run_id)
    machine.advance(0.2)
    assert is_over(machine, run_id)


@pytest.mark.behaviour("RUN-22")
def test_instants_follow_the_wall_clock() -> None:
    machine = Machine(Job(id="work", deadline=HOUR))
    given, own = machine.submit(deadline=START + HOUR), machine.submit()
    early, late = machine.submit(at=START + HOUR), machine.submit(at=START + 2 * HOUR)
    machine.wall = math.nextafter(START + HOUR, 0)
    machine.step()
    assert [machine.state_of(one) for one in (given, own, early)] == ["scheduled", "scheduled", "prerun"]
    machine.wall = START + HOUR
    machine.step()
    assert [machine.state_of(one) for one in (given, own, early)] == ["timeout", "timeout", "scheduled"]
    machine.wall += TEN_MINUTES
    machine.advance(HOUR)
    assert machine.state_of(late) is State.PRERUN
    machine.advance(-TEN_MINUTES)
    assert machine.state_of(late) is State.SCHEDULED


@pytest.mark.behaviour("RUN-22")
def test_the_deadline_of_a_job_counts_from_the_end_of_a_delay_and_changes_with_the_job() -> None:
    machine = Machine(Job(id="work", deadline=50.0))
    run_id = machine.submit(delay=SPAN)
    assert machine.run(run_id).deadline_at == START + SPAN + 50
    machine.wall += HOUR
    machine.step()
    machine.jobs = [Job(id="work", deadline=2 * HOUR)]
    machine.restart()
    assert machine.run(run_id).deadline_at == START + SPAN + 2 * HOUR


@pytest.mark.behaviour("RUN-22")
def test_a_delay_travels_as_a_span() -> None:
    new = il.run("work", delay="10s", deadline="1m", now=START)
    assert (new.delay, new.at, new.deadline) == (SPAN, None, START + SPAN + 60)
    with pytest.raises(BadValue) as caught:
        il.run("work", delay="10s", deadline=datetime.fromtimestamp(START + SPAN, UTC), now=START)
    assert caught.value.field == "deadline"


@pytest.mark.parametrize(
    "fields",
    [
        {"delay": -1.0},
        {"delay": math.nan},
        {"delay": 1e11},
        {"delay": 1.0, "at": START},
        {"delay": 1.0, "occurrence": 1},
    ],
)
def test_the_door_refuses_a_delay_that_makes_no_sense(fields: dict[str, float]) -> None:
    submit = Submit(1, [NewRun("work", b"{}", **fields)])  # type: ignore[arg-type]  # these fields are numbers
    with pytest.raises((BadValue, BadDuration), match=r"^delay: "):
        catalog.create(submit, "a", Catalog([CatalogEntry(Job(id="work"), lambda payload: None)]), {})


@pytest.mark.behaviour("RUN-22")
def test_a_delay_of_nothing_is_due_at_once(machine: Machine) -> None:
    assert machine.path(machine.submit(delay=0.0)) == ["pending", "scheduled"]


@pytest.mark.behaviour("RUN-22", "RET-4")
def test_a_clock_that_is_set_while_the_store_fails_moves_the_record_too() -> None:
    machine, run_id = begin("delay")
    due_at = machine.run(run_id).due_at
    assert due_at is not None
    machine.wall += HOUR
    machine.recover()
    assert machine.run(run_id).due_at == due_at + HOUR
    machine.restart()
    assert not is_over(machine, run_id)


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("schedule", [{"at": START + 500}, {"once": True, "wait": 500}])
def test_at_and_once_fire_at_their_time_after_a_clock_that_was_ahead_is_put_back(
    schedule: dict[str, Any], restart: bool
) -> None:
    machine = machine_of(job("other", every=60))
    machine.wall += DAY if "at" not in schedule else 495
    declare(machine, job("other", every=60), job(**schedule))
    machine.worker_up()
    machine.wall -= DAY if "at" not in schedule else 495
    machine.step()
    if restart:
        stop_for(machine, 0)
    pass_time(machine, 700)
    assert times(machine, State.SUCCEEDED) == [500]
    check_records(machine)


def test_a_retry_does_not_wait_for_an_instant_that_the_clock_was_ahead_of() -> None:
    scheduled = Schedule(every=60)
    machine = machine_of(Job(id="work", schedule=scheduled, retry=Retry(max_retries=3, initial_delay=2.0, jitter=0)))
    machine.wall += DAY
    machine.step()
    live = next(run for run in machine.state.runs.values() if run.state is State.DISPATCHED)
    machine.finished(live.id, "failed")
    machine.wall -= DAY
    machine.step()
    pass_time(machine, 120)
    assert machine.run(live.id).attempt == 2


def test_a_run_whose_session_let_it_go_at_a_restart_waits_for_no_clock() -> None:
    machine = Machine(limits=CoreLimits(session_patterns={"*": {"debounce": 5.0}}))
    run_id = machine.submit(session="one")
    machine.wall, machine.elapsed = machine.wall + SPAN, machine.elapsed + SPAN
    machine.restart()
    machine.wall -= HOUR
    machine.worker_up()
    (dispatch,) = machine.messages(Dispatch)
    assert (dispatch.run_id, dispatch.hold) == (run_id, 0.0)
