"""Workflows that are functions, in the core: bounds, and errors of those who write them."""

import asyncio
import os
import random
import time
import uuid
import warnings
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.core.workflows import turns
from interlock.core.workflows.turn_table import Turns
from interlock.model.explanation import ReasonKind
from interlock.model.state import State
from interlock.wire.event_request import SendEvent
from tests.core.code_flows import CodeMachine, Tools, reasons, two_steps


@pytest.mark.behaviour("WFL-13")
def test_step_2001_of_a_round_is_an_error_that_names_the_bound() -> None:
    async def many(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.gather(*(ctx.sleep("1h") for _ in range(value)))
        return value

    machine = CodeMachine(Tools(many).app)
    fits, does_not = machine.begin({"value": 2000}), machine.begin({"value": 2001})
    machine.turn(does_not)
    run = machine.run(does_not)
    assert (run.state, run.error) == (State.FAILED, "steps: a round has at most 2,000; use continue_as_new")
    machine.turn(fits)
    assert len(machine.live(fits)) == 2000


@pytest.mark.behaviour("WFL-13")
def test_a_function_that_wants_more_than_10_000_live_steps_fails() -> None:
    async def more(tools: Tools, ctx: il.WorkflowContext) -> None:
        await ctx.event("go", int)
        await ctx.gather(ctx.run(tools.work.call(1)), ctx.run(tools.work.call(2)))

    async def many(tools: Tools, ctx: il.WorkflowContext, value: Any) -> None:
        sizes = [*[1000] * 9, 989]
        groups = (ctx.map(tools.other, list(range(size)), max_parallel=1000) for size in sizes)
        await ctx.gather(more(tools, ctx), *groups)

    machine = CodeMachine(Tools(many).app)
    run_id = machine.begin()
    machine.turn(run_id)
    assert (len(machine.live(run_id)), machine.run(run_id).closing) == (10_000, None)
    machine.step(("client", SendEvent(7, "go", b"1", run_id)))
    machine.turn(run_id)
    closing = machine.run(run_id).closing
    assert closing is not None
    assert (closing.state, closing.reason) == (State.FAILED, "too many steps")
    assert "has 10,000 live steps below it, as many as are allowed" in str(machine.run(run_id).error)
    made = machine.store.runs_by_id
    assert (f"{run_id}@work" in made, f"{run_id}@work-2" in made) == (True, False)


@pytest.mark.behaviour("WFL-13")
def test_more_than_16_mib_of_results_a_turn_fail_the_run() -> None:
    async def heavy(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        for _ in range(20):
            await ctx.run(tools.work.call(1))

    machine = CodeMachine(Tools(heavy).app)
    run_id, megabyte = machine.begin(), msgspec.json.encode("x" * (1024 * 1024 - 2))
    for number in range(17):
        machine.turn(run_id)
        machine.finished(f"{run_id}@work{f'-{number + 1}' * bool(number)}", result=megabyte)
    run = machine.run(run_id)
    assert (run.state, run.reason) == (State.FAILED, "too many results")
    assert run.error is not None
    assert run.error.startswith("results: 17,825,792 bytes in one round; at most 16,777,216 are allowed")


def test_a_worker_takes_256_turns_at_once() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    runs = [machine.begin() for _ in range(264)]
    assert sum(bool(machine.turns(run_id)) for run_id in runs) == 256
    for run_id in runs:
        assert machine.play(run_id) is State.SUCCEEDED


def test_large_records_wait_for_those_that_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_OUT", 100_000)
    machine = CodeMachine(Tools(two_steps).app)
    text = "x" * 30_000
    runs = [machine.begin({"value": text}) for _ in range(6)]
    assert [bool(machine.turns(run_id)) for run_id in runs] == [True] * 4 + [False] * 2
    assert reasons(machine, runs[4]).keys() == {ReasonKind.NO_WORKER}
    machine.turn(runs[1])
    assert machine.turns(runs[4])
    for run_id in runs:
        assert machine.play(run_id) is State.SUCCEEDED
    assert machine.state.of(Turns).bytes_out == 0


async def two_at_once(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    return await ctx.gather(ctx.run(tools.work.call(1)), ctx.run(tools.other.call(2)))


def test_workflows_that_close_do_not_hold_up_one_that_waits_behind_them_for_a_turn() -> None:
    machine = CodeMachine(Tools(two_at_once).app, lanes={"main": 100})
    closing = [machine.begin() for _ in range(40)]
    for run_id in closing:
        machine.turn(run_id)
    busy = [machine.begin() for _ in range(256)]
    assert all(machine.turns(run_id) for run_id in busy)
    for run_id in closing:
        machine.done(f"{run_id}@work")
    last = machine.begin()
    for run_id in closing:
        machine.cancel(run_id)
    assert {machine.run(f"{run_id}@other").state for run_id in closing} == {State.DISPATCHED}
    machine.turn(busy[0])
    assert machine.turns(last)


async def awaits_asyncio(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await asyncio.sleep(0 if value else 1)


async def names_a_step_badly(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.work.call(1), name="r2")


async def names_two_steps_alike(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    ctx.run(tools.work.call(1), name="a")
    ctx.run(tools.work.call(1), name="a")


async def maps_too_much(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.map(tools.work, range(1001))


async def runs_no_call(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.work)


async def gives_options(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.work.options(session="a").call(1))


async def returns_a_coroutine(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    return asyncio.sleep(1)


@pytest.mark.behaviour("WFL-9", "WFL-13")
@pytest.mark.parametrize(
    ("workflow", "error"),
    [
        (awaits_asyncio, "(await asyncio.sleep(0 if value else 1)) awaits something that is not a step"),
        (names_a_step_badly, "name: 'r2' is not a name of letters, digits and '_', up to 64 long"),
        (names_two_steps_alike, "name: 'a' is the name of an earlier step; give each its own"),
        (maps_too_much, "items: 1,001"),
        (runs_no_call, "call: JobFunction('work') is not a call of a job, as report.call(...) makes it"),
        (gives_options, "call.session: a step has no options of a submit; use those of its job"),
        (returns_a_coroutine, "the function returned a coroutine"),
    ],
)
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.filterwarnings("ignore:coroutine")
def test_bad_use_fails_the_run_with_an_error_that_names_it(workflow: Any, error: str, value: int) -> None:
    machine = CodeMachine(Tools(workflow).app)
    run_id = machine.begin({"value": value})
    machine.turn(run_id)
    run = machine.run(run_id)
    assert run.state is State.FAILED
    assert error in str(run.error)
    assert machine.live(run_id) == []


def test_a_step_of_an_unknown_job_fails_and_the_function_hears_of_it() -> None:
    async def calls(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        call = tools.work.call(1)
        call.job_id = "wrok"
        await ctx.run(call)

    machine = CodeMachine(Tools(calls).app)
    run_id = machine.begin()
    assert machine.play(run_id) is State.FAILED
    assert "did you mean 'work'" in str(machine.run(run_id).error)


@pytest.mark.behaviour("WFL-9")
@pytest.mark.parametrize("catches", [False, True])
def test_a_result_that_no_longer_fits_its_annotation(catches: bool) -> None:
    app = il.App()

    @app.job("work")
    async def work() -> int:
        return 1

    @app.workflow("flow")
    async def flow(ctx: il.WorkflowContext) -> str:
        try:
            return str(await ctx.run(work.call()) + 1)
        except il.InterlockError as error:
            if not catches:
                raise
            return f"caught: {error}"

    machine = CodeMachine(app)
    run_id = machine.begin()
    assert machine.play(run_id, lambda name, payload: "text of older code") is (
        State.SUCCEEDED if catches else State.FAILED
    )
    run = machine.run(run_id)
    said = machine.result_of(run_id) if catches else str(run.error)
    assert "work" in said
    assert "its result does not fit the return annotation: Expected `int`, got `str`" in said


def test_definitions_that_cannot_work_are_refused() -> None:
    app = il.App()
    with pytest.raises(il.BadHandler, match="flow must be an async function"):

        @app.workflow("flow")  # type: ignore[arg-type] # that is the point
        def flow(ctx: il.WorkflowContext) -> int:
            return 1

    with pytest.raises(il.BadHandler, match="must take an interlock"):

        @app.workflow("flow")  # type: ignore[arg-type] # that is the point
        async def no_context() -> int:
            return 1


async def differs(ctx: il.WorkflowContext) -> float:
    with open(os.devnull) as file:  # noqa: ASYNC230 - that is the point
        found = time.time() + random.random() + uuid.uuid4().int + len(file.read())
    return found + monotonic() + datetime.now().timestamp()  # noqa: DTZ005 - any


async def is_fine(ctx: il.WorkflowContext) -> str:
    await ctx.sleep(1)
    return f"{ctx.now()} {ctx.random()} {ctx.uuid()} {datetime(2030, 1, 1)}"  # noqa: DTZ001 - any


@pytest.mark.behaviour("WFL-9")
def test_a_warning_names_calls_that_differ_in_a_replay() -> None:
    app = il.App()
    with pytest.warns(UserWarning, match="differs in a replay") as caught:
        app.workflow("flow")(differs)
    named = {str(one.message).partition(": ")[2].partition(" in line")[0] for one in caught}
    assert named == {"open", "time.time", "random.random", "uuid.uuid4", "time.monotonic", "datetime.now"}
    assert str(caught[0].message).endswith("differs in a replay; use a job that reads the file")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        app.workflow("fine")(is_fine)


def test_alarms_of_turns_are_not_looked_through_at_every_pass() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    for number in range(5000):
        machine.state.set_alarm(machine.elapsed + 10, "turn", f"1 {number}")
    machine.step()
    spans = machine.state.timers.spans
    machine.step()
    assert machine.state.timers.spans is spans
