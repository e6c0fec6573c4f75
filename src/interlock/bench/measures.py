"""What is measured: each function does one measurement once and returns its figure."""

import asyncio
import sqlite3
import statistics
import time
from itertools import pairwise
from pathlib import Path

import uvloop

from interlock.bench.jobs import app
from interlock.bench.server import Server, running
from interlock.core.decisions import Batch, Row
from interlock.core.transition import created_row, update_row
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.stores.sqlite.batch import history_rows
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import INSERT_HISTORY, INSERT_RUNS, UPDATE_RUNS

PATH = (
    None, State.PENDING, State.SCHEDULED, State.DISPATCHED, State.RUNNING, State.TERMINATING, State.SUCCEEDED,
)  # fmt: skip
BATCH = 100
PAUSE = 0.005
"""seconds of rest between two measurements on an idle system"""
OUTSTANDING = 10
"""batches a client has under way at once"""


def raw_sqlite(folder: Path, runs: int) -> float:
    """Run lifecycles a second when the rows Interlock stores are only written: 1,000 runs a transaction, synced."""
    connection = _fresh(folder / "raw.db")
    chunks = [_lifecycles(range(start, min(start + 1000, runs))) for start in range(0, runs, 1000)]
    begin = time.perf_counter()
    for first, second in chunks:
        for created, updated, history in (first, second):
            connection.execute("BEGIN IMMEDIATE")
            INSERT_RUNS[Run.PLAIN].write(connection, created)
            UPDATE_RUNS["execution"].write(connection, updated)
            INSERT_HISTORY.write(connection, history)
            connection.execute("COMMIT")
    took = time.perf_counter() - begin
    connection.close()
    return runs / took


def one_commit(folder: Path, commits: int, pause: float = PAUSE) -> list[float]:
    """Seconds for each commit of one run's rows, synced: what a single durable step costs on an idle machine.

    At the pace at which latency is measured: a commit after a pause costs more than one right behind another.
    """
    connection = _fresh(folder / "commit.db")
    took = []
    for number in range(commits):
        (created, _, history), _ = _lifecycles(range(number, number + 1))
        time.sleep(pause)
        begin = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        INSERT_RUNS[Run.PLAIN].write(connection, created)
        INSERT_HISTORY.write(connection, history)
        connection.execute("COMMIT")
        took.append(time.perf_counter() - begin)
    connection.close()
    return took


def end_to_end(folder: Path, runs: int) -> float:
    """Runs a second from the first submit to the last stored result."""
    with running(folder, workers=1) as server:
        rate = uvloop.run(stream(server, runs))
        succeeded = server.count("succeeded")
        assert succeeded == runs + BATCH, f"{succeeded} of {runs + BATCH} runs succeeded"
        return rate


async def stream(server: Server, runs: int) -> float:
    """Submit, and wait until all of it has ended."""
    async with app.connected(server.socket):
        await app.submit_many([("bench.noop", None)] * BATCH)
        await _until_ended(server)
        begin = time.perf_counter()
        await submit_batches(runs)
        await _until_ended(server)
        return runs / (time.perf_counter() - begin)


async def submit_batches(runs: int) -> None:
    """A hundred at a time, some of them under way at once."""
    slots = asyncio.Semaphore(OUTSTANDING)

    async def submit(size: int) -> None:
        async with slots:
            await app.submit_many([("bench.noop", None)] * size)

    await asyncio.gather(*(submit(min(BATCH, runs - start)) for start in range(0, runs, BATCH)))


async def _until_ended(server: Server) -> None:
    while not server.all_ended():  # noqa: ASYNC110 - it is another process that ends them
        await asyncio.sleep(0.01)


def idle_latency(folder: Path, runs: int) -> list[float]:
    """Seconds from submit to the first line of the handler, one run at a time on an idle system."""
    with running(folder, workers=1) as server:
        return uvloop.run(_one_by_one(server, runs))


async def _one_by_one(server: Server, runs: int) -> list[float]:
    took = []
    async with app.connected(server.socket):
        for number in range(runs + 20):
            begin = time.monotonic_ns()
            run = await app.submit("bench.began")
            began = await run.result(timeout=30)
            if number >= 20:
                took.append((began - begin) / 1e9)
            await asyncio.sleep(PAUSE)
    return took


def memory_per_waiting_run(folder: Path, runs: int) -> float:
    """Bytes by which the scheduler grows for each run that waits."""
    with running(folder, workers=0) as server:
        return uvloop.run(_pile_up(server, runs))


async def _pile_up(server: Server, runs: int) -> float:
    async with app.connected(server.socket):
        await app.submit_many([("bench.noop", None)] * 1000)
        before = server.resident()
        for _ in range(0, runs, 1000):
            await app.submit_many([("bench.noop", None)] * 1000)
        return (server.resident() - before) / runs


def median(values: list[float]) -> float:
    return statistics.median(values)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * len(ordered)))]


def _fresh(path: Path) -> sqlite3.Connection:
    for leftover in path.parent.glob(f"{path.name}*"):
        leftover.unlink()
    return connect_writer(path)


Rows = tuple[list[Row], list[Row], list[tuple[int, str, int, bytes]]]


def _lifecycles(numbers: range) -> tuple[Rows, Rows]:
    """The rows of the two commits that a run which succeeds at once passes through."""
    place = 1 + 2 * numbers.start
    first, second = Batch(position=place), Batch(position=place + len(numbers))
    for number in numbers:
        run = Run(
            f"{1700000000000 + number:012x}0000{number * 7919:012x}", "bench.noop", "default", None, None, 1.7e9, 1.7e9,
            b"{}", None, None, "0123456789ab", "bench", State.DISPATCHED, State.SCHEDULED, "w1-1234-abcd", "scheduler",
            1.7e9, 3, 1, 1, "w1-1234-abcd",
        )  # fmt: skip
        first.created.append(created_row(run))
        entries = [
            Transition(seq, before, after, 1.7e9, 1, "submitted", "scheduler")
            for seq, (before, after) in enumerate(pairwise(PATH), start=1)
            if after is not None
        ]
        first.history.append((run.id, entries[:3]))
        run.state, run.previous, run.seq, run.reason = State.SUCCEEDED, State.TERMINATING, 6, "done"
        run.started_at = run.attempt_started_at = run.ended_at = run.changed_at = 1.7e9
        run.outcome, run.result = "succeeded", b"null"
        second.updated.setdefault("execution", []).append(update_row(run, "execution"))
        second.history.append((run.id, entries[3:]))
    return _rows(first), _rows(second)


def _rows(batch: Batch) -> Rows:
    return batch.created, batch.updated.get("execution", []), history_rows(batch)
