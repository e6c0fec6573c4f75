"""Handlers with unusual results, exceptions, processes or submits: each run ends, and no other is harmed."""

import asyncio
import os
from pathlib import Path

import pytest

from interlock.config import Settings
from interlock.error import InterlockError, RunEnded
from interlock.model.state import State
from interlock.wiring.scheduler import Scheduler
from tests.helpers.jobs import app
from tests.helpers.places import until, until_running, until_true
from tests.helpers.server import JOBS, Command, Server


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_texts_that_are_no_unicode_travel_all_the_same(server: Server) -> None:
    async with app.connected(str(server.socket)):
        with pytest.raises(RunEnded, match="cannot open"):
            await (await app.submit("fatal.surrogate")).result(timeout=30)
        run = await app.submit("odd.log")
        assert await run.result(timeout=30) == "fine"
        (line,) = await run.logs()
        assert line.level == "20"
        assert line.text.startswith("said ")


@pytest.mark.behaviour("EXE-1")
async def test_a_handler_that_ends_the_loop_or_forks_or_returns_a_coroutine_ends_as_something(server: Server) -> None:
    async with app.connected(str(server.socket)):
        ends_loop = await app.submit("exit.task")
        assert await ends_loop.wait(timeout=50) is State.ORPHANED
        assert await (await app.submit("forks")).result(timeout=30) == "the original"
        with pytest.raises(RunEnded, match="async def"):
            await (await app.submit("returns.coroutine")).result(timeout=30)
        assert await (await app.submit("echo", {"value": 1})).result(timeout=30) == 1


@pytest.mark.behaviour("EXE-1", "RET-2")
@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("fatal.mute", "Mute"),
        ("fatal.mute.thread", "Mute"),
        ("returns.unbound", "RuntimeError: nothing is bound"),
        ("raises.with.note", "in line two"),
        ("raises.group", "ExceptionGroup: both (2 sub-exceptions)"),
        ("raises.cancelled", "asyncio.exceptions.CancelledError: by itself"),
        ("raises.cancelled.thread", "asyncio.exceptions.CancelledError: by itself"),
        ("awaits.cancelled", "asyncio.exceptions.CancelledError: of its own"),
    ],
)
async def test_whatever_is_raised_is_told_in_one_line(server: Server, job: str, why: str) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit(job)
        with pytest.raises(RunEnded) as caught:
            await run.result(timeout=30)
        assert str(caught.value) == f"run {run.id} ended as failed: {why}"
        await until(lambda: f"run ended as failed: {why}" in server.said, "it is logged")
        error = (await run.info()).error or ""
        assert ("see the manual" in error) == (job == "raises.with.note")
        assert ("TypeError: the second" in error) == (job == "raises.group")


async def test_a_blocking_handler_may_submit_with_a_loop_of_its_own_each_time(server: Server) -> None:
    async with app.connected(str(server.socket)):
        ids = await (await app.submit("submits.blocking", {"times": 3})).result(timeout=30)
        assert [await (await app.handle(one)).result(timeout=30) for one in ids] == [1, 1, 1]


@pytest.mark.behaviour("RUN-11")
async def test_what_a_handler_left_behind_is_gone_once_it_was_cancelled(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("leaves.process", {"folder": str(folder), "name": "pid"})
        await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(), "it has started a process")
        left = int((folder / "pid").read_text())
        await until_running(run)
        assert alive(left)
        await run.cancel()
        # It ended in good order, so its outcome is a success; what it had started goes with it all the same.
        await run.wait(timeout=30)
        await until(lambda: not alive(left), "what it had started is gone")


@pytest.mark.behaviour("EXE-1", "RUN-11")
async def test_a_neighbour_of_work_that_had_to_be_killed_is_run_again_and_counts_no_crash(
    server: Server, folder: Path
) -> None:
    async with app.connected(str(server.socket)):
        deaf = await app.submit("deaf", {"folder": str(folder), "name": "deaf"})
        innocent = await app.submit("innocent", {"folder": str(folder), "name": "innocent"})
        await until(lambda: (folder / "deaf").exists() and (folder / "innocent").exists(), "both run")
        await until_running(deaf)
        await until_running(innocent)
        await deaf.cancel()
        assert await deaf.wait(timeout=30) is State.CANCELLED
        await until(lambda: (folder / "innocent").read_text() == "began\nbegan\n", "the neighbour runs again")
        (folder / "innocent.go").touch()
        assert await innocent.result(timeout=30) == "done"
        assert (await innocent.info()).crashes == 0


@pytest.mark.behaviour("LIV-1")
async def test_a_worker_that_joins_beats_as_often_as_the_scheduler_wants(folder: Path) -> None:
    """One started by hand knows nothing of the scheduler's settings."""
    with Server(folder, "--workers", "0", "--heartbeat", "500ms") as server:
        worker = Command(folder, "interlock.cli", "worker", "-A", JOBS, "--socket", str(server.socket), name="worker")
        worker.begin()
        async with app.connected(str(server.socket)):
            run = await app.submit("hold", {"folder": str(folder), "name": "held"})
            await until_running(run)

            async def beaten() -> bool:
                return (await run.info()).heartbeats >= 4

            await until_true(beaten, "it beats every half second")
            (folder / "held.go").touch()
            await run.wait(timeout=30)
            info = await run.info()
            assert (info.crashes, info.attempt) == (0, 1)
        assert worker.stop() == 0


@pytest.mark.behaviour("RUN-11")
async def test_a_killed_worker_leaves_nothing_that_its_handlers_had_started(folder: Path) -> None:
    with Server(folder, "--drain", "1s") as server:
        async with app.connected(str(server.socket)):
            await app.submit("leaves.process", {"folder": str(folder), "name": "pid"})
            await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(), "it has started")
            left = int((folder / "pid").read_text())
            for pid in server.workers():
                os.kill(pid, 9)
            await until(lambda: not alive(left), "what it had started is gone")


async def test_giving_up_while_the_scheduler_starts_leaves_nothing(folder: Path) -> None:
    for delay in (0.0, 0.002, 0.02, 0.2):

        async def enter() -> None:
            async with app.running(str(folder / "given-up.db")):
                await asyncio.Event().wait()

        entering = asyncio.get_running_loop().create_task(enter())
        await asyncio.wait([entering], timeout=delay)
        entering.cancel()
        await asyncio.wait([entering], timeout=30)
        assert entering.done()
    async with app.running(str(folder / "given-up.db")):
        assert await (await app.submit("echo", {"value": 1})).result(timeout=30) == 1


async def test_a_socket_path_that_is_too_long_is_known_before_anything_starts(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    before = os.getcwd()
    os.chdir(deep)
    try:
        scheduler = Scheduler(app.definitions, JOBS, Settings(database="x.db", workers=0, http="off"))
        with pytest.raises(Exception, match="at most 107 bytes"):
            await scheduler.start()
    finally:
        os.chdir(before)


async def test_texts_that_cannot_travel_are_refused_where_they_are_given(server: Server) -> None:
    async with app.connected(str(server.socket)):
        fine = asyncio.ensure_future(app.submit("echo", {"value": 1}))
        for options in ({"session": "\udce9"}, {"idempotency_key": "\udce9"}, {"tenant": "\udce9"}):
            with pytest.raises(InterlockError, match=next(iter(options))):
                await app.submit("echo", **options)  # type: ignore[call-overload]
        run = await fine
        assert await run.result(timeout=30) == 1
        with pytest.raises(InterlockError, match="valid Unicode"):
            await run.cancel("\udce9")
        with pytest.raises(InterlockError, match="valid Unicode"):
            await (await app.handle("\udce9")).info()
