"""Waits that constraints cause, beside everything else that may happen to a run: none is for ever."""

from typing import Any

import pytest

from interlock.core.attempts.settle import CANCEL
from interlock.core.effects import PendingEffects
from interlock.core.guards.job_guard import Guards
from interlock.core.state import CoreLimits
from interlock.model.bulk import RunAction
from interlock.model.guard import Action, Check, Constraints
from interlock.model.job import Job, Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionAction
from interlock.model.state import State
from interlock.wire.command import Define
from interlock.wire.request import SetPaused
from interlock.wire.session_request import ActOnSession
from tests.core.guarded_runs import HOOK, answers, guarded, owed, reason
from tests.core.machine import Machine
from tests.core.scheduling import LIMITS, declare, pass_time, times

S = State
AGAIN = Retry(max_retries=3, initial_delay=1, jitter=0)


def sessions(**options: Any) -> CoreLimits:
    patterns = {"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 100, **options}}
    return CoreLimits(heartbeat_interval=1e6, session_patterns=patterns)


@pytest.mark.behaviour("CON-2", "RET-3")
def test_of_retries_that_would_all_wait_for_each_other_one_waits() -> None:
    machine = guarded("wait", retry=AGAIN, pre_run_hook=HOOK, recheck_on_retry=["pre_run_hook"])
    runs = machine.submit_many(12)
    machine.hook = answers(503)
    for run_id in runs:
        machine.started(run_id)
        machine.finished(run_id, "failed")
    machine.advance(1)
    assert {machine.state_of(run_id) for run_id in runs} <= {S.FAILED, S.CONDITION_RUNNING, S.ACTION_RUNNING}
    machine.hook = answers(200)
    *others, last = list(machine.state.runs)
    for run_id in others:
        machine.cancel(run_id)
    assert machine.state_of(last) is S.DISPATCHED


@pytest.mark.behaviour("CON-2")
def test_a_retry_that_waits_is_woken_although_it_holds_the_last_place_itself() -> None:
    plain = Job(id="work", retry=AGAIN, constraints=Constraints(pre_run_hook=HOOK, recheck_on_retry=["pre_run_hook"]),
                on_constraint_violation="wait")  # fmt: skip
    machine = Machine(plain, limits=LIMITS)
    first, second = machine.running(), machine.running()
    declare(machine, Job(id="work", constraints=Constraints(max_concurrent_runs=1)))
    third = machine.submit()
    machine.hook = answers(503)
    machine.finished(first, "failed")
    machine.advance(1)
    assert machine.state_of(first) is S.ACTION_RUNNING
    machine.hook = answers(200)
    machine.finished(second)
    assert (machine.state_of(first), machine.state_of(third)) == (S.DISPATCHED, S.ACTION_RUNNING)
    machine.started(first)
    machine.finished(first)
    assert machine.state_of(third) is S.DISPATCHED


@pytest.mark.behaviour("SES-1", "SES-6")
def test_a_run_that_is_checked_has_not_had_its_turn_after_a_restart() -> None:
    machine = guarded("wait", pre_run_hook=HOOK, limits=sessions())
    first = machine.submit(session="s")
    machine.started(first)
    second = machine.submit(session="s")
    machine.act(RunAction.HOLD, second)
    machine.hook = None
    machine.act(RunAction.RELEASE, second)
    machine.restart_with_worker(held=[machine.held(first)])
    machine.answered([(machine.called[-1], (200, ""))])
    assert (machine.state_of(first), machine.state_of(second)) == (S.RUNNING, S.SCHEDULED)


@pytest.mark.behaviour("CON-7")
def test_a_restart_repeats_no_action_and_asks_no_hook_that_was_answered() -> None:
    tell = Action(action="webhook", url="https://tell.example/", then="wait")
    machine = guarded(tell, pre_run_hook=HOOK)
    machine.started(machine.submit())
    machine.hook = answers(503)
    waiting = machine.submit()
    asked = len(machine.called)
    for again in (machine.restart, machine.recover, machine.restart):
        again()
        machine.worker_up(held=[machine.held(one.id) for one in machine.state.runs.values() if one.worker_id])
    assert machine.state_of(waiting) is S.ACTION_RUNNING
    assert (len(machine.called), len(owed(machine))) == (asked, 1)


@pytest.mark.behaviour("CON-9")
def test_checks_that_name_each_other_end() -> None:
    """A run that another waits for is not checked itself."""
    ring = [Job(id=one, constraints=Constraints(checks=["p", "q"])) for one in "pq"]
    machine = Machine(*ring, limits=LIMITS)
    machine.worker_up()
    run_id = machine.submit("p")
    assert len(machine.state.runs) == 3
    for called in [run.id for run in machine.state.runs.values() if run.id != run_id]:
        machine.started(called)
        machine.finished(called)
    assert machine.state_of(run_id) is S.DISPATCHED


@pytest.mark.behaviour("CON-4")
@pytest.mark.parametrize("result", [b"not json", b"", b"[" * 100_000, b"1e999", b'"\xff"'])
def test_a_result_that_cannot_be_read_harms_nobody(result: bytes) -> None:
    machine = guarded(checks=["check"])
    run_id = machine.submit()
    (called,) = [run.id for run in machine.state.runs.values() if run.job_id == "check"]
    machine.started(called)
    machine.finished(called, result=result)
    assert machine.state_of(run_id) is S.FAILED
    assert "ended as failed (fatal)" in reason(machine, run_id)


def test_a_check_that_has_begun_ends_if_another_cannot_begin() -> None:
    machine = guarded(checks=["check", Check(job="gone")])
    assert machine.state_of(machine.submit()) is S.FAILED
    assert not machine.state.runs


@pytest.mark.behaviour("RUN-24", "SES-4")
@pytest.mark.parametrize("options", [{"debounce": 5.0}, {"mode": "interrupt"}])
def test_a_held_run_does_not_arrive_in_its_session(options: dict[str, Any]) -> None:
    machine = guarded(pre_run_hook=HOOK, limits=sessions(**options))
    first = machine.submit(session="s")
    machine.hook = None
    second = machine.submit(session="s")
    machine.act(RunAction.HOLD, second)
    before = machine.state_of(first)
    machine.answered([(machine.called[-1], (200, ""))])
    assert (machine.state_of(first), machine.run(first).stop) == (before, None)
    assert machine.state_of(second) is S.CONDITION_RUNNING


@pytest.mark.behaviour("SES-2")
def test_a_run_that_was_held_up_interrupts_none_that_came_after_it() -> None:
    machine = guarded(pre_run_hook=HOOK, limits=sessions(mode="interrupt"))
    machine.hook = None
    old = machine.submit(session="s")
    machine.advance(1)
    machine.hook = answers(200)
    new = machine.submit(session="s")
    machine.started(new)
    machine.answered([(machine.called[0], (200, ""))])
    assert (machine.state_of(old), machine.state_of(new), machine.run(new).stop) == (S.SCHEDULED, S.RUNNING, None)


@pytest.mark.behaviour("SES-7")
def test_a_reset_ends_the_runs_of_a_session_that_are_checked() -> None:
    machine = guarded(pre_run_hook=HOOK, limits=sessions())
    machine.hook = None
    run_id, other = machine.submit(session="s"), machine.submit(session="t")
    machine.step(("client", ActOnSession(1, "s", SessionAction.RESET)))
    assert (machine.state_of(run_id), reason(machine, run_id)) == (S.CANCELLED, "lane_cleared")
    assert machine.state_of(other) is S.CONDITION_RUNNING


@pytest.mark.behaviour("CON-1")
def test_an_occurrence_that_is_not_due_is_no_previous_run() -> None:
    job = Job(
        id="work", schedule=Schedule(every=60.0, wait=5.0), constraints=Constraints(require_previous_success=True)
    )
    machine = Machine(job, limits=LIMITS)
    machine.worker_up()
    assert [run.state for run in machine.state.runs.values()] == [S.PRERUN]
    assert machine.state_of(machine.submit()) is S.DISPATCHED


@pytest.mark.behaviour("TIM-10")
@pytest.mark.parametrize("removed", [False, True])
def test_an_occurrence_that_waits_is_skipped_when_its_job_is_paused_or_removed(removed: bool) -> None:
    job = Job(id="work", schedule=Schedule(every=60.0), constraints=Constraints(max_concurrent_runs=1))
    machine = Machine(job, limits=LIMITS)
    machine.worker_up()
    pass_time(machine, 70, length=1000)
    assert times(machine, S.ACTION_RUNNING) == [60]
    if removed:
        machine.jobs = []
        machine.step(("", Define(1, [])))
    else:
        machine.step(("client", SetPaused(1, "work", True, "client")))
    assert 60 in times(machine, S.SKIPPED)


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_limit_counts_elapsed_time(jump: float) -> None:
    machine = guarded(Action(action="retry_later", delay="10s", limit="60s"), pre_run_hook=HOOK)
    machine.hook = answers(503)
    run_id = machine.submit()
    machine.advance(5)
    machine.wall += jump
    for _ in range(54):
        machine.advance(1)
    assert machine.state_of(run_id) is S.ACTION_RUNNING
    machine.advance(1)
    assert machine.state_of(run_id) is S.FAILED


@pytest.mark.behaviour("CON-4", "RUN-22")
@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0])
def test_a_hook_that_nobody_answers_is_given_up_after_ten_minutes_by_elapsed_time(jump: float) -> None:
    machine = guarded(pre_run_hook=HOOK)
    machine.hook = None
    run_id = machine.submit()
    machine.wall += jump
    for _ in range(40):
        machine.advance(15)
    assert machine.state_of(run_id) is S.CONDITION_RUNNING
    for _ in range(10):
        machine.advance(15)
    assert machine.state_of(run_id) is S.FAILED
    assert "the sender does not answer" in reason(machine, run_id)
    assert machine.state.of(PendingEffects).overdue == {}


@pytest.mark.behaviour("CON-2")
def test_a_killed_run_says_that_a_newer_one_did_it() -> None:
    machine = guarded("kill_old", max_concurrent_runs=1)
    old = machine.running()
    machine.submit()
    run = machine.run(old)
    assert (run.stop, run.stop_actor) == (CANCEL, "kill_old")
    assert run.stop_reason == "killed by a newer run of its job (kill_old)"


def test_guards_of_removed_jobs_go() -> None:
    machine = Machine(Job(id="work"), limits=LIMITS)
    machine.worker_up()
    for number in range(150):
        declare(machine, Job(id=f"job{number}", constraints=Constraints(max_concurrent_runs=1)))
        run_id = machine.submit(f"job{number}")
        machine.worker_up()
        machine.started(run_id)
        machine.finished(run_id)
    assert len(machine.state.of(Guards)) <= 105
