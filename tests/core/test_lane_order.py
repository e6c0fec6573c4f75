"""Who is next in a lane: the core against a plain list, and what that means for a person who waits."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings, stateful

from interlock.core.lanes.lane import AGEING
from interlock.error import BadValue, Draining
from interlock.model.bulk import RunAction
from interlock.model.job import RANKS, ExecutorKind, Job, Priority
from interlock.model.lane import LaneAction
from interlock.wire.command import Define
from interlock.wire.lane_request import ActOnLane, LaneChangeBody, SetLane
from interlock.wire.new_run import NewRun, check_new_run
from tests.core.machine import Machine, specs
from tests.core.plain_lane import PlainLane

pytestmark = pytest.mark.behaviour("LAN-5")

JOBS = [Job(id="work"), Job(id="other"), Job(id="own", executor=ExecutorKind.PROCESS)]


class LaneMachine(stateful.RuleBasedStateMachine):
    @stateful.initialize(limit=st.integers(1, 4))
    def begin(self, limit: int) -> None:
        self.lanes = {"main": limit}
        self.machine = Machine(*JOBS, lanes=self.lanes)
        self.machine.worker_up(slots=100, processes=100)
        self.plain = PlainLane(limit)
        self.runs: list[str] = []
        self.set_limit: int | None = None

    @stateful.rule(
        job=st.sampled_from(JOBS),
        priority=st.sampled_from(Priority),
        tenant=st.sampled_from("abc"),
        many=st.integers(1, 6),
    )
    def submit(self, job: Job, priority: Priority, tenant: str, many: int) -> None:
        if "main" in self.machine.state.lanes.draining:
            with pytest.raises(Draining):
                self.machine.submit(job.id)
            return
        for _ in range(many):
            run_id = self.machine.submit(job.id, tenant=tenant, priority=priority)
            self.runs.append(run_id)
            self.plain.add(run_id, RANKS[priority], tenant)
            self.plain.fill()

    @stateful.precondition(lambda self: self.plain.active)
    @stateful.rule(place=st.integers(0, 100))
    def finish(self, place: int) -> None:
        run_id = self.plain.active[place % len(self.plain.active)]
        self.machine.finished(run_id)
        self.plain.remove(run_id)
        self.plain.fill()

    @stateful.precondition(lambda self: self.plain.waiting)
    @stateful.rule(place=st.integers(0, 100))
    def cancel(self, place: int) -> None:
        run_id = self.plain.waiting[place % len(self.plain.waiting)].run_id
        self.machine.cancel(run_id)
        self.plain.remove(run_id)

    @stateful.precondition(lambda self: self.plain.waiting)
    @stateful.rule(place=st.integers(0, 100))
    def hold_and_release(self, place: int) -> None:
        one = self.plain.waiting[place % len(self.plain.waiting)]
        self.machine.act(RunAction.HOLD, one.run_id)
        self.plain.remove(one.run_id)
        self.machine.act(RunAction.RELEASE, one.run_id)
        self.plain.add(one.run_id, one.rank, one.tenant)

    @stateful.rule(limit=st.integers(1, 4))
    def declare(self, limit: int) -> None:
        """Declare another limit; one that was set at run time counts more."""
        self.lanes["main"] = limit
        self.machine.step(("", Define(1, self.machine.jobs, lanes=specs(self.lanes))))
        self.plain.limit = self.set_limit or limit
        self.plain.fill()

    @stateful.rule(limit=st.integers(1, 4))
    def resize(self, limit: int) -> None:
        """Set a limit at run time. One that equals the declared limit follows it again."""
        self.machine.step(("", SetLane(1, "main", LaneChangeBody(limit=limit))))
        self.set_limit = None if limit == self.lanes["main"] else limit
        self.plain.limit = limit
        self.plain.fill()

    @stateful.rule(action=st.sampled_from(LaneAction))
    def pause_resume_or_drain(self, action: LaneAction) -> None:
        self.machine.step(("", ActOnLane(1, "main", action)))
        self.plain.is_open = action is LaneAction.RESUME
        self.plain.fill()

    @stateful.rule()
    def restart(self) -> None:
        self.machine.lanes = {**self.lanes}
        self.machine.restart()
        self.plain.restart(self.runs)
        held = [self.machine.held(run_id) for run_id in self.plain.active]
        self.machine.worker_up(slots=100, processes=100, held=held)
        self.plain.fill()

    @stateful.invariant()
    def the_same_runs_have_started_in_the_same_order(self) -> None:
        if hasattr(self, "plain"):
            assert self.machine.dispatched() == self.plain.started
            assert self.machine.state.lanes["main"].waiting == len(self.plain.waiting)


def test_the_lane_starts_the_runs_that_a_plain_list_would() -> None:
    stateful.run_state_machine_as_test(
        LaneMachine,
        settings=settings(max_examples=150, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


def starts(machine: Machine) -> list[str]:
    """Let every run execute, one at a time, and return their ids in the order of the starts."""
    begun: list[str] = []
    while len(machine.dispatched()) > len(begun):
        begun.append(machine.dispatched()[-1])
        machine.finished(begun[-1])
    return begun


def test_a_higher_priority_goes_first_and_no_run_waits_for_ever() -> None:
    machine = Machine(lanes={"main": 1})
    machine.worker_up()
    machine.submit()
    batch = machine.submit_many(3, priority="batch")
    others = [machine.submit(priority=priority) for _ in range(30) for priority in ("interactive", "critical")]
    begun = starts(machine)[1:]
    # Three of the first 24 starts go to the oldest; the others are critical.
    assert [begun.index(run_id) + 2 for run_id in batch] == [AGEING, 2 * AGEING, 3 * AGEING]
    rest = [run_id for run_id in begun if run_id not in batch]
    assert set(rest[:20]) <= set(others[1::2])


def test_tenants_take_turns_whatever_they_have_submitted() -> None:
    machine = Machine(lanes={"main": 1})
    machine.worker_up()
    machine.submit()
    runs = dict.fromkeys(machine.submit_many(100, tenant="many"), "many")
    runs |= dict.fromkeys(machine.submit_many(10, tenant="few"), "few")
    tenants = [runs[run_id] for run_id in starts(machine)[1:]]
    assert 8 <= Counter(tenants[:20])["few"] <= 10
    assert tenants[22:] == ["many"] * 88


@pytest.mark.parametrize("priority", ["", "high", "CRITICAL", "1"])
def test_a_priority_that_does_not_exist_is_refused(priority: str) -> None:
    with pytest.raises(BadValue) as caught:
        check_new_run(NewRun("work", b"{}", priority=priority))
    assert (caught.value.field, caught.value.value) == ("priority", priority)
