"""Bounds of workflows that start each other: the steps of one pass, and those that are live below one run."""

from collections.abc import Sequence
from typing import Any

import pytest

from interlock.core.decisions import Decisions
from interlock.core.step import Command
from interlock.model.state import State
from tests.core.flows import FlowMachine, flow, step
from tests.core.test_workflow_events import EventMachine

A_PASS = 2000  # steps of a pass, after which other workflows wait for the next
LIVE = 10_000  # steps below one run


class Counted(FlowMachine):
    """A machine that counts the runs that each pass makes, and those that are live after it."""

    made: list[int] = []
    live_after: list[int] = []

    def _pass(self, commands: Sequence[Command]) -> Decisions:
        decisions = super()._pass(commands)
        self.made = [*self.made, len(decisions.batch.created)]
        self.live_after = [*self.live_after, len(self.state.runs)]
        return decisions


@pytest.mark.behaviour("WFL-8", "WFL-13")
@pytest.mark.parametrize("breadth", [2, 200])
def test_a_workflow_that_starts_itself_many_times_at_once_fails_and_holds_up_nobody(breadth: int) -> None:
    machine = Counted(flow(*(step(f"s{number}", workflow="flow", needs=()) for number in range(breadth))))
    run_id = machine.begin()
    assert machine.state_of(run_id) is State.FAILED
    assert f"steps: run {run_id!r} has 10,000 live steps below it, as many as are allowed" in str(
        machine.run(run_id).error
    )
    assert max(machine.made) <= A_PASS + breadth
    assert max(machine.live_after) == 1 + LIVE
    assert not machine.state.runs
    other = machine.begin()
    assert machine.state_of(other) is State.FAILED


@pytest.mark.behaviour("WFL-13")
@pytest.mark.parametrize("restarts", [False, True])
def test_items_count_and_so_do_steps_from_before_a_restart(restarts: bool) -> None:
    thousand = {"for_each": list(range(1000)), "max_parallel": 1000}
    groups = [step(f"g{number}", needs=(), **thousand) for number in range(9)]
    machine = EventMachine(flow(*groups, step("go", event="go", needs=()), step("more", **thousand)))
    run_id = machine.begin()
    if restarts:
        machine.restart()
    machine.send(run_id, "go")
    closing = machine.run(run_id).closing
    assert closing is not None
    assert closing.state is State.FAILED
    assert "has 10,000 live steps below it, as many as are allowed" in str(machine.run(run_id).error)


BUILT_IN: dict[str, dict[str, Any]] = {
    "sleep": {"sleep": 60.0}, "until": {"until": "2100-01-01T00:00:00Z"}, "event": {"event": "go"},
    "approval": {"approve": "may it?"},
}  # fmt: skip


@pytest.mark.behaviour("WFL-13")
@pytest.mark.parametrize("kind", BUILT_IN)
def test_steps_that_only_wait_count_too(kind: str) -> None:
    waits = flow(*(step(f"w{number}", needs=(), **BUILT_IN[kind]) for number in range(20)), id="waits")
    each = step("each", workflow="waits", for_each=list(range(1000)), max_parallel=1000)
    machine = Counted(flow(each), waits)
    run_id = machine.begin()
    assert max(machine.live_after) <= 1 + LIVE
    closing = machine.run(run_id).closing
    assert machine.state_of(run_id) is State.FAILED or (closing is not None and closing.state is State.FAILED)
    assert "has 10,000 live steps below it, as many as are allowed" in str(machine.run(run_id).error)
