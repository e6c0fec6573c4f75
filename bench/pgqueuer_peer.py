"""PgQueuer on PostgreSQL: one client enqueues, one worker process executes. Each measurement has a new server."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench import postgres_server
from bench.postgres_server import server
from interlock.bench.measures import BATCH, OUTSTANDING
from interlock.bench.server import started
from interlock.error import InterlockError

NEEDS = ("pgqueuer", *postgres_server.NEEDS)
LIMIT = 300.0


class Tuning(NamedTuple):
    loop: str
    enqueue: int  # jobs that the client enqueues at once
    dequeue: int  # jobs that the worker takes at once


AS_IT_COMES = Tuning("asyncio", BATCH, 10)
TUNED = Tuning("uvloop", 1000, 1000)
LOOPS = {"asyncio": asyncio, "uvloop": uvloop}


def end_to_end(folder: Path, runs: int, tuning: Tuning) -> float:
    """Jobs a second from the first enqueue until the end of the last is stored."""
    with server(folder) as host:
        rate: float = LOOPS[tuning.loop].run(_measure(host, runs, tuning))
        return rate


async def _measure(host: str, runs: int, tuning: Tuning) -> float:
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await _connect(host)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    slots = asyncio.Semaphore(OUTSTANDING)

    async def enqueue(size: int) -> None:
        async with slots:
            await queries.enqueue(["noop"] * size, [None] * size, [0] * size)

    async def until_done() -> None:
        # A job that has ended is in the log, and no longer in the queue.
        while await connection.fetchval("SELECT 1 FROM pgqueuer LIMIT 1"):  # noqa: ASYNC110 - another process ends them
            await asyncio.sleep(0.01)

    command = [sys.executable, "-m", "bench.pgqueuer_peer", host, tuning.loop, str(tuning.dequeue)]
    with started(command, signal.SIGTERM):
        async with asyncio.timeout(LIMIT):
            await enqueue(BATCH)
            await until_done()
            begin = time.perf_counter()
            sizes = (min(tuning.enqueue, runs - start) for start in range(0, runs, tuning.enqueue))
            await asyncio.gather(*map(enqueue, sizes))
            await until_done()
            took = time.perf_counter() - begin
    done = await connection.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    await connection.close()
    if done != runs + BATCH:
        raise InterlockError(f"bench: {done} of {runs + BATCH} jobs of PgQueuer succeeded")
    return runs / took


async def _connect(host: str) -> Any:
    import asyncpg

    return await asyncpg.connect(host=host, user="postgres")


async def work(host: str, dequeue: int) -> None:
    from pgqueuer import PgQueuer
    from pgqueuer.models import Job

    worker = PgQueuer.from_asyncpg_connection(await _connect(host))

    @worker.entrypoint("noop")
    async def noop(job: Job) -> None:
        pass

    await worker.run(batch_size=dequeue)


if __name__ == "__main__":
    LOOPS[sys.argv[2]].run(work(sys.argv[1], int(sys.argv[3])))
