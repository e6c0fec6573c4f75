"""`app.test()`: a job at once, in this process, with its conversions, retries and logs."""

import asyncio
import logging
import sys
import threading
from datetime import date, timedelta
from typing import Any

import pytest

import interlock as il
from interlock.error import BadPayload, NotConnected, NotJson, UnknownJob

app = il.App()


@app.job("report")
async def report(ctx: il.Context, day: date, pages: int = 1) -> list[date]:
    ctx.log(f"{pages} pages of {day:%A}")
    return [day + timedelta(days=page) for page in range(pages)]


@app.job("flaky", retry=il.Retry(max_retries=3))
async def flaky(ctx: il.Context, failures: int) -> int:
    ctx.log(f"attempt {ctx.attempt} after {ctx.last_checkpoint}")
    ctx.checkpoint(ctx.attempt)
    await asyncio.sleep(3600)
    if ctx.attempt <= failures:
        raise OSError("the printer is on fire")
    return ctx.attempt


@app.job("fatal", retry=il.Retry(max_retries=3))
def fatal() -> None:
    raise il.Fatal("no such customer")


@app.job("nightly", schedule=il.cron("0 2 * * *"))
def nightly() -> None:
    raise OSError("disk full")


@app.job("wrong")
def wrong(kind: str) -> Any:
    return asyncio.sleep(0) if kind == "coroutine" else {"set": {1, 2}, "object": object()}[kind]


@app.job("misfit")
def misfit() -> int:
    return "three"  # type: ignore[return-value]


@app.job("nested")
def nested(value: int) -> int:
    async def add() -> int:
        return value + 1

    return asyncio.run(add())


@app.job("parent")
async def parent() -> list[str]:
    child = await report.submit(day=date(2030, 1, 1))
    return [f"{day:%d.%m.%Y}" for day in await child.result()]


@app.job("hung")
async def hung() -> None:
    await asyncio.Event().wait()


@app.job("slow", max_runtime="10m", grace="1s")
async def slow() -> None:
    await asyncio.sleep(86400)


@app.job("outside")
async def outside() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


@app.job("threads")
async def threads(ctx: il.Context) -> bool:
    here = threading.get_ident()
    there = await asyncio.gather(*[asyncio.to_thread(work, ctx, number) for number in range(3)])
    return here not in there


@app.job("talkative")
async def talkative(ctx: il.Context) -> Any:
    ctx.log("one")
    print("two\nthr", end="")  # noqa: T201 - the output under test
    await asyncio.gather(asyncio.to_thread(logging.getLogger("shop").info, "four %d", 4), asyncio.sleep(1))
    print("ee\nfive", end="")  # noqa: T201 - as above
    print("six", file=sys.stderr)  # noqa: T201 - as above
    logging.getLogger("shop").debug("not a line")
    return ctx.state


def work(ctx: il.Context, number: int) -> int:
    ctx.log(f"part {number}")
    return threading.get_ident()


def test_printed_and_logged_lines_are_in_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    run = app.test(talkative.call(), state={"pool": 1})
    assert run.result == {"pool": 1}
    assert [(line.level, line.logger, line.text) for line in run.lines] == [
        ("info", "", "one"), ("info", "stdout", "two"), ("info", "shop", "four 4"), ("info", "stdout", "three"),
        ("warning", "stderr", "six"), ("info", "stdout", "five"),
    ]  # fmt: skip
    assert capsys.readouterr().out == "two\nthree\nfive"
    print("outside")  # noqa: T201 - it is in no run
    assert capsys.readouterr().out == "outside\n"


def test_it_returns_the_result_as_annotated() -> None:
    run = app.test(report.call(date(2030, 1, 31), pages=2))
    assert run.result == [date(2030, 1, 31), date(2030, 2, 1)]
    assert run.state is il.State.SUCCEEDED
    assert (run.attempts, run.delays, run.error) == (1, [], None)
    assert [(line.level, line.text) for line in run.lines] == [("info", "2 pages of Thursday")]


def test_by_its_name_the_payload_is_what_json_makes_of_it() -> None:
    run = app.test("report", {"day": "2030-01-31"})
    assert run.result == ["2030-01-31"]


@pytest.mark.behaviour("RET-1", "RET-2")
def test_it_is_retried_after_its_delays_on_virtual_time() -> None:
    run = app.test(flaky.call(2))
    assert run.result == 3
    assert (run.attempts, run.delays) == (3, [2.0, 4.0])
    assert [line.text for line in run.lines] == ["attempt 1 after None", "attempt 2 after 1", "attempt 3 after 2"]
    assert [line.attempt for line in run.lines] == [1, 2, 3]
    assert round(run.lines[1].at - run.lines[0].at) == 3602


def test_it_fails_without_a_retry_left() -> None:
    run = app.test(flaky.call(9))
    assert run.state is il.State.FAILED
    assert (run.attempts, run.delays) == (4, [2.0, 4.0, 8.0])
    assert run.error is not None
    assert run.error.rstrip().endswith("OSError: the printer is on fire")
    with pytest.raises(il.RunEnded) as caught:
        run.result  # noqa: B018 - it raises
    assert "on fire" in str(caught.value)


def test_a_fatal_failure_is_not_retried() -> None:
    run = app.test(fatal.call())
    assert (run.state, run.attempts, run.error) == (il.State.FAILED, 1, "no such customer")


def test_a_scheduled_job_has_its_retries_and_does_not_fire() -> None:
    run = app.test(nightly.call())
    assert (run.state, run.attempts) == (il.State.FAILED, 4)


@pytest.mark.parametrize(
    ("job", "payload", "error"),
    [
        ("report", {}, BadPayload),
        ("report", {"day": "yesterday"}, BadPayload),
        ("report", {"day": "2030-01-31", "page": 1}, BadPayload),
        ("report", {"day": object()}, NotJson),
        ("raport", {"day": "2030-01-31"}, UnknownJob),
    ],
)
def test_a_payload_that_would_be_refused_is_refused(job: str, payload: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        app.test(job, payload)
    assert len(app.connections) == 0


@pytest.mark.parametrize(("kind", "state"), [("set", "succeeded"), ("object", "failed"), ("coroutine", "failed")])
def test_a_result_that_cannot_be_carried_fails_the_run(kind: str, state: str) -> None:
    assert app.test(wrong.call(kind)).state == state


def test_a_result_that_does_not_fit_is_kept_with_a_warning() -> None:
    run = app.test(misfit.call())
    assert run.state is il.State.SUCCEEDED
    assert [line.level for line in run.lines] == ["warning"]
    with pytest.raises(il.BadResult):
        run.result  # noqa: B018 - it raises


def test_a_blocking_function_may_run_a_loop_of_its_own() -> None:
    assert app.test(nested.call(2)).result == 3


def test_it_works_in_an_async_test() -> None:
    async def test() -> None:
        assert app.test(flaky.call(1)).result == 2
        assert app.test(nested.call(2)).result == 3
        with pytest.raises(NotConnected):
            await flaky.submit(1)

    asyncio.run(test())


def test_it_may_submit_other_jobs() -> None:
    assert app.test(parent.call()).result == ["01.01.2030"]


def test_time_stands_still_while_a_thread_works() -> None:
    run = app.test(threads.call())
    assert run.result is True
    assert sorted(line.text for line in run.lines) == ["part 0", "part 1", "part 2"]


def test_a_run_that_takes_too_long_times_out() -> None:
    assert app.test(slow.call()).state is il.State.TIMEOUT
    assert app.test(flaky.options(deadline="30m").call(0)).state is il.State.TIMEOUT


def test_a_run_that_never_ends_is_an_error() -> None:
    with pytest.raises(il.WaitTimeout):
        app.test(hung.call()).result  # noqa: B018 - it raises


def test_sockets_are_refused_in_plain_words() -> None:
    run = app.test(outside.call())
    assert run.state is il.State.FAILED
    assert "NotVirtual" in str(run.error)
    assert "testing.context()" in str(run.error)
