"""Approvals: a person answers once, in time, about what was asked, and not for themselves."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from interlock.core.policy.judge_state import Judging
from interlock.model.bulk import RunAction
from interlock.model.delivery import Delivery
from interlock.model.facets import seen
from interlock.model.guard import Action
from interlock.model.job import Job
from interlock.model.policy.verdict import Ruling
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.approval_request import ApproveRun, RejectRun
from interlock.wire.command import Refill
from interlock.wire.request import ValueAnswer
from interlock.wire.run_request import CancelRun, RetryRun
from tests.core import policies as pol
from tests.core.machine import retrying_job

pytestmark = pytest.mark.behaviour("POL-8")


def test_an_approval_lets_a_run_start_once() -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    assert "waits for an approval (rule r1: because), for 1d more" in pol.reasons(machine, run_id)
    assert pol.resolve(machine, run_id, actor="client") == "self_approval"
    assert pol.resolve(machine, run_id) == "pending"
    assert pol.resolve(machine, run_id, actor="bob") == "already_resolved"
    assert machine.path(run_id) == [
        pol.S.PENDING,
        pol.S.APPROVAL_REQUIRED,
        pol.S.PENDING,
        pol.S.SCHEDULED,
        pol.S.DISPATCHED,
    ]
    assert machine.dispatched() == [run_id]
    assert [one.actor for one in pol.audited(machine, "approved")] == ["ann"]
    assert [one.actor for one in pol.audited(machine, "self_approval")] == ["client"]


def test_a_rejection_denies_the_run() -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    assert pol.resolve(machine, run_id, approve=False) == "denied"
    assert machine.run(run_id).reason == "rejected by ann: looked at"
    assert [one.subject for one in pol.audited(machine, "rejected")] == [run_id]
    assert pol.resolve(machine, run_id) == "already_resolved"
    assert pol.resolve(machine, machine.submit(tenant="x"), approve=False) == "denied"


@pytest.mark.parametrize("restarts", [False, True])
def test_an_approval_expires_after_a_day(restarts: bool) -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    machine.advance(pol.DAY - 1)
    if restarts:
        machine.restart()
    assert machine.state_of(run_id) is pol.S.APPROVAL_REQUIRED
    machine.advance(1)
    assert machine.state_of(run_id) is pol.S.DENIED
    assert machine.run(run_id).reason == "nobody approved it within 1d"
    assert pol.resolve(machine, run_id) == "already_resolved"
    assert [one.subject for one in pol.audited(machine, "approval_expired")] == [run_id]


def test_an_approval_is_too_late_at_the_instant_at_which_it_expires() -> None:
    """Even if it arrives together with the end of the wait, after the scheduler was away."""
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    machine.wall += pol.DAY
    machine.elapsed += pol.DAY
    assert pol.resolve(machine, run_id) == "already_resolved"
    assert machine.run(run_id).reason == "nobody approved it within 1d"
    assert machine.dispatched() == []


def test_an_approval_of_something_else_is_stale() -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    judged = machine.run(run_id).judged
    assert judged is not None
    shown = seen(judged)
    assert pol.resolve(machine, run_id, seen=shown + "x") == "stale"
    pol.change(machine, pol.policy(pol.rule(reason="stricter now"), default=Ruling.ALLOW))
    assert machine.state_of(run_id) is pol.S.APPROVAL_REQUIRED
    assert pol.resolve(machine, run_id, seen=shown) == "stale"
    judged = machine.run(run_id).judged
    assert judged is not None
    assert pol.resolve(machine, run_id, seen=seen(judged)) == "pending"


def test_an_approval_counts_for_the_retries_of_its_run_until_the_policy_changes() -> None:
    machine = pol.judged_by(pol.ASKS, retrying_job(5))
    run_id = machine.submit()
    pol.resolve(machine, run_id)
    machine.started(run_id)
    machine.finished(run_id, "failed")
    machine.advance(2)
    assert machine.state_of(run_id) is pol.S.DISPATCHED
    machine.started(run_id)
    machine.finished(run_id, "failed")
    pol.change(machine, pol.policy(pol.rule(id="r2"), default=Ruling.ALLOW))
    machine.advance(4)
    assert machine.state_of(run_id) is pol.S.APPROVAL_REQUIRED


RACES = ("approve", "again", "reject", "cancel", "change")


def winner(order: Sequence[str], late: bool) -> State:
    """The end of a run that waits for an approval, if these arrive in one batch: the first that counts decides."""
    found = pol.S.APPROVAL_REQUIRED
    for one in order:
        if one == "cancel" and found is not pol.S.DENIED:
            return pol.S.CANCELLED
        if one == "change":
            found = pol.S.DENIED if found is pol.S.DENIED else pol.S.PENDING
        elif one != "cancel" and found is pol.S.APPROVAL_REQUIRED:
            found = pol.S.DENIED if late or one == "reject" else pol.S.DISPATCHED
    return found if found is pol.S.DISPATCHED else pol.S.DENIED


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("size", range(1, len(RACES) + 1))
def test_an_approval_that_races_has_one_outcome(size: int, late: bool) -> None:
    """With another approval, a rejection, a cancel, a changed policy and its own expiry, in every order."""
    for order in permutations(RACES, size):
        machine = pol.judged_by(pol.ASKS)
        run_id = machine.submit()
        if late:
            machine.wall, machine.elapsed = machine.wall + pol.DAY, machine.elapsed + pol.DAY
        machine.policy = pol.DENIES if "change" in order else pol.ASKS
        commands: dict[str, Any] = {
            "approve": ApproveRun(1, run_id, "looked at").by(actor="ann"),
            "again": ApproveRun(2, run_id, "looked at").by(actor="bob"),
            "reject": RejectRun(3, run_id, "looked at").by(actor="eve"),
            "cancel": CancelRun(4, run_id),
            "change": machine.define(5),
        }
        answers = machine.step(*(("client", commands[one]) for one in order)).answers
        given = [one for _, one in answers if isinstance(one, ValueAnswer) and one.request <= 3]
        assert len(given) <= 1, order
        assert machine.state_of(run_id) is winner(order, late), order
        assert machine.path(run_id).count(pol.S.APPROVAL_REQUIRED) == 1, order
        outcomes = ("approved", "rejected", "approval_expired")
        assert sum(len(pol.audited(machine, one)) for one in outcomes) <= 1, order
        machine.restart_with_worker()
        machine.advance(pol.DAY)
        assert len(set(machine.dispatched())) == (winner(order, late) is pol.S.DISPATCHED), order


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_a_run_that_waits_for_an_approval_can_be_stopped(end: str) -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit(deadline=machine.wall + 50)
    if end == "cancel":
        machine.cancel(run_id)
    else:
        machine.advance(50)
    assert machine.state_of(run_id) is (pol.S.CANCELLED if end == "cancel" else pol.S.TIMEOUT)
    assert pol.resolve(machine, run_id) == "already_resolved"
    assert machine.state.of(Judging).awaiting_approval == {}


def test_a_held_run_is_approved_and_stays_held() -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    machine.act(RunAction.HOLD, run_id)
    assert pol.resolve(machine, run_id) == "pending"
    machine.act(RunAction.RELEASE, run_id)
    assert machine.state_of(run_id) is pol.S.DISPATCHED


def test_an_answer_that_nobody_asked_for() -> None:
    machine = pol.judged_by(pol.ALLOWS)
    assert pol.resolve(machine, machine.submit()) == "no_approval"
    assert pol.resolve(machine, "nothing") == "unknown_run"


def test_an_approval_is_announced_by_webhook() -> None:
    hook = Action(action="webhook", url="https://hooks.example/ask")
    machine = pol.judged_by(pol.policy(pol.rule(), on_approval_required=(hook,)))
    run_id = machine.submit()
    [owed] = machine.last.batch.of(Delivery)
    assert (owed.run_id, owed.event) == (run_id, "run.approval_required")


@pytest.mark.parametrize("way", ["backfill", "retry", "trigger"])
def test_nobody_approves_what_runs_on_their_behalf(way: str) -> None:
    """Whichever way it came about: a backfill, a retry by somebody else, a job that their own run triggered."""
    jobs = [
        Job(id="work", schedule=Schedule(once=True, wait=1e8)),
        Job(id="first", on_success=(Action(action="trigger_job", job="work"),)),
    ]
    asks = pol.policy(pol.rule(topics=("work",)), default=Ruling.ALLOW)
    machine = pol.judged_by(asks, *jobs)
    if way == "backfill":
        refill = Refill(1, "work", [machine.wall - 7200.0], b"{}", "default", 1, "client")
        machine.step(("x", refill))
    elif way == "retry":
        rejected = machine.submit()
        pol.resolve(machine, rejected, approve=False)
        machine.step(("x", RetryRun(7, rejected, "again").by(actor="bob", key="k")))
    else:
        caused = machine.submit("first")
        machine.started(caused)
        machine.finished(caused)
    [run_id] = machine.state.of(Judging).awaiting_approval
    assert pol.resolve(machine, run_id, actor="client") == "self_approval"
    if way == "retry":
        assert pol.resolve(machine, run_id, actor="bob") == "self_approval"
    assert pol.resolve(machine, run_id) == "pending"
