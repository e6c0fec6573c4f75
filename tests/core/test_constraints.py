"""Constraints on runs: what is checked, what is not answered, and what a restart finds."""

from typing import Any

import msgspec
import pytest

from interlock.core.effects import PendingEffects
from interlock.core.explain import explain
from interlock.core.state import CoreLimits
from interlock.core.timetable.series import OVERTAKEN
from interlock.model.bulk import RunAction
from interlock.model.guard import Action, Check, Constraints, Hook, OnHookError
from interlock.model.job import Job, Retry
from interlock.model.lane import LaneAction
from interlock.model.schedule.schedule import Schedule
from interlock.wire.command import Define
from interlock.wire.effect import CallHook
from interlock.wire.lane_request import ActOnLane
from tests.core.guarded_runs import FULL_PATH, HOOK, S, answers, guarded, reason, violations
from tests.core.machine import AT_ONCE, START, Machine, retrying_job
from tests.core.scheduling import LIMITS, begun, pass_time, pause, times


@pytest.mark.behaviour("CON-3")
def test_a_run_without_constraints_goes_straight_to_its_lane() -> None:
    machine = Machine(Job(id="work", constraints=Constraints(max_expected_run_time=5, post_run_hook=HOOK)))
    assert machine.path(machine.submit())[:2] == [S.PENDING, S.SCHEDULED]


@pytest.mark.behaviour("CON-1", "RUN-18")
def test_a_run_that_meets_its_constraints_passes_each_state_once() -> None:
    machine = guarded(max_concurrent_runs=1, require_previous_success=True, catch_up_window=5, pre_run_hook=HOOK)
    run_id = machine.submit()
    assert machine.path(run_id) == [*FULL_PATH, S.SCHEDULED, S.DISPATCHED]
    assert (machine.run(run_id).guarded.checked, machine.run(run_id).guarded.violated) == (4, 0)
    machine.started(run_id)
    machine.finished(run_id)
    assert machine.state_of(run_id) is S.SUCCEEDED


@pytest.mark.behaviour("CON-1", "RUN-18")
def test_all_constraints_are_evaluated_and_each_violation_is_recorded() -> None:
    machine = guarded(
        "skip", max_concurrent_runs=1, require_previous_success=True, catch_up_window=5, pre_run_hook=HOOK
    )
    first = machine.submit()
    machine.hook = answers(503)
    second = machine.submit(at=machine.wall - 6)
    assert machine.path(second)[1:] == [S.CONDITION_PENDING, S.CONDITION_RUNNING, S.ACTION_PENDING, S.ACTION_RUNNING,
                                        S.SKIPPED]  # fmt: skip
    found = machine.run(second).guarded.violations
    assert [(one.constraint, one.message) for one in found] == [
        ("require_previous_success", f"the previous run {first} has not ended (dispatched)"),
        ("pre_run_hook", "answered 503"),
        ("catch_up_window", "6s late, 5s allowed"),
        ("max_concurrent_runs", "1 live, 1 allowed"),
    ]
    assert {one.at for one in found} == {machine.wall}
    assert reason(machine, second) == "; ".join(f"{one.constraint}: {one.message}" for one in found)
    assert [one.constraint for _, one in machine.last.violations] == []
    stats = machine.run(second).guarded
    assert (stats.checked, stats.violated, stats.actions, stats.failed) == (4, 4, 1, 0)


@pytest.mark.behaviour("CON-1")
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_the_previous_run_must_have_succeeded(outcome: str) -> None:
    machine = guarded(require_previous_success=True)
    first = machine.submit()
    machine.started(first)
    machine.finished(first, outcome)
    second = machine.submit()
    assert machine.state_of(second) is (S.DISPATCHED if outcome == "succeeded" else S.SKIPPED)
    if outcome == "failed":
        # Runs that never began say nothing, and a retry of the failed run is the way out.
        third = machine.submit()
        assert reason(machine, third) == f"require_previous_success: the previous run {first} ended as failed"
        machine.act(RunAction.RETRY, first)
        again = next(run for run in machine.state.runs.values() if run.facets and run.facets.retry_of)
        assert again.state is S.DISPATCHED


@pytest.mark.behaviour("CON-1", "CON-7")
def test_a_hook_gets_the_run_and_is_asked_again_with_the_same_id() -> None:
    machine = guarded(pre_run_hook=Hook(url=HOOK, secret_env="KEY", timeout="2s"))
    machine.hook = None
    run_id = machine.submit(labels={"team": "red"})
    assert machine.state_of(run_id) is S.CONDITION_RUNNING
    machine.advance(2 + 5)
    machine.restart()
    first, again, after = machine.called
    assert first == again == after
    assert (first.outgoing.url, first.outgoing.secret_env, first.outgoing.timeout) == (HOOK, "KEY", 2.0)
    body = msgspec.json.decode(first.outgoing.body)
    assert (body["specversion"], body["id"], body["type"]) == ("1.0", first.id, "interlock.run.check")
    assert body["data"]["run_id"] == run_id
    assert body["data"]["labels"] == {"team": "red"}
    machine.worker_up()
    machine.answered([(after, (204, ""))])
    assert machine.state_of(run_id) is S.DISPATCHED
    machine.answered([(after, (500, ""))])
    assert machine.state_of(run_id) is S.DISPATCHED, "a second answer changes nothing"


@pytest.mark.behaviour("CON-4")
@pytest.mark.parametrize(
    ("on_error", "state"),
    [(OnHookError.FAIL, S.FAILED), (OnHookError.SKIP, S.SKIPPED), (OnHookError.ALLOW, S.DISPATCHED)],
)
def test_a_hook_that_cannot_be_called_follows_on_error(on_error: OnHookError, state: S) -> None:
    machine = guarded(pre_run_hook=Hook(url=HOOK, on_error=on_error))
    machine.hook = answers(None, "connection refused")
    run_id = machine.submit()
    assert machine.state_of(run_id) is state
    assert [one.message for one in machine.run(run_id).guarded.violations] == ["cannot be checked: connection refused"]


@pytest.mark.behaviour("CON-4", "CON-9")
@pytest.mark.parametrize(
    ("on_error", "state"),
    [(OnHookError.FAIL, S.FAILED), (OnHookError.SKIP, S.SKIPPED), (OnHookError.ALLOW, S.DISPATCHED)],
)
@pytest.mark.parametrize("how", ["unknown", "fails", "late", "odd"])
def test_a_check_without_an_answer_follows_on_error(how: str, on_error: OnHookError, state: S) -> None:
    check = Check(job="nobody" if how == "unknown" else "check", timeout="30s", on_error=on_error)
    machine = guarded(checks=[check])
    run_id = machine.submit()
    if how != "unknown":
        (called,) = [run for run in machine.state.runs.values() if run.job_id == "check"]
        assert msgspec.json.decode(machine.store.runs_by_id[called.id].payload or b"")["notice"]["run_id"] == run_id
        machine.started(called.id)
        if how == "late":
            machine.advance(30)
            machine.finished(called.id, "cancelled")
        else:
            machine.finished(called.id, "failed" if how == "fails" else "succeeded", result=b"[1]")
    assert machine.state_of(run_id) is state
    assert violations(machine, run_id) == [f"check {check.job}"]


@pytest.mark.behaviour("CON-1")
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (b"true", ""),
        (b"null", ""),
        (None, ""),
        (b"false", "the check returned false"),
        (b'"disk is full"', "disk is full"),
    ],
)
def test_the_result_of_a_check_decides(result: bytes | None, message: str) -> None:
    machine = guarded(checks=["check"])
    run_id = machine.submit()
    machine.restart_with_worker(
        held=[machine.held(run.id) for run in machine.state.runs.values() if run.job_id == "check"]
    )
    (called,) = [run for run in machine.state.runs.values() if run.job_id == "check"]
    machine.started(called.id)
    machine.finished(called.id, result=result)
    assert machine.state_of(run_id) is (S.SKIPPED if message else S.DISPATCHED)
    assert [one.message for one in machine.run(run_id).guarded.violations] == ([message] if message else [])


@pytest.mark.behaviour("CON-1")
def test_answers_outlast_a_restart() -> None:
    machine = guarded(checks=["check", "other"])
    run_id = machine.submit()
    called = {run.job_id: run.id for run in machine.state.runs.values() if run.id != run_id}
    machine.started(called["check"])
    machine.finished(called["check"], result=b'"no"')
    machine.restart_with_worker(held=[machine.held(called["other"])])
    assert len(machine.state.runs) == 2, "no check begins a second time"
    machine.started(called["other"])
    machine.finished(called["other"], result=b"true")
    assert reason(machine, run_id) == "check check: no"


@pytest.mark.behaviour("RUN-10", "RUN-11")
def test_cancelling_a_run_cancels_its_checks() -> None:
    machine = guarded(checks=["check"])
    run_id = machine.submit()
    (called,) = [run for run in machine.state.runs.values() if run.job_id == "check"]
    machine.started(called.id)
    machine.cancel(run_id)
    assert machine.state_of(run_id) is S.CANCELLED
    assert machine.run(called.id).stop == "cancel"
    machine.finished(called.id, "cancelled")
    assert not machine.state.runs


@pytest.mark.behaviour("RET-3")
@pytest.mark.parametrize("marked", [[], ["pre_run_hook"]])
def test_a_retry_checks_only_what_is_marked(marked: list[str]) -> None:
    job = retrying_job(2, constraints=Constraints(
        max_concurrent_runs=1, pre_run_hook=HOOK, catch_up_window=1, recheck_on_retry=marked
    ))  # fmt: skip
    machine = Machine(job, limits=LIMITS)
    run_id = machine.running()
    machine.finished(run_id, "failed")
    second = machine.submit()
    assert machine.state_of(second) is S.ACTION_RUNNING, "a run that is retried keeps its place"
    machine.advance(2)
    assert machine.state_of(run_id) is S.DISPATCHED
    assert len([call for call in machine.called if call.run_id == run_id]) == 1 + len(marked)
    machine.started(run_id)
    machine.finished(run_id)
    assert machine.state_of(second) is S.SKIPPED, "its window has passed"


@pytest.mark.behaviour("RET-3", "CON-2")
def test_two_jobs_that_wait_for_each_other_are_found() -> None:
    """A retry keeps its place in its session, so that a run behind it cannot start; waiting for that run would never
    end."""

    def of(job_id: str) -> Job:
        constraints = Constraints(pre_run_hook=f"https://{job_id}.example", recheck_on_retry=["pre_run_hook"])
        retry = Retry(max_retries=3, initial_delay=1, jitter=0)
        return Job(id=job_id, constraints=constraints, on_constraint_violation="wait", retry=retry)

    options = {"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 100}}
    machine = Machine(of("a"), of("b"), limits=CoreLimits(heartbeat_interval=1e6, session_patterns=options))
    machine.worker_up()
    first_a, first_b = machine.submit("a", session="one"), machine.submit("b", session="two")
    second_a, second_b = machine.submit("a", session="two"), machine.submit("b", session="one")
    machine.hook = lambda call: (409 if call.run_id in (first_a, first_b) else 200, "")
    for run_id in (first_a, first_b):
        machine.started(run_id)
        machine.finished(run_id, "failed")
        machine.advance(1)
    assert machine.state_of(first_a) is S.ACTION_RUNNING
    assert machine.state_of(first_b) is S.FAILED
    assert "would never end" in reason(machine, first_b)
    for run_id in (second_a, first_a):
        machine.hook = answers(200)
        machine.started(run_id)
        machine.finished(run_id)
    assert machine.state_of(second_b) is S.DISPATCHED


@pytest.mark.behaviour("RUN-24")
def test_a_held_run_gives_up_its_place_and_is_checked_again() -> None:
    machine = guarded(max_concurrent_runs=1, limits=LIMITS)
    machine.worker_down(dead=True)
    first, second = machine.submit(), machine.submit()
    assert (machine.state_of(first), machine.state_of(second)) == (S.SCHEDULED, S.ACTION_RUNNING)
    machine.act(RunAction.HOLD, first)
    assert (machine.state_of(first), machine.state_of(second)) == (S.PENDING, S.SCHEDULED)
    machine.act(RunAction.RELEASE, first)
    assert machine.state_of(first) is S.ACTION_RUNNING
    machine.cancel(second)
    assert machine.state_of(first) is S.SCHEDULED


def test_a_run_held_while_it_is_checked_stays_held() -> None:
    machine = guarded(pre_run_hook=HOOK)
    machine.hook = None
    run_id = machine.submit()
    machine.act(RunAction.HOLD, run_id)
    machine.answered([(machine.called[0], (200, ""))])
    machine.restart_with_worker()
    assert machine.state_of(run_id) is S.CONDITION_RUNNING
    machine.act(RunAction.RELEASE, run_id)
    assert machine.state_of(run_id) is S.DISPATCHED


def test_a_new_constraint_counts_runs_of_the_old_definition() -> None:
    machine = Machine(Job(id="work"), limits=LIMITS)
    first = machine.running()
    machine.jobs = [Job(id="work", constraints=Constraints(max_concurrent_runs=1))]
    machine.step(("", Define(1, machine.jobs)))
    second = machine.submit()
    assert machine.state_of(second) is S.ACTION_RUNNING
    machine.finished(first)
    assert machine.state_of(second) is S.DISPATCHED


@pytest.mark.behaviour("TIM-5", "CON-8")
def test_an_occurrence_that_has_begun_waits_for_its_place_and_is_not_skipped() -> None:
    job = Job(id="work", schedule=Schedule(every=10), constraints=Constraints(max_concurrent_runs=1))
    machine = Machine(job, limits=LIMITS)
    machine.worker_up()
    first, second, third = (f"work:{int(START) + at}" for at in (0, 10, 20))
    machine.started(first)
    machine.step(("client", ActOnLane(7, "cron", LaneAction.PAUSE)))
    machine.lost(first)  # it waits in its lane, and gives up its place when it is held
    machine.act(RunAction.HOLD, first)
    machine.advance(10)
    machine.act(RunAction.RELEASE, first)
    machine.advance(10)
    assert (machine.state_of(first), machine.state_of(second)) == (S.ACTION_RUNNING, S.SCHEDULED)
    assert machine.state_of(third) is S.ACTION_RUNNING
    pause(machine, True)
    assert (machine.state_of(first), machine.state_of(third)) == (S.ACTION_RUNNING, S.SKIPPED)
    machine.cancel(second)
    assert machine.state_of(first) is S.SCHEDULED


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("action", ["wait", "retry_later"])
def test_only_the_latest_occurrence_waits(action: Any) -> None:
    on = Action(action=action, delay="300s") if action == "retry_later" else Action(action=action)
    job = Job(id="work", schedule=Schedule(every=10), constraints=Constraints(max_concurrent_runs=1),
              on_constraint_violation=on)  # fmt: skip
    machine = Machine(job, limits=LIMITS)
    machine.worker_up()
    pass_time(machine, 35, length=1000)
    assert times(machine, S.SKIPPED) == [10, 20]
    assert {run.reason for run in machine.ended} == {OVERTAKEN}
    assert times(machine, S.ACTION_RUNNING) == [30]
    beside = machine.submit()
    assert machine.state_of(beside) is S.ACTION_RUNNING, "every run of the job counts"
    machine.finished(f"work:{int(START)}")
    assert begun(machine)[0] == (0, 0)
    assert machine.state_of(f"work:{int(START) + 30}") is (S.DISPATCHED if action == "wait" else S.ACTION_RUNNING)


@pytest.mark.behaviour("SES-1", "CON-2")
def test_waiting_runs_of_sessions_keep_their_order() -> None:
    machine = guarded(max_concurrent_runs=1, limits=CoreLimits(heartbeat_interval=1e6, session_patterns=AT_ONCE))
    runs = [machine.submit(session=name) for name in ("a", "b", "a")]
    for run_id in runs:
        machine.started(run_id)
        machine.finished(run_id)
    assert machine.dispatched() == runs


@pytest.mark.behaviour("RUN-21")
def test_explain_names_the_constraint_and_what_the_run_waits_for() -> None:
    def sentence(run_id: str) -> str:
        return explain(machine.state, machine.run(run_id), machine.now).sentence

    machine = guarded(max_concurrent_runs=1)
    first, second = machine.submit(), machine.submit()
    assert sentence(second) == (
        "The run violates max_concurrent_runs (1 live, 1 allowed), and waits until another run of its job ends."
    )
    assert explain(machine.state, machine.run(second), machine.now).reasons[0].holders == [first]
    machine = guarded(Action(action="retry_later", delay="30s"), pre_run_hook=HOOK, checks=["check"])
    machine.hook = None
    run_id = machine.submit()
    check = next(run.id for run in machine.state.runs.values() if run.job_id == "check")
    assert sentence(run_id) == (
        f"The run waits for pre_run_hook to be checked; it waits for check check to be checked by run {check}."
    )
    machine.answered([(machine.called[0], (409, ""))])
    machine.started(check)
    machine.finished(check)
    assert sentence(run_id) == "The run violates pre_run_hook (answered 409); constraints are checked again in 30s."


def test_a_call_that_nobody_answers_leaves_no_effect_behind() -> None:
    machine = guarded(pre_run_hook=HOOK)
    machine.hook = None
    machine.cancel(machine.submit())
    machine.advance(100)
    assert not [one for one in machine.state.of(PendingEffects).pending if isinstance(one, CallHook)]
