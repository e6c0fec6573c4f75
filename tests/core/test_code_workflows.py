"""Workflows that are functions, in the core: turns, replay, rounds."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.core.attempts.silence import Silence
from interlock.core.workflows.turn_table import Turns
from interlock.model.explanation import ReasonKind
from interlock.model.state import State
from interlock.model.workflow_record import WorkflowRecord
from interlock.wire.command import Answered
from interlock.wire.message import Finished, Stop
from tests.core.code_flows import CodeMachine, Tools, reasons, two_steps


@pytest.mark.behaviour("WFL-1", "WFL-9", "RUN-26")
def test_each_step_is_a_run_and_each_end_a_turn() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    assert machine.state_of(run_id) is State.UNDER_WAY
    assert not machine.state.lanes["main"].holding, "a turn takes no slot"
    machine.turn(run_id)
    assert machine.live(run_id) == ["work"]
    step = machine.run(f"{run_id}@work")
    assert (step.parent, step.submitters, machine.payload_of(step.id)) == (run_id, ("client",), {"value": 1})
    decisions = machine.finished(step.id, result=b"1")
    assert {run.id for run in decisions.changed.values()} == {run_id, step.id}, "the end and the turn are one commit"
    machine.turn(run_id)
    assert machine.live(run_id) == ["other"]
    assert machine.play(run_id) is State.SUCCEEDED
    assert (machine.result_of(run_id), machine.run(run_id).attempt) == (3, 3)
    assert machine.path(run_id) == [State.PENDING, State.SCHEDULED, State.UNDER_WAY, State.SUCCEEDED]


@pytest.mark.behaviour("WFL-9")
def test_there_is_one_turn_at_a_time() -> None:
    async def both(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        return await ctx.gather(ctx.run(tools.work.call(1)), ctx.run(tools.other.call(2)))

    machine = CodeMachine(Tools(both).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.done(f"{run_id}@work", 1)
    machine.done(f"{run_id}@other", 2)
    assert len(machine.turns(run_id)) == 2, "the second end waits for the turn of the first"
    machine.turn(run_id)
    assert len(machine.turns(run_id)) == 3
    machine.turn(run_id)
    assert machine.result_of(run_id) == [1, 2]


@pytest.mark.behaviour("WFL-9")
def test_the_orders_of_a_stale_turn_have_no_effect() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    first = machine.turns(run_id)[0]
    orders = machine.orders(first, machine.apps["one"])
    machine.lost(run_id, exit_code=None)
    stale = machine.state.of(Silence).stale_messages
    machine.step(("one", Finished(run_id, first.fence, "succeeded", orders)))
    assert machine.state.of(Silence).stale_messages == stale + 1
    assert machine.live(run_id) == []
    machine.turn(run_id)
    assert machine.live(run_id) == ["work"]
    machine.step(("one", Finished(run_id, machine.turns(run_id)[1].fence, "succeeded", orders)))
    assert machine.live(run_id) == ["work"]


@pytest.mark.behaviour("WFL-1", "REC-4")
@pytest.mark.parametrize("moment", range(5))
def test_a_restart_at_any_moment_changes_nothing(moment: int) -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    steps: list[Callable[[], None]] = [
        lambda: machine.turn(run_id),
        lambda: machine.done(f"{run_id}@work", 1),
        lambda: machine.turn(run_id),
        lambda: machine.done(f"{run_id}@other", 2),
        lambda: machine.turn(run_id),
    ]
    for number, step in enumerate(steps):
        if number == moment:
            held = [machine.held(run.id) for run in machine.state.runs.values() if run.worker_id is not None]
            machine.restart_with_worker(held=held)
        step()
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.SUCCEEDED, 3)
    assert sorted(machine.store.runs_by_id) == [run_id, f"{run_id}@other", f"{run_id}@work"]


@pytest.mark.behaviour("WFL-9")
def test_ends_are_replayed_in_the_order_of_completion() -> None:
    seen: list[Any] = []

    async def race(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        seen.clear()

        async def branch(number: int) -> None:
            seen.append(await ctx.run(tools.work.call(number)))
            seen.append(await ctx.run(tools.other.call(number)))

        await ctx.gather(*(branch(number) for number in range(3)))
        await ctx.sleep("1h")
        return list(seen)

    machine = CodeMachine(Tools(race).app)
    run_id = machine.begin()
    machine.turn(run_id)
    for name, value in (("work-3", 2), ("work", 0), ("other", 20), ("work-2", 1), ("other-3", 10), ("other-2", 0)):
        machine.done(f"{run_id}@{name}", value)
        machine.turn(run_id)
    machine.restart_with_worker()
    machine.advance(3600.0)
    machine.turn(run_id)
    assert machine.result_of(run_id) == [2, 0, 20, 1, 10, 0]


@pytest.mark.behaviour("WFL-9")
def test_an_exception_that_leaves_the_function_fails_the_run_at_once() -> None:
    async def fails(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        ctx.run(tools.work.call(1))
        await ctx.run(tools.other.call(2))
        raise LookupError("no such thing")

    machine = CodeMachine(Tools(fails).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.done(f"{run_id}@other")
    machine.turn(run_id)
    assert machine.live(run_id) == ["work"], "it ends once its steps have stopped"
    machine.done(f"{run_id}@work", outcome="cancelled")
    run = machine.run(run_id)
    assert (run.state, run.reason) == (State.FAILED, "LookupError: no such thing")
    assert run.failure is not None
    assert run.failure.types[0] == "LookupError"


@pytest.mark.behaviour("WFL-4", "WFL-5")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_function_that_fails_undoes_its_steps_the_last_first(restarts: bool) -> None:
    async def saga(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.run(tools.work.call("a ${b}"), undo=tools.release)
        await ctx.map(tools.work, [1, 2], undo=tools.release)
        await ctx.run(tools.work.call(3), undo=tools.other.call("literal ${x}"))
        raise ValueError("no")

    machine = CodeMachine(Tools(saga).app)
    run_id, order = machine.begin(), list[tuple[str, Any]]()

    def act(name: str, payload: dict[str, Any]) -> Any:
        order.append((name, payload))
        return f"result of {name}"

    while run_id in machine.state.runs:
        if restarts:
            machine.restart_with_worker(
                held=[machine.held(run.id) for run in machine.state.runs.values() if run.worker_id]
            )
        busy = next(run for run in machine.state.runs.values() if run.worker_id is not None)
        if busy.state is State.UNDER_WAY:
            machine.turn(busy.id)
        else:
            name = busy.id.partition("@")[2]
            machine.done(busy.id, act(name, machine.payload_of(busy.id)))
    assert machine.state_of(run_id) is State.FAILED
    assert [name for name, _ in order] == [
        "work", "work-2.0", "work-2.1", "work-3", "comp-work-3", "comp-work-2.1", "comp-work-2.0", "comp-work",
    ]  # fmt: skip
    assert order[4][1] == {"value": "literal ${x}"}
    assert order[5][1] == {"result": "result of work-2.1"}
    assert order[7][1] == {"result": "result of work"}


@pytest.mark.behaviour("WFL-9")
def test_a_step_that_fails_raises_and_can_be_caught() -> None:
    async def catches(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        try:
            await ctx.run(tools.work.call(1))
        except il.RunFailed as error:
            return [error.run_id.partition("@")[2], error.reason]

    machine = CodeMachine(Tools(catches).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.fail(f"{run_id}@work", "broken")
    machine.turn(run_id)
    assert machine.result_of(run_id) == ["work", "broken"]


def test_first_cancels_the_others_and_gather_its_siblings() -> None:
    async def races(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        won = await ctx.first(ctx.sleep("1h"), ctx.run(tools.work.call(1)))
        with pytest.raises(il.RunFailed):
            await ctx.gather(ctx.run(tools.work.call(1)), ctx.sleep("2h"))
        return won

    machine = CodeMachine(Tools(races).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.done(f"{run_id}@work", 7)
    machine.turn(run_id)
    assert machine.state_of(f"{run_id}@sleep") is State.CANCELLED
    machine.fail(f"{run_id}@work-2")
    while run_id in machine.state.runs:
        machine.turn(run_id)
    assert (machine.state_of(f"{run_id}@sleep-2"), machine.result_of(run_id)) == (State.CANCELLED, [1, 7])


@pytest.mark.behaviour("WFL-2", "WFL-13")
def test_map_runs_a_window_of_items_also_after_a_restart() -> None:
    async def maps(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        return await ctx.map(tools.work, range(value), max_parallel=2), await ctx.map(tools.work, [])

    machine = CodeMachine(Tools(maps).app)
    run_id = machine.begin({"value": 5})
    machine.turn(run_id)
    for number in range(5):
        assert len(machine.live(run_id)) == 1 + min(2, 5 - number)
        machine.restart_with_worker(
            held=[machine.held(f"{run_id}@{name}") for name in machine.live(run_id) if "." in name]
        )
        machine.done(f"{run_id}@work.{number}", 10 * number)
    assert machine.play(run_id) is State.SUCCEEDED
    assert machine.result_of(run_id) == [[0, 10, 20, 30, 40], []]


@pytest.mark.behaviour("WFL-13")
def test_a_round_begins_with_an_empty_record_under_the_same_id() -> None:
    async def rounds(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        ctx.publish("round", ctx.round)
        value += await ctx.run(tools.work.call(1))
        if value < 3:
            await ctx.continue_as_new(tools.flow.call("x" * 500 if value > 5 else value))
        return [value, ctx.round]

    machine = CodeMachine(Tools(rounds).app)
    run_id = machine.begin({"value": 0})
    while run_id in machine.state.runs:
        machine.turn(run_id)
        machine.restart_with_worker(held=[machine.held(run.id) for run in machine.state.runs.values() if run.worker_id])
        for name in machine.live(run_id):
            machine.done(f"{run_id}@{name}", 1)
    assert machine.result_of(run_id) == [3, 3]
    assert sorted(name.partition("@")[2] for name in machine.store.runs_by_id) == [
        "", "r2", "r2.work", "r3", "r3.work", "work",
    ]  # fmt: skip
    assert machine.run(run_id).workflow_facet.published == {"round": 3}


@pytest.mark.behaviour("WFL-9")
def test_time_chance_and_output_come_from_the_record() -> None:
    async def notes(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        found = [ctx.now().timestamp(), ctx.random(), str(ctx.uuid())]
        ctx.log("one")
        await ctx.run(tools.work.call(1))
        ctx.log("two")
        await ctx.run(tools.work.call(2))
        return [*found, ctx.now().timestamp()]

    machine = CodeMachine(Tools(notes).app)
    run_id = machine.begin()
    start = machine.wall
    machine.advance(5.0)
    machine.turn(run_id)
    machine.done(f"{run_id}@work")
    machine.lost(run_id)
    machine.turn(run_id)
    machine.advance(7.0)
    assert machine.play(run_id) is State.SUCCEEDED
    first, number, name, last = machine.result_of(run_id)
    assert (first, last) == (start, start + 12.0)
    assert (0 <= number < 1, len(name)) == (True, 36)
    assert machine.lines == ["one", "two"]


@pytest.mark.parametrize("state", ["turn", "step", "halted", "waiting"])
def test_a_run_is_cancelled_in_every_phase(state: str) -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    if state == "halted":
        for _ in range(3):
            machine.lost(run_id)
    if state == "waiting":
        machine.worker_down(dead=True)
    if state == "step":
        machine.turn(run_id)
    fence = machine.run(run_id).fence
    machine.cancel(run_id)
    if state == "step":
        machine.done(f"{run_id}@work", outcome="cancelled")
    if state == "turn":
        assert machine.messages(Stop)[-1] == Stop(run_id, fence, "stale")
    assert machine.state_of(run_id) is State.CANCELLED
    assert machine.state.of(Turns) == Turns()


def test_a_run_without_a_worker_waits_and_says_so() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    machine.worker_down(dead=True)
    run_id = machine.begin()
    assert reasons(machine, run_id)[ReasonKind.NO_WORKER].endswith("none knows job flow")
    machine.worker_up()
    assert machine.play(run_id) is State.SUCCEEDED


def test_a_record_is_json_that_can_be_read_again() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.done(f"{run_id}@work", {"a": [1]})
    record = msgspec.json.decode(machine.turns(run_id)[-1].record or b"", type=WorkflowRecord)
    assert [(step.name, step.state, bytes(step.result)) for step in record.steps] == [
        ("work", State.SUCCEEDED, b'{"a":[1]}')
    ]
    assert (record.workflow, record.run_id, record.round, record.seen) == ("flow", run_id, 1, 0)


async def three_at_once(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.work.call(0), name="first")
    await ctx.run(tools.work.call(0), name="second")
    winner, _ = await ctx.first(ctx.run(tools.work.call(1), name="a"), ctx.run(tools.work.call(2), name="b"))
    await ctx.run(tools.work.call(3), name="after")
    return winner


@pytest.mark.behaviour("WFL-1", "WFL-9")
def test_a_step_that_ends_before_the_record_is_read_again_completes_after_the_others() -> None:
    machine = CodeMachine(Tools(three_at_once).app)
    run_id = machine.begin()
    machine.turn(run_id)
    for name in ("first", "second"):
        machine.done(f"{run_id}@{name}", 0)
        machine.turn(run_id)
    held = [machine.held(f"{run_id}@{name}") for name in ("a", "b")]
    machine.holds_answers = True
    machine.restart_with_worker(held=held)
    machine.done(f"{run_id}@b", 2)
    machine.holds_answers = False
    machine.step()
    machine.turn(run_id)
    assert machine.run(run_id).workflow_facet.halt is None
    machine.restart_with_worker()
    assert machine.play(run_id) is State.SUCCEEDED
    assert machine.result_of(run_id) == 1


@pytest.mark.behaviour("WFL-9", "OBS-1")
def test_a_turn_that_has_not_begun_is_explained_as_sent_and_one_without_results_as_reading() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    assert reasons(machine, run_id) == {ReasonKind.SENT: "turn 1 of its function went to worker one and has not begun"}
    machine.started(run_id)
    assert list(reasons(machine, run_id)) == [ReasonKind.EXECUTING]
    machine.turn(run_id)
    machine.holds_answers = True
    machine.done(f"{run_id}@work", "x" * 1000)
    machine.restart_with_worker()
    machine.step(*[("", Answered(machine.answers))])
    assert "read from the store" in reasons(machine, run_id)[ReasonKind.STEPS]
