"""The SQLite store when writing fails: what was acknowledged stays, nothing is half done, and it recovers by itself."""

import asyncio
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from interlock.core.decisions import Batch
from interlock.error import InterlockError, StoreUnavailable
from interlock.model.state import State
from interlock.stores.sqlite import SqliteStore
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import created, entry, everything, everything_in_one_batch, make_run, take, updated
from tests.helpers.lookups import states


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Make the system refuse, for this process, every write beyond a size. (Python itself ignores the signal.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Another program in the middle of a write."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


@contextmanager
def moved_away(database: Path) -> Iterator[None]:
    """The file cannot be opened: it and what belongs to it are elsewhere, and a directory has its name."""
    files = [path for path in database.parent.glob(f"{database.name}*") if path.suffix != ".lock"]
    for path in files:
        path.rename(path.with_name(f"aside {path.name}"))
    database.mkdir()
    try:
        yield
    finally:
        database.rmdir()
        for path in files:
            path.with_name(f"aside {path.name}").rename(path)


def large_batch() -> Batch:
    """More than fits into the cache of the connection, so that pages are written before the commit."""
    batch = created(*(make_run(f"large {number}", payload=bytes(100_000)) for number in range(500)))
    batch.history = [(f"large {number}", [entry(1, None, State.PENDING)]) for number in range(500)]
    return batch


@pytest.mark.behaviour("RUN-2", "RUN-17")
@pytest.mark.parametrize("room", [0, 1, 4096, 10_000_000])
def test_a_write_that_fails_stores_nothing_loses_nothing_and_works_again_later(database: Path, room: int) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(make_run("r1")), lease)
        before = await everything(store)
        used = os.stat(f"{database}-wal").st_size
        batch = large_batch() if room > 5000 else created(make_run("r2", payload=bytes(20_000)))
        batch.history.append(("r1", [entry(3, State.SCHEDULED, State.CANCELLED)]))
        batch.updated = updated(make_run("r1", seq=3, state=State.CANCELLED, ended_at=1001.0)).updated
        with files_no_larger_than(used + room if room else 0):
            for _ in range(2):
                with pytest.raises(StoreUnavailable) as caught:
                    await store.commit(batch, lease)
                assert caught.value.code == "store_unavailable"
            if room < 2:
                with pytest.raises(StoreUnavailable):
                    await store.renew(lease, 10.0)
            assert await everything(store) == before, "reading goes on"
        assert await everything(store) == before
        await store.commit(batch, lease)
        run = await store.run("r1")
        assert run is not None
        assert run.state is State.CANCELLED
        assert set(await states(store, [row[0] for row in batch.created])) == {row[0] for row in batch.created}
        assert len(await store.history("r1")) == 1

    run_with(SqliteStore(database), body)

    async def after(store: AnyStore) -> None:
        assert set(await states(store, ["r1"])) == {"r1"}

    run_with(SqliteStore(database), after)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


async def test_a_store_that_cannot_be_written_at_the_start_says_so_and_can_be_opened_later(database: Path) -> None:
    store = SqliteStore(database)
    with files_no_larger_than(0):
        with pytest.raises(InterlockError) as caught:
            await store.open()
    assert caught.value.code in {"cannot_open_database", "store_unavailable"}
    assert "\n" not in str(caught.value)
    await store.close()
    await store.open()
    await take(store)
    await store.close()


async def test_a_commit_waits_for_another_program_that_writes(sqlite: SqliteStore, database: Path) -> None:
    lease = await take(sqlite)
    with locked(database) as other:
        commit = asyncio.ensure_future(sqlite.commit(created(make_run("r1")), lease))
        assert set(await states(sqlite, ["r1"])) == set(), "readers do not wait"
        assert not commit.done()
        other.execute("ROLLBACK")
        await commit
    assert set(await states(sqlite, ["r1"])) == {"r1"}


async def test_a_program_that_writes_for_too_long_makes_the_store_unavailable_and_no_worse(
    sqlite: SqliteStore, database: Path
) -> None:
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("r1")), lease)
    with locked(database) as other:
        with pytest.raises(StoreUnavailable, match="locked"):
            await sqlite.commit(created(make_run("r2")), lease)
        assert set(await states(sqlite, ["r1", "r2"])) == {"r1"}
        other.execute("ROLLBACK")
    await sqlite.commit(created(make_run("r2")), lease)
    assert set(await states(sqlite, ["r1", "r2"])) == {"r1", "r2"}


def test_opening_while_another_program_writes_is_an_error_with_a_code(database: Path) -> None:
    async def nothing(store: AnyStore) -> None:
        pass

    run_with(SqliteStore(database), nothing)

    async def body() -> None:
        store = SqliteStore(database)
        with locked(database):
            with pytest.raises(InterlockError) as caught:
                await store.open()
        assert caught.value.code in {"cannot_open_database", "store_unavailable"}
        assert "locked" in str(caught.value)
        await store.open()
        await store.close()

    asyncio.run(body())


@pytest.mark.behaviour("RUN-2")
async def test_a_batch_that_cannot_be_stored_leaves_nothing_and_does_not_block_the_next(sqlite: SqliteStore) -> None:
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("old")), lease)
    before = await everything(sqlite)
    bad = everything_in_one_batch()
    # What the schema refuses, and nothing is written after it.
    bad.service_log.append(("web", 9, 1.0, None, "text", None))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await sqlite.commit(bad, lease)
    assert await everything(sqlite) == before
    await sqlite.commit(created(make_run("r1")), lease)


async def test_a_caller_that_gives_up_leaves_a_whole_commit_or_none(sqlite: SqliteStore, database: Path) -> None:
    lease = await take(sqlite)
    with locked(database) as other:
        commit = asyncio.ensure_future(sqlite.commit(large_batch(), lease))
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        other.execute("ROLLBACK")
    await sqlite.commit(created(make_run("r1")), lease)
    stored = await states(sqlite, [f"large {number}" for number in range(500)])
    assert len(stored) in (0, 500)


async def test_a_connection_that_broke_is_made_anew_as_soon_as_the_file_can_be_opened(
    sqlite: SqliteStore, database: Path
) -> None:
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("r1")), lease)
    # What no error of the system does on demand: the connection dies so that not even a rollback works.
    assert sqlite._connection is not None
    sqlite._connection.close()
    with moved_away(database):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await sqlite.commit(created(make_run("r2")), lease)
    await sqlite.commit(created(make_run("r2")), lease)
    assert set(await states(sqlite, ["r1", "r2"])) == {"r1", "r2"}
