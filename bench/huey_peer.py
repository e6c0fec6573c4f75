"""Huey on SQLite as it comes: one process enqueues while one consumer with one worker thread executes."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from interlock.bench.server import started, until

LIMIT = 300.0
MOST = 3000  # tasks in one measurement


def end_to_end(folder: Path, runs: int) -> float:
    """Tasks a second from the first enqueue to the end of the last; the consumer runs and is warm before."""
    runs = min(runs, MOST)
    for leftover in folder.glob("huey*"):
        leftover.unlink()
    database = str(folder / "huey.db")
    warm, last = folder / "huey.warm", folder / "huey.last"
    huey, (noop, mark) = make(database)
    # Imported, not run as a script: Huey finds a task by the name of its module.
    command = [sys.executable, "-c", f"from bench.huey_peer import consume; consume({database!r})"]
    with started(command, signal.SIGTERM, stderr=subprocess.DEVNULL) as consumer:
        mark(str(warm))
        until(warm.exists, consumer)
        begin = time.monotonic_ns()
        for _ in range(runs - 1):
            noop()
        mark(str(last))
        until(last.exists, consumer, LIMIT)
    huey.storage.close()
    return runs / ((int(last.read_text()) - begin) / 1e9)


def make(database: str) -> tuple[Any, Any]:
    from huey import SqliteHuey

    huey = SqliteHuey(filename=database)
    return huey, (huey.task()(_noop), huey.task()(_mark))


def consume(database: str) -> None:
    huey, _ = make(database)
    huey.create_consumer(workers=1, worker_type="thread").run()


def _noop() -> None:
    pass


def _mark(path: str) -> None:
    """Leave the time at which this ran."""
    partial = Path(f"{path}.partial")
    partial.write_text(str(time.monotonic_ns()))
    partial.rename(path)
