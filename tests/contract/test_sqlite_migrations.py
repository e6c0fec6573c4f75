"""The layout of the SQLite file, and how an older one is brought up to date."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.error import CannotOpenDatabase, StoreUnavailable
from interlock.stores.sqlite import SqliteReader
from interlock.stores.sqlite.database import APPLICATION_ID, migrate
from interlock.stores.sqlite.queries import INSERT_HISTORY, migrations
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


def make_old(path: Path) -> None:
    """A file of ours, from before the first step."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.commit()


def test_an_older_file_is_for_the_scheduler_to_bring_up_to_date(database: Path) -> None:
    make_old(database)

    async def read() -> None:
        reader = SqliteReader(database)
        await reader.open()
        try:
            with pytest.raises(StoreUnavailable, match="not up to date"):
                await reader.position()
            await asyncio.to_thread(make, database)
            assert await reader.position() == 0
        finally:
            await reader.close()

    asyncio.run(read())


def test_a_file_that_cannot_be_brought_up_to_date_stays_as_it_was(database: Path) -> None:
    make_old(database)
    with closing(sqlite3.connect(database)) as connection:
        # Its name is taken, which shows only when all else of the step is done.
        connection.execute("CREATE TABLE records (other)")
    with pytest.raises(CannotOpenDatabase, match="records"):
        make(database)
    with closing(sqlite3.connect(database)) as connection:
        assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["records"]
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 0
        connection.execute("DROP TABLE records")
    make(database)


def test_only_missing_steps_are_applied_and_what_is_stored_stays(database: Path) -> None:
    make(database)
    last = len(migrations())
    later = ["ALTER TABLE history ADD COLUMN note TEXT;", "CREATE TABLE notes (text);", "CREATE TABLE notes (again);"]
    steps = [*migrations(), *later]
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        INSERT_HISTORY.write(connection, [(3, "old", 1, b"entries")])
        migrate(connection, steps[: last + 1])
        assert list(connection.execute("SELECT * FROM history")) == [(3, "old", 1, b"entries", None)]
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, steps)
        connection.rollback()
        assert connection.execute("PRAGMA user_version").fetchone()[0] == last + 2, "each step is stored by itself"
        assert list(connection.execute("SELECT * FROM notes")) == []
