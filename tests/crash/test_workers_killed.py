"""kill -9 of workers, and of everything: nothing is lost, nothing ends twice."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import interlock as il
from interlock.model.message import NewRun
from interlock.model.state import State
from tests.helpers.invariants import check_database
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, until
from tests.helpers.processes import children_of
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
        async with app.connected(str(server.socket)):
            submitter = Submitter(make)
            going = asyncio.create_task(submitter.go_on())
            for _ in range(ROUNDS):
                goal = len(submitter.acknowledged) + chance.randint(1, 150)
                await until(lambda goal=goal: len(submitter.acknowledged) >= goal or going.done(), "submits go on")  # type: ignore[misc] # the default binds the goal
                assert not going.done()
                await kill_one(server, chance, kinds)
            submitter.stop()
            await going
            await submitter.all_ended()
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
