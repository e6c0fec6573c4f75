"""Huey on SQLite as it comes: one process enqueues while one consumer with one worker thread executes."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from interlock.bench.processes import with_parent

LIMIT = 300.0


def installed() -> bool:
    try:
        import huey  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return True


def end_to_end(folder: Path, runs: int) -> float:
    """Tasks a second from the first enqueue to the end of the last; the consumer runs and is warm before."""
    for leftover in folder.glob("huey*"):
        leftover.unlink()
    database = str(folder / "huey.db")
    warm, last = folder / "huey.warm", folder / "huey.last"
    huey, (noop, mark) = make(database)
    # Imported, not run as a script: Huey finds a task by the name of its module.
    program = f"from interlock.bench.huey_peer import consume; consume({database!r})"
    consumer = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL, preexec_fn=with_parent())
    try:
        mark(str(warm))
        _until(warm)
        begin = time.monotonic_ns()
        for _ in range(runs - 1):
            noop()
        mark(str(last))
        _until(last)
    finally:
        consumer.terminate()
        consumer.wait()
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


def _until(mark: Path) -> None:
    end = time.monotonic() + LIMIT
    while not mark.exists():
        if time.monotonic() > end:
            raise TimeoutError("huey did not finish")
        time.sleep(0.002)
