"""Read the SQLite file, in any process, beside the scheduler that writes it."""

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from interlock import error as e
from interlock.stores.sql.reader import SqlReader, Work
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite.database import connect_reader, damage, is_damage, one_view
from interlock.stores.sqlite.queries import SqliteView

T = TypeVar("T")


class SqliteReader(SqlReader):
    """Each thread has its own connection. None is in a transaction between two calls, or SQLite could not fold the
    write-ahead log into the file."""

    def __init__(self, path: str | Path, threads: int = 4) -> None:
        self._path = Path(path)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._where: str | None = None  # the damaged place in the file, once it was searched for

    async def open(self) -> None:
        self._start_reading()
        try:
            with suppress(e.StoreUnavailable, sqlite3.Error):
                await asyncio.get_running_loop().run_in_executor(self._pool, self._connected)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._stop_reading()

    def _start_reading(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, "interlock-read")

    def _stop_reading(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._local = threading.local()

    async def _read(self, work: Work[T], whole: bool = True) -> T:
        if self._pool is None:
            raise e.StoreUnavailable("it is closed", asked=True)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_here, work, whole)

    def _read_here(self, work: Work[T], whole: bool) -> T:
        try:
            connection = self._connected()
            with one_view(connection) if whole else nullcontext():
                return at_once(work(SqliteView(connection)))
        except sqlite3.Error as error:
            damaged = self._damaged(self._local.connection, error) if is_damage(error) else None
            self._disconnect()
            raise damaged or e.StoreUnavailable(str(error), asked=True) from error
        except (e.NotADatabase, e.DatabaseTooNew, e.NotPrivate) as error:
            raise e.StoreUnavailable(str(error), asked=True) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise e.DatabaseDamaged(str(self._path), f"a stored value cannot be read: {error}") from error

    def _damaged(self, connection: sqlite3.Connection, error: BaseException) -> e.DatabaseDamaged:
        """Return an error with the damaged place. The search takes a while, so it is done once."""
        if self._where is None:
            self._where = damage(connection)
        return e.DatabaseDamaged(str(self._path), self._where or str(error))

    def _connected(self) -> sqlite3.Connection:
        """Return this thread's connection to the file that has the name now, not to one that was moved or deleted."""
        try:
            status = os.stat(self._path)
        except OSError as error:
            self._disconnect()
            raise e.StoreUnavailable(f"{self._path}: {error.strerror}", asked=True) from error
        identity = (status.st_dev, status.st_ino)
        if getattr(self._local, "identity", None) != identity:
            self._disconnect()
            self._local.connection = connect_reader(self._path)
            self._local.identity = identity
            self._connections.append(self._local.connection)
        connection: sqlite3.Connection = self._local.connection
        return connection

    def _disconnect(self) -> None:
        if getattr(self._local, "identity", None) is not None:
            self._local.identity = None
            self._connections.remove(self._local.connection)
            self._local.connection.close()
