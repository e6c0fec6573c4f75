"""Verdicts of the policy: what each leads to, its limits, what the policy sees, and what is kept of a verdict."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.audit import Audit
from interlock.core.explain import explain
from interlock.core.policy.judge_state import Judging
from interlock.model.explanation import explain_end
from interlock.model.facets import Allowed
from interlock.model.guard import Action
from interlock.model.job import Job
from interlock.model.policy.document import Velocity
from interlock.model.policy.verdict import PolicyRequest, Ruling, RunLimits
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.model.work import ProcessWork
from interlock.policy.policy import Policy
from interlock.wire.message import Dispatch, Stop
from interlock.wire.new_run import NewRun
from tests.core.machine import Machine, retrying_job
from tests.core.policies import (
    ALLOWS,
    ASKS,
    DENIES,
    REMOTE,
    SMALL,
    S,
    audited,
    change,
    judged_by,
    policy,
    reasons,
    rule,
)
from tests.core.scheduling import LIMITS


@pytest.mark.behaviour("POL-1", "POL-7")
@pytest.mark.parametrize(
    ("found", "path", "why"),
    [
        (None, [S.PENDING, S.SCHEDULED, S.DISPATCHED], "cleared"),
        (ALLOWS, [S.PENDING, S.SCHEDULED, S.DISPATCHED], f"allowed by the default of policy {ALLOWS.digest}"),
        (DENIES, [S.PENDING, S.DENIED], f"denied by rule r1 of policy {DENIES.digest}: because"),
        (policy(), [S.PENDING, S.DENIED], f"denied by the default of policy {policy().digest}: no rule matches"),
        (ASKS, [S.PENDING, S.APPROVAL_REQUIRED], "rule r1: because"),
        (policy(rule(Ruling.THROTTLE)), [S.PENDING], "submitted"),
    ],
)
def test_each_verdict_leads_somewhere(found: Policy | None, path: list[State], why: str) -> None:
    machine = judged_by(found)
    run_id = machine.submit()
    assert machine.path(run_id) == path
    assert machine.history(run_id)[1 if len(path) > 1 else 0].reason == why
    assert (machine.dispatched() == [run_id]) == (path[-1] is S.DISPATCHED)
    if path[-1] is S.DENIED:
        assert machine.run(run_id).error == why
        [entry] = audited(machine, "verdict")
        assert (entry.subject, entry.actor, entry.detail["decision"]) == (run_id, "client", "deny")
        assert entry.detail["policy"] == machine.policy.digest if machine.policy else False


@pytest.mark.behaviour("POL-1")
def test_a_scheduled_occurrence_is_judged_when_it_is_due() -> None:
    machine = judged_by(DENIES, Job(id="work", schedule=Schedule(every=60.0)))
    machine.advance(60)
    machine.advance(1)
    assert {(run.state, run.created_by) for run in machine.ended} == {(S.DENIED, "scheduler")}
    assert machine.dispatched() == []


@pytest.mark.behaviour("POL-5")
def test_a_throttled_run_comes_back_after_five_seconds() -> None:
    fast = rule(Ruling.THROTTLE, velocity=Velocity(max_requests=2, window=60, key="tenant"))
    machine = judged_by(policy(fast, default=Ruling.ALLOW))
    first, second, third = machine.submit_many(3)
    other = machine.submit(tenant="b")
    assert [machine.state_of(one) for one in (first, second, third, other)] == [S.DISPATCHED] * 2 + [
        S.PENDING, S.DISPATCHED,
    ]  # fmt: skip
    assert "is throttled by rule r1; it is judged again in 5.0s" in reasons(machine, third)
    machine.advance(4.9)
    assert machine.run(third).due_at is not None
    machine.advance(0.1)
    assert machine.state_of(third) is S.PENDING  # the window is still full
    machine.restart_with_worker()
    machine.advance(50)
    machine.advance(5)
    assert machine.state_of(third) is S.DISPATCHED
    assert sum(one.count for one in audited(machine, "verdict")) + sum(
        one.count for one in machine.state.of(Audit).repeated.values()
    ) == 2  # fmt: skip


@pytest.mark.behaviour("POL-4")
def test_a_run_obeys_the_limits_of_its_verdict() -> None:
    limited = policy(rule(Ruling.CONSTRAIN, limits=SMALL))
    machine = judged_by(limited, retrying_job(5))
    first, second = machine.submit_many(2)
    assert (machine.state_of(first), machine.state_of(second)) == (S.DISPATCHED, S.SCHEDULED)
    assert "limit of rule r1 of the policy: 1 active, 1 allowed" in reasons(machine, second)
    assert machine.messages(Dispatch)[-1].limits == SMALL
    machine.restart_with_worker(held=[machine.held(first)])
    assert machine.state_of(second) is S.SCHEDULED
    machine.started(first)
    machine.finished(first, "failed")
    assert machine.run(first).reason == "failed, retry 1 of 1 in 2s"
    assert machine.state_of(second) is S.DISPATCHED
    machine.started(second)
    machine.finished(second, result=b'"more than ten bytes"')
    assert machine.state_of(second) is S.FAILED
    assert machine.run(second).result is None
    assert machine.run(second).error == "the result has 21 bytes, and the policy allows 10"
    machine.advance(2)
    machine.started(first)
    machine.advance(5)
    assert machine.messages(Stop)[-1].run_id == first  # 5 s from its first start have passed
    machine.finished(first, "cancelled")
    assert machine.state_of(first) is S.TIMEOUT


@pytest.mark.behaviour("POL-4")
def test_a_limit_that_rises_lets_waiting_runs_start_at_once() -> None:
    small = {"small": "yes"}
    one, three = (
        policy(rule(Ruling.CONSTRAIN, labels=small, limits=RunLimits(max_concurrent=most)), default=Ruling.ALLOW)
        for most in (1, 3)
    )
    machine = judged_by(one, Job(id="work"), Job(id="rated", rate=0.001))
    lanes = ("main", "subagent", "team")
    for lane in ("main", *lanes):
        machine.submit("rated", lane=lane)  # the first starts, and the others wait whatever the policy says
    runs = [machine.submit(lane=lane, labels=small) for lane in lanes]
    assert machine.dispatched()[1:] == runs[:1]
    change(machine, three)
    assert machine.dispatched()[1:] == runs


@pytest.mark.behaviour("RET-2", "RET-3")
def test_a_retry_is_judged_again_and_a_denial_is_not_retried() -> None:
    machine = judged_by(ALLOWS, retrying_job(5))
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed")
    change(machine, DENIES)
    machine.advance(2)
    assert machine.path(run_id)[-2:] == [S.PENDING, S.DENIED]
    machine.advance(1000)
    assert machine.dispatched() == [run_id]


def test_a_large_payload_is_read_before_the_run_is_judged() -> None:
    large = policy(rule(Ruling.DENY, payload_over=1000), default=Ruling.ALLOW)
    machine = judged_by(large)
    data = b'{"x":"' + b"y" * 2000 + b'"}'
    assert machine.state_of(machine.submit(payload=data)) is S.DENIED
    later = machine.submit(payload=data, delay=10.0)
    assert machine.run(later).payload is None
    machine.holds_answers = True
    machine.advance(10)
    assert machine.state_of(later) is S.PENDING
    machine.holds_answers = False
    machine.step()
    assert machine.state_of(later) is S.DENIED
    assert machine.dispatched() == []


COSTLY = policy(
    rule(Ruling.DENY, when="payload.xs.exists(x, x == 2)" + " || payload.n == 2" * 40), default=Ruling.ALLOW
)


def of_size(count: int) -> bytes:
    """A payload for which the expression costs 1,000 and 789 for each byte."""
    return b'{"n":1,"xs":[%b1]}' % (b"1," * count)


@pytest.mark.behaviour("POL-2")
@pytest.mark.parametrize(("count", "left"), [(10, 0), (1000, 23)])
def test_one_pass_evaluates_expressions_of_a_bounded_cost(count: int, left: int) -> None:
    """A pass has 10 million; the next ones judge the other runs, in order."""
    machine = judged_by(COSTLY)
    machine._pass([("client", machine.command(*(NewRun("work", of_size(count)) for _ in range(30))))])
    ids = list(machine.state.runs)
    assert list(machine.state.of(Judging).to_judge) == ids[30 - left :]
    assert all(machine.state_of(one) is S.PENDING for one in machine.state.of(Judging).to_judge)
    machine.step()
    assert machine.state.of(Judging).to_judge == {}
    assert machine.dispatched() == ids[: len(machine.dispatched())]
    assert [machine.state_of(one) for one in ids] == [S.DISPATCHED] * 30


@pytest.mark.behaviour("POL-7")
def test_a_new_policy_judges_a_backlog_in_several_passes() -> None:
    machine = Machine(policy=ALLOWS)
    ids = [machine.submit(payload=of_size(100)) for _ in range(200)]
    machine.policy = COSTLY
    machine._pass([("", machine.define())])
    assert 100 < len(machine.state.of(Judging).to_judge) < 200
    machine.step()
    assert [machine.state_of(one) for one in ids] == [S.SCHEDULED] * 200


@pytest.mark.behaviour("POL-7")
def test_the_rule_and_the_policy_of_a_plain_allow_are_kept_with_the_run() -> None:
    found = policy(rule(Ruling.ALLOW, id="fine", topics=("work",)))
    machine = judged_by(found, Job(id="work"), Job(id="other"))
    run_id = machine.submit()
    verdict = explain(machine.state, machine.run(run_id), machine.now).verdict
    assert verdict is not None
    assert (verdict.decision, verdict.rule, verdict.policy) == (Ruling.ALLOW, "fine", found.digest)
    machine.finished(run_id)
    assert explain_end(machine.run(run_id)).verdict == verdict
    machine.restart()
    assert explain_end(machine.run(run_id)).verdict == verdict


@pytest.mark.behaviour("POL-7")
def test_the_verdict_of_a_run_that_is_judged_again_replaces_its_plain_allow() -> None:
    machine = Machine(policy=ALLOWS)
    run_id = machine.submit()
    assert machine.run(run_id).allowed == Allowed("", ALLOWS.digest)
    change(machine, ASKS)
    assert machine.run(run_id).allowed is None
    change(machine, None)
    assert machine.run(run_id).facets is None


@pytest.mark.behaviour("SEC-7", "POL-4", "POL-11")
def test_only_refusals_are_summed_in_the_audit() -> None:
    machine = judged_by(policy(rule(Ruling.CONSTRAIN, limits=SMALL)), limits=LIMITS)
    ids = machine.submit_many(3)
    assert [(one.subject, one.count) for one in audited(machine, "verdict")] == [(one, 1) for one in ids]
    machine = judged_by(None, limits=replace(REMOTE, policy_fails_open=True))
    machine.remote = lambda request: "away"
    ids = machine.submit_many(3)
    assert [(one.subject, one.count) for one in audited(machine, "bypassed")] == [(one, 1) for one in ids]
    machine = judged_by(DENIES)
    ids = machine.submit_many(3)
    machine.advance(60)
    assert [one.count for one in audited(machine, "verdict")] == [1, 2]


@pytest.mark.behaviour("CON-6")
def test_why_an_action_failed_is_on_its_run() -> None:
    job = Job(id="work", on_failure=(Action(action="trigger_job", job="gone"),))
    machine = judged_by(None, job)
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed_fatal")
    text = "trigger_job after run.failed failed: no job has the id 'gone'"
    assert [one.text for one in machine.run(run_id).notes] == [text]
    assert [one.text for one in explain_end(machine.run(run_id)).notes] == [text]
    assert machine.state_of(run_id) is S.FAILED


@pytest.mark.behaviour("POL-2", "SEC-5")
@pytest.mark.parametrize(
    ("payload", "has"),
    [
        (b'{"password":"x"}', True),
        (b'{"to":[{"api_key":"x"}]}', True),
        (b'{"to":{"dbPassword":["x"]}}', True),
        (b'{"text":{"$secret":"x"}}', True),
        (b'{"pin":"x"}', True),
        (b'{"pin":1234}', True),
        (b'{"pin":null,"password":null}', False),
        (b'{"token_count":"5","password":true,"text":"a password"}', False),
        (b'{"kennwort":"x"}', True),
        (b'{"x":' * 201 + b"1" + b"}" * 201, True),
        (b'{"x":' * 1500 + b"1" + b"}" * 1500, True),
    ],
)
@pytest.mark.parametrize("work", [None, ProcessWork(command=("true",))])
@pytest.mark.parametrize("by", ["match", "when", "remote"])
def test_the_policy_sees_the_secrets_that_are_masked(payload: bytes, has: bool, work: Any, by: str) -> None:
    words = ("password", "api_key", "kennwort")
    job = Job(id="work", secrets=("pin",), **({} if work is None else {"work": work}))
    condition: dict[str, Any] = {"secrets": True} if by == "match" else {"when": "secrets"}
    found = policy(rule(Ruling.DENY, **condition), default=Ruling.ALLOW)
    is_remote = by == "remote"
    machine = judged_by(
        None if is_remote else found, job, limits=replace(LIMITS, secret_names=words, remote_policy=is_remote)
    )
    machine.remote = lambda request: found.judge(request, None, 0.0)
    assert machine.state_of(machine.submit(payload=payload)) is (S.DENIED if has else S.DISPATCHED)


def test_a_request_has_what_a_rule_may_ask_for() -> None:
    job = Job(id="work", topic="t", capabilities=("c",), risk_tags=("r",), requires=("q",), secrets=("key",))
    machine = judged_by(None, job, limits=REMOTE)
    machine.submit(payload=b'{"key":{"$secret":"x"}}', tenant="x", priority="batch", labels={"l": "v"})
    [asked] = machine.checked[0].requests
    assert asked == PolicyRequest(
        job="work", topic="t", tenant="x", actor="client", priority="batch", capabilities=("c",), risk_tags=("r",),
        requires=("q",), labels={"l": "v"}, job_version=job.version, payload=b'{"key":{"$secret":"x"}}', secrets=True,
    )  # fmt: skip
