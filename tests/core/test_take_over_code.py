"""A function that is run again from a step: the steps before it are taken over, and nothing of them runs again."""

from typing import Any

import pytest

import interlock as il
from interlock.core.decisions import Failed
from interlock.model.state import State
from interlock.wire.event_request import SendEvent
from interlock.wire.message import Dispatch
from interlock.wire.run_request import CancelRun, RetryRun
from tests.core.code_flows import CodeMachine, Tools, reasons
from tests.core.machine import acted_on

pytestmark = pytest.mark.behaviour("WFL-7", "RUN-23")


async def order(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    ctx.log("begins")
    number = ctx.random()
    names = await ctx.run(tools.work.call(["a", "b"]), name="names")
    gone = await ctx.event("go", str)
    built, rest = await ctx.gather(
        ctx.map(tools.other, names, name="built"), ctx.run(tools.work.call("rest"), name="rest")
    )
    try:
        await ctx.run(tools.work.call("bad"), name="bad")
    except il.RunFailed:
        ctx.log("goes on")
    last = await ctx.run(tools.other.call(f"{number:.6f}"), name="last")
    return [gone, *built, rest, last]


def retry(machine: CodeMachine, run_id: str, name: str) -> Any:
    """The id of the new run, or the error."""
    ((_, answer),) = machine.step(("ann", RetryRun(1, run_id, "", from_step=name).by(actor="ann"))).answers
    return answer.error if isinstance(answer, Failed) else acted_on(answer).id


def failing(*names: str) -> Any:
    def act(name: str, payload: dict[str, Any]) -> Any:
        if name in names:
            raise ValueError("boom")
        return payload.get("value", name)

    return act


def failed(*also: str) -> tuple[CodeMachine, str]:
    machine = CodeMachine(Tools(order).app)
    run_id = machine.begin()
    machine.step(("client", SendEvent(7, "go", b'"gone"', run_id)))
    assert machine.play(run_id, failing("bad", *also)) is State.FAILED
    return machine, run_id


def dispatched(machine: CodeMachine, run_id: str) -> list[str]:
    sent = [one for one in machine.messages(Dispatch) if one.run_id.startswith(f"{run_id}@")]
    return [one.run_id.removeprefix(run_id) for one in sent]


def test_the_steps_before_it_keep_their_results_and_do_not_run() -> None:
    machine, old = failed("last")
    machine.lines.clear()
    new = retry(machine, old, "last")
    assert machine.play(new) is State.SUCCEEDED
    assert dispatched(machine, new) == ["@last"]
    value = machine.payload_of(f"{old}@last")["value"]
    assert machine.payload_of(f"{new}@last")["value"] == value, "its random numbers are those of the old run"
    assert machine.result_of(new) == ["gone", "a", "b", "rest", value]
    assert machine.lines == [], "the part that is replayed is muted"
    assert machine.store.runs_by_id[f"{new}@bad"].state is State.FAILED
    assert machine.store.runs_by_id[f"{new}@names"].job_id == "interlock.taken_over"
    assert machine.store.runs_by_id[f"{new}@event.go.1"].result == b'"gone"'


def test_an_event_that_came_before_the_function_asked_is_read_in_its_turn() -> None:
    machine = CodeMachine(Tools(order).app)
    old = machine.begin()
    machine.step(("client", SendEvent(7, "go", b'"gone"', old)))
    machine.advance(1.0)
    assert machine.play(old, failing("bad", "last")) is State.FAILED
    new = retry(machine, old, "last")
    assert machine.play(new) is State.SUCCEEDED, reasons(machine, new)


@pytest.mark.parametrize("name", ["go", "built", "rest", "bad"])
def test_it_begins_with_any_step(name: str) -> None:
    machine, old = failed("last")
    new = retry(machine, old, name)
    machine.restart()
    machine.join(machine.apps["one"])
    if name == "go":
        assert machine.play(new) is State.UNDER_WAY, "a step that waits for an event waits for a new one"
        machine.step(("client", SendEvent(7, "go", b'"again"', new)))
    assert machine.play(new) is State.SUCCEEDED
    ran = {
        "go": ["built.0", "built.1", "rest", "bad", "last"], "built": ["built.0", "built.1", "rest", "bad", "last"],
        "rest": ["rest", "bad", "last"], "bad": ["bad", "last"],
    }  # fmt: skip
    assert sorted(dispatched(machine, new)) == sorted(f"@{step}" for step in ran[name])
    assert machine.result_of(new)[0] == ("again" if name == "go" else "gone")


def test_a_run_again_of_a_run_again() -> None:
    machine, old = failed("last")
    new = retry(machine, old, "bad")
    assert machine.play(new, failing("last")) is State.FAILED
    newest = retry(machine, new, "last")
    assert machine.play(newest) is State.SUCCEEDED
    assert dispatched(machine, newest) == ["@last"]
    number = machine.payload_of(f"{old}@last")
    assert machine.payload_of(f"{newest}@last") == machine.payload_of(f"{new}@last") == number


@pytest.mark.behaviour("WFL-9")
def test_code_that_differs_before_the_step_halts_the_new_run() -> None:
    async def changed(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.run(tools.work.call(1), name="other")

    machine, old = failed("last")
    machine.join(Tools(changed).app)
    new = retry(machine, old, "last")
    machine.turn(new)
    assert "asks for step 'other' where its record has 'names'" in " ".join(reasons(machine, new).values())
    machine.join(Tools(order).app, "two")
    assert machine.play(new) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-9")
def test_changed_is_false_before_the_step_and_true_after_it() -> None:
    async def changed(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        if ctx.changed("before"):
            await ctx.run(tools.work.call(1), name="new")
        await ctx.run(tools.work.call(2), name="first")
        await ctx.run(tools.work.call(3), name="second")
        return await ctx.run(tools.work.call(4), name="new" if ctx.changed("after") else "third")

    async def plain(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.run(tools.work.call(2), name="first")
        return await ctx.run(tools.work.call(3), name="second")

    machine = CodeMachine(Tools(plain).app)
    old = machine.begin()
    assert machine.play(old, failing("second")) is State.FAILED
    machine.join(Tools(changed).app)
    new = retry(machine, old, "second")
    assert machine.play(new) is State.SUCCEEDED
    assert dispatched(machine, new) == ["@second", "@new"]


@pytest.mark.behaviour("WFL-5")
def test_compensations_are_taken_over_and_run_in_the_same_order() -> None:
    async def paid(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.run(tools.work.call("a"), name="a", undo=tools.release)
        ctx.compensate(tools.release.call("own"))
        await ctx.map(tools.work, ["b"], name="b", undo=tools.release)
        await ctx.run(tools.work.call("last"), name="last")

    machine = CodeMachine(Tools(paid).app)
    old = machine.begin()
    while f"{old}@last" not in machine.state.runs:
        busy = next(run for run in machine.state.runs.values() if run.worker_id is not None)
        machine.turn(busy.id) if busy.id == old else machine.done(busy.id, "x")
    machine.step(("client", CancelRun(7, old)))
    machine.done(f"{old}@last", outcome="cancelled")
    assert machine.state_of(old) is State.CANCELLED
    new = retry(machine, old, "last")
    assert machine.play(new, failing("last")) is State.FAILED
    assert [name for name in dispatched(machine, new) if "comp" in name] == [
        "@comp-b.0", "@comp-undo.1.1", "@comp-a",
    ]  # fmt: skip
    error = retry(machine, new, "last")
    assert error.code == "bad_value"
    assert "step 'a' before it was undone by 'comp-a'" in str(error)


def test_what_is_refused() -> None:
    async def twice(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        if ctx.round == 1:
            await ctx.continue_as_new(tools.flow.call())
        await ctx.run(tools.work.call(1))

    machine, old = failed("last")
    assert "'lost' is not a step that run" in str(retry(machine, old, "lost"))
    assert str(retry(machine, old, "lasst")).endswith("did you mean 'last'?")
    machine.join(Tools(twice).app)
    again = machine.begin()
    assert machine.play(again, failing("r2.work")) is State.FAILED
    assert "has begun another round" in str(retry(machine, again, "work"))


def test_a_step_before_it_that_was_cut_off_is_named() -> None:
    async def both(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.gather(ctx.run(tools.work.call(1), name="slow"), ctx.run(tools.other.call(2), name="bad"))

    machine = CodeMachine(Tools(both).app)
    old = machine.begin()
    machine.turn(old)
    machine.fail(f"{old}@bad")
    machine.turn(old)
    machine.done(f"{old}@slow", outcome="cancelled")
    assert machine.state_of(old) is State.FAILED
    assert "step 'slow' before it had not ended when the function did; begin with that one" in str(
        retry(machine, old, "bad")
    )
    new = retry(machine, old, "slow")
    assert machine.play(new) is State.SUCCEEDED
