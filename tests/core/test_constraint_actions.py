"""Actions on a violation (skip, wait, kill, webhooks, jobs), and what is checked during and after a run."""

from typing import Any

import msgspec
import pytest

from interlock.model.delivery import Delivery
from interlock.model.guard import Action, Constraints, Decision, Hook, OnHookError
from interlock.model.job import Job, Retry
from tests.core.guarded_runs import HOOK, S, answers, guarded, owed, reason, violations
from tests.core.machine import Machine
from tests.core.scheduling import LIMITS


@pytest.mark.behaviour("CON-2", "CON-8", "RET-2")
def test_skip_ends_the_run_without_execution_or_retry() -> None:
    machine = guarded("skip", max_concurrent_runs=1, retry=Retry(max_retries=3))
    machine.submit()
    second = machine.submit()
    machine.advance(100)
    assert machine.state_of(second) is S.SKIPPED
    assert machine.run(second).attempt == 0


@pytest.mark.behaviour("CON-2")
@pytest.mark.parametrize("restart", [False, True])
def test_retry_later_checks_all_again_after_its_delay(restart: bool) -> None:
    machine = guarded(Action(action="retry_later", delay="10s"), pre_run_hook=HOOK)
    machine.hook = answers(409)
    run_id = machine.submit()
    for _ in range(2):
        assert machine.state_of(run_id) is S.ACTION_RUNNING
        machine.advance(9)
        if restart:
            machine.restart_with_worker()
        calls = len(machine.called)
        machine.advance(1)
        assert len(machine.called) == calls + 1
    assert len({call.id for call in machine.called}) == len(machine.called), "each check is a request of its own"
    machine.hook = answers(200)
    machine.advance(10)
    assert machine.state_of(run_id) is S.DISPATCHED
    assert machine.path(run_id).count(S.CONDITION_RUNNING) == 4


@pytest.mark.behaviour("CON-2", "TIM-5")
@pytest.mark.parametrize("restart", [False, True])
def test_wait_goes_on_in_order_as_others_end(restart: bool) -> None:
    machine = guarded(max_concurrent_runs=2)
    runs = machine.submit_many(5)
    assert [machine.state_of(run_id) for run_id in runs] == [S.DISPATCHED] * 2 + [S.ACTION_RUNNING] * 3
    for done, waiting in zip(runs, runs[2:], strict=False):
        if restart:
            machine.restart_with_worker(
                held=[machine.held(one.id) for one in machine.state.runs.values() if one.worker_id]
            )
        machine.started(done)
        machine.finished(done)
        assert machine.state_of(waiting) is S.DISPATCHED
        holding = [run for run in machine.state.runs.values() if run.state in (S.DISPATCHED, S.RUNNING)]
        assert len(holding) <= 2


@pytest.mark.behaviour("CON-2", "CON-4")
@pytest.mark.parametrize(
    ("on_error", "state"),
    [(OnHookError.FAIL, S.FAILED), (OnHookError.SKIP, S.SKIPPED), (OnHookError.ALLOW, S.DISPATCHED)],
)
@pytest.mark.parametrize("action", ["wait", "retry_later"])
def test_a_limit_ends_a_wait(action: Any, on_error: OnHookError, state: S) -> None:
    machine = guarded(Action(action=action, limit="90s", on_error=on_error), max_concurrent_runs=1)
    first = machine.submit()
    machine.started(first)
    second = machine.submit()
    machine.advance(60)
    machine.advance(29)
    assert machine.state_of(second) is S.ACTION_RUNNING
    machine.restart_with_worker(held=[machine.held(first)])
    machine.advance(1)
    assert machine.state_of(second) is state
    assert machine.run(second).guarded.failed == 1


@pytest.mark.behaviour("CON-4")
def test_a_wait_for_nobody_fails_at_once() -> None:
    machine = guarded("wait", pre_run_hook=HOOK)
    machine.hook = answers(409)
    run_id = machine.submit()
    assert machine.state_of(run_id) is S.FAILED
    assert "no other run of the job is live" in reason(machine, run_id)


@pytest.mark.behaviour("CON-2")
def test_a_deadline_ends_a_wait() -> None:
    machine = guarded(max_concurrent_runs=1)
    first, second = machine.submit(), machine.submit(deadline=machine.wall + 5)
    machine.advance(5)
    assert (machine.state_of(first), machine.state_of(second)) == (S.DISPATCHED, S.TIMEOUT)


@pytest.mark.behaviour("CON-2", "RUN-11")
@pytest.mark.parametrize("restart", [False, True])
def test_kill_old_starts_the_new_run_only_after_the_old_one_has_ended(restart: bool) -> None:
    machine = guarded("kill_old", max_concurrent_runs=1)
    old = machine.submit()
    machine.started(old)
    new = machine.submit()
    assert machine.run(old).stop == "cancel"
    assert machine.state_of(new) is S.ACTION_RUNNING
    if restart:
        machine.restart_with_worker(held=[machine.held(old)])
    machine.advance(5)
    assert machine.state_of(new) is S.ACTION_RUNNING
    machine.finished(old, "cancelled")
    assert (machine.state_of(old), machine.state_of(new)) == (S.CANCELLED, S.DISPATCHED)


@pytest.mark.behaviour("CON-2")
def test_the_newest_of_several_wins_and_no_newer_run_is_killed() -> None:
    machine = guarded("kill_old", max_concurrent_runs=1)
    old = machine.submit()
    machine.started(old)
    middle, newest = machine.submit(), machine.submit()
    assert machine.state_of(middle) is S.CANCELLED
    machine.finished(old, "cancelled")
    assert machine.state_of(newest) is S.DISPATCHED
    late = machine.submit(at=machine.wall - 1000)
    assert machine.state_of(late) is S.SKIPPED
    assert machine.state_of(newest) is S.DISPATCHED


@pytest.mark.behaviour("CON-2")
@pytest.mark.parametrize("restart", [False, True])
def test_kill_old_touches_no_run_of_another_tenant_and_waits_for_its_place(restart: bool) -> None:
    machine = guarded("kill_old", max_concurrent_runs=2)
    theirs, mine = machine.submit(tenant="blue"), machine.submit(tenant="red")
    machine.started(theirs)
    machine.started(mine)
    later = machine.submit(tenant="red")
    assert (machine.run(theirs).stop, machine.run(mine).stop) == (None, "cancel")
    theirs_too = machine.submit(tenant="blue", at=machine.wall + 1)
    machine.finished(mine, "cancelled")
    assert machine.state_of(later) is S.DISPATCHED
    machine.advance(1)
    assert (machine.run(theirs).stop, machine.run(later).stop) == ("cancel", None)
    green = machine.submit(tenant="green")
    assert machine.state_of(green) is S.ACTION_RUNNING, "both places are taken by others, whose runs it leaves alone"
    if restart:
        machine.restart_with_worker(held=[machine.held(theirs), machine.held(later)])
    machine.advance(5)
    assert {machine.state_of(one) for one in (theirs_too, green)} == {S.ACTION_RUNNING}
    assert machine.run(later).stop is None
    machine.finished(theirs, "cancelled")
    first, second = (theirs_too, green) if machine.state_of(theirs_too) is S.DISPATCHED else (green, theirs_too)
    assert (machine.state_of(first), machine.state_of(second)) == (S.DISPATCHED, S.ACTION_RUNNING)
    machine.started(later)
    machine.finished(later)
    assert machine.state_of(second) is S.DISPATCHED


@pytest.mark.behaviour("CON-2")
def test_a_newer_run_of_another_tenant_overtakes_nothing() -> None:
    machine = guarded("kill_old", max_concurrent_runs=1)
    newer = machine.submit(tenant="blue")
    machine.started(newer)
    older = machine.submit(tenant="red", at=machine.wall - 1000)
    assert (machine.run(newer).stop, machine.state_of(older)) == (None, S.ACTION_RUNNING)
    machine.finished(newer)
    assert machine.state_of(older) is S.DISPATCHED


@pytest.mark.behaviour("CON-2", "CON-7")
def test_a_webhook_informs_and_then_decides() -> None:
    actions = [Action(action="webhook", url="https://one.example/x?key=1", ordered=True),
               Action(action="webhook", url_env="SLACK", format="slack", then="wait")]  # fmt: skip
    machine = guarded(actions, max_concurrent_runs=1)
    first, second = machine.submit(), machine.submit()
    assert machine.state_of(second) is S.ACTION_RUNNING
    one, two = owed(machine)
    assert (one.host, one.event, one.order) == ("one.example", "run.violated", "https://one.example/x?key=1")
    assert (two.host, two.order) == ("$SLACK", None)
    assert msgspec.json.decode(one.request.body)["data"]["violations"] == ["max_concurrent_runs: 1 live, 1 allowed"]
    assert second in msgspec.json.decode(two.request.body)["text"]
    machine.started(first)
    machine.finished(first)
    assert machine.state_of(second) is S.DISPATCHED
    assert len(owed(machine)) == 2


@pytest.mark.behaviour("CON-2", "CON-9")
def test_a_triggered_job_names_its_cause_and_a_chain_ends() -> None:
    ring = Job(id="work", on_success=Action(action="trigger_job", job="work", payload={"n": 1}))
    machine = Machine(ring)
    machine.worker_up()
    machine.submit(tenant="red")
    for _ in range(40):
        for run in list(machine.state.runs.values()):
            machine.started(run.id)
            machine.finished(run.id)
    runs = list(machine.store.runs_by_id.values())
    assert len(runs) == 17
    assert {run.state for run in runs} == {S.SUCCEEDED}
    causes = [(run.facets.caused_by.run_id, run.facets.caused_by.depth) for run in runs[1:]
              if run.facets and run.facets.caused_by]  # fmt: skip
    assert causes == [(run.id, depth + 1) for depth, run in enumerate(runs[:-1])]
    assert {run.tenant for run in runs} == {"red"}
    assert runs[-1].guarded.failed == 1
    assert any("a chain of 16 runs" in text for text in machine.warned)
    (note,) = machine.run(machine.ended[-1].id).notes
    assert note.text == (
        "trigger_job after run.succeeded failed: job 'work' is not started: "
        "a chain of 16 runs has already caused each other"
    )


@pytest.mark.behaviour("CON-2", "CON-4")
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
@pytest.mark.parametrize("restart", [False, True])
def test_an_action_of_ones_own_is_awaited(outcome: str, restart: bool) -> None:
    machine = guarded(Action(action="call", job="other", then="skip"), max_concurrent_runs=1)
    machine.submit()
    second = machine.submit()
    assert machine.state_of(second) is S.ACTION_RUNNING
    if restart:
        machine.restart_with_worker(held=[machine.held(one.id) for one in machine.state.runs.values() if one.worker_id])
    (called,) = [run for run in machine.state.runs.values() if run.job_id == "other"]
    machine.started(called.id)
    machine.finished(called.id, outcome)
    assert machine.state_of(second) is (S.SKIPPED if outcome == "succeeded" else S.FAILED)


@pytest.mark.behaviour("CON-6", "CON-7")
@pytest.mark.parametrize(
    ("outcome", "events"), [("succeeded", ["run.succeeded"]), ("failed", ["run.failed"]), ("cancelled", [])]
)
def test_the_end_of_a_run_owes_its_webhooks_in_the_same_commit(outcome: str, events: list[str]) -> None:
    hook = Action(action="webhook", url=HOOK)
    broken = Action(action="trigger_job", job="nobody")
    machine = Machine(Job(id="work", on_success=[hook, broken], on_failure=[hook, broken]))
    run_id = machine.running()
    decisions = machine.finished(run_id, outcome, error="a\nboom")
    assert [one.event for one in decisions.batch.of(Delivery)] == events
    assert [run.id for run in decisions.ended] == [run_id]
    assert machine.state_of(run_id) == outcome, "an action that fails changes no state"
    assert machine.run(run_id).guarded.failed == len(events)
    if outcome == "failed":
        data = msgspec.json.decode(decisions.batch.of(Delivery)[0].request.body)["data"]
        assert (data["state"], data["error"]) == ("failed", "boom")


@pytest.mark.behaviour("SEC-5")
@pytest.mark.parametrize(
    ("format", "sent"),
    [
        ("slack", {"text": "🔴 work: failed (failed): failed: &lt;!channel&gt; @everyone\nrun RUN"}),
        ("discord", {"content": "🔴 work: failed (failed): failed: <!channel> @everyone\nrun RUN",
                     "allowed_mentions": {"parse": []}}),
    ],
)  # fmt: skip
def test_an_error_mentions_nobody_in_a_chat(format: Any, sent: dict[str, Any]) -> None:
    machine = Machine(Job(id="work", on_failure=Action(action="webhook", url=HOOK, format=format)))
    run_id = machine.running()
    machine.finished(run_id, "failed", error="<!channel> @everyone")
    assert msgspec.json.decode(owed(machine)[0].request.body.replace(run_id.encode(), b"RUN")) == sent


@pytest.mark.parametrize("decision", ["webhook", "trigger_job", "call"])
def test_a_message_is_no_decision(decision: Any) -> None:
    with pytest.raises(Exception, match=r"action: .* is not an action that decides"):
        Decision(action=decision)


@pytest.mark.behaviour("CON-5")
@pytest.mark.parametrize("restart", [False, True])
def test_a_run_that_takes_longer_than_expected_is_late_once(restart: bool) -> None:
    constraints = Constraints(max_expected_run_time="10s", max_allowed_run_time="20s")
    late = Action(action="webhook", url=HOOK)
    machine = Machine(Job(id="work", constraints=constraints, on_late=late), limits=LIMITS)
    run_id = machine.running()
    machine.advance(9.5)
    if restart:
        machine.restart_with_worker(held=[machine.held(run_id)])
    assert not machine.run(run_id).guarded.late
    machine.advance(0.5)
    assert machine.run(run_id).guarded.late
    assert [one.event for one in owed(machine)] == ["run.late"]
    machine.restart_with_worker(held=[machine.held(run_id)])
    assert violations(machine, run_id) == ["max_expected_run_time"]
    machine.advance(10)
    assert machine.run(run_id).stop == "timeout"
    machine.finished(run_id, "cancelled")
    assert machine.state_of(run_id) is S.TIMEOUT
    assert violations(machine, run_id) == ["max_expected_run_time", "max_allowed_run_time"]
    assert len(owed(machine)) == 1


@pytest.mark.behaviour("CON-5")
@pytest.mark.parametrize(
    ("status", "on_error", "state"),
    [
        (204, OnHookError.FAIL, S.SUCCEEDED),
        (500, OnHookError.ALLOW, S.FAILED),
        (None, OnHookError.FAIL, S.FAILED),
        (None, OnHookError.ALLOW, S.SUCCEEDED),
        (None, OnHookError.SKIP, S.SUCCEEDED),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_the_hook_after_a_run_decides_about_its_success(
    status: int | None, on_error: OnHookError, state: S, restart: bool
) -> None:
    constraints = Constraints(post_run_hook=Hook(url=HOOK, on_error=on_error))
    machine = Machine(Job(id="work", constraints=constraints, retry=Retry(max_retries=3), deadline=60), limits=LIMITS)
    machine.hook = None
    run_id = machine.running()
    machine.finished(run_id, result=b'"done"')
    assert machine.state_of(run_id) is S.TERMINATING
    machine.advance(100)
    assert machine.state_of(run_id) is S.TERMINATING, "work that is done is in time"
    if restart:
        machine.restart()
    assert len({call.id for call in machine.called}) == 1
    machine.answered([(machine.called[-1], (status, "refused"))])
    assert machine.state_of(run_id) is state
    assert machine.run(run_id).result == (b'"done"' if state is S.SUCCEEDED else None)
    assert machine.run(run_id).attempt == 1
    assert not machine.state.lanes["main"].holding


@pytest.mark.behaviour("CON-5", "RUN-10")
def test_cancel_while_the_hook_after_a_run_is_asked() -> None:
    machine = Machine(Job(id="work", constraints=Constraints(post_run_hook=HOOK)))
    machine.hook = None
    run_id = machine.running()
    machine.finished(run_id, result=b"1")
    machine.cancel(run_id)
    machine.answered([(machine.called[0], (200, ""))])
    assert machine.state_of(run_id) is S.CANCELLED
    assert machine.run(run_id).result is None
    assert [run.id for run in machine.ended] == [run_id]
