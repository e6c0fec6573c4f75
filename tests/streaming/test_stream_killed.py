"""kill -9 of the scheduler and of the gateway in the middle of a stream: no gap, and nothing twice."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

import interlock as il
from tests.helpers.places import run_async, tell_to_go, until
from tests.helpers.server import Server
from tests.streaming.conftest import APP

STEP = 100  # chunks that are read between two deaths


@pytest.mark.behaviour("RUN-27", "REC-6", "LIV-4")
@pytest.mark.parametrize("victim", ["scheduler", "gateway"])
def test_no_gap_and_no_repeat(folder: Path, victim: str) -> None:
    server = Server(folder, "--drain", "10s", "--http", "local", target=APP)

    async def kill() -> None:
        if victim == "scheduler":
            await server.restart()
        else:
            before = server.gateway()
            os.kill(before, signal.SIGKILL)
            await until(lambda: not Path(f"/proc/{before}").exists(), "the gateway is gone")

    async def body() -> None:
        server.start()
        async with il.AsyncClient(f"unix:{server.http_socket}") as client:
            run = await client.submit("emit.on", {"folder": str(folder), "name": "enough"})
            other = await client.submit("emit.on", {"folder": str(folder), "name": "enough"})
            chunks: list[il.Chunk] = []

            async def read() -> None:
                async for chunk in run.stream():
                    chunks.append(chunk)

            reading = asyncio.create_task(read())
            for _ in range(3):
                goal = len(chunks) + STEP
                await until(lambda goal=goal: len(chunks) >= goal or reading.done(), "the stream goes on")  # type: ignore[misc] # the default binds the goal
                assert not reading.done()
                await kill()
            goal = len(chunks) + STEP
            await until(lambda: len(chunks) >= goal or reading.done(), "the stream goes on")
            tell_to_go(folder, "enough")
            await reading
            assert [chunk.value for chunk in chunks] == list(range(await run.result(30)))
            assert {chunk.attempt for chunk in chunks} == {1}, "its attempt went on"
            assert [chunk.value async for chunk in other.stream()] == list(range(await other.result(30)))
            assert [chunk async for chunk in run.stream(after=chunks[STEP].id)] == chunks[STEP + 1 :]

    try:
        run_async(body(), 120)
        server.wait_for_strays()
        assert server.stop() == 0
    finally:
        server.kill()
