"""Sessions under a policy: who passes a run that waits, which runs join, and who keeps its turn."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.policy.judge_state import Judging
from interlock.core.state import CoreLimits
from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.policy.verdict import NO_LIMITS, Ruling, RunLimits, Verdict
from interlock.model.session import SessionAction
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.wire.command import PolicyMoved
from interlock.wire.message import Dispatch, Usage
from interlock.wire.session_request import ActOnSession
from tests.core.machine import Machine
from tests.core.policies import (
    ALLOWS,
    ASKS,
    DEBOUNCED,
    DENIES,
    GUARDS,
    SESSIONS,
    SMALL,
    YES,
    S,
    change,
    judged_by,
    policy,
    rule,
)


@pytest.mark.parametrize("state", ["approval_required", "throttled"])
def test_others_of_a_session_pass_a_run_that_waits(state: str) -> None:
    decision = Ruling.ASK if state == "approval_required" else Ruling.THROTTLE
    found = policy(rule(decision, labels={"slow": "yes"}), default=Ruling.ALLOW)
    limits = CoreLimits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 1000}})
    machine = judged_by(found, limits=limits)
    slow = machine.submit(session="s", labels={"slow": "yes"})
    first = machine.submit(session="s")
    assert machine.dispatched() == [first]
    change(machine, ALLOWS)
    assert machine.state_of(slow) is S.SCHEDULED
    machine.started(first)
    machine.finished(first)
    assert machine.dispatched() == [first, slow]


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
        machine.restart_with_worker()
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


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("options", [{"debounce": 5.0}, {"debounce": 0.0, "cap": 1, "drop": "new"}])
def test_a_run_that_constraints_let_go_is_judged_before_it_arrives_in_its_session(options: dict[str, Any]) -> None:
    limits = CoreLimits(session_patterns={"*": {"max_concurrent": 1, "cap": 1000, **options}})
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


@pytest.mark.parametrize("action", [SessionAction.STOP_ALL, SessionAction.RESET])
def test_a_session_that_is_stopped_leaves_no_run_that_waits_for_the_policy(action: SessionAction) -> None:
    found = policy(
        rule(id="r1", labels={"ask": "yes"}), rule(Ruling.THROTTLE, "r2", labels={"slow": "yes"}), default=Ruling.ALLOW
    )
    machine = judged_by(found, limits=SESSIONS)
    waiting = [machine.submit(session="s", labels=labels) for labels in ({"ask": "yes"}, {"slow": "yes"})]
    other = machine.submit(session="t", labels={"ask": "yes"})
    machine.step(("client", ActOnSession(1, "s", action)))
    assert {machine.state_of(one) for one in waiting} == {S.CANCELLED}
    assert machine.state_of(other) is S.APPROVAL_REQUIRED
    assert machine.state.of(Judging).deferred == {}


def test_a_run_that_is_judged_again_is_not_overtaken_in_its_session() -> None:
    limits = CoreLimits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1, "cap": 1000}})
    machine = judged_by(ALLOWS, limits=limits)
    first, second, third = (machine.submit(session="s", labels={"n": str(number)}) for number in range(3))
    machine.started(first)
    machine.policy = policy(rule(Ruling.CONSTRAIN, labels={"n": "1"}, limits=SMALL), default=Ruling.ALLOW)
    machine.step(("", machine.define()), machine.finish_command(first))
    assert machine.dispatched() == [first, second]
    assert machine.state_of(third) is S.SCHEDULED


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
    machine = Machine(limits=CoreLimits(session_patterns=patterns, remote_policy=True))
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
    limits = CoreLimits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1}}, remote_policy=True)
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
    limits = CoreLimits(session_patterns={"*": {"debounce": 0.0, "max_concurrent": 1}}, remote_policy=True)
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
