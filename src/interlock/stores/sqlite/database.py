"""Open the file: check its owner, its lock and its layout.

A commit is acknowledged only if the database, its log and its lock are still the files that were opened: three `stat`
calls, on the loop's thread, because each would cost the writer's thread the interpreter lock. The lock file, not the
log, holds the highest stored position. It is written after each commit and never synced: it may lag behind but is never
ahead, so a start that finds less in the database knows that the log was cut or removed. A second scheduler also looks
for a holder whose lock file was deleted (`/proc/locks`). After the first write that finds damage, nothing more is
written.
"""

import errno
import fcntl
import logging
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from interlock import error as e
from interlock.stores.sqlite.queries import migrations

logger = logging.getLogger("interlock.store")

APPLICATION_ID = 0x494C434B  # 'ILCK' in the file's header says that it is ours

MOVED = "moved:to"  # name of the memo that says where the database went; the file is not written any more

BUSY_SECONDS = 2.0
READER_BUSY_SECONDS = 0.5  # readers wait only while a file is recovered or closed, not for a writer

LOCATE_SECONDS = 1.0  # of a search for damage while a caller waits

_MAGIC = b"SQLite format 3\0"
_TREE = re.compile(r"[Tt]ree (?:page )?(\d+)(?: page (\d+))?")


_LOCKS: "WeakSet[FileLock]" = WeakSet()


class FileLock:
    """An exclusive lock beside the database, held while a scheduler lives; the system releases it in any case.

    The file names its holder and the highest stored position. Because that can be read without the write-ahead log, a
    log that was cut or removed is noticed.
    """

    def __init__(self, database: Path) -> None:
        self.path = lock_path(database)
        self._database = database
        self._descriptor: int | None = None
        self.position = 0
        _LOCKS.add(self)

    def take(self) -> None:
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder, _ = _read_mark(os.pread(descriptor, 64, 0))
            os.close(descriptor)
            raise e.StoreInUse(str(self._database), f"process {holder or 'unknown'}") from error
        self._descriptor = descriptor
        deleted = holder_of_deleted(self.path)
        if deleted is not None:
            self.release()
            raise e.StoreInUse(str(self._database), f"process {deleted}, whose lock file was deleted")
        self.note(_read_mark(os.pread(descriptor, 64, 0))[1])

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            why = f"{self.path} is a symbolic link; remove it" if error.errno == errno.ELOOP else str(error.strerror)
            raise e.CannotOpenDatabase(str(self._database), why) from error
        try:
            status = os.fstat(descriptor)
            _check_private(self.path, status)
            if status.st_nlink > 1:
                raise e.NotPrivate(self.path, "the file has a second name (a hard link)", "remove it")
            os.fchmod(descriptor, 0o600)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def note(self, position: int) -> None:
        """Write the highest stored position. It is not synced, because it may be behind, but never ahead."""
        self.position = position
        if self._descriptor is not None:
            with suppress(OSError):  # on a full disk the lock still holds, without its text
                os.pwrite(self._descriptor, f"{os.getpid():<11}\n{position:<20}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            # A forked process has the same open file, and would keep the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_path(database: str | Path) -> str:
    """Return the lock of a database, one for all paths that lead to it."""
    return f"{os.path.realpath(database)}.lock"


def read_lock(database: str | Path) -> tuple[str, int]:
    """Return the holder and the position in the lock file of a database; empty and 0 without one."""
    try:
        # Do not read a pipe or link that others may have put there.
        descriptor = os.open(lock_path(database), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return "", 0
    try:
        return _read_mark(os.read(descriptor, 64))
    finally:
        os.close(descriptor)


def _read_mark(text: bytes) -> tuple[str, int]:
    holder, _, position = text.decode("ascii", errors="replace").partition("\n")
    return holder.strip(), int(position) if position.strip().isdecimal() else 0


def holder_of_deleted(lock: str) -> str | None:
    """Return the process that holds a deleted lock file of this name, if any."""
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, *_, pid, _, _, _ = line.split()
            with suppress(OSError):
                if kind == "FLOCK" and any(
                    os.readlink(link) == f"{lock} (deleted)" for link in Path(f"/proc/{pid}/fd").iterdir()
                ):
                    return pid
    return None


def identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file with this name, if any."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _forked() -> None:
    """Drop the locks in a forked copy of this process: only the process of the scheduler holds them."""
    for lock in list(_LOCKS):
        lock._drop()


os.register_at_fork(after_in_child=_forked)


def check_header(path: Path) -> None:
    """Refuse a file that is not SQLite's: SQLite itself takes a file of one byte for an empty one.

    Call it only before the first connection of the process, because closing the file releases the locks of all.
    """
    check_files(path)
    with suppress(OSError), path.open("rb") as file:
        head = file.read(len(_MAGIC))
        if head not in (b"", _MAGIC):
            raise e.NotADatabase(str(path), "file is not a database")


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a file that another user owns or can write."""
    if not stat.S_ISREG(status.st_mode):
        why = "it is a directory" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
        raise e.CannotOpenDatabase(path, why)
    if status.st_uid != os.geteuid():
        fix = f"run Interlock as user {status.st_uid}, or give the file to user {os.geteuid()} if you trust it"
        raise e.NotPrivate(path, f"it belongs to user {status.st_uid}", fix)
    if status.st_mode & 0o022:
        fix = f"if you trust it: chmod 600 {path}"
        raise e.NotPrivate(path, f"other users can write it (mode {stat.S_IMODE(status.st_mode):o})", fix)


def check_files(path: Path) -> list[str]:
    """Refuse the database, or a file of SQLite beside it, if another user can write it; return those that other users
    can read. Links to the database are followed, others are refused."""
    real = os.path.realpath(path)
    readable = []
    for name, look in ((str(path), os.stat), *((f"{real}{end}", os.lstat) for end in ("-wal", "-shm", "-journal"))):
        with suppress(OSError):  # a missing file is left to SQLite
            status = look(name)
            _check_private(name, status)
            if status.st_mode & 0o077:
                readable.append(name)
    return readable


def _make_private(path: Path) -> None:
    """Make a missing file that only its owner can open, because payloads may hold secrets. SQLite gives its other files
    the same mode."""
    if not path.exists():
        # Without O_EXCL, so that a dangling link is followed.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # the umask may have left less
        finally:
            os.close(descriptor)
    check_files(path)
    if path.stat().st_nlink > 1:  # each name has its own lock and log: two schedulers would write one file
        raise e.NotPrivate(
            str(path), "the file has a second name (a hard link)", "remove the other name, or use a copy"
        )


_PRAGMAS = (
    "journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4000", "journal_size_limit = 67108864",
    "cache_size = -32000",
)  # fmt: skip


def _connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)


@contextmanager
def _closed_on_error(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Close the connection if anything fails, and say so if the file is damaged or no database."""
    try:
        yield
    except BaseException as error:
        refusal = _refusal(connection, path, error)
        connection.close()
        if refusal is not None:
            raise refusal from error
        raise


def connect_writer(path: Path, make: bool = True, even_moved: bool = False) -> sqlite3.Connection:
    """Connect to write, and bring the file up to date; make a missing one. Raises `DatabaseMoved`."""
    try:
        if make:
            _make_private(path)
        connection = _connect(path, "rw", BUSY_SECONDS)  # not rwc: SQLite would make a file with another mode
        with _closed_on_error(connection, path):
            _check_ours(connection, path)
            for name in check_files(path):
                logger.warning("%s could be read by other users; its mode is 600 now", name)
                os.chmod(name, 0o600)
            for setting in _PRAGMAS:
                connection.execute(f"PRAGMA {setting}")
            migrate(connection, migrations())
            if not even_moved and (move := read_move(connection)) is not None:
                raise e.DatabaseMoved(str(path), move.to)
    except (sqlite3.Error, OSError) as error:
        raise e.CannotOpenDatabase(str(path), _why(path, error)) from error
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Connect to read. Raises `StoreUnavailable` if the scheduler has not yet made or updated the file."""
    check_files(path)
    connection = _connect(path, "ro", READER_BUSY_SECONDS)
    with _closed_on_error(connection, path):
        connection.execute("PRAGMA query_only = ON")
        _check_ours(connection, path)
        if connection.execute("PRAGMA user_version").fetchone()[0] < len(migrations()):
            raise e.StoreUnavailable(f"{path} is not up to date; the scheduler brings it up to date when it starts")
    return connection


class Move(NamedTuple):
    id: str
    to: str  # without a password


def read_move(connection: sqlite3.Connection) -> Move | None:
    """Return the move of this database to a server, if any."""
    row = connection.execute("SELECT value FROM records WHERE kind = 'memo' AND id = ?", (MOVED,)).fetchone()
    return None if row is None else Move(*row[0].decode().split(" ", 1))


@contextmanager
def one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Let several statements see the file as one commit left it."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def is_damage(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _refusal(connection: sqlite3.Connection, path: Path, error: BaseException) -> e.InterlockError | None:
    """Return the error to raise if SQLite finds the file damaged or no database; otherwise None."""
    if is_damage(error):
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA writable_schema = ON")  # lets SQLite read a truncated file
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return e.DatabaseDamaged(str(path), damage(connection) or str(error))
        return e.NotADatabase(str(path), str(error))
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return e.NotADatabase(str(path), str(error))
    return None


def damage(connection: sqlite3.Connection, seconds: float = LOCATE_SECONDS) -> str:
    """Return the first damaged place in the file; empty if none is found in time."""
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        connection.execute("PRAGMA writable_schema = ON")
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0]).splitlines()[-1]
        place = _TREE.search(found)
        query = "SELECT type || ' ' || name FROM sqlite_schema WHERE rootpage = ?"
        name = None if place is None else connection.execute(query, (place[1],)).fetchone()
    except sqlite3.Error as error:
        return "" if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT else str(error)
    finally:
        connection.set_progress_handler(None, 0)
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA writable_schema = OFF")
    if found == "ok":
        return ""
    return found if name is None else f"{name[0]}: {found}"


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if found != APPLICATION_ID and (tables or found):
        raise e.NotADatabase(str(path), "an SQLite file of another program")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    known = len(migrations())
    if version > known:
        raise e.DatabaseTooNew(str(path), version, known)
    if version and not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'records'").fetchone():
        raise e.NotADatabase(str(path), "it is of a version that was never released")


def migrate(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    """Apply the missing scripts, each with its number in one transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(scripts, start=1):
        if number > version:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\nPRAGMA application_id = {APPLICATION_ID};\n"
                f"PRAGMA user_version = {number};\nCOMMIT;"
            )


def _why(path: Path, error: Exception) -> str:
    if path.is_dir():
        return "it is a directory"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    return str(error)
