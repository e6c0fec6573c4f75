"""Workflows that are functions, in the core: what halts a run, and what brings it on."""

from typing import Any

import pytest

import interlock as il
from interlock.model.explanation import ReasonKind
from interlock.model.state import State
from interlock.wire.message import Stop
from tests.core.code_flows import CodeMachine, Tools, other_steps, reasons, two_steps


@pytest.mark.behaviour("WFL-9")
def test_changed_code_halts_a_run_and_the_old_code_brings_it_on() -> None:
    old, new = Tools(two_steps).app, Tools(other_steps).app
    machine = CodeMachine(old)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.worker_down(dead=True)
    machine.join(new)
    machine.done(f"{run_id}@work", 1)
    before = machine.path(run_id), machine.live(run_id)
    machine.turn(run_id)
    assert (machine.path(run_id), machine.live(run_id)) == before
    text = "the function asks for step 'other' where its record has 'work'"
    why = f"is halted (nondeterministic_workflow): {text}; it goes on when a worker with fitting code joins"
    assert reasons(machine, run_id)[ReasonKind.HALTED] == why
    machine.advance(3600.0)
    assert len(machine.turns(run_id)) == 2, "nobody is asked again before another worker joins"
    machine.restart()
    machine.join(new)
    machine.turn(run_id)
    assert reasons(machine, run_id)[ReasonKind.HALTED] == why
    machine.join(old, "two")
    assert machine.run(run_id).worker_id == "two"
    assert machine.play(run_id) is State.SUCCEEDED
    assert machine.run(run_id).workflow_facet.halt is None


@pytest.mark.behaviour("WFL-9")
@pytest.mark.parametrize("has_ended", [False, True])
def test_code_that_asks_for_fewer_steps_halts(has_ended: bool) -> None:
    async def nothing(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        if not has_ended:
            await ctx.run(tools.work.call(1), name="work")
        return 1

    async def three(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.gather(*(ctx.run(tools.work.call(number)) for number in range(3)))

    machine = CodeMachine(Tools(three).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.apps["one"] = Tools(nothing).app
    machine.done(f"{run_id}@work", 1)
    machine.turn(run_id)
    step = "work" if has_ended else "work-2"
    assert reasons(machine, run_id)[ReasonKind.HALTED].startswith(
        f"is halted (nondeterministic_workflow): the function ends where its record has step '{step}'"
    )
    assert machine.live(run_id) == ["work-2", "work-3"]


@pytest.mark.behaviour("WFL-9")
def test_three_crashes_of_a_turn_halt_the_run_until_a_worker_joins() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    for _ in range(3):
        assert ReasonKind.HALTED not in reasons(machine, run_id)
        machine.lost(run_id, "its process was killed by SIGSEGV")
    assert "turn_crashed" in reasons(machine, run_id)[ReasonKind.HALTED]
    assert (machine.run(run_id).worker_id, machine.run(run_id).crashes) == (None, 0)
    machine.join(machine.apps["one"])
    assert machine.play(run_id) is State.SUCCEEDED


def test_a_lost_link_is_no_crash_of_a_turn() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    for _ in range(5):
        machine.worker_down(dead=True)
        machine.worker_up()
    assert machine.play(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-9")
def test_a_turn_of_more_than_ten_seconds_halts_the_run() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    machine.started(run_id)
    fence = machine.run(run_id).fence
    machine.advance(9.9)
    assert ReasonKind.HALTED not in reasons(machine, run_id)
    machine.advance(0.1)
    assert machine.messages(Stop)[-1] == Stop(run_id, fence, "stale")
    assert "turn_too_long" in reasons(machine, run_id)[ReasonKind.HALTED]
    assert machine.run(run_id).fence > fence


@pytest.mark.behaviour("WFL-9")
def test_changed_separates_old_code_from_new() -> None:
    async def new(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        job = tools.other if ctx.changed("other-first") else tools.work
        first = await ctx.run(job.call(1))
        second = await ctx.run(tools.other.call(first + 1), name="second" if ctx.changed("named") else None)
        return first + second

    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.apps["one"] = Tools(new).app
    machine.done(f"{run_id}@work", 1)
    machine.turn(run_id)
    assert machine.live(run_id) == ["second"], "what it has not reached is new to it"
    assert machine.run(run_id).workflow_facet.changes == ("named",)
    assert machine.play(run_id) is State.SUCCEEDED
    fresh = machine.begin()
    assert machine.play(fresh) is State.SUCCEEDED
    assert f"{fresh}@other" in machine.store.runs_by_id


@pytest.mark.parametrize("orders", [b"", b"{}", b'{"orders": [{"order": "StartStep"}]}', b'{"orders": [{}]}', b"\xff"])
def test_orders_that_cannot_be_read_halt_the_run(orders: bytes) -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    machine.finished(run_id, result=orders)
    assert "turn_refused" in reasons(machine, run_id)[ReasonKind.HALTED]
    machine.join(machine.apps["one"])
    assert machine.play(run_id) is State.SUCCEEDED
