"""The policy's stage: verdicts, approvals, limits, a policy that changes, and one that is elsewhere."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.audit import Audit
from interlock.core.decisions import Failed
from interlock.core.explain import explain
from interlock.core.policy.judging import Judging
from interlock.core.state import Limits
from interlock.model.audit import AuditEntry, AuditFilter
from interlock.model.delivery import Delivery
from interlock.model.explanation import explain_end
from interlock.model.facets import Allowed, Facets, seen
from interlock.model.guard import Action, Constraints
from interlock.model.job import Job
from interlock.model.lane import LaneAction
from interlock.model.policy.document import Match, PolicyDocument, Rule, Velocity
from interlock.model.policy.verdict import NO_LIMITS, PolicyRequest, Ruling, RunLimits, Verdict
from interlock.model.run_action import RunAction
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionAction
from interlock.model.state import State
from interlock.model.work import ProcessWork
from interlock.policy.policy import Policy, compile_policy
from interlock.wire.approval_request import Resolve
from interlock.wire.command import PolicyMoved, Refill, StartDraining
from interlock.wire.lane_request import ActOnLane, ActOnSession
from interlock.wire.message import Dispatch, Returned, Stop, Usage
from interlock.wire.new_run import NewRun
from interlock.wire.request import ActOnRun, StateReport
from tests.core.machine import AT_ONCE, Machine, at_once, retrying_job
from tests.core.scheduling import LIMITS

S = State
DAY = 86_400.0
SESSIONS = Limits(session_patterns=AT_ONCE)
REMOTE = replace(LIMITS, remote_policy=True)
SMALL = RunLimits(max_runtime=5, max_retries=1, max_output=10, max_concurrent=1, environment=("PATH",), tools=("grep",))


def policy(*rules: Rule, default: Ruling = Ruling.DENY, **fields: Any) -> Policy:
    return compile_policy(PolicyDocument(id="test", default_decision=default, rules=rules, **fields))


def rule(decision: Ruling = Ruling.ASK, id: str = "r1", reason: str = "because", **fields: Any) -> Rule:
    match = {name: fields.pop(name) for name in list(fields) if name in Match.__struct_fields__}
    return Rule(id=id, match=Match(**match), decision=decision, reason=reason, **fields)


ALLOWS = policy(default=Ruling.ALLOW)
DENIES = policy(rule(Ruling.DENY))
ASKS = policy(rule(), default=Ruling.ALLOW)


def judged_by(found: Policy | None, *jobs: Job, limits: Limits = LIMITS) -> Machine:
    machine = Machine(*jobs, policy=found, limits=limits)
    machine.worker_up()
    return machine


def change(machine: Machine, found: Policy | None) -> None:
    machine.policy = found
    machine.step(("", machine.define()))


def resolve(machine: Machine, run_id: str, approve: bool = True, actor: str = "ann", **fields: Any) -> str:
    """The state after an answer, or the code of the error."""
    answer: Any = machine.step(("client", Resolve(1, run_id, approve, "looked at", actor, **fields))).answers[-1][1]
    return answer.error.code if isinstance(answer, Failed) else str(answer.state)


def audited(machine: Machine, kind: str) -> list[AuditEntry]:
    return [one for one in at_once(machine.store.audit(0, 1000, AuditFilter())).entries if one.kind == kind]


def reasons(machine: Machine, run_id: str) -> str:
    return explain(machine.state, machine.run(run_id), machine.now).sentence


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    machine.restart()
    machine.worker_up()
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
    machine.restart()
    machine.worker_up(held=[machine.held(first)])
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


# ── approvals ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("POL-8")
def test_an_approval_lets_a_run_start_once() -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    assert "waits for an approval (rule r1: because), for 1d more" in reasons(machine, run_id)
    assert resolve(machine, run_id, actor="client") == "self_approval"
    assert resolve(machine, run_id) == "pending"
    assert resolve(machine, run_id, actor="bob") == "already_resolved"
    assert machine.path(run_id) == [S.PENDING, S.APPROVAL_REQUIRED, S.PENDING, S.SCHEDULED, S.DISPATCHED]
    assert machine.dispatched() == [run_id]
    assert [one.actor for one in audited(machine, "approved")] == ["ann"]
    assert [one.actor for one in audited(machine, "self_approval")] == ["client"]


@pytest.mark.behaviour("POL-8")
def test_a_rejection_denies_the_run() -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    assert resolve(machine, run_id, approve=False) == "denied"
    assert machine.run(run_id).reason == "rejected by ann: looked at"
    assert [one.subject for one in audited(machine, "rejected")] == [run_id]
    assert resolve(machine, run_id) == "already_resolved"
    assert resolve(machine, machine.submit(tenant="x"), approve=False) == "denied"


@pytest.mark.behaviour("POL-8")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_approval_expires_after_a_day(restarts: bool) -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    machine.advance(DAY - 1)
    if restarts:
        machine.restart()
    assert machine.state_of(run_id) is S.APPROVAL_REQUIRED
    machine.advance(1)
    assert machine.state_of(run_id) is S.DENIED
    assert machine.run(run_id).reason == "nobody approved it within 1d"
    assert resolve(machine, run_id) == "already_resolved"
    assert [one.subject for one in audited(machine, "approval_expired")] == [run_id]


@pytest.mark.behaviour("POL-8")
def test_an_approval_is_too_late_at_the_instant_at_which_it_expires() -> None:
    """Even if it arrives together with the end of the wait, after the scheduler was away."""
    machine = judged_by(ASKS)
    run_id = machine.submit()
    machine.wall += DAY
    machine.elapsed += DAY
    assert resolve(machine, run_id) == "already_resolved"
    assert machine.run(run_id).reason == "nobody approved it within 1d"
    assert machine.dispatched() == []


@pytest.mark.behaviour("POL-8")
def test_an_approval_of_something_else_is_stale() -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    judged = machine.run(run_id).judged
    assert judged is not None
    shown = seen(judged)
    assert resolve(machine, run_id, seen=shown + "x") == "stale"
    change(machine, policy(rule(reason="stricter now"), default=Ruling.ALLOW))
    assert machine.state_of(run_id) is S.APPROVAL_REQUIRED
    assert resolve(machine, run_id, seen=shown) == "stale"
    judged = machine.run(run_id).judged
    assert judged is not None
    assert resolve(machine, run_id, seen=seen(judged)) == "pending"


@pytest.mark.behaviour("POL-8")
def test_an_approval_counts_for_the_retries_of_its_run_until_the_policy_changes() -> None:
    machine = judged_by(ASKS, retrying_job(5))
    run_id = machine.submit()
    resolve(machine, run_id)
    machine.started(run_id)
    machine.finished(run_id, "failed")
    machine.advance(2)
    assert machine.state_of(run_id) is S.DISPATCHED
    machine.started(run_id)
    machine.finished(run_id, "failed")
    change(machine, policy(rule(id="r2"), default=Ruling.ALLOW))
    machine.advance(4)
    assert machine.state_of(run_id) is S.APPROVAL_REQUIRED


RACES = ("approve", "again", "reject", "cancel", "change")


def winner(order: Sequence[str], late: bool) -> State:
    """The end of a run that waits for an approval, if these arrive in one batch: the first that counts decides."""
    found = S.APPROVAL_REQUIRED
    for one in order:
        if one == "cancel" and found is not S.DENIED:
            return S.CANCELLED
        if one == "change":
            found = S.DENIED if found is S.DENIED else S.PENDING
        elif one != "cancel" and found is S.APPROVAL_REQUIRED:
            found = S.DENIED if late or one == "reject" else S.DISPATCHED
    return found if found is S.DISPATCHED else S.DENIED


@pytest.mark.behaviour("POL-8")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("size", range(1, len(RACES) + 1))
def test_an_approval_that_races_has_one_outcome(size: int, late: bool) -> None:
    """With another approval, a rejection, a cancel, a changed policy and its own expiry, in every order."""
    for order in permutations(RACES, size):
        machine = judged_by(ASKS)
        run_id = machine.submit()
        if late:
            machine.wall, machine.elapsed = machine.wall + DAY, machine.elapsed + DAY
        machine.policy = DENIES if "change" in order else ASKS
        commands: dict[str, Any] = {
            "approve": Resolve(1, run_id, True, actor="ann"),
            "again": Resolve(2, run_id, True, actor="bob"),
            "reject": Resolve(3, run_id, False, actor="eve"),
            "cancel": ActOnRun(4, RunAction.CANCEL, run_id),
            "change": machine.define(5),
        }
        answers = machine.step(*(("client", commands[one]) for one in order)).answers
        given = [one for _, one in answers if isinstance(one, StateReport) and one.request <= 3]
        assert len(given) <= 1, order
        assert machine.state_of(run_id) is winner(order, late), order
        assert machine.path(run_id).count(S.APPROVAL_REQUIRED) == 1, order
        outcomes = ("approved", "rejected", "approval_expired")
        assert sum(len(audited(machine, one)) for one in outcomes) <= 1, order
        machine.restart()
        machine.worker_up()
        machine.advance(DAY)
        assert len(set(machine.dispatched())) == (winner(order, late) is S.DISPATCHED), order


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_a_run_that_waits_for_an_approval_can_be_stopped(end: str) -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit(deadline_at=machine.wall + 50)
    if end == "cancel":
        machine.cancel(run_id)
    else:
        machine.advance(50)
    assert machine.state_of(run_id) is (S.CANCELLED if end == "cancel" else S.TIMEOUT)
    assert resolve(machine, run_id) == "already_resolved"
    assert machine.state.of(Judging).awaiting_approval == {}


def test_a_held_run_is_approved_and_stays_held() -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    machine.act(RunAction.HOLD, run_id)
    assert resolve(machine, run_id) == "pending"
    machine.act(RunAction.RELEASE, run_id)
    assert machine.state_of(run_id) is S.DISPATCHED


def test_an_answer_that_nobody_asked_for() -> None:
    machine = judged_by(ALLOWS)
    assert resolve(machine, machine.submit()) == "no_approval"
    assert resolve(machine, "nothing") == "unknown_run"


def test_an_approval_is_announced_by_webhook() -> None:
    hook = Action(action="webhook", url="https://hooks.example/ask")
    machine = judged_by(policy(rule(), on_approval_required=(hook,)))
    run_id = machine.submit()
    [owed] = machine.last.batch.of(Delivery)
    assert (owed.run_id, owed.event) == (run_id, "run.approval_required")


@pytest.mark.parametrize("state", ["approval_required", "throttled"])
def test_others_of_a_session_pass_a_run_that_waits(state: str) -> None:
    decision = Ruling.ASK if state == "approval_required" else Ruling.THROTTLE
    found = policy(rule(decision, labels={"slow": "yes"}), default=Ruling.ALLOW)
    limits = Limits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 1000}})
    machine = judged_by(found, limits=limits)
    slow = machine.submit(session="s", labels={"slow": "yes"})
    first = machine.submit(session="s")
    assert machine.dispatched() == [first]
    change(machine, ALLOWS)
    assert machine.state_of(slow) is S.SCHEDULED
    machine.started(first)
    machine.finished(first)
    assert machine.dispatched() == [first, slow]


DEBOUNCED = Limits(session_patterns={"*": {"debounce": 5.0, "max_concurrent": 1, "cap": 1000}})


@pytest.mark.behaviour("POL-4", "POL-7")
@pytest.mark.parametrize(
    ("one", "two", "joins"),
    [
        ({}, {}, True),
        ({"labels": {"a": "b"}}, {"labels": {"a": "b"}}, True),
        ({}, {"labels": {"a": "b"}}, False),
        ({}, {"priority": "batch"}, False),
        ({}, {"labels": {"limited": "yes"}}, False),
        ({"labels": {"limited": "yes"}}, {"labels": {"limited": "yes"}}, False),
    ],
)
def test_runs_of_a_session_join_only_if_the_policy_sees_them_alike(one: Any, two: Any, joins: bool) -> None:
    """A run that another has collected would otherwise get around its own verdict."""
    found = policy(rule(Ruling.CONSTRAIN, labels={"limited": "yes"}, limits=SMALL), default=Ruling.ALLOW)
    machine = judged_by(found, limits=DEBOUNCED)
    first, second = machine.submit(session="s", **one), machine.submit(session="s", **two)
    assert machine.run(first).has_collected is joins
    assert (machine.state_of(second) is S.SKIPPED) is joins


@pytest.mark.behaviour("POL-7")
def test_a_run_is_judged_again_by_all_the_payloads_that_it_has_collected() -> None:
    machine = judged_by(ALLOWS, limits=DEBOUNCED)
    first, _ = machine.submit(session="s"), machine.submit(session="s", payload=b'{"x":"' + b"y" * 2000 + b'"}')
    assert machine.run(first).has_collected
    change(machine, policy(rule(Ruling.DENY, payload_over=1000), default=Ruling.ALLOW))
    assert machine.state_of(first) is S.DENIED
    fifth, _ = machine.submit(session="u"), machine.submit(session="u")
    change(machine, ASKS)  # nobody could see all that they approve
    assert machine.state_of(fifth) is S.DENIED
    change(machine, policy(rule(Ruling.DENY, payload_over=1000), default=Ruling.ALLOW))
    third, fourth = machine.submit(session="s"), machine.submit(session="s")
    assert machine.run(third).has_collected
    change(machine, policy(rule(Ruling.DENY, payload_over=999), default=Ruling.ALLOW))
    machine.advance(10)
    assert (machine.state_of(third), machine.state_of(fourth)) == (S.DISPATCHED, S.SKIPPED)


SECOND = b'{"x":{"$secret":"' + b"y" * 2000 + b'"}}'


def remote_machine(found: Policy | None, **limits: Any) -> Machine:
    """A machine that asks a service with this policy, or with none that answers."""
    machine = Machine(limits=replace(DEBOUNCED, remote_policy=True, **limits))
    move(machine, found)
    return machine


def move(machine: Machine, found: Policy | None) -> None:
    """Let the service have another policy."""
    machine.remote = (lambda _: "away") if found is None else lambda request: found.judge(request, None, 0.0)
    if found is not None:
        machine.step(("", PolicyMoved(found.digest)))


@pytest.mark.behaviour("SES-4", "POL-9")
@pytest.mark.parametrize("restarts", [False, True])
def test_runs_join_under_a_remote_policy_that_has_allowed_each(restarts: bool) -> None:
    machine = remote_machine(ALLOWS)
    machine.worker_up()
    first, second, third = (machine.submit(session="s", payload=b'{"n":%d}' % number) for number in range(3))
    assert [machine.state_of(one) for one in (first, second, third)] == [S.SCHEDULED, S.SKIPPED, S.SKIPPED]
    assert len(machine.checked) == 3
    if restarts:
        machine.restart()
        machine.worker_up()
        assert [one.payload for one in machine.checked[3].requests] == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    machine.advance(10)
    assert [one.payloads for one in machine.messages(Dispatch)] == [[b'{"n":0}', b'{"n":1}', b'{"n":2}']]


@pytest.mark.behaviour("SES-4", "POL-9")
@pytest.mark.parametrize(
    ("decision", "state"), [(Ruling.DENY, S.DENIED), (Ruling.ASK, S.APPROVAL_REQUIRED), (Ruling.CONSTRAIN, S.SCHEDULED)]
)
def test_a_run_that_a_remote_policy_does_not_plainly_allow_joins_no_other(decision: Ruling, state: State) -> None:
    limits = SMALL if decision is Ruling.CONSTRAIN else None
    machine = remote_machine(policy(rule(decision, payload_over=1000, limits=limits), default=Ruling.ALLOW))
    first, large = machine.submit(session="s"), machine.submit(session="s", payload=SECOND)
    assert machine.state_of(large) is state
    assert not machine.run(first).has_collected


@pytest.mark.behaviour("SES-4", "POL-11")
def test_runs_without_a_verdict_do_not_join() -> None:
    machine = remote_machine(None, policy_fails_open=True)
    first, second = machine.submit(session="s"), machine.submit(session="s")
    assert [machine.state_of(one) for one in (first, second)] == [S.SCHEDULED, S.SCHEDULED]


@pytest.mark.behaviour("SES-4", "POL-7", "POL-9")
@pytest.mark.parametrize(
    ("found", "state", "limits"),
    [
        (policy(rule(Ruling.DENY, payload_over=9000), default=Ruling.ALLOW), S.SCHEDULED, None),
        (policy(rule(Ruling.DENY, payload_over=1000), default=Ruling.ALLOW), S.DENIED, None),
        (policy(rule(payload_over=1000), default=Ruling.ALLOW), S.DENIED, None),
        (policy(rule(Ruling.THROTTLE, payload_over=1000), default=Ruling.ALLOW), S.PENDING, None),
        (policy(rule(Ruling.CONSTRAIN, limits=SMALL)), S.SCHEDULED, SMALL),
        (policy(rule(Ruling.CONSTRAIN, payload_over=1000, limits=SMALL), default=Ruling.ALLOW), S.DENIED, None),
        (policy(rule(Ruling.DENY, secrets=False), default=Ruling.ALLOW), S.DENIED, None),
    ],
)
@pytest.mark.parametrize("is_remote", [False, True])
def test_the_strictest_verdict_on_the_payloads_of_a_run_counts(
    found: Policy, state: State, limits: RunLimits | None, is_remote: bool
) -> None:
    machine = remote_machine(ALLOWS) if is_remote else Machine(policy=ALLOWS, limits=DEBOUNCED)
    first, _ = machine.submit(session="s"), machine.submit(session="s", payload=SECOND)
    assert machine.run(first).has_collected
    if is_remote:
        move(machine, found)
    else:
        change(machine, found)
    assert machine.state_of(first) is state
    assert state is not S.SCHEDULED or machine.run(first).limits == (limits or NO_LIMITS)


@pytest.mark.behaviour("POL-7", "POL-9")
def test_verdicts_of_two_policies_on_one_run_do_not_count() -> None:
    machine = remote_machine(ALLOWS)
    first, _ = machine.submit(session="s"), machine.submit(session="s")
    machine.remote = None
    machine.restart()
    asked = machine.checked[-1]
    yes = Verdict(ruling=Ruling.ALLOW, policy=ALLOWS.digest)
    machine.answered([(asked, (asked.requests, [replace(yes, policy="older"), yes]))])
    assert machine.state_of(first) is S.PENDING
    move(machine, ALLOWS)
    machine.advance(1)
    assert machine.state_of(first) is S.SCHEDULED


# ── a policy that changes ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_denied_before_it_is_dispatched_never_starts(restarts: bool) -> None:
    jobs = [Job(id="work"), Job(id="guarded", constraints=Constraints(max_concurrent_runs=1))]
    machine = Machine(*jobs, policy=ALLOWS, limits=LIMITS)
    waiting, early = machine.submit(), machine.submit(delay=100.0)
    large = machine.submit(payload=b'{"x":"' + b"y" * 2000 + b'"}')
    one, two = machine.submit("guarded"), machine.submit("guarded")
    assert [machine.state_of(run_id) for run_id in (waiting, early, large, one, two)] == [
        S.SCHEDULED, S.PRERUN, S.SCHEDULED, S.SCHEDULED, S.ACTION_RUNNING,
    ]  # fmt: skip
    machine.policy = DENIES
    if restarts:
        machine.restart()
    else:
        machine.step(("", machine.define()))
    machine.worker_up()
    machine.advance(100)
    assert machine.dispatched() == []
    assert {machine.state_of(run_id) for run_id in (waiting, early, large, one, two)} == {S.DENIED}
    assert machine.state.runs == {}


@pytest.mark.behaviour("POL-7")
def test_a_run_in_the_hands_of_its_constraints_remembers_that_the_policy_changed() -> None:
    """Even if the policy changes, the scheduler restarts with the same one, and only then the run passes."""
    jobs = [Job(id="guarded", constraints=Constraints(max_concurrent_runs=1))]
    machine = judged_by(ALLOWS, *jobs)
    one, two = machine.submit("guarded"), machine.submit("guarded")
    change(machine, DENIES)
    machine.restart()
    machine.worker_up(held=[machine.held(one)])
    machine.started(one)
    machine.finished(one)
    assert (machine.state_of(one), machine.state_of(two)) == (S.SUCCEEDED, S.DENIED)


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_comes_back_from_its_worker_is_judged_again(restarts: bool) -> None:
    """It was dispatched before the policy changed, and has not begun."""
    machine = judged_by(ALLOWS)
    run_id = machine.submit()
    change(machine, DENIES)
    if restarts:
        machine.restart()
        machine.worker_up()
    else:
        machine.step(("one", Returned(run_id, machine.run(run_id).fence, "no room")))
    assert machine.path(run_id)[2:] == [S.DISPATCHED, S.SCHEDULED, S.PENDING, S.DENIED]


@pytest.mark.behaviour("POL-7")
def test_a_dispatch_that_waits_for_its_payload_is_judged_again() -> None:
    machine = judged_by(ALLOWS)
    machine.holds_answers = True
    run_id = machine.submit(payload=b'{"x":"' + b"y" * 2000 + b'"}', delay=1.0)
    machine.advance(1)
    answers, machine.answers = machine.answers, []
    machine.answered(answers)
    assert machine.state_of(run_id) is S.DISPATCHED
    assert machine.dispatched() == []
    change(machine, DENIES)
    machine.holds_answers = False
    machine.step()
    assert machine.state_of(run_id) is S.DENIED
    assert machine.dispatched() == []


@pytest.mark.behaviour("POL-5", "RUN-22")
@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_window_counts_elapsed_time_whatever_the_clock_shows(jump: float) -> None:
    fast = rule(Ruling.DENY, velocity=Velocity(max_requests=1, window=60))
    machine = judged_by(policy(fast, default=Ruling.ALLOW))
    machine.submit()
    machine.wall += jump
    machine.advance(59)
    assert machine.state_of(machine.submit()) is S.DENIED
    machine.advance(1)
    assert machine.state_of(machine.submit()) is S.DISPATCHED


@pytest.mark.behaviour("POL-5", "POL-8")
def test_a_change_of_the_policy_does_not_replace_the_approval_of_a_run_that_came_too_fast() -> None:
    fast = rule(velocity=Velocity(max_requests=1, window=60))
    machine = judged_by(policy(fast, default=Ruling.ALLOW))
    _, second = machine.submit_many(2)
    assert machine.state_of(second) is S.APPROVAL_REQUIRED
    change(machine, policy(fast, rule(Ruling.DENY, id="r2", tenants=("other",)), default=Ruling.ALLOW))
    assert machine.state_of(second) is S.APPROVAL_REQUIRED
    assert resolve(machine, second) == "pending"
    assert machine.state_of(second) is S.DISPATCHED


@pytest.mark.behaviour("POL-5")
def test_a_pause_that_a_new_policy_ends_has_no_end_of_its_own() -> None:
    slow = rule(Ruling.THROTTLE)
    machine = judged_by(policy(slow))
    run_id = machine.submit()
    machine.advance(3)
    change(machine, policy(slow, rule(id="r2")))
    machine.advance(2)
    assert round((machine.run(run_id).due_at or 0) - machine.wall) == 3
    machine.advance(3)
    assert round((machine.run(run_id).due_at or 0) - machine.wall) == 5


@pytest.mark.behaviour("POL-8")
def test_the_approval_of_a_run_that_came_too_fast_is_remembered() -> None:
    machine = judged_by(policy(rule(velocity=Velocity(max_requests=1, window=60)), default=Ruling.ALLOW))
    _, second = machine.submit_many(2)
    assert resolve(machine, second) == "pending"
    assert resolve(machine, second, actor="bob") == "already_resolved"


def test_a_run_that_has_begun_keeps_its_place_when_it_is_judged_again() -> None:
    """Its constraints are not checked a second time, which could skip it."""
    guarded = Job(id="guarded", constraints=Constraints(max_concurrent_runs=1), max_crashes=3)
    machine = judged_by(ALLOWS, guarded)
    first, second = machine.submit("guarded", labels={"slow": "yes"}), machine.submit("guarded")
    machine.started(first)
    machine.worker_down(dead=True)
    assert machine.state_of(first) is S.SCHEDULED
    change(machine, policy(rule(Ruling.THROTTLE, labels={"slow": "yes"}), default=Ruling.ALLOW))
    assert (machine.state_of(first), machine.state_of(second)) == (S.PENDING, S.ACTION_RUNNING)
    change(machine, ALLOWS)
    machine.worker_up()
    assert (machine.state_of(first), machine.state_of(second)) == (S.DISPATCHED, S.ACTION_RUNNING)


def test_a_run_that_began_before_the_policy_changed_is_judged_once_more() -> None:
    machine = judged_by(ALLOWS, Job(id="work", max_crashes=3))
    run_id = machine.submit()
    change(machine, policy(rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    machine.started(run_id)
    machine.worker_down(dead=True)
    assert machine.path(run_id)[3:] == [S.RUNNING, S.RETRYING, S.PENDING, S.SCHEDULED]


@pytest.mark.behaviour("POL-4")
def test_a_limit_that_comes_with_a_retry_counts_from_the_first_start() -> None:
    machine = judged_by(ALLOWS, retrying_job(5))
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed")
    change(machine, policy(rule(Ruling.CONSTRAIN, limits=RunLimits(max_runtime=5))))
    machine.advance(2)
    machine.started(run_id)
    machine.advance(3)
    assert [one.run_id for one in machine.messages(Stop)] == [run_id]


@pytest.mark.behaviour("POL-4")
@pytest.mark.parametrize("later", [ALLOWS, None])
def test_a_limit_that_a_retry_no_longer_has_does_not_stop_it(later: Policy | None) -> None:
    machine = judged_by(policy(rule(Ruling.CONSTRAIN, limits=RunLimits(max_runtime=5))), retrying_job(5))
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed")
    change(machine, later)
    machine.advance(2)
    machine.started(run_id)
    machine.advance(100)
    assert machine.messages(Stop) == []
    assert machine.run(run_id).judged is None


def test_a_run_that_stays_allowed_keeps_its_place() -> None:
    machine = Machine(policy=ALLOWS, limits=LIMITS)
    first, second = machine.submit_many(2)
    change(machine, policy(rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    assert machine.path(first) == [S.PENDING, S.SCHEDULED]
    change(machine, None)
    machine.worker_up()
    assert machine.dispatched() == [first, second]
    assert [one.subject for one in audited(machine, "policy_changed")] != []


def test_a_policy_that_is_removed_lets_everything_go() -> None:
    machine = judged_by(ASKS)
    run_id = machine.submit()
    change(machine, None)
    assert machine.state_of(run_id) is S.DISPATCHED


GUARDS = Job(id="work", constraints=Constraints(max_concurrent_runs=1))


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("options", [{"debounce": 5.0}, {"debounce": 0.0, "cap": 1, "drop": "new"}])
def test_a_run_that_constraints_let_go_is_judged_before_it_arrives_in_its_session(options: dict[str, Any]) -> None:
    limits = Limits(session_patterns={"*": {"max_concurrent": 1, "cap": 1000, **options}})
    machine = judged_by(ALLOWS, GUARDS, limits=limits)
    first = machine.submit()
    machine.started(first)
    others = [machine.submit(session="s") for _ in range(3)]
    assert {machine.state_of(one) for one in others} == {S.ACTION_RUNNING}
    machine.restart()  # with the same policy: what the constraints hold back is judged again
    machine.worker_up(held=[machine.held(first)])
    machine.policy = DENIES
    machine.step(("", machine.define()))
    machine.finished(first)
    machine.advance(10)
    assert {machine.state_of(one) for one in others} == {S.DENIED}
    assert machine.dispatched() == [first]


@pytest.mark.behaviour("POL-8")
@pytest.mark.parametrize("way", ["backfill", "retry", "trigger"])
def test_nobody_approves_what_runs_on_their_behalf(way: str) -> None:
    """Whichever way it came about: a backfill, a retry by somebody else, a job that their own run triggered."""
    jobs = [
        Job(id="work", schedule=Schedule(once=True, wait=1e8)),
        Job(id="first", on_success=(Action(action="trigger_job", job="work"),)),
    ]
    asks = policy(rule(topics=("work",)), default=Ruling.ALLOW)
    machine = judged_by(asks, *jobs)
    if way == "backfill":
        refill = Refill(1, "work", [machine.wall - 7200.0], b"{}", "default", 1, "client")
        machine.step(("x", refill))
    elif way == "retry":
        rejected = machine.submit()
        resolve(machine, rejected, approve=False)
        machine.step(("x", ActOnRun(7, RunAction.RETRY, rejected, "again", "bob", key="k")))
    else:
        caused = machine.submit("first")
        machine.started(caused)
        machine.finished(caused)
    [run_id] = machine.state.of(Judging).awaiting_approval
    assert resolve(machine, run_id, actor="client") == "self_approval"
    if way == "retry":
        assert resolve(machine, run_id, actor="bob") == "self_approval"
    assert resolve(machine, run_id) == "pending"


@pytest.mark.parametrize("action", [SessionAction.STOP_ALL, SessionAction.RESET])
def test_a_session_that_is_stopped_leaves_no_run_that_waits_for_the_policy(action: SessionAction) -> None:
    found = policy(
        rule(id="r1", labels={"ask": "yes"}), rule(Ruling.THROTTLE, "r2", labels={"slow": "yes"}), default=Ruling.ALLOW
    )
    machine = judged_by(found, limits=SESSIONS)
    waiting = [machine.submit(session="s", labels=labels) for labels in ({"ask": "yes"}, {"slow": "yes"})]
    other = machine.submit(session="t", labels={"ask": "yes"})
    machine.step(("client", ActOnSession(1, action, "s", "default")))
    assert {machine.state_of(one) for one in waiting} == {S.CANCELLED}
    assert machine.state_of(other) is S.APPROVAL_REQUIRED
    assert machine.state.of(Judging).deferred == {}


def test_a_run_that_is_judged_again_is_not_overtaken_in_its_session() -> None:
    limits = Limits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 1000}})
    machine = judged_by(ALLOWS, limits=limits)
    first, second, third = (machine.submit(session="s", labels={"n": str(number)}) for number in range(3))
    machine.started(first)
    machine.policy = policy(rule(Ruling.CONSTRAIN, labels={"n": "1"}, limits=SMALL), default=Ruling.ALLOW)
    machine.step(("", machine.define()), machine.finish_command(first))
    assert machine.dispatched() == [first, second]
    assert machine.state_of(third) is S.SCHEDULED


def test_a_run_that_may_have_begun_keeps_its_place_when_it_is_judged_again() -> None:
    machine = judged_by(ALLOWS, GUARDS)
    first, second = machine.submit(), machine.submit()
    machine.lost(first)  # before it said that it had begun
    assert (machine.state_of(first), machine.state_of(second)) == (S.DISPATCHED, S.ACTION_RUNNING)
    change(machine, policy(rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    machine.worker_up()  # which never got it
    assert machine.path(first)[-4:] == [S.SCHEDULED, S.PENDING, S.SCHEDULED, S.DISPATCHED]
    assert machine.state_of(second) is S.ACTION_RUNNING


@pytest.mark.behaviour("RUN-7", "CON-8", "POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_whose_worker_said_nothing_keeps_its_place_when_it_is_judged_again(restarts: bool) -> None:
    machine = judged_by(ALLOWS, GUARDS)
    first, second = machine.submit(), machine.submit()
    machine.step(("client", ActOnLane(7, "main", LaneAction.PAUSE)))
    machine.advance(LIMITS.silence)
    assert machine.run(first).reason.endswith("it may have begun there")
    if restarts:
        machine.restart()
    change(machine, policy(rule(Ruling.CONSTRAIN, limits=SMALL)))
    assert machine.path(first)[-4:] == [S.DISPATCHED, S.SCHEDULED, S.PENDING, S.SCHEDULED]
    assert machine.state_of(second) is S.ACTION_RUNNING


# ── a policy that is elsewhere ──────────────────────────────────────────────────────────────────────────────────────

YES, NO = Verdict(ruling=Ruling.ALLOW, policy="p1"), Verdict(ruling=Ruling.DENY, rule="no", policy="p1")


@pytest.mark.behaviour("POL-9")
def test_a_remote_policy_is_asked_once_and_obeyed() -> None:
    machine = judged_by(None, limits=REMOTE)
    run_id = machine.submit(labels={"a": "b"})
    assert machine.state_of(run_id) is S.PENDING
    assert "waits for the verdict" in reasons(machine, run_id)
    [asked] = machine.checked
    assert [(one.job, one.actor, one.labels) for one in asked.requests] == [("work", "client", {"a": "b"})]
    machine.answered([(asked, (asked.requests, [YES]))])
    assert machine.dispatched() == [run_id]
    machine.answered([(asked, (asked.requests, [NO]))])  # too late
    assert machine.state_of(run_id) is S.DISPATCHED
    machine.remote = lambda _: NO
    assert machine.state_of(machine.submit()) is S.DENIED


@pytest.mark.behaviour("POL-11")
def test_closed_means_closed() -> None:
    machine = judged_by(None, limits=REMOTE)
    machine.remote = lambda _: "connection refused"
    run_id = machine.submit()
    waits = []
    for _ in range(7):
        waits.append(round((machine.run(run_id).due_at or 0) - machine.wall))
        machine.advance(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert "the policy cannot be reached: connection refused" in reasons(machine, run_id)
    machine.restart()
    machine.worker_up()
    assert machine.dispatched() == []
    machine.remote = lambda _: YES
    machine.advance(30)
    assert machine.dispatched() == [run_id]
    assert machine.run(run_id).judged is None


@pytest.mark.behaviour("POL-11")
def test_open_lets_through_with_label_audit_and_count() -> None:
    machine = judged_by(None, limits=replace(REMOTE, policy_fails_open=True))
    machine.remote = lambda _: "late"
    run_id = machine.submit(labels={"a": "b"})
    assert machine.dispatched() == [run_id]
    facets = machine.run(run_id).facets
    assert facets is not None
    assert facets.labels == {"a": "b", "safety_bypassed": "true"}
    [entry] = audited(machine, "bypassed")
    assert (entry.subject, entry.detail["topic"], entry.detail["why"]) == (run_id, "work", "late")
    assert machine.warned[-1] == f"run {run_id} starts without a verdict: late"


@pytest.mark.behaviour("POL-11")
def test_a_shutdown_never_fails_open() -> None:
    machine = judged_by(None, limits=replace(REMOTE, policy_fails_open=True))
    run_id = machine.submit()
    machine.step(("", StartDraining()))
    [asked] = machine.checked
    machine.answered([(asked, (asked.requests, "cancelled"))])
    assert machine.state_of(run_id) is S.PENDING
    assert machine.run(run_id).facets is not None
    assert audited(machine, "bypassed") == []


@pytest.mark.behaviour("POL-7", "POL-9")
def test_waiting_runs_are_judged_again_when_the_remote_policy_has_changed() -> None:
    machine = Machine(limits=REMOTE)
    machine.remote = lambda _: YES
    machine.step(("", PolicyMoved("p1")))
    run_id = machine.submit()
    assert machine.state_of(run_id) is S.SCHEDULED
    machine.remote = lambda _: replace(NO, policy="p2")
    machine.step(("", PolicyMoved("p1")))
    assert machine.state_of(run_id) is S.SCHEDULED
    machine.step(("", PolicyMoved("p2")))
    assert machine.state_of(run_id) is S.DENIED


@pytest.mark.behaviour("POL-7", "POL-9")
def test_a_late_answer_of_a_policy_that_has_changed_does_not_count() -> None:
    machine = judged_by(None, limits=REMOTE)
    machine.step(("", PolicyMoved("p1")))
    run_id = machine.submit()
    machine.step(("", PolicyMoved("p2")))
    [asked] = machine.checked
    machine.answered([(asked, (asked.requests, [YES]))])
    assert (machine.dispatched(), len(machine.checked)) == ([], 1)  # after a pause, so that two policies cost little
    machine.advance(1)
    machine.answered([(machine.checked[1], (asked.requests, [replace(NO, policy="p2")]))])
    assert machine.state_of(run_id) is S.DENIED


def test_an_approval_is_stale_while_a_new_policy_is_asked() -> None:
    machine = judged_by(None, limits=REMOTE)
    machine.remote = lambda _: Verdict(ruling=Ruling.ASK, rule="ask", policy="p1")
    machine.step(("", PolicyMoved("p1")))
    run_id = machine.submit()
    machine.remote = None
    machine.step(("", PolicyMoved("p2")))
    assert machine.state_of(run_id) is S.PENDING
    assert resolve(machine, run_id) == "stale"


@pytest.mark.behaviour("POL-7")
def test_after_a_restart_a_remote_policy_is_asked_before_anything_is_dispatched() -> None:
    machine = Machine(limits=REMOTE)
    machine.remote = lambda _: YES
    run_id = machine.submit()
    assert machine.state_of(run_id) is S.SCHEDULED
    machine.remote = None
    machine.restart()
    machine.worker_up()
    assert (machine.state_of(run_id), machine.dispatched()) == (S.PENDING, [])
    machine.remote = lambda _: NO
    machine.advance(10)
    assert machine.state_of(run_id) is S.DENIED


@pytest.mark.behaviour("POL-7", "RUN-21")
def test_a_run_that_leaves_its_window_to_be_judged_again_does_not_wait_for_its_end() -> None:
    machine = Machine(limits=replace(DEBOUNCED, remote_policy=True))
    machine.remote = lambda _: YES
    run_id = machine.submit(session="s")
    assert machine.run(run_id).due_at is not None, "it collects others"
    machine.remote = None
    machine.restart()
    machine.restart()
    asked = len(machine.checked)
    machine.restart()
    assert machine.state_of(run_id) is S.PENDING
    assert [one.run_id for one in machine.checked[asked:]] == [run_id]


def test_a_session_that_becomes_busy_also_takes_back_the_turn_of_a_run_that_is_judged_again() -> None:
    patterns = {"*": {"debounce": 0.0, "max_concurrent": 3, "cap": 1000}}
    machine = Machine(limits=Limits(session_patterns=patterns, remote_policy=True))
    machine.worker_up(slots=1)
    machine.remote = lambda _: replace(YES, policy="p2")
    first, second, third = (machine.submit(session="s") for _ in range(3))
    machine.started(first)
    machine.remote = None
    machine.step(("", PolicyMoved("p2")))
    assert machine.state_of(second) is machine.state_of(third) is S.PENDING
    machine.step(("one", Usage(first, machine.run(first).fence, 90, 100)))
    machine.worker_up(slots=100, held=[machine.held(first)])
    machine.remote = lambda _: replace(YES, policy="p2")
    machine.advance(10)
    assert machine.state_of(second) is machine.state_of(third) is S.SCHEDULED
    machine.finished(first)
    assert machine.dispatched() == [first, second]


@pytest.mark.behaviour("POL-7", "SES-1", "CON-2")
@pytest.mark.parametrize("restarts", [False, True])
def test_others_of_a_session_pass_a_run_that_its_constraints_hold_up_after_it_is_judged_again(restarts: bool) -> None:
    """It would wait for the run of its job that waits for its turn."""
    limits = Limits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1}}, remote_policy=True)
    machine = Machine(Job(id="work", constraints=Constraints(max_concurrent_runs=1)), limits=limits)
    machine.remote = lambda _: YES
    first, other, last = machine.submit(session="s"), machine.submit(), machine.submit(session="s")
    machine.remote = None
    machine.step(("", PolicyMoved("p2")))
    asked = {one.run_id: one for one in machine.checked}
    for run_id in (other, last, first):
        machine.answered([(asked[run_id], (asked[run_id].requests, [replace(YES, policy="p2")]))])
    assert [machine.state_of(one) for one in (first, other, last)] == [S.ACTION_RUNNING, S.SCHEDULED, S.ACTION_RUNNING]
    machine.remote = lambda _: replace(YES, policy="p2")
    if restarts:
        machine.restart()
    machine.worker_up()
    for _ in range(3):
        machine.finished(machine.dispatched()[-1])
    assert sorted(machine.dispatched()) == sorted([first, other, last])


@pytest.mark.behaviour("POL-7", "SES-1", "CON-2")
def test_others_of_a_session_pass_a_run_whose_constraints_are_checked_after_it_is_judged_again() -> None:
    limits = Limits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1}}, remote_policy=True)
    careful = Job(id="careful", constraints=Constraints(checks=["check"]))
    machine = judged_by(None, Job(id="work"), careful, Job(id="check"), limits=limits)
    machine.remote = lambda _: YES
    first, checked = machine.submit(session="s"), machine.submit("careful", session="s")
    machine.finished(machine.dispatched()[-1])  # the check
    last = machine.submit(session="s")
    assert machine.state_of(checked) is machine.state_of(last) is S.SCHEDULED
    machine.remote = None
    machine.step(("", PolicyMoved("p2")))
    asked = {one.run_id: one for one in machine.checked}
    machine.answered([(asked[last], (asked[last].requests, [replace(YES, policy="p2")]))])
    machine.finished(first)
    assert machine.state_of(last) is S.SCHEDULED, "the one before it may be allowed at once"
    machine.answered([(asked[checked], (asked[checked].requests, [replace(YES, policy="p2")]))])
    assert (machine.state_of(checked), machine.state_of(last)) == (S.CONDITION_RUNNING, S.DISPATCHED)


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
    assert machine.run(run_id).facets == Facets(allowed=Allowed("", ALLOWS.digest))
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
