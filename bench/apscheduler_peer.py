"""APScheduler 3 with its jobs in memory or in SQLite through SQLAlchemy; a script that is measured from outside.

It prints `ready` once it is loaded, and writes what its jobs noted when a line comes.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.fired import note, write

MEMORY, SQLITE = "APScheduler in memory", "APScheduler in SQLite"
STORES = {MEMORY: ("apscheduler",), SQLITE: ("apscheduler", "sqlalchemy")}  # each with the packages it needs


def command(task: str, store: str, folder: Path, count: int, interval: float, first: float) -> list[str]:
    """`run` jobs that fire at an interval, spread evenly, the first at `first`; `fill` stores them beforehand, in a
    process of its own, whose memory is not measured."""
    given = map(str, (task, store, folder / "apscheduler.db", count, interval, first, folder / "apscheduler.noted"))
    return [sys.executable, "-m", "bench.apscheduler_peer", *given]


def _run(store: str, database: Path, count: int, interval: float, first: float, noted: str) -> None:
    from apscheduler.schedulers.background import BackgroundScheduler

    stores = {"default": _sqlite(database)} if store == SQLITE else {}
    scheduler = BackgroundScheduler(jobstores=stores, timezone=UTC)
    if store == MEMORY:
        for number in range(count):
            scheduler.add_job(**_job(number, count, interval, first))
    scheduler.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    write(noted)
    # To end in order it would have to catch up first, which may take it minutes.
    os._exit(0)


def _job(number: int, count: int, interval: float, first: float) -> dict[str, Any]:
    """Nothing is left out however late it is, and nothing is put together, as with the others."""
    from apscheduler.triggers.interval import IntervalTrigger

    start = datetime.fromtimestamp(first + number * interval / count, UTC)
    trigger = IntervalTrigger(seconds=interval, start_date=start, timezone=UTC)
    return {
        "func": note,
        "trigger": trigger,
        "args": [number],
        "id": f"bench.{number}",
        "misfire_grace_time": None,
        "coalesce": False,
        "max_instances": 1000,
    }


def _sqlite(database: Path) -> Any:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    return SQLAlchemyJobStore(url=f"sqlite:///{database}")


def _fill(database: Path, count: int, interval: float, first: float) -> None:
    """Write the rows that `add_job` would write, in one transaction instead of one for each."""
    import pickle

    from apscheduler.schedulers.background import BackgroundScheduler

    store = _sqlite(database)
    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.start(paused=True)
    store.start(scheduler, "default")
    jobs = [scheduler.add_job(**_job(number, count, interval, first)) for number in range(count)]
    rows = [
        {
            "id": job.id,
            "next_run_time": job.next_run_time.timestamp(),
            "job_state": pickle.dumps(job.__getstate__(), store.pickle_protocol),
        }
        for job in jobs
    ]
    if rows:
        with store.engine.begin() as connection:
            connection.execute(store.jobs_t.insert(), rows)
    scheduler.shutdown()


if __name__ == "__main__":
    task, store, database, count, interval, first, noted = sys.argv[1:]
    if task == "fill":
        _fill(Path(database), int(count), float(interval), float(first))
    else:
        _run(store, Path(database), int(count), float(interval), float(first), noted)
