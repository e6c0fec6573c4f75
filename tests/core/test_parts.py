"""Parts: the machine is made of them, and nothing else knows all features."""

from random import Random

import pytest

from interlock.core.attempts.part import ATTEMPTS
from interlock.core.effects import EFFECTS
from interlock.core.entry.part import ENTRY
from interlock.core.lanes.part import LANES
from interlock.core.part import Machine, Part, enters, is_plain, joined
from interlock.core.routing.part import ROUTING
from interlock.core.sessions.part import SESSIONS
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.step import MACHINE, PARTS, new_state, step
from interlock.core.transition import Pass
from interlock.model.job import Job
from interlock.model.lane import LaneSpec
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.model.tenant import TenantSpec
from interlock.wire.command import Create, WorkerUp
from interlock.wire.message import Dispatch, Finished, Started
from interlock.wire.request import NewRun
from tests.core.machine import Machine as Scheduler
from tests.core.policies import ALLOWS

LANE = {"main": LaneSpec(limit=5), "cron": LaneSpec(limit=5)}
PLAIN_WAY = (
    (State.PENDING, State.SCHEDULED),
    (State.SCHEDULED, State.DISPATCHED),
    (State.DISPATCHED, State.RUNNING),
    (State.RUNNING, State.TERMINATING),
    (State.TERMINATING, State.SUCCEEDED),
)


def plain_run(machine: Machine) -> list[State]:
    """Execute one plain run, and return its way."""
    state, clock = SchedulerState(machine, CoreLimits(), LANE), iter(range(1, 100))
    state.jobs["work"] = Job(id="work")

    def steps(sender: str, content: object) -> list[Dispatch]:
        now = float(next(clock))
        decisions = step(state, [(sender, content)], Now(now, now), Random(0))
        way.extend(entry.after for _, entries in decisions.batch.history for entry in entries)
        return [message for message in decisions.sends.get("one", ()) if isinstance(message, Dispatch)]

    way: list[State] = []
    steps("", WorkerUp("one", 5, 1, {"work": ""}, [], draining=False))
    (dispatch,) = steps("client", Create(1, [NewRun("work", b"{}", "default")], "local", 2))
    steps("one", Started(dispatch.run_id, dispatch.fence))
    steps("one", Finished(dispatch.run_id, dispatch.fence, "succeeded", b"1"))
    assert not state.runs
    return way


def test_the_smallest_set_of_parts_executes_a_plain_run() -> None:
    smallest = joined((ENTRY, LANES, SESSIONS, EFFECTS, ROUTING, ATTEMPTS))
    expected = [State.PENDING, *(after for _, after in PLAIN_WAY)]
    assert plain_run(smallest) == plain_run(MACHINE) == expected


def test_a_plain_run_meets_only_the_hooks_that_concern_it() -> None:
    met = [[hook.__name__ for hook in MACHINE.moves[pair][1]] for pair in PLAIN_WAY]
    assert met == [[], ["take"], [], [], ["free"]]
    assert [stage.__name__ for stage in MACHINE.plain_stages] == ["has_expired", "constrain", "admit"]


def test_a_part_that_concerns_all_runs_is_met_by_plain_ones_while_it_is_used() -> None:
    scheduler = Scheduler(tenants={"a": TenantSpec(max_running=1)})
    met = [[hook.__name__ for hook in scheduler.state.machine.moves[pair][1]] for pair in PLAIN_WAY]
    assert met == [[], ["take", "_take_slot"], [], [], ["free", "_free_slot", "_leave"]]
    scheduler.tenants = {}
    scheduler.step(("", scheduler.define()))
    assert scheduler.state.machine.moves == MACHINE.moves


def test_a_start_asks_few_parts_about_a_run_that_waits_in_its_lane() -> None:
    asked = {put.__module__.removeprefix("interlock.core.") for put in MACHINE.places_of[State.SCHEDULED]}
    assert asked == {"sessions.turns", "tenants.part", "timers", "timetable.series", "workflows.machine"}


@pytest.mark.behaviour("POL-7")
def test_a_run_that_the_policy_plainly_allows_stays_plain() -> None:
    scheduler = Scheduler(policy=ALLOWS)
    machine = scheduler.state.machine
    assert {pair: hooks for pair, (_, hooks, _) in machine.moves.items()} == {
        pair: hooks for pair, (_, hooks, _) in MACHINE.moves.items()
    }
    assert [stage.__name__ for stage in machine.plain_stages] == [
        "has_expired", "judge", "constrain", "admit"
    ]  # fmt: skip
    run = scheduler.run(scheduler.submit())
    assert is_plain(run)
    assert run.allowed is not None


def test_what_two_parts_claim_is_refused() -> None:
    with pytest.raises(ValueError, match=r"handlers: .*Create.* belongs to part 'again' and to another one"):
        joined((*PARTS, Part(name="again", handlers={Create: lambda p, origin, command: None})))


def test_a_new_part_hears_of_a_transition_without_a_change_elsewhere() -> None:
    heard: list[State] = []

    def hear(p: Pass, run: Run) -> None:
        heard.append(run.state)

    def hear_all(p: Pass, ended: list[Run]) -> None:
        heard.extend(run.state for run in ended)

    ear = Part(name="ear", on=((enters(State.RUNNING, State.SUCCEEDED), hear),), settles=(hear_all,))
    plain_run(joined((*PARTS, ear)))
    assert heard == [State.RUNNING, State.SUCCEEDED, State.SUCCEEDED]


def test_the_state_has_few_attributes_and_a_slice_for_each_part() -> None:
    state = new_state(CoreLimits(), LANE)
    assert len(vars(state)) <= 15
    assert set(state.slices) == {kind for part in PARTS for kind in part.slices}
