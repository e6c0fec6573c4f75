"""Workflows that are functions: an app with one, its turns in the simulated worker, and what must hold of them.

A turn replays the function with the code of a real worker. It may take long, crash or hang, and come too late.
"""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import msgspec

import interlock as il
from interlock.core.decisions import Batch
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import EVENT, TAKEN_OVER
from interlock.wire import turn as t
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from interlock.worker.workflow_turn import take_turn
from soak.simulation.store import Disk

CODE = "code"
STEPS = ("book", "left", "right", "race", "sleep", "all", "go", "last")
WINDOW = 2
_DECODER = msgspec.json.Decoder(t.TurnEnd)

app = il.App()


@app.job("plain")
async def plain(plan: Any) -> Any: ...


@app.job("narrow")
async def narrow(plan: Any) -> Any: ...


@app.job("retried")
async def retried(plan: Any) -> Any: ...


@app.job("tireless")
async def tireless(plan: Any) -> Any: ...


@app.workflow(CODE, deadline=90.0)
async def code(
    ctx: il.WorkflowContext, first: Any, left: Any, right: Any, last: Any, items: list[Any], undo: Any, rounds: int = 1
) -> Any:
    book = await ctx.run(tireless.call(first), name="book", undo=plain.call(undo))
    pair = await ctx.gather(
        ctx.run(retried.call(left), name="left", undo=narrow.call(undo)),
        ctx.run(plain.call(right), name="right", undo=plain.call(undo)),
    )
    winner, _ = await ctx.first(ctx.run(plain.call(last), name="race", undo=plain.call(undo)), ctx.sleep(1.0))
    every = await ctx.map(retried, items, max_parallel=WINDOW, name="all", undo=plain.call(undo))
    news = await ctx.event("go", str, timeout=30.0)
    if ctx.round < rounds:
        await ctx.continue_as_new(code.call(first, left, right, last, items, undo, rounds))
    done = await ctx.run(narrow.call(last), name="last")
    found = {"book": book, "left": pair[0], "right": pair[1], "all": every, "last": done}
    return {**found, "winner": winner, "news": news}


CODE_JOB = app.definitions[CODE].job


def turn_plan(dispatch: Dispatch) -> tuple[str, float]:
    """Return how a turn ends, and after how many seconds. Never three crashes follow each other."""
    number = crc32(f"{dispatch.run_id}/{dispatch.fence}".encode()) % 20
    if number == 0 and dispatch.fence % 3:
        return "crash", 0.2
    return ("hang", 0.0) if number == 1 else ("succeed", 3.0 if number < 5 else number / 100)


def orders_of(dispatch: Dispatch) -> bytes:
    """Return the orders that the function gives in a turn."""
    end = take_turn(app.definitions[dispatch.job_id], dispatch.record or b"", Context(dispatch, lambda message: None))
    return end.result or b""


class Functions:
    """The checker: each step that a function starts was ordered by the one turn that counts."""

    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self._orders: dict[tuple[str, int], Sequence[t.Order]] = {}  # workflow and fence → orders of the turn
        self._seen: dict[str, tuple[int, int | None, int]] = {}  # workflow → its round, `seen` and fence as stored
        self.turns = self.halted = 0

    def turn_ended(self, dispatch: Dispatch, orders: bytes) -> None:
        self.turns += 1
        given = self._orders[dispatch.key] = _DECODER.decode(orders).orders
        halt = [order.text for order in given if isinstance(order, t.Halt)]
        self._require(not halt, f"the record of {dispatch.run_id} does not fit its function: {halt}")

    def before(self, batch: Batch) -> None:
        created = [Run(*row) for row in batch.created]
        for run in created:
            above = self._disk.runs_by_id.get(run.parent or "") if run.is_step else None
            if above is None or above.job_id != CODE or run.is_compensation or run.job_id in (EVENT, TAKEN_OVER):
                continue
            orders = self._orders.get((above.id, above.fence), [])
            facet = above.workflow_facet
            prefix = "" if facet.round == 1 else f"r{facet.round}."
            names = {
                f"{prefix}{order.name}" for order in orders if isinstance(order, t.StartStep | t.StartGroup | t.Sleep)
            }
            names |= {f"r{facet.round + 1}" for order in orders if isinstance(order, t.NextRound)}
            name = run.id[len(above.id) + 1 :]
            text = f"{run.id} starts, and turn {above.fence} of its workflow has not ordered it: {sorted(names)}"
            self._require(name in names, text)

    def after(self, run: Run) -> None:
        """Check that a workflow takes orders only from the turn that was out."""
        if run.job_id == CODE:
            facet = run.workflow_facet
            round_before, before, fence = self._seen.get(run.id, (1, None, 0))
            is_taken = (round_before, before) == (facet.round, facet.seen) or (run.id, fence) in self._orders
            self._require(is_taken, f"{run.id} has taken turn {fence}, which has not ended")
            self._seen[run.id] = facet.round, facet.seen, run.fence

    def cancels(self, run: Run, above: Run) -> bool:
        """Return whether a turn took back a step: by name, or with its round."""
        name = run.id[len(above.id) + 1 :].rpartition(".")[2]
        given = (order for (run_id, _), orders in self._orders.items() for order in orders if run_id == above.id)
        return any(
            isinstance(order, t.NextRound) or (isinstance(order, t.CancelSteps) and name in order.names)
            for order in given
        )

    def check_end(self, run: Run) -> None:
        """Check the end of a workflow: its last turn has ordered its success."""
        if run.state is State.SUCCEEDED:
            orders = self._orders.get((run.id, run.fence), [])
            closes = run.closing is not None  # steps that lost a race were still to stop, and the fence has moved on
            is_ordered = closes or any(isinstance(order, t.Finish) for order in orders)
            self._require(is_ordered, f"{run.id} succeeds, and turn {run.fence} has not ordered it")

    def expected(self, run: Run, steps: dict[str, Run], results: dict[str, Any]) -> Any:
        number = run.workflow_facet.round
        prefix = "" if number == 1 else f"r{number}."
        own = {name.removeprefix(prefix): name for name in steps if name.startswith(prefix)}
        places = {name: _place(steps[own[name]]) for name in ("race", "sleep")}
        found = {name: results[own[name]] for name in ("book", "left", "right", "all", "last")}
        news = results[f"event.go.{number}"]  # each round reads one
        return {**found, "winner": int(places["sleep"] < places["race"]), "news": news}


def _place(step: Run) -> int:
    facet = step.step_facet
    return 1_000_000 if facet is None or facet.done is None else facet.done
