"""Programs that use the jobs, and mistakes that type checkers must refuse."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, assert_type

import interlock as il
from tests.typed.sample.jobs import Report, Style, app, chat, halve, report, square, stop

DAY = date(2026, 1, 2)


def exit_with(command: Sequence[str], payload: Mapping[str, Any]) -> int:
    return len(payload)


def test_at_once() -> None:
    run = assert_type(app.test(report.call(DAY, pages=3), state=1), il.testing.FinishedRun[Report])
    assert_type(run.result, Report)
    assert_type(app.test("report", {"day": "2026-01-02"}).result, Any)
    with il.testing.scheduler(app) as scheduler:
        assert_type(scheduler.submit(square.call(3), actor="ada").result(), int)
    acme: il.TenantFields = {"max_running": 1, "rate": "5/s"}
    rules = [{"id": "ask", "decision": "require_approval"}]
    with il.testing.scheduler(
        app, files=[Path("jobs.yaml")], policy={"rules": rules}, tenants={"acme": acme}, program=exit_with
    ) as scheduler:
        asked = scheduler.submit("square", {"number": 3}, tenant="acme", actor="ada")
        assert_type(scheduler.approve(asked.id, "checked", actor="ann"), il.State)
        scheduler.approve(asked.id, "checked")  # type: ignore[call-arg]
    il.testing.scheduler(app, tenants={"acme": {"max": 1}})  # type: ignore[typeddict-unknown-key]
    app.test(report.call(DAY), 3)  # type: ignore[call-overload]


async def submit_from_an_async_program() -> None:
    assert_type(await report(il.testing.context(attempt=2), DAY), Report)
    run = assert_type(await report.submit(DAY, pages=3, style=Style.LONG), il.RunHandle[Report])
    found = assert_type(await run.result("30s"), Report)
    assert_type(found.day, date)
    assert_type(await (await square.submit(3)).result(), int)
    assert_type(await (await halve.options(delay="5m", key="k").submit(number=3)).result(), float)
    assert_type(await report.submit_many([report.call(DAY), {"day": DAY}]), list[il.RunHandle[Report]])
    assert_type(await app.submit(report.options(lane="cron").call(DAY)), il.RunHandle[Report])
    assert_type(await app.submit("report", {"day": "2026-01-02"}), il.RunHandle[Any])
    assert_type(await app.submit_many([square.call(1), square.call(2)]), list[il.RunHandle[int]])
    assert_type(await report.handle("run"), il.RunHandle[Report])
    assert_type(await (await stop.submit()).result(), None)


async def wait_for_many(client: il.Client) -> None:
    runs = await square.submit_many([{"number": 1}])
    assert_type(await il.gather(*runs), list[int])
    assert_type(await il.gather(*runs, return_exceptions=True), list[int | il.InterlockError])
    async for run in il.as_completed(runs):
        assert_type(await run.result(), int)
    async for number in app.map(square, [1, 2], max_parallel=5):
        assert_type(number, int)
    async for page in app.map(report.options(lane="cron"), [{"day": DAY}], return_exceptions=True):
        assert_type(page, Report | il.InterlockError)
    blocking = client.submit_many([square.call(1)])
    assert_type(il.gather(*blocking), list[int])
    assert_type(il.gather(*blocking, return_exceptions=True), list[int | il.InterlockError])
    for one in il.as_completed(blocking):
        assert_type(one.result(), int)


async def submit_over_http(client: il.AsyncClient) -> None:
    assert_type(await client.submit(report.call(DAY)), il.RunHandle[Report])
    assert_type(await client.submit_many([report.call(DAY)]), list[il.RunHandle[Report]])
    assert_type(client.handle("run", report), il.RunHandle[Report])
    assert_type(client.handle("run"), il.RunHandle[Any])


def submit_from_a_blocking_program(client: il.Client) -> None:
    call = assert_type(report.call(DAY, pages=3), il.Call[Report])
    assert_type(client.handle("run", square).result(), int)
    client.handle("run", "square")  # type: ignore[call-overload]
    assert_type(client.submit(call).result(timeout="30s").pages, int)
    assert_type(client.submit_many([square.call(1)])[0].result(), int)


async def call_the_functions(ctx: il.Context) -> None:
    assert_type(square(3), int)
    assert_type(await halve(3), float)
    assert_type(await report(ctx, DAY, 2), Report)
    assert_type(stop(ctx), None)
    assert_type(await chat(il.testing.context(payloads=[{"text": "a"}, {"text": "b"}]), "b"), int)
    assert_type(ctx.payloads, list[dict[str, Any]])
    assert_type(ctx.session, str | None)
    assert_type(ctx.usage(600, 1000), None)


def take(job: il.JobFunction[[int], int]) -> str:
    return job.id


async def mistakes(client: il.Client, ctx: il.Context) -> None:
    take(square)
    take(halve)  # type: ignore[arg-type]
    ctx.usage(600)  # type: ignore[call-arg]
    await report.submit()  # type: ignore[call-arg]
    await report.submit("2026-01-02")  # type: ignore[arg-type]
    await report.submit(DAY, page=3)  # type: ignore[call-arg]
    await report.submit(ctx, DAY)  # type: ignore[arg-type]
    await report.options(dealy="5m").submit(DAY)  # type: ignore[call-arg]
    await report.options(delay=[]).submit(DAY)  # type: ignore[arg-type]
    await report.submit_many([square.call(1)])  # type: ignore[list-item]
    app.map(square, 5)  # type: ignore[call-overload]
    app.map(square, [1], max_parallel="5")  # type: ignore[call-overload]
    await il.gather(*client.submit_many([square.call(1)]))  # type: ignore[misc]
    await square.submit(3, 4)  # type: ignore[call-arg]
    client.submit(square.call("3"))  # type: ignore[arg-type]
    client.submit(square.call(3), delay="5m")  # type: ignore[call-overload]
    square("3")  # type: ignore[arg-type]
    app.job("chat", merge=len)  # type: ignore[arg-type]
    app.job("chat", limit={"max": 1})  # type: ignore[arg-type]
    await report(DAY)  # type: ignore[arg-type, call-arg]
    text: str = client.submit(square.call(3)).result()  # type: ignore[assignment]
    print(text)  # noqa: T201 - the value must be used
