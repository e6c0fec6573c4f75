"""Interlock on PostgreSQL beside its peers there: `python -m bench postgres`. Each measurement has a new server."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from bench import installed, pgqueuer_peer, postgres_server, procrastinate_peer
from bench.pgqueuer_peer import TUNED
from bench.postgres_server import server
from interlock import runtime
from interlock.bench import report
from interlock.bench.jobs import app
from interlock.bench.measures import BATCH, PAUSE, submit_batches
from interlock.bench.report import Figure, Measure, ReportRow
from interlock.bench.server import IN_FLIGHT, JOBS, started, until
from interlock.error import InterlockError

LIVE = 100_000  # runs at a take-over
COMMITS = 200
NEEDS = {"pgqueuer": pgqueuer_peer.NEEDS, "procrastinate": procrastinate_peer.NEEDS}
WANTED = {
    "pgqueuer": ("interlock", "Interlock is {}x, wanted at least 0.8"),
    "procrastinate": ("interlock", "Interlock is {}x"),
    "latency": ("commit", "{} commits, wanted at most 3"),
}
"""by measure: the one that it is compared with, and how that reads"""


class Node:
    def __init__(self, host: str, folder: Path, workers: int) -> None:
        folder.mkdir(exist_ok=True)
        self.socket = str(folder / "bench.sock")
        url = f"postgresql://postgres@/postgres?host={host}"
        self.command = [
            sys.executable, "-m", "interlock.cli", "up", "-A", JOBS, "--db", url, "--socket", self.socket,
            "--workers", str(workers), "--slots", str(IN_FLIGHT), "--lane", f"bench={IN_FLIGHT}", "--no-table",
            "--log-level", "error", "--http", "off",
        ]  # fmt: skip

    @contextmanager
    def running(self, stands_by: bool = False) -> "Iterator[subprocess.Popen[bytes]]":
        env = {**os.environ, "INTERLOCK_KEEP_RUNS": "0"}
        with started(
            self.command, signal.SIGTERM, stderr=subprocess.DEVNULL, start_new_session=True, env=env
        ) as process:
            if not stands_by:
                until(lambda: os.path.exists(self.socket), process)
            yield process


@asynccontextmanager
async def _connected(host: str) -> "AsyncIterator[Any]":
    import asyncpg

    connection = await asyncpg.connect(host=host, user="postgres", server_settings={"search_path": "interlock"})
    try:
        yield connection
    finally:
        await connection.close()


def end_to_end(folder: Path, runs: int) -> float:
    """Runs a second from the first submit until the end of the last is stored."""
    with server(folder) as host:
        node = Node(host, folder / "node", workers=1)
        with node.running():
            return runtime.run(_stream(host, node, runs))


async def _stream(host: str, node: Node, runs: int) -> float:
    async with app.connected(node.socket), _connected(host) as connection:

        async def until_ended() -> None:
            while await connection.fetchval("SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1"):  # noqa: ASYNC110 - another process ends them
                await asyncio.sleep(0.01)

        await submit_batches(BATCH)
        await until_ended()
        begin = time.perf_counter()
        await submit_batches(runs)
        await until_ended()
        took = time.perf_counter() - begin
        done = await connection.fetchval("SELECT count(*) FROM runs WHERE state = 'succeeded'")
    if done != runs + BATCH:
        raise InterlockError(f"bench: {done} of {runs + BATCH} runs succeeded")
    return runs / took


def idle(folder: Path) -> dict[str, list[float]]:
    """Milliseconds of one commit of that server, and from submit to the first line of the handler, in turn on an idle
    system."""
    with server(folder) as host:
        node = Node(host, folder / "node", workers=1)
        with node.running():
            return runtime.run(_one_by_one(host, node))


async def _one_by_one(host: str, node: Node) -> dict[str, list[float]]:
    commits, latencies = [], []
    async with app.connected(node.socket), _connected(host) as connection:
        await connection.execute("CREATE TABLE public.one (id bigint PRIMARY KEY, payload text)")
        insert = await connection.prepare("INSERT INTO public.one VALUES ($1, 'a row of a run, more or less')")
        for number in range(COMMITS + 20):
            await asyncio.sleep(PAUSE)
            began = time.perf_counter()
            await insert.fetch(number)
            commit = (time.perf_counter() - began) * 1e3
            await asyncio.sleep(PAUSE)
            begin = time.monotonic_ns()
            run = await app.submit("bench.began")
            began_at = await run.result(timeout=30)
            if number >= 20:
                commits.append(commit)
                latencies.append((began_at - begin) / 1e6)
    return {"commit": commits, "latency": latencies}


def take_over(folder: Path, live: int = LIVE) -> float:
    """Seconds from the moment at which the lease is free until the standby answers, with so many live runs."""
    with server(folder) as host:
        first, second = (Node(host, folder / name, workers=0) for name in "ab")
        with first.running() as process, second.running(stands_by=True):
            return runtime.run(_take_over(host, first, second, process, live))


async def _take_over(host: str, first: Node, second: Node, process: "subprocess.Popen[bytes]", live: int) -> float:
    async with app.connected(first.socket):
        for _ in range(0, live, 1000):
            await app.submit_many([("bench.noop", None)] * 1000)
    async with _connected(host) as connection:
        process.terminate()
        while await connection.fetchval("SELECT 1 FROM leases WHERE token <> '' AND epoch = 1"):  # noqa: ASYNC110 - another process releases it
            await asyncio.sleep(0.002)
        begin = time.perf_counter()
        while not os.path.exists(second.socket):  # noqa: ASYNC110, ASYNC240 - as above
            await asyncio.sleep(0.002)
        async with app.connected(second.socket):
            await app.submit("bench.noop")
        took = time.perf_counter() - begin
        if await connection.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NULL") != live + 1:
            raise InterlockError("bench: runs were lost at the take-over")
    return took


def measure_all(folder: Path, runs: int, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    if not installed(*postgres_server.NEEDS):
        return [("Interlock on PostgreSQL", "no server is installed", "")], {}
    idles: dict[str, list[float]] = {}

    def commit(folder: Path) -> list[float]:
        idles.update(idle(folder))
        return idles["commit"]

    listed = {
        "interlock": Measure("Interlock end to end on PostgreSQL", "runs/s", partial(end_to_end, runs=runs)),
        "pgqueuer": Measure(
            "PgQueuer, uvloop, 1,000 at a time", "jobs/s", partial(pgqueuer_peer.end_to_end, runs=runs, tuning=TUNED)
        ),
        "procrastinate": Measure(
            f"Procrastinate, {procrastinate_peer.CONCURRENCY} jobs at once", "jobs/s",
            partial(procrastinate_peer.end_to_end, runs=runs),
        ),
        "commit": Measure("one commit of one row, idle, p50", "ms", commit),
        "latency": Measure("submit to start on PostgreSQL, idle, p50", "ms", lambda _: idles["latency"]),
        "take_over": Measure(f"take-over with {LIVE:,} live runs", "s after the lease is free", take_over),
    }  # fmt: skip
    missing = [key for key, packages in NEEDS.items() if not installed(*packages)]
    figures = report.take_all({key: one for key, one in listed.items() if key not in missing}, folder, rounds)
    ratios = {key: ratio(figures, key, other) for key, (other, _) in WANTED.items() if key in figures}
    texts = {listed[key].label: WANTED[key][1].format(ratio) for key, ratio in ratios.items()}
    table = [(label, figure, texts.get(label, "")) for label, figure, _ in report.rows(listed, figures)]
    table += [(listed[key].label, "not installed", "") for key in missing]
    return table, {"runs": runs, "rounds": rounds, "measures": figures, "ratios": ratios}


def ratio(figures: Mapping[str, Figure], key: str, other: str) -> float:
    """Return the median of each round's ratio: of the rate of Interlock to that of a peer, or of a time to another."""
    above, below = (other, key) if other == "interlock" else (key, other)
    ratios = map(truediv, figures[above].rounds, figures[below].rounds)
    return float(round(median(ratios), 3))
