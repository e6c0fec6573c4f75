"""Workflows that are functions, with the right types and with mistakes."""

from datetime import date
from typing import Any, assert_type

import interlock as il
from tests.typed.sample.jobs import Report, app, halve, report, square, stop

DAY = date(2026, 1, 2)


@app.workflow("flow")
async def flow(ctx: il.WorkflowContext, number: int) -> float:
    assert_type(await ctx.run(square.call(number), undo=stop), int)
    assert_type(await ctx.run(report.call(DAY), undo=stop.call(), timeout="5m"), Report)
    assert_type(await ctx.map(square, [1, 2], undo=stop), list[int])
    both = await ctx.gather(ctx.run(square.call(1)), ctx.run(halve.call(2)))
    assert_type(both, tuple[int, float])
    assert_type(await ctx.first(ctx.run(square.call(1)), ctx.run(square.call(2))), tuple[int, int])
    assert_type(await ctx.approval("Go on?", {"number": number}, timeout="2h"), il.Approved)
    assert_type(await ctx.event("paid", Report, timeout="1d"), Report)
    assert_type(await ctx.send(ctx.run_id, "paid", 5), None)
    ctx.compensate(square.call(1))
    return await ctx.run(halve.call(number))


async def above(ctx: il.WorkflowContext) -> None:
    assert_type(await ctx.run(flow.call(3)), float)
    await ctx.continue_as_new(flow.call(4))


async def mistakes(ctx: il.WorkflowContext) -> None:
    await ctx.run(square)  # type: ignore[arg-type]
    await ctx.run(square.call("3"))  # type: ignore[arg-type]
    await ctx.run(flow.call())  # type: ignore[call-arg]
    await ctx.run(square.call(3), undo="stop")  # type: ignore[arg-type]
    await ctx.run(square.call(3), undo=stop.call)  # type: ignore[arg-type]
    await square.call(3)  # type: ignore[misc]
    await ctx.first(square.call(3))  # type: ignore[arg-type]
    await ctx.map(square.call(3), [1])  # type: ignore[arg-type]
    await ctx.approval(5)  # type: ignore[arg-type]
    await ctx.event("paid", "int")  # type: ignore[arg-type]
    await ctx.send(flow, "paid")  # type: ignore[arg-type]
    ctx.compensate(square)  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    found["text"] = (await ctx.approval("Go on?")).who  # type: ignore[attr-defined]
    found["text"] = (await ctx.event("paid", int)).upper()  # type: ignore[attr-defined]
