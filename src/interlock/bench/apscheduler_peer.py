"""APScheduler 3 with as many jobs as asked for, in memory or in SQLite through SQLAlchemy; a script to be measured from
outside. It says when it is loaded, and writes down what its jobs noted when it is told to end."""

import importlib.util
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.bench.fired import note, write

MEMORY, SQLITE = "memory", "SQLite"
STORES = (MEMORY, SQLITE)


def installed(store: str) -> bool:
    needed = ["apscheduler", *(["sqlalchemy"] if store == SQLITE else [])]
    return all(importlib.util.find_spec(name) is not None for name in needed)


def command(store: str, database: Path, count: int, interval: float, first: float, noted: Path) -> list[str]:
    """Jobs that fire at an interval, the first of them at `first`, spread evenly."""
    given = [store, str(database), str(count), str(interval), str(first), str(noted)]
    return [sys.executable, "-m", "interlock.bench.apscheduler_peer", "run", *given]


def fill(database: Path, count: int, interval: float, first: float) -> list[str]:
    """The command that stores such jobs beforehand, in a process of its own, whose memory is not what is measured."""
    given = [SQLITE, str(database), str(count), str(interval), str(first), ""]
    return [sys.executable, "-m", "interlock.bench.apscheduler_peer", "fill", *given]


def main() -> None:
    task, store, database, count, interval, first, noted = sys.argv[1:]
    if task == "fill":
        _fill(Path(database), int(count), float(interval), float(first))
    else:
        _run(store, Path(database), int(count), float(interval), float(first), noted)


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
    """The rows that `add_job` would write, in one transaction instead of one for each."""
    import pickle

    from apscheduler.job import Job
    from apscheduler.schedulers.background import BackgroundScheduler

    store = _sqlite(database)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    rows = []
    for number in range(count):
        given = _job(number, count, interval, first)
        start = given["trigger"].start_date
        job = Job(scheduler, **given, name="note", kwargs={}, executor="default", next_run_time=start)
        state = pickle.dumps(job.__getstate__(), store.pickle_protocol)
        rows.append({"id": job.id, "next_run_time": start.timestamp(), "job_state": state})
    if rows:
        with store.engine.begin() as connection:
            connection.execute(store.jobs_t.insert(), rows)
    scheduler.shutdown()


if __name__ == "__main__":
    main()
