"""kill -9 of workers, and of everything: nothing is lost, nothing ends twice."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import interlock as il
from interlock.model.state import State
from interlock.wire.request import NewRun
from tests.helpers.invariants import check_database
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until, until_running
from tests.helpers.processes import alive, children_of
from tests.helpers.server import Server
from tests.helpers.submitter import Submitter

ROUNDS = 6


async def kill_one(server: Server, chance: random.Random, kinds: str) -> None:
    """Kill a worker, one of its executors, or the scheduler, which is started again."""
    kind = chance.choice(kinds)
    if kind == "s":
        await server.restart()
        return
    workers = server.workers()
    if kind == "e":
        workers = [child for pid in workers for child in children_of(pid)]
    if workers:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)


@pytest.mark.behaviour("REC-6", "RUN-17", "RET-5", "EXE-1")
@pytest.mark.parametrize("kinds", ["we", "swe"])
def test_at_random_moments_while_a_client_submits(folder: Path, kinds: str) -> None:
    chance = random.Random(folder.name)
    server = Server(folder, "--workers", "2", "--drain", "10s", "--heartbeat", "1s")

    def make(number: int) -> list[NewRun]:
        count = {"folder": str(folder)}
        return [
            *(il.run("count", count) for _ in range(chance.randint(1, 8))),
            il.run("flaky", {"failures": 1}),
            il.run("echo.process", {"value": number}),
            il.run("count", count, idempotency_key=f"key-{number}"),
            il.run("count", count, occurrence=1_700_000_000 + number // 2),
        ]

    async def body() -> list[str]:
        server.start()
        async with app.connected(str(server.socket)), Submitter(make) as submitter:
            for _ in range(ROUNDS):
                await submitter.reach(chance.randint(1, 150))
                await kill_one(server, chance, kinds)
        return submitter.acknowledged

    try:
        acknowledged = run_async(body(), 120)
        server.wait_for_strays()
        assert server.stop() == 0
    finally:
        server.kill()
    states = check_database(server.database, acknowledged)
    assert set(states.values()) <= {State.SUCCEEDED, State.ORPHANED}
    executed = {line.split()[0] for line in lines_of(folder / "executions")}
    assert executed <= set(states), "something was executed that is not in the store"


@pytest.mark.behaviour("LIV-2", "LIV-4", "RET-5")
@pytest.mark.parametrize("moment", ["no scheduler is there", "the next one waits for it", "it is adopted"])
def test_the_end_of_a_worker_is_known_at_once_whichever_start_it_is_of(folder: Path, moment: str) -> None:
    """Silence would tell after five minutes."""
    server = Server(folder, "--heartbeat", "100s", "--log-level", "info")
    server.start()

    async def body() -> str:
        async with app.connected(str(server.socket)):
            run = await app.submit("hold.thread", {"folder": str(folder), "name": "work"})
            await until(lambda: lines_of(folder / "work.started"), "it has started")
            await until_running(run)
            (worker,) = server.workers()
            # One that is stopped cannot come back to the next scheduler.
            os.kill(worker, signal.SIGCONT if moment == "it is adopted" else signal.SIGSTOP)
            server.kill()
            if moment != "no scheduler is there":
                await asyncio.to_thread(server.start)
            if moment == "it is adopted":
                await until(lambda: "belongs to an earlier start" in server.said, "the worker is back")
            os.kill(worker, signal.SIGKILL)
            if moment == "no scheduler is there":
                await until(lambda: not alive(worker), "it is gone")
                await asyncio.to_thread(server.start)
            await until(lambda: len(lines_of(folder / "work.started")) == 2, "it has started again")
            tell_to_go(folder, "work")
            assert await run.result(30) == 2
            info = await run.info()
            assert (info.attempt, info.crashes) == (2, 1)
            return run.id

    try:
        run_id = run_async(body())
        assert server.stop() == 0
    finally:
        server.kill()
    assert lines_of(folder / "work.ended") == ["2"]
    check_database(server.database, [run_id])
