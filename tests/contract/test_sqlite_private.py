"""The files of the SQLite store: for their user alone, whatever leads there; what others made is refused."""

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from interlock.buses.listener import bind_unix
from interlock.error import CannotOpenDatabase, InterlockError, NotADatabase, NotPrivate
from interlock.stores.sqlite import SqliteStore
from interlock.stores.sqlite.database import connect_reader
from interlock.stores.sqlite.repair import repair_copy
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import created, make_run, take
from tests.helpers.places import NOBODY

pytestmark = pytest.mark.behaviour("SEC-4")

ENDS = ["", "-wal", "-shm", "-journal", ".lock"]


async def one_run(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(make_run("r1")), lease)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def refused(database: Path, kind: type[InterlockError] = NotPrivate) -> str:
    with pytest.raises(kind) as caught:
        run_with(SqliteStore(database), one_run)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("links", [0, 1, 2])
@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_what_is_made_is_for_its_user_alone(tmp_path: Path, mask: int, links: int) -> None:
    (tmp_path / "below").mkdir()
    real = path = tmp_path / "below" / "real.db"
    for number in range(links):
        link = tmp_path / f"link{number}.db"
        link.symlink_to(path)
        path = link

    async def body(store: AnyStore) -> None:
        await one_run(store)
        assert {mode(f"{real}{end}") for end in ("", "-wal", "-shm", ".lock")} == {0o600}

    with umask(mask):
        run_with(SqliteStore(path), body)
        repair_copy(path, tmp_path / "copy.db")
        bind_unix(tmp_path / "a.sock").close()
    assert mode(tmp_path / "copy.db") == 0o600
    assert mode(tmp_path / "a.sock") == 0o600


@pytest.mark.parametrize("bits", [0o620, 0o602, 0o666])
@pytest.mark.parametrize("end", ENDS)
def test_a_file_that_others_can_write_is_refused(database: Path, end: str, bits: int) -> None:
    run_with(SqliteStore(database), one_run)
    path = Path(f"{database}{end}")
    path.touch()
    path.chmod(bits)
    before = path.read_bytes()
    assert f"{path} is refused because other users can write it (mode {bits:o})" in refused(database)
    assert (path.read_bytes(), mode(path)) == (before, bits)
    if end != ".lock":
        with pytest.raises(NotPrivate):
            connect_reader(database)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
@pytest.mark.parametrize("end", ENDS)
def test_a_file_of_another_owner_is_refused(database: Path, end: str) -> None:
    run_with(SqliteStore(database), one_run)
    path = Path(f"{database}{end}")
    path.touch(0o600)
    os.chown(path, NOBODY, -1)
    before = path.read_bytes()
    assert f"{path} is refused because it belongs to user {NOBODY}" in refused(database)
    assert path.read_bytes() == before


def test_a_file_that_others_can_read_is_closed_to_them(database: Path, caplog: pytest.LogCaptureFixture) -> None:
    database.touch(0o644)
    database.chmod(0o644)

    async def body(store: AnyStore) -> None:
        await one_run(store)
        assert {mode(f"{database}{end}") for end in ("", "-wal", "-shm")} == {0o600}

    with caplog.at_level(logging.WARNING, "interlock.store"):
        run_with(SqliteStore(database), body)
    assert f"{database} could be read by other users; its mode is 600 now" in caplog.messages


def test_a_file_of_another_program_keeps_its_mode(database: Path) -> None:
    with closing(sqlite3.connect(database)) as other:
        other.execute("CREATE TABLE things (name)")
    database.chmod(0o644)
    refused(database, NotADatabase)
    assert mode(database) == 0o644


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal", ".lock"])
def test_no_link_beside_the_database_is_followed(database: Path, end: str, is_there: bool) -> None:
    target = database.parent / "target"
    if is_there:
        target.write_text("precious")
    Path(f"{database}{end}").symlink_to(target)
    assert f"{database}{end}" in refused(database, CannotOpenDatabase)
    assert (target.read_text() if target.exists() else None) == ("precious" if is_there else None)


def test_a_lock_that_is_another_name_of_a_file_is_refused_and_the_file_unchanged(database: Path) -> None:
    target = database.parent / "target"
    target.write_text("precious")
    os.link(target, f"{database}.lock")
    assert "hard link" in refused(database)
    assert target.read_text() == "precious"


@pytest.mark.behaviour("LEA-2")
@pytest.mark.parametrize("name", ["first", "second"])
def test_a_database_with_a_second_name_is_refused(database: Path, name: str) -> None:
    """Each name has a lock and a log of its own: two schedulers would write one file."""
    run_with(SqliteStore(database), one_run)
    second = database.with_name("second.db")
    os.link(database, second)
    before = database.read_bytes()
    assert "hard link" in refused(second if name == "second" else database)
    assert database.read_bytes() == before


def test_what_is_no_file_is_refused(database: Path) -> None:
    os.mkfifo(database)
    assert "it is not a regular file" in refused(database, CannotOpenDatabase)
