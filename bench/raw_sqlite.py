"""SQLite by itself: the rows of Interlock's commits, written with the statements of its store and nothing else."""

import sqlite3
import time
from itertools import pairwise
from pathlib import Path

from interlock.bench.measures import PAUSE
from interlock.core.decisions import Batch, Row
from interlock.core.transition import UPDATE_ROW, created_row
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.stores.sql.rows import history_rows
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import INSERT_HISTORY, INSERT_RUNS, UPDATE_RUNS

PATH = (
    None, State.PENDING, State.SCHEDULED, State.DISPATCHED, State.RUNNING, State.TERMINATING, State.SUCCEEDED,
)  # fmt: skip


def write_runs(folder: Path, runs: int) -> float:
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


def one_commit(folder: Path, commits: int = 200, pause: float = PAUSE) -> list[float]:
    """Milliseconds for each commit of one run's rows, synced: what a single durable step costs on an idle machine.

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
        took.append((time.perf_counter() - begin) * 1000)
    connection.close()
    return took


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
            b"{}", None, "u1", None, "0123456789ab", "bench", State.DISPATCHED, State.SCHEDULED, "w1-1234-abcd",
            "scheduler", 1.7e9, 3, 1, 1, "w1-1234-abcd",
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
        second.updated.setdefault("execution", []).append(UPDATE_ROW["execution"](run))
        second.history.append((run.id, entries[3:]))
    return _rows(first), _rows(second)


def _rows(batch: Batch) -> Rows:
    return batch.created, batch.updated.get("execution", []), history_rows(batch)
