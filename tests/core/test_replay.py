"""Replay of functions: any prefix of a record asks for the same steps, and the store has the record of each turn."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

import interlock as il
from interlock.core.workflows.stored_record import stored_record
from interlock.model.state import State
from interlock.model.workflow_record import RecordedStep, WorkflowRecord
from interlock.wire import turn as t
from interlock.wire.event_request import SendEvent
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from interlock.worker.workflow_fit import Comparison, misfit_of
from interlock.worker.workflow_turn import replay
from tests.core.code_flows import CodeMachine, Tools

pytestmark = pytest.mark.behaviour("WFL-9")
ENDS = (State.SUCCEEDED, State.SUCCEEDED, State.SUCCEEDED, State.FAILED, State.TIMEOUT)
MOST_ENDS = 40


def pieces(kind: str) -> Any:
    return lambda parts: st.lists(parts, min_size=1, max_size=3).map(lambda found: [kind, *found])


LEAVES = st.one_of(st.sampled_from([["step"], ["sleep"], ["event"]]), st.integers(0, 3).map(lambda n: ["map", n]))
PIECES = st.recursive(
    LEAVES, lambda parts: st.one_of(*(pieces(kind)(parts) for kind in ("row", "gather", "first", "try", "choice"))),
    max_leaves=10,
)  # fmt: skip
"""a piece of a workflow: one step, or other pieces one after the other, together, or as a race"""


async def play(tools: Tools, ctx: il.WorkflowContext, piece: Any) -> int:
    kind, *parts = piece
    if kind in ("step", "map", "sleep", "event"):
        return await _play_leaf(tools, ctx, kind, parts)
    if kind == "gather":
        return sum(await ctx.gather(*(play(tools, ctx, part) for part in parts)))
    if kind == "first":
        place, found = await ctx.first(*(play(tools, ctx, part) for part in parts))
        return place + found
    if kind == "choice":
        chosen: int = await ctx.run(tools.work.call(1), timeout="1h")
        return await play(tools, ctx, parts[chosen % len(parts)])
    try:
        return sum([await play(tools, ctx, part) for part in parts])
    except il.RunEnded:
        if kind == "row":
            raise
        return int(await ctx.run(tools.work.call(2)))


async def _play_leaf(tools: Tools, ctx: il.WorkflowContext, kind: str, parts: list[Any]) -> int:
    if kind == "map":
        return sum(await ctx.map(tools.other, range(parts[0])))
    if kind == "event":
        return await ctx.event("go", int)
    if kind == "sleep":
        await ctx.sleep("1m")
        return 0
    return int(await ctx.run(tools.work.call(1)))


DEFINITIONS = Tools(play).app.definitions


def orders_of(record: WorkflowRecord) -> list[t.Order]:
    dispatch = Dispatch("r", 1, "flow", 1, None, None, False, 0.0)
    return replay(DEFINITIONS["flow"], record, Context(dispatch, lambda message: None))


def names_of(orders: list[t.Order]) -> list[str]:
    return [order.name for order in orders if isinstance(order, t.StartStep | t.StartGroup | t.Sleep | t.WaitForEvent)]


def played(piece: Any, rng: Random) -> Iterator[WorkflowRecord]:
    """Yield the record after each turn of a run whose steps end one by one, in any order and in any way."""
    record = WorkflowRecord("flow", "r", Raw(msgspec.json.encode({"value": piece})), 1000.0)
    for count in range(MOST_ENDS):
        orders = orders_of(record)
        assert not any(isinstance(order, t.Halt) for order in orders)
        steps = [*record.steps, *map(RecordedStep, names_of(orders))]
        has_ended = bool(orders) and isinstance(orders[-1], t.Finish | t.Fail)
        record = replace(record, steps=steps, seen=count, ended=has_ended)
        yield record
        live = [step.name for step in steps if step.place is None]
        if has_ended or not live:
            return
        ended, state = rng.choice(live), rng.choice(ENDS)
        result = {"other": b"[1, 2]", "sleep": b"null"}.get(ended.partition("-")[0], b"%d" % rng.randrange(4))
        end = RecordedStep(ended, count, state, 1000.0 + count, Raw(result), "boom")
        record = replace(record, steps=[end if step.name == ended else step for step in steps])


@given(PIECES, st.integers(0, 10_000))
def test_any_prefix_of_a_record_asks_for_the_same_steps(piece: Any, seed: int) -> None:
    records = list(played(piece, Random(seed)))
    names = [step.name for step in records[-1].steps]
    for count, record in enumerate(records):
        asked = [step.name for step in record.steps]
        assert asked == names[: len(asked)]
        assert misfit_of(DEFINITIONS, Comparison(record)) is None
        # As it stood then, but with the ends of the whole record: a restart finds it so.
        ends = {step.name: step for step in records[-1].ends[:count]}
        prefix = replace(record, steps=[ends.get(name, RecordedStep(name)) for name in asked])
        assert names_of(orders_of(prefix)) == []
        # Without its steps it asks for all of them, in the same order.
        assert replayed_anew(prefix) == asked


def replayed_anew(record: WorkflowRecord) -> list[str]:
    """The steps that the function asks for if each turn gets the ends of all steps that it has asked for so far."""
    ends, asked = {step.name: step for step in record.ends}, replace(record, steps=[], seen=None, ended=False)
    while new := names_of(orders_of(asked)):
        asked = replace(asked, steps=[*asked.steps, *(ends.get(name, RecordedStep(name)) for name in new)])
    return [step.name for step in asked.steps]


@pytest.mark.parametrize("sabotage", ["drop", "swap", "add"])
def test_a_changed_record_does_not_fit(sabotage: str) -> None:
    piece = ["row", ["step"], ["gather", ["step"], ["sleep"]], ["step"]]
    found = (record for seed in range(100) for record in played(piece, Random(seed)))
    record = next(record for record in found if len(record.steps) == 4)
    steps = list(record.steps)
    if sabotage == "drop":
        del steps[1]
    elif sabotage == "swap":
        steps[1], steps[2] = steps[2], steps[1]
    else:
        steps.append(RecordedStep("more"))
    misfit = misfit_of(DEFINITIONS, Comparison(replace(record, steps=steps)))
    assert misfit is not None
    assert misfit.step == {"drop": "sleep", "swap": "sleep", "add": "more"}[sabotage]


async def rounds(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    first = await ctx.run(tools.work.call(1), undo=tools.release)
    if ctx.round < 3:
        ctx.changed("odd")
        await ctx.gather(ctx.map(tools.other, ["a" * 300, "b"]), ctx.event("go", int))
        await ctx.continue_as_new(tools.flow.call(ctx.round))
    try:
        await ctx.gather(ctx.event("go", int), ctx.run(tools.other.call(2), name="bad"))
    except il.RunFailed:
        return await ctx.run(tools.work.call(first), name="last")


def test_the_store_has_the_record_that_a_turn_gets() -> None:
    machine = CodeMachine(Tools(rounds).app)
    run_id = machine.begin()
    seen = []

    def act(name: str, payload: dict[str, Any]) -> Any:
        if name.endswith("bad"):
            raise ValueError("boom")
        return payload.get("value", name)

    orders = machine.orders

    def checked(dispatch: Dispatch, app: il.App) -> bytes:
        below = [run for id, run in machine.store.runs_by_id.items() if run.parent == run_id and "@" in id]
        stored, ids = stored_record(machine.store.runs_by_id[run_id], below)
        given = msgspec.json.decode(dispatch.record or b"", type=WorkflowRecord)
        assert replace(stored, began_at=0.0) == replace(given, began_at=0.0)
        assert all(id in machine.store.runs_by_id for id in ids.values())
        seen.append((given.round, [step.name for step in given.ends]))
        return orders(dispatch, app)

    machine.orders = checked  # type: ignore[method-assign] # it looks at each turn
    for _ in range(3):
        machine.play(run_id, act)
        machine.restart()
        machine.join(machine.apps["one"])
        if run_id in machine.state.runs:
            machine.step(("client", SendEvent(7, "go", b"5", run_id)))
    assert machine.play(run_id, act) is State.SUCCEEDED
    assert {number for number, _ in seen} == {1, 2, 3}
    run = machine.store.runs_by_id[run_id]
    below = [run for run in machine.store.runs_by_id.values() if run.parent == run_id]
    record, _ = stored_record(run, below)
    assert (record.ended, record.round, record.ends[-1].name) == (True, 3, "last")
    assert misfit_of(machine.apps["one"].definitions, Comparison(record, True)) is None
