"""Backups of a SQLite store that is in use, and what a restore does to the time that it loses."""

import os
import shutil
import signal
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interlock.error import BadValue, InterlockError, StoreInUse
from interlock.model.audit import verify
from interlock.model.state import State
from interlock.stores.sqlite import SqliteStore
from interlock.stores.sqlite.backup import back_up, restore, vacuum
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import created, entry, make_run, take
from tests.contract.test_sqlite_private import umask

pytestmark = pytest.mark.behaviour("REC-7")


def write(*run_ids: str, ended: bool = False) -> Callable[[AnyStore], Any]:
    async def body(store: AnyStore) -> int:
        lease = await take(store)
        for run_id in run_ids:
            batch = created(make_run(run_id, fence=3, ended_at=1.0 if ended else None))
            batch.position = await store.position() + 1
            batch.history = [(run_id, [entry(1, None, State.PENDING)])]
            await store.commit(batch, lease)
        return await store.position()

    return body


def runs_in(path: Path) -> dict[str, int]:
    """Run id → fence."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return dict(connection.execute("SELECT id, fence FROM runs ORDER BY id"))


def test_a_backup_has_what_was_stored_at_its_moment_and_is_for_its_owner(database: Path) -> None:
    target = database.with_name("copy.db")

    async def body(store: AnyStore) -> None:
        await write("r1", "r2")(store)
        with umask(0):
            made = back_up(database, target)
        assert (made.runs, made.bytes) == (2, target.stat().st_size)
        await write("r3")(store)

    run_with(SqliteStore(database), body)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(runs_in(target)) == ["r1", "r2"]
    assert sorted(path.name for path in database.parent.iterdir()) == ["copy.db", "runs.db", "runs.db.lock"]
    with pytest.raises(BadValue, match=r"exists already; name a new file, or replace it with --force"):
        back_up(database, target)
    assert list(runs_in(target)) == ["r1", "r2"]
    assert back_up(database, target, force=True).runs == 3
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_backup_has_commits_that_are_only_in_the_log_of_a_killed_scheduler(database: Path) -> None:
    copied = database.with_name("killed")
    copied.mkdir()

    async def body(store: AnyStore) -> None:
        await write("r1")(store)
        for end in ("", "-wal"):
            shutil.copy(f"{database}{end}", copied / f"runs.db{end}")

    run_with(SqliteStore(database), body)
    back_up(copied / "runs.db", copied / "copy.db")
    assert list(runs_in(copied / "copy.db")) == ["r1"]


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".lock", " by a link"])
def test_a_backup_never_takes_the_place_of_its_database(database: Path, end: str) -> None:
    target = Path(f"{database}{end}")

    async def body(store: AnyStore) -> None:
        await write("r1")(store)
        if end == " by a link":
            os.symlink(database, target)
        before = os.stat(target).st_ino
        with pytest.raises(BadValue, match="the database itself"):
            back_up(database, target, force=True)
        assert os.stat(target).st_ino == before
        await write("r2")(store)

    run_with(SqliteStore(database), body)
    assert list(runs_in(database)) == ["r1", "r2"]


def test_what_cannot_be_backed_up_leaves_nothing(database: Path) -> None:
    run_with(SqliteStore(database), write("r1"))
    other = database.with_name("other.db")
    other.write_bytes(b"text" * 100)
    before = list(database.parent.iterdir())
    for source, target in ((other, "copy.db"), (database.with_name("none.db"), "copy.db"), (database, "none/copy.db")):
        with pytest.raises(InterlockError):
            back_up(source, database.parent / target)
    # A reader of a database that nobody uses leaves its log, which is empty.
    assert [path for path in database.parent.iterdir() if not path.name.endswith(("-wal", "-shm"))] == before


@pytest.mark.behaviour("REC-8")
@pytest.mark.parametrize("previous", ["there", "gone"])
def test_a_restore_continues_behind_the_lost_time(database: Path, previous: str) -> None:
    copy = database.with_name("copy.db")
    run_with(SqliteStore(database), write("done", ended=True))
    run_with(SqliteStore(database), write("live"))
    back_up(database, copy)
    lost_at = run_with(SqliteStore(database), write("lost1", "lost2"))
    if previous == "gone":
        database.unlink()
    done = restore(copy, database)
    assert (done.runs, done.live, done.lost) == (2, 1, 2 if previous == "there" else None)
    assert done.made_at is not None
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    fences = runs_in(database)
    assert fences["done"] == 3
    assert fences["live"] > 1_700_000_000_000
    if previous == "there":
        assert list(runs_in(Path(str(done.replaced)))) == ["done", "live", "lost1", "lost2"]
        assert stat.S_IMODE(os.stat(str(done.replaced)).st_mode) == 0o600

    async def body(store: AnyStore) -> None:
        assert await store.position() > lost_at
        first = await store.position()
        assert await write("new")(store) == first + 1
        rows = await store.audit(0, 10)
        assert [entry.kind for entry in rows.entries] == ["restored"]
        assert verify(rows.entries, rows.head).faults == []

    run_with(SqliteStore(database), body)


def test_a_second_restore_of_the_same_backup_goes_further(database: Path) -> None:
    copy = database.with_name("copy.db")
    run_with(SqliteStore(database), write("live"))
    back_up(database, copy)
    restore(copy, database)
    first, fences = run_with(SqliteStore(database), write("lost")), runs_in(database)
    restore(copy, database)
    assert run_with(SqliteStore(database), write()) > first
    assert runs_in(database)["live"] > fences["live"]


def test_a_database_in_use_or_a_bad_backup_changes_nothing(database: Path) -> None:
    copy, damaged, foreign = (database.with_name(name) for name in ("copy.db", "damaged.db", "foreign.db"))
    run_with(SqliteStore(database), write("r1"))
    back_up(database, copy)
    data = bytearray(copy.read_bytes())
    data[len(data) // 2 :] = os.urandom(len(data) - len(data) // 2)
    damaged.write_bytes(data)
    foreign.write_bytes(b"nothing of ours")
    for path in (damaged, foreign):
        path.chmod(0o600)

    async def body(store: AnyStore) -> None:
        with pytest.raises(StoreInUse):
            restore(copy, database)

    run_with(SqliteStore(database), body)
    for path in (damaged, foreign, database.with_name("none.db")):
        with pytest.raises(InterlockError):
            restore(path, database)
    assert runs_in(database) == {"r1": 3}
    assert not [path.name for path in database.parent.iterdir() if "restoring" in path.name]


def test_free_pages_go_back_to_the_disk(database: Path) -> None:
    run_with(SqliteStore(database), write(*(f"r{number:03}" for number in range(100))))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM runs WHERE id < 'r099'")
        connection.execute("DELETE FROM history WHERE run_id < 'r099'")
        connection.commit()
    done = vacuum(database)
    assert done.after == database.stat().st_size < done.before
    run_with(SqliteStore(database), write("new"))
    assert list(runs_in(database)) == ["new", "r099"]

    async def body(store: AnyStore) -> None:
        with pytest.raises(StoreInUse):
            vacuum(database)

    run_with(SqliteStore(database), body)


def killed_at(line: int, work: Callable[[], object], *functions: str) -> bool:
    """Do work in a process that dies at one of its lines in these functions; return whether it got that far."""
    pid = os.fork()
    if pid == 0:
        left = line

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code.co_name not in functions:
                return None
            left -= event == "line"
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        threading.settrace(trace)
        sys.settrace(trace)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_killed_at_any_line_of_its_first_start_a_store_starts_again(tmp_path: Path) -> None:
    line, path = 1, tmp_path / "1.db"
    start = partial(run_with, body=write("r1"))
    while killed_at(line, partial(start, SqliteStore(path)), "_open_file", "connect_writer", "migrate"):
        run_with(SqliteStore(path), write("r2"))
        assert list(runs_in(path)) in (["r2"], ["r1", "r2"])
        line += 1
        path = tmp_path / f"{line}.db"
    assert line > 30


def test_a_restore_that_is_killed_anywhere_can_be_made_again(database: Path) -> None:
    source = database.with_name("copy.db")
    run_with(SqliteStore(database), write("kept"))
    back_up(database, source)
    run_with(SqliteStore(database), write("lost"))
    original = {end: Path(f"{database}{end}").read_bytes() for end in ("", ".lock")}
    seen, line = set[str](), 1
    while killed_at(line, lambda: restore(source, database), "_set_aside", "_replace"):
        try:
            run_with(SqliteStore(database), write())
            seen.add("restored" if list(runs_in(database)) == ["kept"] else "unchanged")
        except InterlockError as error:
            seen.add(error.code)
        restore(source, database)
        assert list(runs_in(database)) == ["kept"]
        for path in database.parent.iterdir():
            if path != source:
                path.unlink()
        for end, data in original.items():
            Path(f"{database}{end}").write_bytes(data)
            Path(f"{database}{end}").chmod(0o600)
        line += 1
    assert line > 20
    assert {"restored", "unchanged"} <= seen <= {"restored", "unchanged", "not_private", "database_behind"}
