"""The measurements of Interlock: each function takes one and returns its figure."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from interlock import runtime
from interlock.bench.http_load import post
from interlock.bench.jobs import app
from interlock.bench.report import Measure
from interlock.bench.server import Server, running
from interlock.interface.run_builder import new_run
from interlock.wire.request import NewRun

BATCH = 100
WARM = 500  # requests before the clock starts
CONNECTIONS = 64
PAUSE = 0.005  # seconds of rest between two measurements on an idle system
OUTSTANDING = 10  # batches a client has under way at once
ONE = '{"job":"bench.noop"}'


def interlock(runs: int, waiting: int) -> dict[str, Measure]:
    """Return the measures that need nothing but Interlock."""
    return {
        "end_to_end": Measure("Interlock end to end, synced", "runs/s", lambda folder: end_to_end(folder, runs)),
        "latency": Measure("submit to start, idle, p50", "ms", lambda folder: idle_latency(folder, 200)),
        "http_submits": Measure(
            "submit over HTTP, one a request", "runs/s", lambda folder: single_submits(folder, max(1, runs // 3))
        ),
        "memory": Measure(
            f"memory of a waiting run ({waiting:,})", "bytes", lambda folder: memory_per_waiting_run(folder, waiting)
        ),
    }


def end_to_end(folder: Path, runs: int) -> float:
    """Return runs a second from the first submit to the last stored result."""
    with running(folder, workers=1) as server:
        return throughput(server, runs)


def throughput(server: Server, runs: int, job: str = "bench.noop") -> float:
    rate = runtime.run(_stream(server, runs, job))
    server.check("succeeded", runs + BATCH)
    return rate


async def _stream(server: Server, runs: int, job: str) -> float:
    async with app.connected(server.socket):
        await submit_batches(BATCH, lambda: new_run(job))
        await _until_ended(server)
        begin = time.perf_counter()
        await submit_batches(runs, lambda: new_run(job))
        await _until_ended(server)
        return runs / (time.perf_counter() - begin)


async def submit_batches(runs: int, make: Callable[[], NewRun] = lambda: new_run("bench.noop")) -> None:
    """Submit a hundred at a time, some batches under way at once."""
    slots = asyncio.Semaphore(OUTSTANDING)

    async def submit(size: int) -> None:
        async with slots:
            await app.submit_many([make() for _ in range(size)])

    await asyncio.gather(*(submit(min(BATCH, runs - start)) for start in range(0, runs, BATCH)))


async def _until_ended(server: Server) -> None:
    while not server.all_ended():  # noqa: ASYNC110 - it is another process that ends them
        await asyncio.sleep(0.01)


def idle_latency(folder: Path, runs: int) -> list[float]:
    """Return milliseconds from submit to the first line of the handler, one run at a time on an idle system."""
    with running(folder, workers=1) as server:
        return runtime.run(_one_by_one(server, runs))


async def _one_by_one(server: Server, runs: int) -> list[float]:
    took = []
    async with app.connected(server.socket):
        for number in range(runs + 20):
            begin = time.monotonic_ns()
            run = await app.submit("bench.began")
            began = await run.result(timeout=30)
            if number >= 20:
                took.append((began - begin) / 1e6)
            await asyncio.sleep(PAUSE)
    return took


def single_submits(folder: Path, requests: int) -> float:
    """Return runs a second, each submitted by its own request and durable when answered."""
    with running(folder, workers=0, http=True) as server:
        post(server.port, "/api/v1/runs", ONE, WARM, CONNECTIONS)
        rate = post(server.port, "/api/v1/runs", ONE, requests, CONNECTIONS)
        server.check("scheduled", requests + WARM)
        return rate


def memory_per_waiting_run(folder: Path, runs: int) -> float:
    """Return the bytes by which the scheduler grows for each waiting run."""
    with running(folder, workers=0) as server:
        return runtime.run(_pile_up(server, runs))


async def _pile_up(server: Server, runs: int) -> float:
    async with app.connected(server.socket):
        await app.submit_many([("bench.noop", None)] * 1000)
        before = server.resident()
        for start in range(0, runs, 1000):
            await app.submit_many([("bench.noop", None)] * min(1000, runs - start))
        return (server.resident() - before) / runs
