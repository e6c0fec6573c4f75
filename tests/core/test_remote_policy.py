"""A policy that is elsewhere: it is asked by an effect, may be away, and may change meanwhile."""

import pytest
from msgspec.structs import replace

from interlock.model.policy.verdict import Ruling, Verdict
from interlock.wire.command import PolicyMoved, StartDraining
from tests.core.machine import Machine
from tests.core.policies import NO, REMOTE, YES, S, audited, judged_by, reasons, resolve


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
    machine.restart_with_worker()
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
    machine.restart_with_worker()
    assert (machine.state_of(run_id), machine.dispatched()) == (S.PENDING, [])
    machine.remote = lambda _: NO
    machine.advance(10)
    assert machine.state_of(run_id) is S.DENIED
