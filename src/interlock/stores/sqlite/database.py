"""Opening the file: whose it is, who else has it, and which layout it has."""

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from interlock.model.error import CannotOpenDatabase, DatabaseTooNew, NotADatabase, StoreInUse, StoreUnavailable
from interlock.stores.sqlite.queries import migrations

APPLICATION_ID = 0x494C434B
"""'ILCK' in the file's header says that it is ours"""

BUSY_SECONDS = 2.0
READER_BUSY_SECONDS = 0.5
"""readers do not wait for a writer, only for the moment in which a file is recovered or closed"""

_MAGIC = b"SQLite format 3\0"


_LOCKS: "WeakSet[FileLock]" = WeakSet()


class FileLock:
    """An exclusive lock beside the database, held while a scheduler lives; the system lets go of it in any case."""

    def __init__(self, database: Path) -> None:
        # Whatever way leads to the file, there is one lock for it.
        self._path = Path(f"{os.path.realpath(database)}.lock")
        self._database = database
        self._descriptor: int | None = None
        _LOCKS.add(self)

    def take(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotOpenDatabase(str(self._database), str(error.strerror)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreInUse(str(self._database), f"process {holder}" if holder else "process unknown") from error
        self._descriptor = descriptor
        with suppress(OSError):  # on a full disk the lock holds as well, only without the holder's name
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        if self._descriptor is not None:
            # A process that was forked meanwhile has the same open file, and would keep the lock with it.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _forked() -> None:
    """A copy of this process holds no lock: it is for the process that runs the scheduler to hold."""
    for lock in list(_LOCKS):
        lock._drop()


os.register_at_fork(after_in_child=_forked)


def check_header(path: Path) -> None:
    """Refuse a file that is none of SQLite's: SQLite itself takes a file of one byte for an empty one.

    Only before the first connection of the process, because closing the file lets go of the locks of all of them.
    """
    with suppress(OSError), path.open("rb") as file:
        head = file.read(len(_MAGIC))
        if head not in (b"", _MAGIC):
            raise NotADatabase(str(path), "file is not a database")


def connect_writer(path: Path) -> sqlite3.Connection:
    """A connection that may write, on a file that is ours and up to date; a missing file is made."""
    try:
        # Payloads may hold secrets: a file that is made here is for its owner alone.
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise CannotOpenDatabase(str(path), _why(path, error)) from error
    try:
        _check_ours(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA cache_size = -32000")
        _migrate(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if _is_no_database(error):
            raise NotADatabase(str(path), str(error)) from error
        raise CannotOpenDatabase(str(path), _why(path, error)) from error
    except (NotADatabase, DatabaseTooNew):
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, on a file that is ours and up to date; a missing file is not made.

    Raises `StoreUnavailable` where the scheduler has not made the file yet or not brought it up to date.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=READER_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        _check_ours(connection, path)
        if connection.execute("PRAGMA user_version").fetchone()[0] < len(migrations()):
            raise StoreUnavailable(f"{path} is not up to date; the scheduler brings it up to date when it starts")
    except sqlite3.DatabaseError as error:
        connection.close()
        if _is_no_database(error):
            raise NotADatabase(str(path), str(error)) from error
        raise
    except (NotADatabase, DatabaseTooNew, StoreUnavailable):
        connection.close()
        raise
    return connection


def _is_no_database(error: sqlite3.DatabaseError) -> bool:
    return "not a database" in str(error) or "malformed" in str(error)


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if found != APPLICATION_ID and (tables or found):
        raise NotADatabase(str(path), "an SQLite file of another program")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    known = len(migrations())
    if version > known:
        raise DatabaseTooNew(str(path), version, known)


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply what is missing, each script and its number in one transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(migrations(), start=1):
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
