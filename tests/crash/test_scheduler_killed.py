"""kill -9 of the scheduler: what was promised is kept, and what was running goes on."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

import interlock as il
from interlock.model.state import State
from interlock.wire.request import NewRun
from tests.helpers.invariants import check_database
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, until
from tests.helpers.processes import alive, wait_until
from tests.helpers.server import JOBS, Command, Server
from tests.helpers.submitter import Submitter

ROUNDS = 6
COMMIT_POINTS = 10


@pytest.mark.behaviour("RUN-17", "LIV-4", "REC-6")
def test_at_random_moments_while_a_client_submits(folder: Path) -> None:
    """Only the scheduler dies, so every run that is known executes exactly once."""
    chance = random.Random(folder.name)
    server = Server(folder, "--workers", "2", "--drain", "10s")

    def make(number: int) -> list[NewRun]:
        runs = [il.run("count", {"folder": str(folder)}) for _ in range(chance.randint(1, 8))]
        return [*runs, il.run("flaky", {"failures": 1}), il.run("count", {"folder": str(folder)}, delay="50ms")]

    async def body() -> list[str]:
        server.start()
        async with app.connected(str(server.socket)), Submitter(make) as submitter:
            rounds = 0
            # Until a kill has also cut off an answer: on a busy machine each may come while the client rests.
            while rounds < ROUNDS or not submitter.broken:
                rounds += 1
                await submitter.reach(chance.randint(1, 150))
                await server.restart()
        return submitter.acknowledged

    try:
        acknowledged = run_async(body(), 120)
        server.wait_for_strays()
        assert server.stop() == 0
    finally:
        server.kill()
    states = check_database(server.database, acknowledged)
    executed = [line.split()[0] for line in lines_of(folder / "executions")]
    assert len(executed) == len(set(executed)), "a run was executed twice"
    counted = {run_id for run_id in acknowledged if run_id in set(executed)}
    assert all(states[run_id] is State.SUCCEEDED for run_id in counted)
    assert set(states.values()) == {State.SUCCEEDED}


@pytest.mark.behaviour("RUN-2", "RUN-12", "RUN-17", "RUN-6", "REC-6")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_at_every_commit(folder: Path, moment: str) -> None:
    """One start after another dies in its first, second, third … commit, while a client submits and a worker works."""
    server = Server(folder, "--workers", "0")
    worker = Command(folder, "interlock.cli", "worker", "-A", JOBS, "--socket", str(server.socket), name="worker")

    def make(number: int) -> list[NewRun]:
        key = f"batch-{number}"
        counting = [il.run("count", {"folder": str(folder)}, idempotency_key=f"{key}-{place}") for place in range(3)]
        return [*counting, il.run("flaky", {"failures": 1}, idempotency_key=f"{key}-flaky")]

    async def body() -> list[str]:
        server.start()
        worker.begin()
        async with app.connected(str(server.socket)):
            await (await app.submit("echo")).result(30)
            async with Submitter(make) as submitter:
                server.kill()
                for number in range(1, COMMIT_POINTS + 1):
                    server.begin("tests.helpers.crashing", str(server.database), moment, str(number))
                    assert server.process is not None
                    has_ended = server.process.poll
                    await until(lambda: has_ended() is not None or submitter.has_failed, "it kills itself")  # noqa: B023
                    assert server.ended() == -signal.SIGKILL, server.said
                await asyncio.to_thread(server.start)
                await submitter.reach(1)
        assert submitter.broken == 0
        return submitter.acknowledged

    try:
        acknowledged = run_async(body(), 300)  # twelve starts, and each wait has its own limit
        assert worker.stop() == 0
        assert server.stop() == 0
    finally:
        worker.kill()
        server.kill()
    states = check_database(server.database, acknowledged)
    assert set(states.values()) == {State.SUCCEEDED}
    executed = [line.split()[0] for line in lines_of(folder / "executions")]
    assert len(executed) == len(set(executed)), "a run was executed twice"
    # Every submit carried keys: asked again after a crash it found its runs, and created none beside the first echo.
    assert set(states) - set(acknowledged) == {min(states)}


def test_the_processes_of_a_killed_scheduler_are_not_left_alone(folder: Path) -> None:
    """Its workers live on for what they hold; started again, the scheduler sends those of before away."""
    server = Server(folder, "--workers", "2")
    server.start()
    try:

        async def body() -> None:
            async with app.connected(str(server.socket)):
                await (await app.submit("echo")).result(30)

        run_async(body())
        old = server.own_workers()
        server.kill()
        assert all(alive(pid) for pid in old)
        server.start()
        wait_until(lambda: not any(alive(pid) for pid in old), "the workers of before have left")
        run_async(body())
        assert server.stop() == 0
    finally:
        server.kill()
