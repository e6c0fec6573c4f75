"""Steps that ask a person: approved, rejected, expired, cancelled; over restarts, with and without a policy."""

from typing import Any

import msgspec
import pytest

from interlock.core.policy.judge_state import Judging
from interlock.model.delivery import Delivery
from interlock.model.facets import seen
from interlock.model.guard import Action
from interlock.model.job import Job
from interlock.model.policy.verdict import Ruling
from interlock.model.state import State
from interlock.model.workflow import Approve, OnError, Then
from tests.core.flows import FlowMachine, flow, step
from tests.core.policies import DENIES, audited, change, policy, reasons, resolve, rule
from tests.core.test_sweep import swept

S = State
DAY = 86_400.0
ASK = step("ask", approve=Approve(question="Pay ${input.cents} cents?", data={"to": "${input.to}"}))
ASKING = flow(ASK, step("pay"), result="${steps.ask.result}")


def asking(*jobs: Job, **fields: Any) -> tuple[FlowMachine, str, str]:
    machine = FlowMachine(*(jobs or (ASKING,)), **fields)
    run_id = machine.begin({"cents": 5, "to": "ann"})
    return machine, run_id, f"{run_id}@ask"


@pytest.mark.behaviour("WFL-1", "POL-8", "WFL-8")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("judge", [None, policy(default=Ruling.ALLOW)])
def test_an_approved_step_succeeds_and_says_who(restarts: bool, judge: Any) -> None:
    machine, run_id, ask = asking(policy=judge)
    assert machine.payload_of(ask) == {"question": "Pay 5 cents?", "data": {"to": "ann"}}
    assert machine.dispatched() == [], "it needs no worker"
    if restarts:
        machine.restart_with_worker()
    assert list(machine.state.of(Judging).awaiting_approval) == [ask]
    assert "waits for an approval (Pay 5 cents?), for 1d more" in reasons(machine, ask)
    assert resolve(machine, ask) == "pending"
    assert resolve(machine, ask, actor="bob") == "already_resolved"
    assert machine.path(ask) == [S.PENDING, S.APPROVAL_REQUIRED, S.PENDING, S.UNDER_WAY, S.SUCCEEDED]
    assert machine.live(run_id) == ["pay"]
    machine.done(f"{run_id}@pay")
    found = machine.result_of(run_id)
    assert (found["by"], found["reason"]) == ("ann", "looked at")
    assert [(one.actor, one.subject) for one in audited(machine, "approved")] == [("ann", ask)]
    assert machine.state.of(Judging).awaiting_approval == {}


@pytest.mark.behaviour("WFL-1", "POL-8")
def test_a_rejected_step_is_denied_and_so_is_its_workflow() -> None:
    machine, run_id, ask = asking()
    assert resolve(machine, ask, approve=False) == "denied"
    assert machine.run(ask).reason == "rejected by ann: looked at"
    assert machine.state_of(run_id) is S.DENIED
    assert machine.run(run_id).error == "step 'ask' was denied: rejected by ann: looked at"
    assert [one.subject for one in audited(machine, "rejected")] == [ask]


@pytest.mark.behaviour("WFL-1", "POL-8")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("timeout", "within", "span"), [(None, DAY, "1d"), (7200.0, 7200.0, "2h")])
def test_an_unanswered_step_times_out(restarts: bool, timeout: float | None, within: float, span: str) -> None:
    asks = step("ask", approve=Approve(question="q"), timeout=timeout, on_error=OnError(then=Then.CONTINUE))
    machine, run_id, ask = asking(flow(asks, result="${steps.ask.state}"))
    machine.advance(within - 1)
    if restarts:
        machine.restart()
    assert machine.state_of(ask) is S.APPROVAL_REQUIRED
    machine.advance(1)
    assert machine.state_of(ask) is S.TIMEOUT
    assert machine.run(ask).reason == f"nobody approved it within {span}"
    assert resolve(machine, ask) == "already_resolved"
    assert [one.subject for one in audited(machine, "approval_expired")] == [ask]
    assert machine.result_of(run_id) == "timeout"


@pytest.mark.behaviour("POL-8")
def test_an_answer_at_the_instant_of_the_time_out_is_too_late() -> None:
    machine, _, ask = asking()
    machine.wall, machine.elapsed = machine.wall + DAY, machine.elapsed + DAY
    assert resolve(machine, ask) == "already_resolved"
    assert machine.state_of(ask) is S.TIMEOUT


@pytest.mark.behaviour("POL-8", "WFL-14")
def test_nobody_above_the_step_can_approve_it() -> None:
    """Not whoever submitted its workflow, or the workflow above that one."""
    inner = flow(step("ask", approve=Approve(question="q")), id="inner")
    machine, run_id, _ = asking(flow(step("part", workflow="inner")), inner)
    ask = f"{run_id}@part@ask"
    assert machine.run(ask).submitters[0] == "client"
    assert resolve(machine, ask, actor="client") == "self_approval"
    made_by = machine.run(ask).created_by
    assert resolve(machine, ask, actor=made_by) == "self_approval", "nor does anybody by the name of its workflow"
    assert [one.actor for one in audited(machine, "self_approval")] == ["client", made_by]
    assert resolve(machine, ask) == "pending"
    assert machine.state_of(run_id) is S.SUCCEEDED


@pytest.mark.behaviour("POL-8", "WFL-12")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_approval_of_a_cancelled_step_is_refused(restarts: bool) -> None:
    machine, run_id, ask = asking()
    machine.cancel(run_id)
    if restarts:
        machine.restart()
    assert [machine.state_of(run_id), machine.state_of(ask)] == [S.CANCELLED] * 2
    assert resolve(machine, ask) == "already_resolved"
    assert resolve(machine, ask, approve=False) == "already_resolved"
    assert machine.state_of(ask) is S.CANCELLED
    assert machine.state.of(Judging).awaiting_approval == {}


@pytest.mark.behaviour("POL-8")
def test_an_approval_is_for_what_was_seen() -> None:
    machine, _, ask = asking()
    judged = machine.run(ask).judged
    assert judged is not None
    other = FlowMachine(ASKING)
    different = other.run(f"{other.begin({'cents': 6, 'to': 'ann'})}@ask").judged
    assert different is not None
    assert resolve(machine, ask, seen=seen(different)) == "stale"
    assert resolve(machine, ask, seen=seen(judged)) == "pending"


@pytest.mark.behaviour("POL-8")
def test_a_policy_neither_judges_the_question_nor_asks_it_again() -> None:
    machine, _, ask = asking(policy=policy(default=Ruling.ALLOW))
    judged = machine.run(ask).judged
    assert judged is not None
    machine.advance(60)
    change(machine, DENIES)
    change(machine, None)
    assert machine.run(ask).judged == judged
    assert machine.path(ask) == [S.PENDING, S.APPROVAL_REQUIRED]
    assert resolve(machine, ask, seen=seen(judged)) == "pending"
    machine.advance(0)
    assert machine.state_of(ask) is S.SUCCEEDED


@pytest.mark.behaviour("POL-8")
def test_a_question_is_announced_as_the_policy_says() -> None:
    hook = Action(action="webhook", url="https://hooks.example/ask")
    machine, _, ask = asking(policy=policy(rule(topics=("other",)), default=Ruling.ALLOW, on_approval_required=(hook,)))
    assert [(one.run_id, one.event) for one in machine.last.batch.of(Delivery)] == [(ask, "run.approval_required")]


@pytest.mark.behaviour("WFL-1")
@pytest.mark.parametrize(
    ("question", "payload", "error"),
    [
        ("${input.q}", {"q": 5}, "approve.question: 5 is not a text of 1 to 500 characters"),
        ("${input.q}", {"q": ""}, "approve.question: '' is not a text of 1 to 500 characters"),
        ("${input.q}", {"q": "x" * 501}, "is not a text of 1 to 500 characters"),
        ("${input.none}", {}, "approve.question: ${input.none} has no value"),
    ],
)
def test_a_question_that_is_no_text_fails_the_step(question: str, payload: dict[str, Any], error: str) -> None:
    machine = FlowMachine(flow(step("ask", approve=Approve(question=question))))
    run_id = machine.submit("flow", msgspec.json.encode(payload))
    assert error in str(machine.run(f"{run_id}@ask").error)
    assert machine.state_of(run_id) is S.FAILED
    assert machine.run(f"{run_id}@ask").job_id == "interlock.approval"


@pytest.mark.behaviour("RUN-22")
def test_a_question_is_not_taken_for_a_lost_run() -> None:
    machine, _, ask = asking()
    machine.advance(3600)
    assert swept(machine) == []
    assert machine.state_of(ask) is S.APPROVAL_REQUIRED
