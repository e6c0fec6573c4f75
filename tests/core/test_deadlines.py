"""Deadlines, at their instant and just before it."""

import math

import pytest

from interlock.core.attempts.silence import Silence
from interlock.model.explanation import explain_end
from interlock.model.guard import Constraints
from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.letter import DeadLetter
from interlock.model.policy.document import PolicyDocument, Rule
from interlock.model.policy.verdict import Ruling, RunLimits
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.wire.message import Stop
from tests.core.machine import START, Machine, retrying_job

pytestmark = pytest.mark.behaviour("RUN-22")

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
        return machine, machine.submit(deadline=START + 10)
    machine.worker_up()
    run_id = machine.submit(deadline=START + 10)
    if state is State.RETRYING:
        machine.finished(run_id, "failed")
    else:
        machine.state.roster.drop(machine.state.workers["one"], run_id)
        machine.state.lanes["main"].holding.clear()
        machine.run(run_id).state = state
    assert machine.state_of(run_id) is state
    return machine, run_id


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


def test_a_deadline_that_passed_before_the_submit_ends_the_run_at_once(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit(deadline=START - 1)
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.dispatched() == []


def test_a_run_whose_due_time_and_deadline_passed_while_the_scheduler_was_away_ends_as_timeout(
    machine: Machine,
) -> None:
    run_id = machine.submit(at=START + 5, deadline=START + 10)
    machine.wall += 60
    machine.restart_with_worker()
    assert machine.path(run_id) == ["prerun", "pending", "timeout"]
    assert machine.dispatched() == []


def test_the_jobs_deadline_counts_from_the_time_the_run_is_due() -> None:
    machine = Machine(Job(id="work", deadline=10))
    now, ahead = machine.submit(), machine.submit(at=START + 100)
    assert machine.run(now).deadline_at == START + 10
    assert machine.run(ahead).deadline_at == START + 110
    at(machine, just_before(START + 110))
    assert machine.state_of(ahead) is State.SCHEDULED
    at(machine, START + 110)
    assert machine.state_of(ahead) is State.TIMEOUT


@pytest.mark.parametrize("started", [False, True])
def test_work_on_a_worker_is_asked_to_stop_at_its_deadline_and_ends_as_timeout(started: bool) -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    machine.worker_up()
    run_id = machine.submit(deadline=START + 10)
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


def test_a_deadline_is_absolute_over_all_attempts() -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    run_id = machine.running(deadline=START + 10)
    for when in (START + 4, START + 8):
        machine.finished(run_id, "failed")
        at(machine, when)
        machine.started(run_id)
    at(machine, START + 10)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "timeout")]


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
        machine.restart_with_worker(held=[machine.held(run_id)])
    at(machine, just_before(START + 13))
    assert machine.messages(Stop) == []
    at(machine, START + 13)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "timeout")]


def test_max_runtime_that_passes_while_a_retry_waits_ends_the_run() -> None:
    machine = Machine(Job(id="work", max_runtime=3, retry=RETRY))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    at(machine, just_before(START + 3))
    assert machine.state_of(run_id) is State.RETRYING
    at(machine, START + 3)
    assert machine.state_of(run_id) is State.TIMEOUT


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


def test_the_deadline_of_the_run_outranks_that_of_the_attempt() -> None:
    machine = Machine(Job(id="work", max_runtime=10, max_runtime_per_attempt=True, retry=RETRY))
    run_id = machine.running(deadline=START + 12)
    at(machine, START + 10)
    at(machine, START + 12)
    assert [stop.reason for stop in machine.messages(Stop)] == ["attempt_timeout", "timeout"]
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.TIMEOUT


def test_the_last_attempt_that_ran_too_long_ends_the_run_as_timeout() -> None:
    machine = Machine(Job(id="work", max_runtime=10, max_runtime_per_attempt=True, executor=ExecutorKind.PROCESS))
    run_id = machine.running()
    at(machine, START + 10)
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).outcome == "timeout"


PER_ATTEMPT = Job(id="work", max_runtime=2.0, max_runtime_per_attempt=True, retry=Retry(max_retries=1, jitter=0))
ALLOWED = Constraints(max_allowed_run_time=2.0)


@pytest.mark.behaviour("CON-5", "POL-4")
@pytest.mark.parametrize(
    ("job", "limits", "deadline_in", "limit"),
    [
        (Job(id="work"), None, 2.0, "deadline"),
        (Job(id="work", max_runtime=2.0), None, 60.0, "max_runtime of 2s"),
        (Job(id="work", max_runtime=7200.0), None, None, "max_runtime of 2h"),
        (Job(id="work", constraints=ALLOWED), None, None, "max_allowed_run_time of 2s"),
        (Job(id="work", max_runtime=60.0), "2s", None, "the policy's max_runtime of 2s"),
        (Job(id="work", max_runtime=2.0), "60s", None, "max_runtime of 2s"),
        (PER_ATTEMPT, None, None, "max_runtime of 2s per attempt"),
        (PER_ATTEMPT, "1s", None, "the policy's max_runtime of 1s"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["failed", "lost"])
def test_a_timeout_names_its_limit_and_the_grace(
    job: Job, limits: str | None, deadline_in: float | None, limit: str, end: str
) -> None:
    policy = None
    if limits is not None:
        rule = Rule(id="limited", decision=Ruling.CONSTRAIN, limits=RunLimits(max_runtime=limits))
        policy = Policy(PolicyDocument(id="test", rules=(rule,)))
    machine = Machine(job, policy=policy)
    run_id = machine.running(deadline=None if deadline_in is None else START + deadline_in)
    at(machine, START + (7200 if "2h" in limit else 2))
    reason = f"{limit} passed, with a grace of 10s on top"
    assert machine.run(run_id).stop_reason == reason
    machine.advance(9)
    if end == "lost":
        machine.lost(run_id, "killed by SIGKILL")
    else:
        machine.finished(run_id, "failed")
    entry = machine.history(run_id)[-1]
    assert (entry.after is State.RETRYING) is limit.endswith("per attempt")
    assert entry.reason.startswith(reason)
    if entry.after is State.TIMEOUT:
        sentence = explain_end(machine.run(run_id)).sentence
        assert limit in sentence
        assert "grace of 10s" in sentence
    violated = [one.constraint for one in machine.run(run_id).guarded.violations]
    assert violated == ["max_allowed_run_time"] * limit.startswith("max_allowed")


def test_a_runtime_that_passes_while_a_retry_waits_names_its_limit() -> None:
    machine = Machine(Job(id="work", max_runtime=3, retry=RETRY))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    at(machine, START + 3)
    assert machine.history(run_id)[-1].reason == "max_runtime of 3s passed while retrying"


def test_a_success_that_comes_before_the_stop_took_effect_counts(machine: Machine) -> None:
    run_id = machine.running(deadline=START + 10)
    at(machine, START + 10)
    machine.finished(run_id)
    assert machine.state_of(run_id) is State.SUCCEEDED


@pytest.mark.parametrize("how", ["lost", "died", "gone"])
def test_work_lost_after_its_deadline_ends_as_timeout(how: str) -> None:
    machine = Machine(Job(id="work", retry=RETRY))
    run_id = machine.running(deadline=START + 10)
    at(machine, START + 10)
    if how == "lost":
        machine.lost(run_id)
    elif how == "died":
        machine.worker_down(dead=True)
    else:
        machine.worker_up(held=[])
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).outcome == "timeout"
    assert [one.code for one in machine.store.all_of(DeadLetter).values()] == ["timeout"]


def test_the_machine_says_when_it_wants_to_be_woken() -> None:
    machine = Machine(Job(id="work", max_runtime=7))
    machine.worker_up()
    run_id = machine.submit(deadline=START + 50)
    assert machine.last.wake_at == START + 50
    machine.started(run_id)
    assert machine.state.of(Silence).due == machine.elapsed + 30
    assert machine.last.wake_at == START + 7


@pytest.mark.behaviour("RET-5")
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
    run_id = machine.submit(delay=60.0, deadline=START + 100)
    for jump in (1000.0, -1000.0):
        machine.wall += jump
        machine.step()
    assert machine.state_of(run_id) is State.PRERUN
    machine.advance(61)
    assert machine.state_of(run_id) is State.SCHEDULED
    machine.advance(40)
    assert machine.state_of(run_id) is State.TIMEOUT
