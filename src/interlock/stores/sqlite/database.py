"""Opening the file: whose it is, who else has it, and which layout it has."""

import errno
import fcntl
import logging
import os
import re
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from interlock.model.error import (
    CannotOpenDatabase,
    DatabaseDamaged,
    DatabaseTooNew,
    InterlockError,
    NotADatabase,
    NotPrivate,
    StoreInUse,
    StoreUnavailable,
)
from interlock.stores.sqlite.queries import migrations

logger = logging.getLogger("interlock.store")

APPLICATION_ID = 0x494C434B
"""'ILCK' in the file's header says that it is ours"""

BUSY_SECONDS = 2.0
READER_BUSY_SECONDS = 0.5
"""readers do not wait for a writer, only for the moment in which a file is recovered or closed"""

LOCATE_SECONDS = 1.0
"""for which damage is looked for while somebody waits"""

_MAGIC = b"SQLite format 3\0"
_TREE = re.compile(r"[Tt]ree (?:page )?(\d+)(?: page (\d+))?")


_LOCKS: "WeakSet[FileLock]" = WeakSet()


class FileLock:
    """An exclusive lock beside the database, held while a scheduler lives; the system lets go of it in any case.

    The file names its holder and the highest position that was stored. The write-ahead log is not needed to read that,
    so that a log that was cut or removed is noticed.
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
            raise StoreInUse(str(self._database), f"process {holder or 'unknown'}") from error
        self._descriptor = descriptor
        deleted = holder_of_deleted(self.path)
        if deleted is not None:
            self.release()
            raise StoreInUse(str(self._database), f"process {deleted}, whose lock file was deleted")
        self.note(_read_mark(os.pread(descriptor, 64, 0))[1])

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            why = f"{self.path} is a symbolic link; remove it" if error.errno == errno.ELOOP else str(error.strerror)
            raise CannotOpenDatabase(str(self._database), why) from error
        try:
            status = os.fstat(descriptor)
            _check_private(self.path, status)
            if status.st_nlink > 1:
                raise NotPrivate(self.path, "the file has a second name (a hard link)", "remove it")
            os.fchmod(descriptor, 0o600)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def note(self, position: int) -> None:
        """Write down how far the database is stored. It is not synced: it must never be ahead, and may be behind."""
        self.position = position
        if self._descriptor is not None:
            with suppress(OSError):  # on a full disk the lock holds as well, only without what it says
                os.pwrite(self._descriptor, f"{os.getpid():<11}\n{position:<20}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            # A process that was forked meanwhile has the same open file, and would keep the lock with it.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_path(database: str | Path) -> str:
    """Whatever way leads to the file, there is one lock for it."""
    return f"{os.path.realpath(database)}.lock"


def read_lock(database: str | Path) -> tuple[str, int]:
    """Return the holder and the position in the lock file of a database; empty and 0 without one."""
    try:
        # What others may have put there, a pipe or a link, is not read.
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
    """Return the process that holds a deleted lock file of this name: a second scheduler could take a new one."""
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, *_, pid, _, _, _ = line.split()
            with suppress(OSError):
                if kind == "FLOCK" and any(
                    os.readlink(one) == f"{lock} (deleted)" for one in Path(f"/proc/{pid}/fd").iterdir()
                ):
                    return pid
    return None


def identity_of(path: str) -> tuple[int, int] | None:
    """Which file has this name, if any."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _forked() -> None:
    """A copy of this process holds no lock: it is for the process that runs the scheduler to hold."""
    for lock in list(_LOCKS):
        lock._drop()


os.register_at_fork(after_in_child=_forked)


def check_header(path: Path) -> None:
    """Refuse a file that is none of SQLite's: SQLite itself takes a file of one byte for an empty one.

    Only before the first connection of the process, because closing the file lets go of the locks of all of them.
    """
    check_files(path)
    with suppress(OSError), path.open("rb") as file:
        head = file.read(len(_MAGIC))
        if head not in (b"", _MAGIC):
            raise NotADatabase(str(path), "file is not a database")


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a file that another user made, or could have changed."""
    if not stat.S_ISREG(status.st_mode):
        why = "it is a directory" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
        raise CannotOpenDatabase(path, why)
    if status.st_uid != os.geteuid():
        fix = f"run Interlock as user {status.st_uid}, or give the file to user {os.geteuid()} if you trust it"
        raise NotPrivate(path, f"it belongs to user {status.st_uid}", fix)
    if status.st_mode & 0o022:
        fix = f"if you trust it: chmod 600 {path}"
        raise NotPrivate(path, f"other users can write it (mode {stat.S_IMODE(status.st_mode):o})", fix)


def check_files(path: Path) -> list[str]:
    """Refuse the database, or a file beside it that SQLite would read, unless it is this user's alone to write.

    Returns those that other users can read. Links that lead to the database are followed, others are refused.
    """
    real = os.path.realpath(path)
    readable = []
    for name, look in ((str(path), os.stat), *((f"{real}{end}", os.lstat) for end in ("-wal", "-shm", "-journal"))):
        with suppress(OSError):  # where there is nothing to look at, SQLite finds out why
            status = look(name)
            _check_private(name, status)
            if status.st_mode & 0o077:
                readable.append(name)
    return readable


def _make_private(path: Path) -> None:
    """Make a missing file so that only its owner can open it: payloads may hold secrets. SQLite gives the files beside
    it the same mode."""
    if not path.exists():
        # Without O_EXCL, so that a link that leads to nothing yet is followed.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # the umask may have left less
        finally:
            os.close(descriptor)
    check_files(path)


def connect_writer(path: Path, make: bool = True) -> sqlite3.Connection:
    """A connection that may write, on a file that is ours and up to date; a missing file is made."""
    try:
        if make:
            _make_private(path)
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",  # never made by SQLite, whose files have other modes
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except (sqlite3.Error, OSError) as error:
        raise CannotOpenDatabase(str(path), _why(path, error)) from error
    try:
        _check_ours(connection, path)
        for name in check_files(path):
            logger.warning("%s could be read by other users; its mode is 600 now", name)
            os.chmod(name, 0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA cache_size = -32000")
        migrate(connection, migrations())
    except BaseException as error:
        refusal = _refusal(connection, path, error)
        connection.close()
        if refusal is not None:
            raise refusal from error
        if isinstance(error, sqlite3.Error):
            raise CannotOpenDatabase(str(path), _why(path, error)) from error
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, on a file that is ours and up to date; a missing file is not made.

    Raises `StoreUnavailable` where the scheduler has not made the file yet or not brought it up to date.
    """
    check_files(path)
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
    except BaseException as error:
        refusal = _refusal(connection, path, error)
        connection.close()
        if refusal is not None:
            raise refusal from error
        raise
    return connection


def is_damage(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _refusal(connection: sqlite3.Connection, path: Path, error: BaseException) -> InterlockError | None:
    """Return the error to raise if SQLite says that the file is damaged or no database; otherwise None."""
    if is_damage(error):
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA writable_schema = ON")  # otherwise nothing of a truncated file can be read
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return DatabaseDamaged(str(path), damage(connection) or str(error))
        return NotADatabase(str(path), str(error))
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return NotADatabase(str(path), str(error))
    return None


def damage(connection: sqlite3.Connection, seconds: float = LOCATE_SECONDS) -> str:
    """The first place where the file is damaged; nothing if none is found in this time."""
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
        raise NotADatabase(str(path), "an SQLite file of another program")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    known = len(migrations())
    if version > known:
        raise DatabaseTooNew(str(path), version, known)


def migrate(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    """Apply what is missing, each script and its number in one transaction."""
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
