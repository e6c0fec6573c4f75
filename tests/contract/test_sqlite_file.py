"""The SQLite file: its schema, how safely it is written, and which files are not opened."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from interlock import error as e
from interlock.model.facets import Facets, Hold
from interlock.model.run import Run
from interlock.stores.sqlite import SqliteStore
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import migrations
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import NAME, created, make_run, take
from tests.helpers.lookups import states


async def nothing(store: AnyStore) -> None:
    pass


def make(path: Path) -> None:
    run_with(SqliteStore(path), nothing)


def schema(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    query = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    return list(connection.execute(query))


def refuse(path: Path, kind: type[e.InterlockError]) -> str:
    """Opening must fail with this error and leave the file as it is; the message comes back."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(kind) as caught:
        make(path)
    assert type(caught.value) is kind
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    if before is not None:
        assert path.read_bytes() == before
        assert not Path(f"{path}-wal").exists()
        assert not Path(f"{path}-journal").exists()
    return text


def test_the_columns_of_runs_are_the_fields_of_a_run(database: Path) -> None:
    make(database)
    with closing(sqlite3.connect(database)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    assert columns[0] == "number"
    assert sorted(columns[1:]) == sorted(Run.__struct_fields__)
    assert columns[-2:] == ["payload", "result"], "to read a state, nothing large must be read over"


def test_all_facets_of_a_run_are_one_value_and_none_are_no_value(database: Path) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        held = make_run("r2", facets=Facets(hold=Hold(by="ann", at=1000.5)))
        await store.commit(created(make_run("r1"), held), lease)

    run_with(SqliteStore(database), body)
    with closing(sqlite3.connect(database)) as connection:
        plain, held = [row[0] for row in connection.execute("SELECT facets FROM runs ORDER BY number")]
    assert plain is None
    assert msgspec.msgpack.decode(held) == {"hold": {"by": "ann", "at": 1000.5}}


def test_opening_an_up_to_date_file_changes_no_schema(database: Path) -> None:
    make(database)
    with closing(sqlite3.connect(database)) as connection:
        before = schema(connection)
    make(database)
    with closing(sqlite3.connect(database)) as connection:
        assert schema(connection) == before


@pytest.mark.behaviour("RUN-17")
def test_the_log_is_written_ahead_and_every_commit_is_synced(database: Path) -> None:
    with closing(connect_writer(database)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2, "2 is FULL"


@pytest.mark.behaviour("RUN-17")
async def test_what_was_committed_is_seen_by_another_process_before_the_store_is_closed(
    sqlite: SqliteStore, database: Path
) -> None:
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("r1")), lease)
    with closing(sqlite3.connect(database)) as other:
        assert other.execute("SELECT id FROM runs").fetchall() == [("r1",)]


@pytest.mark.behaviour("RUN-17")
def test_what_was_committed_survives_a_process_that_ends_without_closing(database: Path) -> None:
    script = f"""
import asyncio, os
from interlock.stores.sqlite import SqliteStore
from tests.contract.samples import NAME, created, make_run

async def body():
    store = SqliteStore({str(database)!r})
    await store.open()
    lease = await store.take(NAME, "tester", "t1", 1000.0)
    await store.commit(created(make_run("r1")), lease)
    os._exit(9)

asyncio.run(body())
"""
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", script], cwd=root, check=False, timeout=120)
    assert ended.returncode == 9

    async def body(store: AnyStore) -> None:
        assert set(await states(store, ["r1"])) == {"r1"}
        assert await store.take(NAME, "next", "t2", 10.0) is not None, "nobody waits for a dead holder"

    run_with(SqliteStore(database), body)


def test_closing_leaves_one_file_and_the_lock(database: Path) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(make_run("r1")), lease)
        await store.run("r1")

    run_with(SqliteStore(database), body)
    assert sorted(path.name for path in database.parent.iterdir()) == ["runs.db", "runs.db.lock"]


async def test_a_closed_store_says_so(database: Path) -> None:
    store = SqliteStore(database)
    with pytest.raises(e.StoreUnavailable, match="closed"):
        await store.load(256)
    await store.close()
    await store.open()
    lease = await take(store)
    await store.close()
    with pytest.raises(e.StoreUnavailable, match="closed"):
        await store.commit(created(make_run("r1")), lease)
    with pytest.raises(e.StoreUnavailable, match="closed"):
        await store.run("r1")


# ── a second scheduler ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["the same", "a symbolic link", "another way to it"])
def test_a_second_store_on_the_same_file_is_refused_until_the_first_is_closed(database: Path, name: str) -> None:
    path = database
    if name == "a symbolic link":
        path = database.parent / "link.db"
        path.symlink_to(database)
    elif name == "another way to it":
        (database.parent / "below").mkdir()
        path = database.parent / "below" / ".." / database.name

    async def body(first: AnyStore) -> None:
        lease = await take(first)
        await first.commit(created(make_run("r1")), lease)
        second = SqliteStore(path)
        with pytest.raises(e.StoreInUse) as caught:
            await second.open()
        assert caught.value.code == "store_in_use"
        assert str(path) in str(caught.value)
        assert f"process {os.getpid()}" in str(caught.value)
        assert "in use by another scheduler" in str(caught.value)
        await second.close()
        await first.commit(created(make_run("r2")), lease)

    run_with(SqliteStore(database), body)

    async def after(store: AnyStore) -> None:
        assert set(await states(store, ["r1", "r2"])) == {"r1", "r2"}

    run_with(SqliteStore(path), after)


def test_a_refused_open_leaves_the_lock_free(database: Path) -> None:
    database.write_bytes(b"something else entirely")
    refuse(database, e.NotADatabase)
    database.unlink()
    make(database)


# ── files that are not opened ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content", [b"x", b"just a text\n", b"\0" * 4096, os.urandom(100_000), b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_refused_and_unchanged(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    text = refuse(database, e.NotADatabase)
    assert "is not an Interlock database" in text
    assert e.NotADatabase.code == "not_a_database"


def test_a_database_without_the_table_of_records_is_refused(database: Path) -> None:
    make(database)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TABLE records")
    assert "never released" in refuse(database, e.NotADatabase)


def test_an_empty_file_becomes_a_database(database: Path) -> None:
    database.touch()
    make(database)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("mark", [0, 12345])
def test_a_database_of_another_program_is_refused_and_unchanged(database: Path, mode: str, mark: int) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(f"PRAGMA application_id = {mark}")
        connection.execute("CREATE TABLE runs (id)")
        connection.execute("INSERT INTO runs VALUES (1)")
        connection.commit()
    assert "another program" in refuse(database, e.NotADatabase)


def test_a_database_that_only_has_another_programs_mark_is_refused(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA application_id = 7")
    assert "another program" in refuse(database, e.NotADatabase)


def test_a_newer_database_is_refused_and_unchanged(database: Path) -> None:
    make(database)
    newer = len(migrations()) + 1
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    text = refuse(database, e.DatabaseTooNew)
    assert f"has schema version {newer}, this Interlock knows up to {newer - 1}" in text
    assert e.DatabaseTooNew.code == "database_too_new"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder.db"
    folder.mkdir()
    assert "it is a directory" in refuse(folder, e.CannotOpenDatabase)
    assert list(folder.iterdir()) == []
    assert e.CannotOpenDatabase.code == "cannot_open_database"


def test_a_missing_parent_directory_is_refused_and_not_made(tmp_path: Path) -> None:
    text = refuse(tmp_path / "missing" / "runs.db", e.CannotOpenDatabase)
    assert "no such file or directory" in text.lower()
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    refuse(tmp_path / "file" / "runs.db", e.CannotOpenDatabase)
    assert (tmp_path / "file").read_bytes() == b"text"


FORKING = """
import asyncio, os, sys
from interlock.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    await store.close()
    again = SqliteStore(sys.argv[1])
    await again.open()
    await again.close()
    os.close(writer)
    os.waitpid(child, 0)
    print("opened again")

asyncio.run(main())
"""


def test_a_forked_process_does_not_keep_the_lock(database: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(database)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "opened again\n", done.stderr
