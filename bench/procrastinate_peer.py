"""Procrastinate on PostgreSQL: one client defers in batches, one worker process executes. Each measurement has a new
server."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

from bench import postgres_server
from bench.postgres_server import server
from interlock.bench.measures import BATCH, OUTSTANDING
from interlock.bench.server import started
from interlock.error import InterlockError

NEEDS = ("procrastinate", "psycopg", *postgres_server.NEEDS)
CONCURRENCY = 100  # jobs that the worker executes at once; it fetches them one by one
MOST = 5000  # jobs in one measurement
LIMIT = 300.0


def end_to_end(folder: Path, runs: int) -> float:
    """Jobs a second from the first batch until the end of the last is stored."""
    with server(folder) as host:
        return asyncio.run(_measure(host, min(runs, MOST)))


async def _measure(host: str, jobs: int) -> float:
    app, noop = make(host)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        slots = asyncio.Semaphore(OUTSTANDING)

        async def defer(size: int) -> None:
            async with slots:
                await noop.batch_defer_async(*({} for _ in range(size)))

        async def count(state: str) -> int:
            query = f"SELECT count(*) AS found FROM procrastinate_jobs WHERE status {state}"
            return int((await app.connector.execute_query_one_async(query))["found"])

        async def until_done() -> None:
            while await count("IN ('todo', 'doing')"):  # noqa: ASYNC110 - another process ends them
                await asyncio.sleep(0.01)

        with started([sys.executable, "-m", "bench.procrastinate_peer", host], signal.SIGTERM):
            async with asyncio.timeout(LIMIT):
                await defer(BATCH)
                await until_done()
                begin = time.perf_counter()
                await asyncio.gather(*(defer(min(BATCH, jobs - start)) for start in range(0, jobs, BATCH)))
                await until_done()
                took = time.perf_counter() - begin
        done = await count("= 'succeeded'")
    if done != jobs + BATCH:
        raise InterlockError(f"bench: {done} of {jobs + BATCH} jobs of Procrastinate succeeded")
    return jobs / took


def make(host: str) -> tuple[Any, Any]:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=f"host={host} user=postgres dbname=postgres"))

    async def noop() -> None:
        pass

    return app, app.task(name="noop")(noop)


async def work(host: str) -> None:
    app, _ = make(host)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
