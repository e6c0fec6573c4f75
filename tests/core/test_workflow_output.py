"""Workflows under a policy: for whom a step is judged, and results that are withheld."""

import pytest

from interlock.model.bulk import RunAction
from interlock.model.policy.document import Rule
from interlock.model.policy.output import OutputRule, Scanned
from interlock.model.policy.scanner import OutputAction
from interlock.model.policy.verdict import Ruling
from interlock.model.state import State
from interlock.wire.approval_request import ReleaseOutput
from tests.core import policies
from tests.core.flows import CONTINUE, FlowMachine, flow, step
from tests.core.test_output import FOUND, SECRETS, policy, report, rule
from tests.core.test_take_over import retry

TWO = flow(step("a"), step("b", with_={"got": "${steps.a.result}"}), result="${steps.b.result}")
SCANNED = policy(scanners=(SECRETS,))


@pytest.mark.behaviour("OUT-5", "WFL-14")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_result_that_is_withheld_after_success_reaches_no_later_step(restarts: bool) -> None:
    machine = FlowMachine(TWO, policy=SCANNED)
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "secret")
    assert machine.live(run_id) == []
    if restarts:
        machine.restart()
    machine.advance(10)
    assert f"{run_id}@b" not in machine.store.runs_by_id
    report(machine, Scanned(f"{run_id}@a", OutputAction.QUARANTINE, FOUND, len(FOUND)))
    assert machine.state_of(f"{run_id}@a") is State.OUTPUT_QUARANTINED
    assert machine.state_of(run_id) is State.FAILED
    assert f"{run_id}@b" not in machine.store.runs_by_id


@pytest.mark.behaviour("OUT-5")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_result_is_handed_on_once_it_is_scanned(restarts: bool) -> None:
    machine = FlowMachine(TWO, policy=SCANNED)
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "fine")
    if restarts:
        machine.restart_with_worker()
    report(machine, Scanned(f"{run_id}@a", OutputAction.ALLOW))
    assert machine.payload_of(f"{run_id}@b") == {"got": "fine"}


@pytest.mark.behaviour("OUT-5")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_result_is_handed_on_if_the_scanners_leave_the_policy(restarts: bool) -> None:
    machine = FlowMachine(TWO, policy=SCANNED)
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "fine")
    machine.policy = None
    if restarts:
        machine.restart_with_worker()
    else:
        machine.step(("", machine.define()))
    assert machine.payload_of(f"{run_id}@b") == {"got": "fine"}
    machine.done(f"{run_id}@b", "too")
    assert machine.result_of(run_id) == "too"


@pytest.mark.behaviour("OUT-5", "WFL-2")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("cancels", [False, True])
def test_a_parallel_step_that_fails_waits_for_the_scan_of_what_has_succeeded_inside(
    restarts: bool, cancels: bool
) -> None:
    parallel = step("p", parallel=[step("a"), step("b"), step("d")], on_error=CONTINUE)
    machine = FlowMachine(flow(parallel, step("c"), result="${steps.a.result}"), policy=SCANNED)
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "fine")
    machine.act(RunAction.CANCEL, f"{run_id}@p")
    for name in "bd":
        machine.done(f"{run_id}@{name}", outcome="cancelled")
    assert machine.live(run_id) == ["p"]
    if restarts:
        machine.restart_with_worker()
    if cancels:
        machine.cancel(run_id)
        assert [machine.state_of(run_id), machine.state_of(f"{run_id}@p")] == [State.CANCELLED] * 2
        return
    report(machine, Scanned(f"{run_id}@a", OutputAction.ALLOW))
    assert machine.live(run_id) == []
    assert machine.state_of(f"{run_id}@p") is State.CANCELLED
    assert machine.state_of(run_id) is State.FAILED


def test_a_cancel_does_not_wait_for_a_scan() -> None:
    machine = FlowMachine(TWO, policy=SCANNED)
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "fine")
    machine.cancel(run_id)
    assert machine.state_of(run_id) is State.CANCELLED


@pytest.mark.behaviour("WFL-14")
def test_a_result_that_a_rule_withholds_is_a_failed_step() -> None:
    machine = FlowMachine(TWO, policy=policy(rule(topics=("work",))))
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "secret")
    assert machine.state_of(f"{run_id}@a") is State.OUTPUT_QUARANTINED
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.FAILED, None)


@pytest.mark.behaviour("OUT-5", "WFL-14")
@pytest.mark.parametrize("secret", ["secret", "secret" * 100])
@pytest.mark.parametrize("releases", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", ["step", "branch", "item"])
def test_a_withheld_result_is_null_to_a_workflow_that_goes_on(
    kind: str, restarts: bool, releases: bool, secret: str
) -> None:
    steps = {
        "step": step("a", on_error=CONTINUE),
        "branch": step("p", parallel=[step("a"), step("x")], on_error=CONTINUE),
        "item": step("a", for_each=[1], on_error=CONTINUE),
    }
    a = "${steps.a.result}"
    machine = FlowMachine(flow(steps[kind], step("b", with_={"got": a}), step("c"), result=a), policy=SCANNED)
    run_id = machine.begin()
    withheld = f"{run_id}@a.0" if kind == "item" else f"{run_id}@a"
    machine.done(withheld, secret)
    report(machine, Scanned(withheld, OutputAction.QUARANTINE, FOUND, len(FOUND)))
    if kind == "branch":
        machine.done(f"{run_id}@x", outcome="cancelled")
    nothing = [None] if kind == "item" else None
    assert machine.payload_of(f"{run_id}@b") == {"got": nothing}
    if releases:
        machine.step(("client", ReleaseOutput(1, withheld, "fine").by(actor="ann")))
        assert machine.result_of(withheld) == secret
        assert machine.store.runs_by_id[withheld].shown_result is not None
    if restarts:
        machine.restart_with_worker()
    for name in "bc":
        machine.done(f"{run_id}@{name}", "fine")
        report(machine, Scanned(f"{run_id}@{name}", OutputAction.ALLOW))
    if kind == "item":
        report(machine, Scanned(f"{run_id}@a", OutputAction.ALLOW))
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.SUCCEEDED, nothing)


@pytest.mark.behaviour("OUT-5", "WFL-14")
def test_a_withheld_result_is_null_to_a_workflow_that_takes_its_step_over() -> None:
    took = flow(step("a", on_error=CONTINUE), step("b"), result="${steps.a.result}")
    machine = FlowMachine(took, policy=SCANNED)
    old = machine.begin()
    machine.done(f"{old}@a", "secret")
    report(machine, Scanned(f"{old}@a", OutputAction.QUARANTINE, FOUND, len(FOUND)))
    machine.fail(f"{old}@b")
    machine.step(("client", ReleaseOutput(1, f"{old}@a", "fine").by(actor="ann")))
    new = retry(machine, old, "b")
    machine.done(f"{new}@b", "fine")
    report(machine, Scanned(f"{new}@b", OutputAction.ALLOW))
    taken = machine.store.runs_by_id[f"{new}@a"]
    assert (taken.state, taken.result) == (State.FAILED, None)
    assert (machine.state_of(new), machine.result_of(new)) == (State.SUCCEEDED, None)


def test_the_result_of_a_workflow_is_withheld_by_a_rule() -> None:
    withheld = OutputRule(id="r1", match=rule(topics=("flow",)).match, decision=OutputAction.QUARANTINE, reason="no")
    machine = FlowMachine(TWO, policy=policy(withheld))
    run_id = machine.begin()
    machine.done(f"{run_id}@a", 1)
    machine.done(f"{run_id}@b", 2)
    assert machine.state_of(run_id) is State.OUTPUT_QUARANTINED


@pytest.mark.behaviour("WFL-14", "WFL-2")
def test_a_step_is_judged_for_whoever_submitted_its_workflow() -> None:
    denied = Rule(id="r1", when="actor == 'client' && job == 'work'", decision=Ruling.DENY, reason="no")
    machine = FlowMachine(TWO, policy=policies.policy(denied, default=Ruling.ALLOW))
    run_id = machine.begin()
    assert machine.state_of(f"{run_id}@a") is State.DENIED
    assert machine.state_of(run_id) is State.DENIED
