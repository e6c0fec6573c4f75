"""The layout of the SQLite file, and how an older one is brought up to date."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import asdict

from interlock.core.decisions import Batch
from interlock.model.child import Kept
from interlock.model.error import CannotOpenDatabase, StoreUnavailable
from interlock.model.run import SCHEDULE, Run
from interlock.model.state import State
from interlock.ports.store import UNSUCCESSFUL, RunFilter
from interlock.stores.sqlite import SqliteReader, SqliteStore
from interlock.stores.sqlite.database import APPLICATION_ID
from interlock.stores.sqlite.queries import QUERIES, migrations
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import NAME, NIGHTLY_ROW, created, entry, listed, make_run, take
from tests.contract.test_sqlite_file import make, schema


def test_the_schema_is_the_sum_of_the_migrations(database: Path) -> None:
    make(database)
    with closing(sqlite3.connect(database)) as made, closing(sqlite3.connect(":memory:")) as summed:
        for script in migrations():
            summed.executescript(script)
        assert schema(made) == schema(summed)
        assert made.execute("PRAGMA user_version").fetchone()[0] == len(migrations()) > 0
        assert made.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        assert made.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_migrations_are_numbered_without_a_gap() -> None:
    from importlib.resources import files

    names = sorted(entry.name for entry in files("interlock.stores.sqlite").joinpath("migrations").iterdir())
    numbers = [int(name.split("_")[0]) for name in names if name.endswith(".sql")]
    assert numbers == list(range(1, len(numbers) + 1))


def odd_run(run_id: str) -> Run:
    """One that has ended, and has another value in each of its fields."""
    texts = {name: f"{name} of {run_id}" for name in ("session", "idempotency_key", "lane", "reason", "actor", "error")}
    texts |= {name: f"{name} of {run_id}" for name in ("worker_id", "stop", "stop_reason", "stop_actor", "outcome")}
    counts = {
        name: place for place, name in enumerate(("seq", "attempt", "fence", "failures", "crashes", "heartbeats"))
    }
    times = ("created_at", "scheduled_at", "deadline_at", "changed_at", "due_at", "started_at", "attempt_started_at")
    return make_run(
        run_id,
        **texts,
        **counts,
        **{name: 100.5 + place for place, name in enumerate(times)},
        ended_at=99.5,
        exit_code=-9,
        has_checkpoint=1,
        state=State.FAILED,
        previous=State.TERMINATING,
        payload=bytes(10_000),
        result=b"result",
    )


OLD_RUNS = {2: make_run("old"), 3: odd_run("odd"), 7: odd_run("large")}
"""by number; between them are gaps, as pruning leaves them"""


def make_of_version(path: Path, version: int) -> None:
    """A database as an Interlock of that time left it, with a run that has a history and a log."""
    with closing(sqlite3.connect(path)) as connection:
        for script in migrations()[:version]:
            connection.executescript(script)
        columns = [row[1] for row in connection.execute("PRAGMA table_info (runs)") if row[1] != "number"]
        marks = ", ".join("?" * (len(columns) + 1))
        for number, run in OLD_RUNS.items():
            values = [number, *(getattr(run, column) for column in columns)]
            connection.execute(f"INSERT INTO runs (number, {', '.join(columns)}) VALUES ({marks})", values)
        entries = msgspec.msgpack.encode([entry(1, None, State.PENDING)])
        connection.execute(QUERIES["insert_history"], (3, "old", 1, entries))
        connection.execute(QUERIES["insert_log"], (7, "old", 1, 1, 5.0, "info", "line"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_an_older_database_is_brought_up_to_date_with_all_it_has(database: Path, version: int) -> None:
    make_of_version(database, version)

    async def read() -> None:
        reader = SqliteReader(database)
        await reader.open()
        try:
            with pytest.raises(StoreUnavailable, match="not up to date"):
                await reader.position()
            await asyncio.to_thread(make, database)
            assert await reader.position() == 7
        finally:
            await reader.close()

    asyncio.run(read())

    async def body(store: AnyStore) -> None:
        snapshot = await store.load(256)
        assert [run.id for run in snapshot.runs] == ["old"]
        assert (snapshot.put_jobs, snapshot.schedules) == ([], [])
        for run in OLD_RUNS.values():
            stored = await store.run(run.id)
            assert stored is not None
            assert asdict(stored) == asdict(run)
        assert await listed(store) == await listed(store, RunFilter(job_id="work")) == ["large", "odd", "old"]
        assert await listed(store, RunFilter(states=UNSUCCESSFUL)) == ["large", "odd"]
        assert await store.history("old") == [entry(1, None, State.PENDING)]
        assert [event.position for event in (await store.events(0, 10)).events] == [3, 7]
        lease = await take(store)
        batch = Batch(kept=[("web", Kept(resume_id="1"))], position=8)
        batch.service_log = [("web", 1, 6.0, "stdout", "said", None)]
        batch.created, batch.schedules = created(make_run("new", origin=SCHEDULE)).created, [NIGHTLY_ROW]
        await store.commit(batch, NAME, lease.epoch)
        assert await store.position() == 8
        assert await store.kept() == {"web": Kept(resume_id="1")}

    run_with(SqliteStore(database), body)
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(":memory:")) as summed:
        for script in migrations():
            summed.executescript(script)
        assert schema(old) == schema(summed)
        assert old.execute("PRAGMA user_version").fetchone()[0] == len(migrations())
        numbers = dict(old.execute("SELECT number, id FROM runs"))
        assert numbers == {number: run.id for number, run in OLD_RUNS.items()} | {8: "new"}
        assert old.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_a_database_that_cannot_be_brought_up_to_date_stays_as_it_was(database: Path, version: int) -> None:
    make_of_version(database, version)
    with closing(sqlite3.connect(database)) as connection:
        # Its name is taken, which shows only when all else of the last step is done.
        connection.execute("CREATE TABLE put_jobs (other)")
        before = [
            list(connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in ("runs", "history", "logs")
        ]
        columns = list(connection.execute("PRAGMA table_info (runs)"))
    with pytest.raises(CannotOpenDatabase, match="put_jobs"):
        make(database)
    with closing(sqlite3.connect(database)) as connection:
        assert [
            list(connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in ("runs", "history", "logs")
        ] == before
        assert list(connection.execute("PRAGMA table_info (runs)")) == columns
        assert connection.execute("PRAGMA user_version").fetchone()[0] < len(migrations())
        connection.execute("DROP TABLE put_jobs")
    make(database)
