"""Give free pages of a database that no scheduler uses back to the disk."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from interlock.error import CannotOpenDatabase
from interlock.stores.sqlite.database import FileLock, connect_writer


class Vacuumed(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: int  # bytes
    after: int


def vacuum(database: Path) -> Vacuumed:
    """Write the file anew without free pages, which needs as much room again meanwhile."""
    if not database.exists():
        raise CannotOpenDatabase(str(database), "no such file")
    lock = FileLock(database)
    lock.take()
    try:
        before = os.stat(database).st_size
        with closing(connect_writer(database, make=False)) as connection:
            connection.execute("VACUUM")
        return Vacuumed(path=str(database), before=before, after=os.stat(database).st_size)
    except sqlite3.Error as error:
        raise CannotOpenDatabase(str(database), str(error)) from error
    finally:
        lock.release()
