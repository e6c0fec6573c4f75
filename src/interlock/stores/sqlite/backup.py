"""Back up a database that may be in use; restore or vacuum one that is not.

A restore goes back in time: runs that were acknowledged after the backup are lost, but workers may still execute them,
and clients remember events about them. So the restored file continues behind everything that the lost time can have
used: event positions, the fences of runs (`core/recovery/rebuild.py`), and the times of schedules.
"""

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from interlock.core.audit import HEAD
from interlock.core.recovery import rebuild
from interlock.error import BadUse, CannotOpenDatabase, DatabaseDamaged, DatabaseMoved, InterlockError, shown
from interlock.fields.json_form import rfc3339
from interlock.model.audit import AuditEntry, AuditHead, AuditKind, chained
from interlock.model.record import Memo
from interlock.stores.sql.lookups import read_audit_end, read_position, read_record
from interlock.stores.sql.rows import audit_row
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite import database as db
from interlock.stores.sqlite.queries import QUERIES, SqliteView, put_records

MADE = "backup:at"  # name of the memo with the time of a backup
UNKNOWN_POSITIONS = 10**12  # more than a scheduler gives between a backup and its restore
ENDS = ("", "-wal", "-shm")
T = TypeVar("T")


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    runs: int
    bytes: int


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    made_at: float | None  # time of the backup, if the file says so
    runs: int
    live: int  # runs that continue from their state in the backup
    lost: int | None  # runs that only the replaced database has; None if there was none, or it cannot be read
    replaced: str | None  # name of the previous database


def back_up(database: Path, target: Path, force: bool = False) -> Backup:
    """Copy the database as it is at one moment into a file of mode 600; schedulers may write meanwhile."""
    own = {f"{os.path.realpath(database)}{end}" for end in ENDS} | {os.path.realpath(db.lock_path(database))}
    if os.path.realpath(target) in own:
        # A scheduler would go on writing to a file that has lost its name.
        raise BadUse("FILE", f"{shown(str(target))} belongs to the database itself; name another file")
    with closing(_opened(database)) as source, _claimed(target, force) as part:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file
            put_records(copy, [Memo(MADE, repr(time.time()).encode())])
            runs = copy.execute(QUERIES["count_runs"]).fetchone()[0]
        _replace(part, target)
    return Backup(path=str(target), runs=runs, bytes=target.stat().st_size)


def restore(backup: Path, database: Path) -> Restored:
    """Replace a database that no scheduler uses. The previous one gets another name."""
    target = Path(os.path.realpath(database))
    lock, part = db.FileLock(target), Path(f"{target}.restoring")
    lock.take()
    try:
        if (move := _of_previous(target, db.read_move)) is not None:
            raise DatabaseMoved(str(database), move.to)
        _remove(part)
        _make(part)
        with closing(_opened(backup)) as source, closing(sqlite3.connect(part, isolation_level=None)) as copy:
            if source.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise DatabaseDamaged(str(backup), db.damage(source))
            source.backup(copy)
        with closing(db.connect_writer(part, make=False)) as copy:
            last = copy.execute(QUERIES["get_number_range"]).fetchone()[1]
            found = Restored(
                path=str(database),
                made_at=_memo(copy, MADE),
                runs=copy.execute(QUERIES["count_runs"]).fetchone()[0],
                live=copy.execute(QUERIES["count_unended"]).fetchone()[0],
                lost=_of_previous(target, partial(_count_after, last)),
                replaced=None,
            )
            position = _continue_behind(copy, lock.position, found)
        replaced = _set_aside(target)
        _replace(part, target)
        lock.note(position)
        return msgspec.structs.replace(found, replaced=replaced)
    except (OSError, sqlite3.Error) as error:
        raise CannotOpenDatabase(str(target), str(error)) from error
    finally:
        _remove(part)
        lock.release()


def _continue_behind(copy: sqlite3.Connection, noted: int, found: Restored) -> int:
    """Make sure that nothing of the lost time is taken for something new; return the new position."""
    # Later than an earlier restore, even if the clock was set back since.
    at = max(time.time(), (_memo(copy, rebuild.AT) or 0.0) + 1)
    position = max(at_once(read_position(SqliteView(copy))), noted) + UNKNOWN_POSITIONS
    entry = chained(
        at_once(read_audit_end(SqliteView(copy))),
        AuditEntry(
            number=0, at=round(at, 3), kind=AuditKind.RESTORED, actor="local", tenant="", subject=found.path,
            detail={"lost": found.lost, "made_at": None if found.made_at is None else rfc3339(found.made_at)},
        ),
    )  # fmt: skip
    copy.execute("BEGIN IMMEDIATE")
    copy.execute(QUERIES["raise_fences"], (rebuild.first_fence(at),))
    copy.execute(QUERIES["insert_audit"], audit_row(entry))
    memos = (
        Memo(rebuild.AT, repr(at).encode()),
        Memo(rebuild.POSITION, str(position).encode()),
        Memo(HEAD, msgspec.json.encode(AuditHead(entry.number, entry.hash))),
    )
    put_records(copy, memos)
    copy.execute(QUERIES["forget_record"], (Memo.kind, MADE))
    copy.execute("COMMIT")
    return position


def _set_aside(target: Path) -> str | None:
    """Give the previous database and its log another name; its own is replaced in one step afterwards."""
    if not target.exists():
        _remove(target)  # a log without its database
        return None
    names = (f"{target}.replaced-{number}" for number in itertools.count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    with suppress(InterlockError):  # a damaged one keeps its log
        db.connect_writer(target, make=False).close()
    for end in ENDS[1:]:
        with suppress(FileNotFoundError):
            os.rename(f"{target}{end}", f"{aside}{end}")
    os.link(target, aside)
    return aside


def _of_previous(target: Path, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """Return what is read from the previous database; None if there is none, or it cannot be read."""
    try:
        with closing(_opened(target)) as previous:
            return read(previous)
    except (InterlockError, sqlite3.Error):
        return None


def _count_after(last: int, connection: sqlite3.Connection) -> int:
    """Return how many runs the database has after the last one of the backup."""
    count: int = connection.execute("SELECT count(*) FROM runs WHERE number > ?", (last,)).fetchone()[0]
    return count


def _memo(connection: sqlite3.Connection, name: str) -> float | None:
    memo = at_once(read_record(Memo, name, SqliteView(connection)))
    return None if memo is None else float(memo.value)


def _opened(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise CannotOpenDatabase(str(path), "no such file")
    db.check_header(path)
    try:
        return db.connect_reader(path)
    except sqlite3.Error as error:
        raise CannotOpenDatabase(str(path), str(error)) from error


@contextmanager
def _claimed(target: Path, force: bool) -> Iterator[Path]:
    """Yield a private file beside the target, which nobody else can make meanwhile."""
    part = Path(f"{target}.part-{os.getpid()}")
    try:
        if not force:
            _make(target)
        try:
            _make(part)
            yield part
        except BaseException:
            if not force:
                target.unlink()
            raise
        finally:
            _remove(part)
    except FileExistsError as error:
        raise BadUse(
            "FILE", f"{shown(str(target))} exists already; name a new file, or replace it with --force"
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise CannotOpenDatabase(str(target), str(error)) from error


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def _replace(part: Path, target: Path) -> None:
    """Give a complete file its final name, durably."""
    _sync(part)
    os.replace(part, target)
    _sync(target.absolute().parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    for end in (*ENDS, "-journal"):
        Path(f"{path}{end}").unlink(missing_ok=True)


class Vacuumed(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: int  # bytes
    after: int


def vacuum(database: Path) -> Vacuumed:
    """Write the file anew without free pages, which needs as much room again meanwhile."""
    if not database.exists():
        raise CannotOpenDatabase(str(database), "no such file")
    lock = db.FileLock(database)
    lock.take()
    try:
        before = os.stat(database).st_size
        with closing(db.connect_writer(database, make=False)) as connection:
            connection.execute("VACUUM")
        return Vacuumed(path=str(database), before=before, after=os.stat(database).st_size)
    except sqlite3.Error as error:
        raise CannotOpenDatabase(str(database), str(error)) from error
    finally:
        lock.release()
