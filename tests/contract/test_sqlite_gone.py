"""Files of the SQLite store that are deleted, moved or replaced while it writes: nothing more is acknowledged."""

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.error import DatabaseGone, StoreInUse, StoreUnavailable
from interlock.stores.sqlite import SqliteStore
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import NAME, created, make_run, take
from tests.helpers.lookups import states

ENDS = ["", "-wal", ".lock"]


def aside(path: Path) -> Path:
    return path.with_name(f"aside {path.name}")


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o600)
    os.rename(copy, path)


DEEDS: dict[str, Callable[[Path], object]] = {
    "deleted": os.unlink,
    "moved": lambda path: os.rename(path, aside(path)),
    "replaced": replace,
}


async def gone(answer: Awaitable[object], path: Path) -> None:
    with pytest.raises(DatabaseGone) as caught:
        await answer
    assert caught.value.code == "database_gone"
    assert f"{path} was deleted, moved or replaced" in str(caught.value)
    assert "nothing was changed" not in str(caught.value)


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("through", ["its name", "a link"])
def test_nothing_is_acknowledged_once_a_file_is_gone(database: Path, through: str, end: str, deed: str) -> None:
    path = database
    if through == "a link":
        path = database.with_name("link.db")
        path.symlink_to(database)
    file = Path(f"{path if end == '' else database}{end}")

    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(make_run("before")), lease)
        DEEDS[deed](Path(f"{database}{end}"))
        await gone(store.commit(created(make_run("after")), lease), file)
        for number in range(2):
            with pytest.raises(DatabaseGone):
                await store.commit(created(make_run(f"later {number}")), lease)
            with pytest.raises(DatabaseGone):
                await store.renew(lease, 10.0)
            with pytest.raises(DatabaseGone):
                await store.take(NAME, "tester", "t1", 10.0)
        if deed != "replaced":
            assert f"{database.name}{end}" not in os.listdir(database.parent), "nothing is made in its place"

    run_with(SqliteStore(path), body)


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("end", ENDS)
async def test_a_file_that_is_put_back_is_written_on(sqlite: SqliteStore, database: Path, end: str) -> None:
    path = Path(f"{database}{end}")
    lease = await take(sqlite)
    os.rename(path, aside(path))
    await gone(sqlite.commit(created(make_run("doubtful")), lease), path)
    with pytest.raises(DatabaseGone):
        await sqlite.commit(created(make_run("never")), lease)
    os.rename(aside(path), path)
    await sqlite.commit(created(make_run("after")), lease)
    assert set(await states(sqlite, ["after", "never"])) == {"after"}


async def test_who_only_asks_hears_nothing_of_changes(sqlite: SqliteStore, database: Path) -> None:
    os.unlink(database)
    with pytest.raises(StoreUnavailable, match="cannot be read now") as caught:
        await sqlite.run("r1")
    assert "changed" not in str(caught.value)


async def test_a_connection_that_broke_makes_no_new_file(sqlite: SqliteStore, database: Path) -> None:
    lease = await take(sqlite)
    # What no error of the system does on demand: the connection dies so that not even a rollback works.
    assert sqlite._connection is not None
    sqlite._connection.close()
    os.unlink(database)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await sqlite.commit(created(make_run("r1")), lease)
    assert database.name not in os.listdir(database.parent)


@pytest.mark.parametrize("ends", [[".lock"], ["", "-wal", "-shm", ".lock"]])
async def test_no_second_scheduler_starts_because_the_lock_file_was_deleted(database: Path, ends: list[str]) -> None:
    first, second = SqliteStore(database), SqliteStore(database)
    await first.open()
    lease = await take(first)
    for end in ends:
        os.unlink(f"{database}{end}")
    for _ in range(2):
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}, whose lock file was deleted"):
            await second.open()
    with pytest.raises(DatabaseGone):
        await first.commit(created(make_run("r1")), lease)
    await first.close()
    await second.open()
    await second.close()


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("size", [0, 5000])
async def test_nothing_is_acknowledged_once_the_log_was_cut(sqlite: SqliteStore, database: Path, size: int) -> None:
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("before")), lease)
    log = f"{database}-wal"
    shutil.copy(log, aside(Path(log)))
    os.truncate(log, size)
    for _ in range(2):
        with pytest.raises(DatabaseGone):
            await sqlite.commit(created(make_run("after")), lease)
    shutil.copyfile(aside(Path(log)), log)
    await sqlite.commit(created(make_run("after")), lease)
    assert set(await states(sqlite, ["before", "after"])) == {"before", "after"}
