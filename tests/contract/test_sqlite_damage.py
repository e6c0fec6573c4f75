"""A damaged SQLite file, and one that has less than was stored: what is said, and what can be saved."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock.error import BadValue, CannotOpenDatabase, DatabaseBehind, DatabaseDamaged, NotADatabase
from interlock.fields import payload
from interlock.model.state import State
from interlock.stores.sqlite import SqliteStore
from interlock.stores.sqlite.repair import Saved, repair_copy
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import JOB, created, entry, everything, make_run, take, updated
from tests.helpers.lookups import known_keys

PAGE = 4096
RUNS = 2000


async def fill(store: AnyStore) -> None:
    """Runs in some hundred pages, each with one row of history."""
    lease = await take(store)
    for first in range(0, RUNS, 500):
        ids = [f"run {number:04}" for number in range(first, first + 500)]
        batch = created(*(make_run(one, payload=b'"%b"' % (b"x" * 150)) for one in ids))
        batch.jobs = [JOB]
        batch.history = [(one, [entry(1, None, State.PENDING)]) for one in ids]
        batch.keys.taken = [("default", one, one, b"digest", 1000.0) for one in ids]
        batch.position = first + 1
        await store.commit(batch, lease)


async def nothing(store: AnyStore) -> None:
    pass


def pages_of(database: Path, table: str) -> list[int]:
    """The pages with the rows of a table or index, by what is found in them: numbers from 0."""
    with closing(sqlite3.connect(database)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    data = database.read_bytes()

    def page(number: int) -> bytes:
        return data[(number - 1) * PAGE : number * PAGE]

    head = page(root)
    cells = int.from_bytes(head[3:5], "big")
    assert head[0] in (2, 5), "an inner page"
    places = [int.from_bytes(head[12 + 2 * one : 14 + 2 * one], "big") for one in range(cells)]
    below = [int.from_bytes(head[place : place + 4], "big") for place in places]
    return [one - 1 for one in (*below, int.from_bytes(head[8:12], "big"))]


def overwrite(database: Path, *pages: int) -> None:
    with database.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(bytes(range(256)) * (PAGE // 256))


def cut(database: Path, share: float) -> None:
    os.truncate(database, int(database.stat().st_size * share) // PAGE * PAGE)


def middle(table: str) -> Callable[[Path], None]:
    return lambda database: overwrite(database, *pages_of(database, table)[3:5])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "rows of runs": middle("runs"),
    "the first rows of runs": lambda database: overwrite(database, pages_of(database, "runs")[0]),
    "the last rows of runs": lambda database: overwrite(database, pages_of(database, "runs")[-1]),
    "history": middle("history"),
    "an index of runs": middle("sqlite_autoindex_runs_1"),
    "keys": middle("idempotency_keys"),
    "the end is cut off": lambda database: cut(database, 0.7),
}


@pytest.fixture
def filled(database: Path) -> Path:
    run_with(SqliteStore(database), fill)
    return database


def saved_by(tables: list[Saved]) -> dict[str, Saved]:
    return {one.table: one for one in tables}


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_can_be_read_of_a_damaged_file_is_saved_into_a_new_one(filled: Path, damage: str) -> None:
    DAMAGES[damage](filled)
    before = filled.read_bytes()
    copy = filled.with_name("copy.db")
    found = saved_by(repair_copy(filled, copy))
    assert filled.read_bytes() == before
    for table in ("runs", "history"):
        assert found[table].saved > 0
        if found[table].exact:
            assert found[table].saved + found[table].lost == RUNS
    lossy = {table for table, one in found.items() if one.lost or not one.exact}
    assert lossy or damage == "an index of runs"
    if damage in ("rows of runs", "the first rows of runs", "the last rows of runs"):
        assert (lossy, found["runs"].exact) == ({"runs"}, True)
        assert 0 < found["runs"].lost < 100, "the rows of a page or two"
    elif damage != "the end is cut off":
        assert found["runs"] == Saved("runs", RUNS, 0, True)

    async def body(store: AnyStore) -> None:
        snapshot = await store.load(256)
        assert len(snapshot.runs) == found["runs"].saved
        assert {job.version for job in snapshot.jobs} == {JOB.version}
        lease = await take(store)
        await store.commit(created(make_run("new")), lease)

    run_with(SqliteStore(copy), body)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_copy_of_a_whole_file_has_everything(filled: Path) -> None:
    copy = filled.with_name("copy.db")
    found = saved_by(repair_copy(filled, copy))
    assert {one.lost for one in found.values()} == {0}
    assert all(one.exact for one in found.values())

    async def read(store: AnyStore) -> object:
        return await everything(store)

    assert run_with(SqliteStore(copy), read) == run_with(SqliteStore(filled), read)


def test_a_value_that_cannot_be_read_is_lost_and_no_more(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("UPDATE runs SET state = 'n' WHERE number = 7")
        connection.execute("UPDATE runs SET reason = CAST(x'ff' AS TEXT) WHERE number IN (900, 1500)")
        connection.execute("UPDATE history SET entries = x'00ff' WHERE position = 9")
        connection.commit()

    async def body(store: AnyStore) -> None:
        with pytest.raises(DatabaseDamaged, match="a stored value cannot be read"):
            await store.run("run 0006")
        with pytest.raises(DatabaseDamaged, match="a stored value cannot be read"):
            await store.history("run 0008")

    run_with(SqliteStore(filled), body)
    found = saved_by(repair_copy(filled, filled.with_name("copy.db")))
    assert found["runs"] == Saved("runs", RUNS - 3, 3, True)
    assert found["history"] == Saved("history", RUNS - 1, 1, True)


def test_live_runs_whose_definition_is_lost_are_not_taken_up(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("UPDATE job_versions SET definition = x'00'")
        connection.commit()
    found = saved_by(repair_copy(filled, filled.with_name("copy.db")))
    assert found["runs"] == Saved("runs", 0, RUNS, True)


def test_a_copy_is_made_of_a_database_into_a_new_file_or_not_at_all(filled: Path) -> None:
    copy = filled.with_name("copy.db")
    copy.write_text("precious")
    with pytest.raises(BadValue, match=r"^--repair-copy: "):
        repair_copy(filled, copy)
    assert copy.read_text() == "precious"
    copy.unlink()
    with pytest.raises(CannotOpenDatabase):
        repair_copy(filled.with_name("nothing.db"), copy)
    with pytest.raises(CannotOpenDatabase):
        repair_copy(filled, filled.with_name("nowhere") / "copy.db")
    filled.write_bytes(b"something else entirely")
    with pytest.raises(NotADatabase):
        repair_copy(filled, copy)
    assert not copy.exists()


@pytest.mark.behaviour("RUN-17")
def test_a_damaged_file_says_that_it_is_damaged_where_and_what_to_do(filled: Path) -> None:
    overwrite(filled, *pages_of(filled, "runs"))

    async def body(store: AnyStore) -> None:
        lease = await take(store)
        with pytest.raises(DatabaseDamaged) as reading:
            await store.run("run 0100")
        changed = updated(make_run("run 0100", seq=3, state=State.CANCELLED))
        with pytest.raises(DatabaseDamaged) as writing:
            await store.commit(changed, lease)
        for caught in (reading, writing):
            text = str(caught.value)
            assert caught.value.code == "database_damaged"
            assert f"{filled} is damaged (" in text
            assert "age " in text, "which page"
            assert f"interlock doctor --db {filled} --repair-copy NEWFILE" in text
            assert "try again" not in text
            assert "\n" not in text
        with pytest.raises(DatabaseDamaged):
            await store.renew(lease, 10.0)

    run_with(SqliteStore(filled), body)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_file_that_was_cut_short_is_not_opened_and_said_to_be_damaged(filled: Path, share: float) -> None:
    cut(filled, share)
    with pytest.raises(DatabaseDamaged):
        run_with(SqliteStore(filled), nothing)


@pytest.mark.parametrize("table", ["history", "logs", "service_log", "runs_live", "leases"])
def test_damage_at_the_root_of_a_table_is_said_to_be_damage(filled: Path, table: str) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    overwrite(filled, root - 1)

    async def load(store: AnyStore) -> None:
        await store.load(256)

    with pytest.raises(DatabaseDamaged):
        run_with(SqliteStore(filled), load)


@pytest.mark.behaviour("RUN-6")
def test_keys_that_are_lost_are_made_anew_from_their_runs(database: Path) -> None:
    run = make_run("keyed", idempotency_key="k", payload=b"{}")
    digest = payload.digest(run.job_id, b"{}")

    async def keyed(store: AnyStore) -> None:
        lease = await take(store)
        batch = created(run)
        batch.jobs = [JOB]
        batch.keys.taken = [("default", "k", "keyed", digest, 1000.0)]
        await store.commit(batch, lease)

    async def known(store: AnyStore) -> object:
        return await known_keys(store, [("default", "k")])

    run_with(SqliteStore(database), keyed)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM idempotency_keys")
        connection.commit()
    copy = database.with_name("copy.db")
    assert saved_by(repair_copy(database, copy))["idempotency_keys"].saved == 1
    assert run_with(SqliteStore(copy), known) == {("default", "k"): ("keyed", digest)}


# ── less than was stored ────────────────────────────────────────────────────────────────────────────────────────────


def crashed(database: Path) -> Path:
    """A copy of what a scheduler leaves that is killed, with everything still in the write-ahead log."""
    left = database.with_name("left.db")

    async def body(store: AnyStore) -> None:
        for end in ("", "-wal", ".lock"):
            shutil.copy(f"{database}{end}", f"{left}{end}")

    async def filled(store: AnyStore) -> None:
        await fill(store)
        await body(store)

    run_with(SqliteStore(database), nothing)
    run_with(SqliteStore(database), filled)
    return left


LOSSES: dict[str, Callable[[Path], object]] = {
    "removed": os.unlink,
    "emptied": lambda log: os.truncate(log, 0),
    "cut": lambda log: os.truncate(log, log.stat().st_size // 2),
    "overwritten": lambda log: overwrite(log, 40),
}


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("loss", LOSSES)
def test_a_log_that_was_cut_or_removed_is_noticed(database: Path, loss: str) -> None:
    left = crashed(database)
    log = Path(f"{left}-wal")
    shutil.copy(log, f"{left} kept")
    LOSSES[loss](log)
    for _ in range(2):
        with pytest.raises(DatabaseBehind) as caught:
            run_with(SqliteStore(left), nothing)
        assert caught.value.code == "database_behind"
        assert f"but {RUNS} was stored" in str(caught.value)
        assert f"{left}-wal was cut or removed" in str(caught.value)
    os.unlink(f"{left}.lock")
    run_with(SqliteStore(left), nothing)
    run_with(SqliteStore(left), nothing)


@pytest.mark.behaviour("RUN-17")
def test_a_log_whose_database_is_missing_is_kept(database: Path) -> None:
    left = crashed(database)
    os.rename(left, aside := left.with_name("aside.db"))
    with pytest.raises(DatabaseBehind) as caught:
        run_with(SqliteStore(left), nothing)
    assert f"{left} was removed, but its log {left}-wal is there" in str(caught.value)
    assert "position" not in str(caught.value)
    os.rename(aside, left)

    async def all_there(store: AnyStore) -> None:
        assert len((await store.load(256)).runs) == RUNS

    run_with(SqliteStore(left), all_there)


def test_nothing_is_missed_after_a_crash_a_stop_or_a_new_beginning(database: Path) -> None:
    left = crashed(database)

    async def all_there(store: AnyStore) -> None:
        assert len((await store.load(256)).runs) == RUNS

    for path in (left, database):
        run_with(SqliteStore(path), all_there)
        run_with(SqliteStore(path), all_there)
        path.unlink()
        run_with(SqliteStore(path), nothing)
        run_with(SqliteStore(path), nothing)


def test_lines_that_are_stored_already_are_not_missed(database: Path) -> None:
    """A log line that comes twice has a position, and no row."""

    async def body(store: AnyStore) -> None:
        lease = await take(store)
        batch = created(make_run("r1"))
        batch.position, batch.logs.lines = 1, [("r1", 1, 1, 1.0, "info", "text", "app")]
        await store.commit(batch, lease)
        batch = created()
        batch.position, batch.logs.lines = 2, [("r1", 1, 1, 1.0, "info", "text", "app")]
        await store.commit(batch, lease)

    run_with(SqliteStore(database), body)
    run_with(SqliteStore(database), nothing)


def test_an_emptied_database_is_not_taken_for_a_new_one(filled: Path) -> None:
    os.truncate(filled, 0)
    with pytest.raises(DatabaseBehind):
        asyncio.run(SqliteStore(filled).open())
