"""A policy that changes: waiting runs are judged again, and runs that have begun keep their places."""

import pytest

from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.lane import LaneAction
from interlock.model.policy.document import Velocity
from interlock.model.policy.verdict import Ruling, RunLimits
from interlock.policy.policy import Policy
from interlock.wire.lane_request import ActOnLane
from interlock.wire.message import Returned, Stop
from tests.core import policies as pol
from tests.core.machine import Machine, retrying_job
from tests.core.scheduling import LIMITS


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_denied_before_it_is_dispatched_never_starts(restarts: bool) -> None:
    jobs = [Job(id="work"), Job(id="guarded", constraints=Constraints(max_concurrent_runs=1))]
    machine = Machine(*jobs, policy=pol.ALLOWS, limits=LIMITS)
    waiting, early = machine.submit(), machine.submit(delay=100.0)
    large = machine.submit(payload=b'{"x":"' + b"y" * 2000 + b'"}')
    one, two = machine.submit("guarded"), machine.submit("guarded")
    assert [machine.state_of(run_id) for run_id in (waiting, early, large, one, two)] == [
        pol.S.SCHEDULED, pol.S.PRERUN, pol.S.SCHEDULED, pol.S.SCHEDULED, pol.S.ACTION_RUNNING,
    ]  # fmt: skip
    machine.policy = pol.DENIES
    if restarts:
        machine.restart()
    else:
        machine.step(("", machine.define()))
    machine.worker_up()
    machine.advance(100)
    assert machine.dispatched() == []
    assert {machine.state_of(run_id) for run_id in (waiting, early, large, one, two)} == {pol.S.DENIED}
    assert machine.state.runs == {}


@pytest.mark.behaviour("POL-7")
def test_a_run_in_the_hands_of_its_constraints_remembers_that_the_policy_changed() -> None:
    """Even if the policy changes, the scheduler restarts with the same one, and only then the run passes."""
    jobs = [Job(id="guarded", constraints=Constraints(max_concurrent_runs=1))]
    machine = pol.judged_by(pol.ALLOWS, *jobs)
    one, two = machine.submit("guarded"), machine.submit("guarded")
    pol.change(machine, pol.DENIES)
    machine.restart_with_worker(held=[machine.held(one)])
    machine.started(one)
    machine.finished(one)
    assert (machine.state_of(one), machine.state_of(two)) == (pol.S.SUCCEEDED, pol.S.DENIED)


@pytest.mark.behaviour("POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_comes_back_from_its_worker_is_judged_again(restarts: bool) -> None:
    """It was dispatched before the policy changed, and has not begun."""
    machine = pol.judged_by(pol.ALLOWS)
    run_id = machine.submit()
    pol.change(machine, pol.DENIES)
    if restarts:
        machine.restart_with_worker()
    else:
        machine.step(("one", Returned(run_id, machine.run(run_id).fence, "no room")))
    assert machine.path(run_id)[2:] == [pol.S.DISPATCHED, pol.S.SCHEDULED, pol.S.PENDING, pol.S.DENIED]


@pytest.mark.behaviour("POL-7")
def test_a_dispatch_that_waits_for_its_payload_is_judged_again() -> None:
    machine = pol.judged_by(pol.ALLOWS)
    machine.holds_answers = True
    run_id = machine.submit(payload=b'{"x":"' + b"y" * 2000 + b'"}', delay=1.0)
    machine.advance(1)
    answers, machine.answers = machine.answers, []
    machine.answered(answers)
    assert machine.state_of(run_id) is pol.S.DISPATCHED
    assert machine.dispatched() == []
    pol.change(machine, pol.DENIES)
    machine.holds_answers = False
    machine.step()
    assert machine.state_of(run_id) is pol.S.DENIED
    assert machine.dispatched() == []


@pytest.mark.behaviour("POL-5", "RUN-22")
@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_window_counts_elapsed_time_whatever_the_clock_shows(jump: float) -> None:
    fast = pol.rule(Ruling.DENY, velocity=Velocity(max_requests=1, window=60))
    machine = pol.judged_by(pol.policy(fast, default=Ruling.ALLOW))
    machine.submit()
    machine.wall += jump
    machine.advance(59)
    assert machine.state_of(machine.submit()) is pol.S.DENIED
    machine.advance(1)
    assert machine.state_of(machine.submit()) is pol.S.DISPATCHED


@pytest.mark.behaviour("POL-5", "POL-8")
def test_a_change_of_the_policy_does_not_replace_the_approval_of_a_run_that_came_too_fast() -> None:
    fast = pol.rule(velocity=Velocity(max_requests=1, window=60))
    machine = pol.judged_by(pol.policy(fast, default=Ruling.ALLOW))
    _, second = machine.submit_many(2)
    assert machine.state_of(second) is pol.S.APPROVAL_REQUIRED
    pol.change(machine, pol.policy(fast, pol.rule(Ruling.DENY, id="r2", tenants=("other",)), default=Ruling.ALLOW))
    assert machine.state_of(second) is pol.S.APPROVAL_REQUIRED
    assert pol.resolve(machine, second) == "pending"
    assert machine.state_of(second) is pol.S.DISPATCHED


@pytest.mark.behaviour("POL-5")
def test_a_pause_that_a_new_policy_ends_has_no_end_of_its_own() -> None:
    slow = pol.rule(Ruling.THROTTLE)
    machine = pol.judged_by(pol.policy(slow))
    run_id = machine.submit()
    machine.advance(3)
    pol.change(machine, pol.policy(slow, pol.rule(id="r2")))
    machine.advance(2)
    assert round((machine.run(run_id).due_at or 0) - machine.wall) == 3
    machine.advance(3)
    assert round((machine.run(run_id).due_at or 0) - machine.wall) == 5


@pytest.mark.behaviour("POL-8")
def test_the_approval_of_a_run_that_came_too_fast_is_remembered() -> None:
    machine = pol.judged_by(pol.policy(pol.rule(velocity=Velocity(max_requests=1, window=60)), default=Ruling.ALLOW))
    _, second = machine.submit_many(2)
    assert pol.resolve(machine, second) == "pending"
    assert pol.resolve(machine, second, actor="bob") == "already_resolved"


def test_a_run_that_has_begun_keeps_its_place_when_it_is_judged_again() -> None:
    """Its constraints are not checked a second time, which could skip it."""
    guarded = Job(id="guarded", constraints=Constraints(max_concurrent_runs=1), max_crashes=3)
    machine = pol.judged_by(pol.ALLOWS, guarded)
    first, second = machine.submit("guarded", labels={"slow": "yes"}), machine.submit("guarded")
    machine.started(first)
    machine.worker_down(dead=True)
    assert machine.state_of(first) is pol.S.SCHEDULED
    pol.change(machine, pol.policy(pol.rule(Ruling.THROTTLE, labels={"slow": "yes"}), default=Ruling.ALLOW))
    assert (machine.state_of(first), machine.state_of(second)) == (pol.S.PENDING, pol.S.ACTION_RUNNING)
    pol.change(machine, pol.ALLOWS)
    machine.worker_up()
    assert (machine.state_of(first), machine.state_of(second)) == (pol.S.DISPATCHED, pol.S.ACTION_RUNNING)


def test_a_run_that_began_before_the_policy_changed_is_judged_once_more() -> None:
    machine = pol.judged_by(pol.ALLOWS, Job(id="work", max_crashes=3))
    run_id = machine.submit()
    pol.change(machine, pol.policy(pol.rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    machine.started(run_id)
    machine.worker_down(dead=True)
    assert machine.path(run_id)[3:] == [pol.S.RUNNING, pol.S.RETRYING, pol.S.PENDING, pol.S.SCHEDULED]


@pytest.mark.behaviour("POL-4")
def test_a_limit_that_comes_with_a_retry_counts_from_the_first_start() -> None:
    machine = pol.judged_by(pol.ALLOWS, retrying_job(5))
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed")
    pol.change(machine, pol.policy(pol.rule(Ruling.CONSTRAIN, limits=RunLimits(max_runtime=5))))
    machine.advance(2)
    machine.started(run_id)
    machine.advance(3)
    assert [one.run_id for one in machine.messages(Stop)] == [run_id]


@pytest.mark.behaviour("POL-4")
@pytest.mark.parametrize("later", [pol.ALLOWS, None])
def test_a_limit_that_a_retry_no_longer_has_does_not_stop_it(later: Policy | None) -> None:
    machine = pol.judged_by(pol.policy(pol.rule(Ruling.CONSTRAIN, limits=RunLimits(max_runtime=5))), retrying_job(5))
    run_id = machine.submit()
    machine.started(run_id)
    machine.finished(run_id, "failed")
    pol.change(machine, later)
    machine.advance(2)
    machine.started(run_id)
    machine.advance(100)
    assert machine.messages(Stop) == []
    assert machine.run(run_id).judged is None


def test_a_run_that_stays_allowed_keeps_its_place() -> None:
    machine = Machine(policy=pol.ALLOWS, limits=LIMITS)
    first, second = machine.submit_many(2)
    pol.change(machine, pol.policy(pol.rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    assert machine.path(first) == [pol.S.PENDING, pol.S.SCHEDULED]
    pol.change(machine, None)
    machine.worker_up()
    assert machine.dispatched() == [first, second]
    assert [one.subject for one in pol.audited(machine, "policy_changed")] != []


def test_a_policy_that_is_removed_lets_everything_go() -> None:
    machine = pol.judged_by(pol.ASKS)
    run_id = machine.submit()
    pol.change(machine, None)
    assert machine.state_of(run_id) is pol.S.DISPATCHED


def test_a_run_that_may_have_begun_keeps_its_place_when_it_is_judged_again() -> None:
    machine = pol.judged_by(pol.ALLOWS, pol.GUARDS)
    first, second = machine.submit(), machine.submit()
    machine.lost(first)  # before it said that it had begun
    assert (machine.state_of(first), machine.state_of(second)) == (pol.S.DISPATCHED, pol.S.ACTION_RUNNING)
    pol.change(machine, pol.policy(pol.rule(Ruling.DENY, tenants=("other",)), default=Ruling.ALLOW))
    machine.worker_up()  # which never got it
    assert machine.path(first)[-4:] == [pol.S.SCHEDULED, pol.S.PENDING, pol.S.SCHEDULED, pol.S.DISPATCHED]
    assert machine.state_of(second) is pol.S.ACTION_RUNNING


@pytest.mark.behaviour("RUN-7", "CON-8", "POL-7")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_whose_worker_said_nothing_keeps_its_place_when_it_is_judged_again(restarts: bool) -> None:
    machine = pol.judged_by(pol.ALLOWS, pol.GUARDS)
    first, second = machine.submit(), machine.submit()
    machine.step(("client", ActOnLane(7, "main", LaneAction.PAUSE)))
    machine.advance(LIMITS.silence)
    assert machine.run(first).reason.endswith("it may have begun there")
    if restarts:
        machine.restart()
    pol.change(machine, pol.policy(pol.rule(Ruling.CONSTRAIN, limits=pol.SMALL)))
    assert machine.path(first)[-4:] == [pol.S.DISPATCHED, pol.S.SCHEDULED, pol.S.PENDING, pol.S.SCHEDULED]
    assert machine.state_of(second) is pol.S.ACTION_RUNNING


@pytest.mark.behaviour("RUN-7", "CON-8", "POL-7")
def test_a_run_that_an_earlier_process_of_its_worker_may_have_begun_keeps_its_place() -> None:
    machine = pol.judged_by(pol.ALLOWS, pol.GUARDS)
    first, second = machine.submit(), machine.submit()
    machine.step(("client", ActOnLane(7, "main", LaneAction.PAUSE)))
    machine.worker_up()  # the same id, without the attempt
    assert machine.run(first).reason == "never reached its worker"
    pol.change(machine, pol.policy(pol.rule(Ruling.CONSTRAIN, limits=pol.SMALL)))
    assert machine.path(first)[-3:] == [pol.S.SCHEDULED, pol.S.PENDING, pol.S.SCHEDULED]
    assert machine.state_of(second) is pol.S.ACTION_RUNNING
