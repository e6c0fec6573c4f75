"""What follows from the end of a run comes in order: actions, places, occurrences, turns."""

import pytest

from interlock.core.state import CoreLimits
from interlock.model.guard import Action, Constraints
from interlock.model.job import Job
from interlock.model.policy.verdict import Ruling
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.request import NewRun
from tests.core.machine import START, Machine
from tests.core.policies import policy, rule
from tests.core.scheduling import LIMITS


@pytest.mark.behaviour("CON-8")
def test_a_run_left_to_the_next_pass_finds_the_place_that_an_ended_one_gave_up() -> None:
    rules = policy(rule(Ruling.DENY, when="payload.xs.exists(x, x == 2)"), default=Ruling.ALLOW)
    guarded = Job(
        id="work",
        constraints=Constraints(max_concurrent_runs=1),
        on_constraint_violation=(Action(action="retry_later", delay="60s"),),
    )
    machine = Machine(guarded, Job(id="other"), policy=rules, limits=CoreLimits(policy_cost=1))
    machine.worker_up()
    first = machine.submit("work")
    machine.started(first)
    machine._pass([("client", machine.command(NewRun("other", b'{"x":2}'), NewRun("work", b'{"x":2}')))])
    (second,) = (run.id for run in machine.state.runs.values() if run.job_id == "work" and run.id != first)
    machine._pass([machine.finish_command(first)])
    assert machine.state_of(second) is State.DISPATCHED
    assert machine.run(second).guarded.violations == ()


@pytest.mark.behaviour("CON-6")
@pytest.mark.parametrize("itself", [True, False])
def test_a_job_may_be_triggered_by_the_end_of_its_only_occurrence(itself: bool) -> None:
    again = (Action(action="trigger_job", job="once"),)
    once = Job(id="once", schedule=Schedule(at=START + 30), on_success=again if itself else ())
    machine = Machine(once, Job(id="other", on_success=again), limits=LIMITS)
    machine.worker_up()
    for _ in range(8):
        machine.advance(5)
    (occurrence,) = machine.state.runs
    machine.started(occurrence)
    other = machine.submit("other")
    machine.started(other)
    machine.step(machine.finish_command(occurrence), machine.finish_command(other))
    made = [run for run in machine.store.runs_by_id.values() if run.job_id == "once"]
    assert len(made) == (3 if itself else 2)
