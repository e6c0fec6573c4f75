"""Heartbeats of real workers, and workers that stand still."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.client.handle import RunHandle
from interlock.config import Settings
from interlock.core.attempts.silence import Silence
from interlock.wiring.scheduler import Scheduler
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, tell_to_go, until, until_running, until_true
from tests.helpers.server import JOBS, tree_of

S = il.State


@asynccontextmanager
async def scheduler_in(folder: Path, heartbeat: float, workers: int = 1) -> AsyncIterator[Scheduler]:
    """A scheduler whose state the test can see, with real workers."""
    settings = Settings(
        database=str(folder / "interlock.db"), workers=workers, heartbeat=heartbeat, drain=1.0, http="off"
    )
    scheduler = Scheduler(app.definitions, JOBS, settings)
    await scheduler.start()
    try:
        async with app.connected(str(settings.socket_path())):
            await until(lambda: len(scheduler.engine.state.workers) == workers, "the workers are there")
            yield scheduler
    finally:
        await scheduler.stop()


async def worker_of(run: RunHandle[Any]) -> int:
    """The process of the worker that has this run, as its id tells."""
    worker_id = (await run.info()).worker_id
    assert worker_id is not None
    return int(worker_id.split("-")[1])


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.behaviour("LIV-1", "EXE-1")
@pytest.mark.parametrize("job", ["busy", "block.loop"])
async def test_busy_work_never_looks_dead(folder: Path, job: str) -> None:
    """It beats for longer than the silence that would make it lost."""
    async with app.running(str(folder / "interlock.db"), heartbeat=0.7):
        run = await app.submit(job, {"folder": str(folder), "name": "work"})

        async def beaten() -> bool:
            return (await run.info()).heartbeats >= 5

        await until_true(beaten, "five heartbeats")
        info = await run.info()
        assert (info.state, info.attempt, info.crashes) == (S.RUNNING, 1, 0)
        tell_to_go(folder, "work")
        assert await run.result(30)
        assert (await run.stats()).heartbeats >= 5


@pytest.mark.behaviour("LIV-2", "LIV-3", "RUN-7", "RET-5")
async def test_a_worker_that_stood_still_finds_its_work_taken_over(folder: Path) -> None:
    async with scheduler_in(folder, heartbeat=0.7, workers=2):
        run = await app.submit("hold", {"folder": str(folder), "name": "work"})
        await until(lambda: lines_of(folder / "work.started"), "it has started")
        await until_running(run)
        first = await worker_of(run)
        stopped = tree_of(first)
        signal_all(stopped, signal.SIGSTOP)
        try:
            await until(lambda: len(lines_of(folder / "work.started")) == 2, "it has started elsewhere")
            info = await run.info()
            assert (info.attempt, info.crashes) == (2, 1)
            assert await worker_of(run) != first
            assert not lines_of(folder / "work.stopped")
        finally:
            signal_all(stopped, signal.SIGCONT)
        await until(lambda: lines_of(folder / "work.stopped"), "the old work stops by itself")
        assert lines_of(folder / "work.stopped") == ["1 stale"]
        await until_running(run)
        assert (await run.info()).attempt == 2
        tell_to_go(folder, "work")
        assert await run.result(30) == 2
        assert lines_of(folder / "work.ended") == ["2"]


@pytest.mark.behaviour("LIV-2", "RUN-7", "RUN-8")
async def test_a_late_result_changes_nothing(folder: Path) -> None:
    """The worker stands still while its executor finishes: the result arrives when another attempt has it all done."""
    async with scheduler_in(folder, heartbeat=0.7, workers=2) as scheduler:
        run = await app.submit("hold", {"folder": str(folder), "name": "work"})
        await until(lambda: lines_of(folder / "work.started"), "it has started")
        await until_running(run)
        first = await worker_of(run)
        os.kill(first, signal.SIGSTOP)
        try:
            await until(lambda: len(lines_of(folder / "work.started")) == 2, "it has started elsewhere")
            tell_to_go(folder, "work")
            assert await run.result(30) == 2
            await until(lambda: len(lines_of(folder / "work.ended")) == 2, "both have ended")
            before, ended = await run.info(), dict(scheduler.engine.metrics.ended)
            stale = scheduler.engine.state.of(Silence).stale_messages
        finally:
            os.kill(first, signal.SIGCONT)
        await until(
            lambda: scheduler.engine.state.of(Silence).stale_messages > stale, "the late result is counted as stale"
        )
        # Its worker is of use again, and nothing about the run has changed.
        assert await (await app.submit("echo", {"value": 1})).result(30) == 1
        assert await run.info() == before
        assert await run.result(30) == 2
        assert scheduler.engine.metrics.ended == {**ended, "succeeded": ended["succeeded"] + 1}


@pytest.mark.behaviour("RET-5", "EXE-1")
async def test_an_executor_that_is_killed_is_replaced(folder: Path) -> None:
    async with scheduler_in(folder, heartbeat=10.0):
        run = await app.submit("hold.thread", {"folder": str(folder), "name": "work"})
        await until(lambda: lines_of(folder / "work.started"), "it has started")
        await until_running(run)
        first = await worker_of(run)
        os.kill(int(lines_of(folder / "work.started")[0].split()[1]), signal.SIGKILL)
        await until(lambda: len(lines_of(folder / "work.started")) == 2, "it has started again")
        assert await worker_of(run) == first
        tell_to_go(folder, "work")
        assert await run.result(30) == 2
        assert (await run.info()).exit_code is None
