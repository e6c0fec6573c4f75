"""Deadlines, at their instant and just before it."""

import math

import pytest

from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.message import Stop
from interlock.model.state import State
from tests.core.machine import START, Machine, retrying_job

RETRY = Retry(max_retries=5, initial_delay=4, multiplier=1, jitter=0)


def just_before(when: float) -> float:
    return math.nextafter(when, 0.0)


def at(machine: Machine, wall: float) -> None:
    """Move to an instant of the wall clock, with the worker heard of on the way."""
    machine.elapsed += max(0.0, wall - machine.wall)
    machine.wall = wall
    for worker in machine.state.workers.values():
        for attempt in worker.attempts.values():
            attempt.heard = machine.elapsed
    machine.step()


def waiting_in(state: State) -> tuple[Machine, str]:
    """A run with a deadline at START + 10 that waits in this state."""
    machine = Machine(Job(id="work", retry=Retry(max_retries=5, initial_delay=100, max_delay=100, jitter=0)))
    if state is State.SCHEDULED:
        return machine, machine.submit(deadline_at=START + 10)
    machine.worker_up()
    run_id = machine.submit(deadline_at=START + 10)
    if state is State.RETRYING:
        machine.finished(run_id, "failed")
    else:
        machine.state.roster.drop(machine.state.workers["one"], run_id)
        machine.state.lanes["main"].holding.clear()
        machine.run(run_id).state = state
    assert machine.state_of(run_id) is state
    return machine, run_id


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize(
    "state",
    [
        State.SCHEDULED,
        State.RETRYING,
        State.APPROVAL_REQUIRED,
        State.CONDITION_PENDING,
        State.CONDITION_RUNNING,
        State.ACTION_PENDING,
        State.ACTION_RUNNING,
    ],
)
def test_a_deadline_that_passes_in_a_waiting_state_ends_the_run_as_timeout(state: State) -> None:
    machine, run_id = waiting_in(state)
    at(machine, just_before(START + 10))
    assert machine.state_of(run_id) is state
    at(machine, START + 10)
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).outcome == "timeout"
    assert machine.run(run_id).ended_at == START + 10
    assert machine.history(run_id)[-1].reason == f"deadline passed while {state}"
    dispatched = machine.dispatched()
    machine.worker_up("other")
    at(machine, START + 1000)
    assert machine.dispatched() == dispatched, "it never starts after that"


@pytest.mark.behaviour("RUN-22")
def test_a_deadline_that_passed_before_the_submit_ends_the_run_at_once() -> None:
    machine = Machine()
    machine.worker_up()
    run_id = machine.submit(deadline_at=START - 1)
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.dispatched() == []


@pytest.mark.behaviour("RUN-22")
def test_a_run_whose_due_time_and_deadline_passed_while_the_scheduler_was_away_ends_as_timeout() -> None:
    machine = Machine()
    run_id = machine.submit(at=START + 5, deadline_at=START + 10)
    machine.wall += 60
    machine.restart()
    machine.worker_up()
    assert machine.path(run_id) == ["prerun", "pending", "timeout"]
    assert machine.dispatched() == []


@pytest.mark.behaviour("RUN-22")
def test_the_jobs_deadline_counts_from_the_time_the_run_is_due() -> None:
    machine = Machine(Job(id="work", deadline=10))
    now, ahead = machine.submit(), machine.submit(at=START + 100)
    assert machine.run(now).deadline_at == START + 10
    assert machine.run(ahead).deadline_at == START + 110
    at(machine, just_before(START + 110))
    assert machine.state_of(ahead) is State.SCHEDULED
    at(machine, START + 110)
    assert machine.state_of(ahead) is State.TIMEOUT


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("started", [False, True])
def test_work_on_a_worker_is_asked_to_stop_at_its_deadline_and_ends_as_timeout(started: bool) -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    machine.worker_up()
    run_id = machine.submit(deadline_at=START + 10)
    if started:
        machine.started(run_id)
    at(machine, just_before(START + 10))
    assert machine.messages(Stop) == []
    at(machine, START + 10)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "timeout")]
    at(machine, START + 11)
    assert len(machine.messages(Stop)) == 1
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.TIMEOUT, "the retries it has left are of no use after its deadline"
    assert machine.run(run_id).outcome == "timeout"


@pytest.mark.behaviour("RUN-22")
def test_a_deadline_is_absolute_over_all_attempts() -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    run_id = machine.running(deadline_at=START + 10)
    for when in (START + 4, START + 8):
        machine.finished(run_id, "failed")
        at(machine, when)
        machine.started(run_id)
    at(machine, START + 10)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "timeout")]


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("restarted", [False, True])
def test_max_runtime_counts_from_the_first_start_over_all_attempts(restarted: bool) -> None:
    machine = Machine(Job(id="work", max_runtime=10, retry=RETRY))
    machine.worker_up()
    run_id = machine.submit()
    at(machine, START + 3)
    machine.started(run_id)
    machine.finished(run_id, "failed")
    at(machine, START + 7)
    machine.started(run_id)
    if restarted:
        machine.restart()
        machine.worker_up(held=[machine.held(run_id)])
    at(machine, just_before(START + 13))
    assert machine.messages(Stop) == []
    at(machine, START + 13)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "timeout")]


@pytest.mark.behaviour("RUN-22")
def test_max_runtime_that_passes_while_a_retry_waits_ends_the_run() -> None:
    machine = Machine(Job(id="work", max_runtime=3, retry=RETRY))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    at(machine, just_before(START + 3))
    assert machine.state_of(run_id) is State.RETRYING
    at(machine, START + 3)
    assert machine.state_of(run_id) is State.TIMEOUT


@pytest.mark.behaviour("RUN-22")
def test_max_runtime_per_attempt_begins_anew_with_each_attempt() -> None:
    machine = Machine(Job(id="work", max_runtime=10, max_runtime_per_attempt=True, retry=RETRY))
    run_id = machine.running()
    at(machine, START + 10)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "attempt_timeout")]
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.RETRYING, "an attempt that ran too long is a failure like others"
    at(machine, START + 14)
    machine.started(run_id)
    at(machine, just_before(START + 24))
    assert len(machine.messages(Stop)) == 1
    at(machine, START + 24)
    assert len(machine.messages(Stop)) == 2


@pytest.mark.behaviour("RUN-22")
def test_the_deadline_of_the_run_outranks_that_of_the_attempt() -> None:
    machine = Machine(Job(id="work", max_runtime=10, max_runtime_per_attempt=True, retry=RETRY))
    run_id = machine.running(deadline_at=START + 12)
    at(machine, START + 10)
    at(machine, START + 12)
    assert [stop.reason for stop in machine.messages(Stop)] == ["attempt_timeout", "timeout"]
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.TIMEOUT


@pytest.mark.behaviour("RUN-22")
def test_the_last_attempt_that_ran_too_long_ends_the_run_as_timeout() -> None:
    machine = Machine(Job(id="work", max_runtime=10, max_runtime_per_attempt=True, executor=ExecutorKind.PROCESS))
    run_id = machine.running()
    at(machine, START + 10)
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).outcome == "timeout"


@pytest.mark.behaviour("RUN-22")
def test_a_success_that_comes_before_the_stop_took_effect_counts() -> None:
    machine = Machine()
    run_id = machine.running(deadline_at=START + 10)
    at(machine, START + 10)
    machine.finished(run_id)
    assert machine.state_of(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("how", ["lost", "died", "gone"])
def test_work_lost_after_its_deadline_ends_as_timeout(how: str) -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    run_id = machine.running(deadline_at=START + 10)
    at(machine, START + 10)
    if how == "lost":
        machine.lost(run_id)
    elif how == "died":
        machine.worker_down(dead=True)
    else:
        machine.worker_up(held=[])
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).outcome == "timeout"
    assert [one.code for _, one in machine.store.dead.rows.values()] == ["timeout"]


def test_the_machine_says_when_it_wants_to_be_woken() -> None:
    machine = Machine(Job(id="work", max_runtime=7))
    machine.worker_up()
    run_id = machine.submit(deadline_at=START + 50)
    assert machine.last.wake_at == START + 50
    machine.started(run_id)
    assert machine.state.liveness_due == machine.elapsed + 30
    assert machine.last.wake_at == START + 7


@pytest.mark.behaviour("RUN-22", "RET-5")
def test_an_attempt_that_had_to_be_killed_for_running_too_long_is_a_failure_and_no_crash() -> None:
    machine = Machine(retrying_job(1, max_runtime=10.0, max_runtime_per_attempt=True))
    run_id = machine.running()
    machine.advance(10)
    machine.lost(run_id, "its process was killed by SIGKILL")
    run = machine.run(run_id)
    assert (run.state, run.failures, run.crashes) == (State.RETRYING, 1, 0)
    machine.advance(2)
    machine.started(run_id)
    machine.advance(10)
    machine.lost(run_id, "its process was killed by SIGKILL")
    assert (machine.state_of(run_id), machine.run(run_id).outcome) == (State.TIMEOUT, "timeout")


def test_a_deadline_that_a_wrong_clock_had_passed_before_the_run_was_due_still_counts() -> None:
    machine = Machine(Job(id="work"))
    run_id = machine.submit(delay=60.0, deadline_at=START + 100)
    for jump in (1000.0, -1000.0):
        machine.wall += jump
        machine.step()
    assert machine.state_of(run_id) is State.PRERUN
    machine.advance(61)
    assert machine.state_of(run_id) is State.SCHEDULED
    machine.advance(40)
    assert machine.state_of(run_id) is State.TIMEOUT
