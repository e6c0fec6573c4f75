"""A whole scheduler in memory, on virtual time."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

import interlock as il
from interlock import testing
from interlock.error import BadDuration, UnknownJob
from interlock.testing.fixtures import scheduler

__all__ = ["scheduler"]

MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)
app = il.App()


@app.job("minutely", schedule=il.cron("* * * * *"))
async def minutely() -> None:
    await asyncio.sleep(1)


@app.job("paris", schedule=il.cron("30 2 * * *", tz="Europe/Paris"))
def paris() -> None: ...


@app.job("overlong", schedule=il.every("10m"))
async def overlong() -> None:
    await asyncio.sleep(1500)


@app.job("work", lane="own")
async def work(ctx: il.Context, seconds: float = 60.0) -> str:
    try:
        await asyncio.sleep(seconds)
    finally:
        ctx.log("cleaned up")
    return ctx.run_id


@app.job("stubborn", grace="5s")
async def stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@pytest.fixture
def interlock_app() -> il.App:
    return app


def test_a_day_of_a_minutely_job(scheduler: testing.VirtualScheduler) -> None:
    scheduler.advance("1d")
    assert scheduler.fired("minutely") == [MIDNIGHT + timedelta(minutes=one) for one in range(1, 1441)]
    assert scheduler.now == MIDNIGHT + timedelta(days=1)
    # The last one began at this very instant.
    ended = [run.state for run in scheduler.runs("minutely")]
    assert ended == [il.State.SUCCEEDED] * 1439 + [il.State.RUNNING]


def test_the_instant_at_the_end_is_included_and_the_next_is_not(scheduler: testing.VirtualScheduler) -> None:
    scheduler.advance("59999ms")
    assert scheduler.fired("minutely") == []
    scheduler.advance("1ms")
    assert scheduler.fired("minutely") == [MIDNIGHT + timedelta(minutes=1)]
    scheduler.advance(timedelta(minutes=1))
    assert len(scheduler.fired("minutely")) == 2
    assert scheduler.now == MIDNIGHT + timedelta(minutes=2)


def test_clock_changes_from_any_start() -> None:
    # On 29 March 2026, 02:30 does not exist in Paris: it runs when the clock has jumped to 03:00.
    with testing.scheduler(app, "2026-03-28T12:00:00Z") as scheduler:
        scheduler.advance("2d")
        fired = scheduler.fired("paris")
    assert [f"{at:%d %H:%M}" for at in fired] == ["29 01:00", "30 00:30"]


def test_an_overlong_run_makes_later_times_wait_or_be_missed(scheduler: testing.VirtualScheduler) -> None:
    scheduler.advance("1h")
    states = [run.state for run in scheduler.runs("overlong")]
    assert il.State.SKIPPED in states
    assert len(scheduler.fired("overlong")) < len(states)


def test_a_paused_schedule_does_not_fire(scheduler: testing.VirtualScheduler) -> None:
    scheduler.advance("2m")
    scheduler.pause("minutely")
    scheduler.advance("10m")
    assert len(scheduler.fired("minutely")) == 2
    scheduler.resume("minutely")
    scheduler.advance("2m")
    assert scheduler.fired("minutely")[-1] == MIDNIGHT + timedelta(minutes=14)
    assert len(scheduler.fired("minutely")) in (4, 5)  # the latest missed occurrence may be caught up


def test_a_submit_is_followed_by_its_handle(scheduler: testing.VirtualScheduler) -> None:
    handle = scheduler.submit(work.call(30.0))
    assert handle.state() is il.State.RUNNING
    assert scheduler.now == MIDNIGHT
    assert handle.result() == handle.id
    assert scheduler.now == MIDNIGHT + timedelta(seconds=30)
    assert [line.text for line in scheduler.handle(handle.id).logs()] == ["cleaned up"]


def test_many_runs_are_awaited_together(scheduler: testing.VirtualScheduler) -> None:
    handles = [scheduler.submit(work.call(seconds)) for seconds in (30.0, 10.0, 20.0)]
    assert [handle.id for handle in il.as_completed(handles)] == [handles[place].id for place in (1, 2, 0)]
    assert il.gather(*handles) == [handle.id for handle in handles]
    assert scheduler.now == MIDNIGHT + timedelta(seconds=30)


def test_options_count_from_virtual_time(scheduler: testing.VirtualScheduler) -> None:
    scheduler.advance("1h")
    later = scheduler.submit(work.options(delay="5m").call(1.0))
    late = scheduler.submit("work", {"seconds": 90.0}, deadline="1m")
    assert late.wait() is il.State.TIMEOUT
    assert scheduler.now == MIDNIGHT + timedelta(minutes=61)
    assert later.state() is il.State.PRERUN
    scheduler.advance("5m")
    assert later.state() is il.State.SUCCEEDED
    assert later.info().started_at == pytest.approx(MIDNIGHT.timestamp() + 65 * 60, abs=0.01)


def test_a_running_run_is_cancelled(scheduler: testing.VirtualScheduler) -> None:
    handle = scheduler.submit(work.call(3600.0))
    scheduler.advance("1m")
    handle.cancel("not needed")
    assert handle.wait() is il.State.CANCELLED
    assert scheduler.now < MIDNIGHT + timedelta(minutes=2)
    assert [line.text for line in handle.logs()] == ["cleaned up"]


def test_a_run_that_ignores_its_stop_is_given_up_after_its_grace(scheduler: testing.VirtualScheduler) -> None:
    handle = scheduler.submit("stubborn")
    scheduler.advance("1m")
    handle.cancel()
    assert handle.wait() is il.State.CANCELLED
    assert scheduler.now == MIDNIGHT + timedelta(seconds=65)


def test_it_works_in_an_async_test(scheduler: testing.VirtualScheduler) -> None:
    async def test() -> str:
        scheduler.advance("1m")
        return scheduler.submit(work.call(5.0)).result()

    assert asyncio.run(test()) == scheduler.runs("work")[0].id


def test_it_ends_with_runs_under_way_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), testing.scheduler(app) as scheduler:
        scheduler.submit(work.call(3600.0))
        scheduler.submit("work", {"seconds": 1.0}, delay="1h")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert len(app.connections) == 0


def test_bad_input_is_refused(scheduler: testing.VirtualScheduler) -> None:
    with pytest.raises(BadDuration, match=r"^duration"):
        scheduler.advance("tomorrow")
    with pytest.raises(BadDuration, match=r"^duration"):
        scheduler.advance(-1)
    for call in (scheduler.pause, scheduler.runs, scheduler.fired):
        with pytest.raises(UnknownJob):
            call("minutly")
    with pytest.raises(il.InterlockError, match=r"^start"):
        testing.VirtualScheduler(app, "noon")


def test_a_scheduler_that_breaks_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    scheduler = testing.VirtualScheduler(app)
    monkeypatch.setattr(scheduler._store, "commit", fail)
    with pytest.raises(il.InterlockError, match="ZeroDivisionError"):
        scheduler.advance("1h")
    with pytest.raises(il.InterlockError, match="ZeroDivisionError"):
        scheduler.close()
    assert len(app.connections) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_function_prints_is_in_the_log_of_its_run(is_async: bool) -> None:
    app = il.App()

    def say() -> None:
        print("one\ntwo")  # noqa: T201 - the output under test

    async def say_async() -> None:
        say()

    app.job("say")(say_async if is_async else say)
    with testing.scheduler(app) as scheduler:
        run = scheduler.submit("say", {})
        run.result()
        assert [line.text for line in run.logs()] == ["one", "two"]
