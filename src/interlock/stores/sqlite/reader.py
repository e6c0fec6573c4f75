"""Reading the SQLite file, in this or any other process, beside the scheduler that writes it."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interlock.model.error import DatabaseTooNew, NotADatabase, StoreUnavailable
from interlock.model.job import Job
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.ports.store import (
    MOST_EVENT_BYTES,
    MOST_LOOKED_AT,
    DeadLetter,
    EventRows,
    LogEntry,
    Reader,
    RunFilter,
    RunRows,
    StoredEvent,
)
from interlock.stores.sqlite.database import connect_reader
from interlock.stores.sqlite.queries import LISTINGS, QUERIES

T = TypeVar("T")

_LARGEST = 2**63 - 1
_history_decoder = msgspec.msgpack.Decoder(list[Transition])
_job_decoder = msgspec.json.Decoder(Job)


class SqliteReader(Reader):
    """Each thread has a connection of its own. Between two calls none of them is in a transaction, which would keep the
    write-ahead log from being folded into the file."""

    def __init__(self, path: str | Path, threads: int = 4) -> None:
        self._path = Path(path)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def open(self) -> None:
        self._start_reading()
        try:
            with suppress(StoreUnavailable, sqlite3.Error):
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

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            raise StoreUnavailable("it is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_here, work)

    def _read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._connected())
        except sqlite3.Error as error:
            self._disconnect()
            raise StoreUnavailable(str(error)) from error
        except (NotADatabase, DatabaseTooNew) as error:
            raise StoreUnavailable(str(error)) from error

    def _connected(self) -> sqlite3.Connection:
        """This thread's connection to the file that has the name now: one that was moved away or deleted would go on
        being read otherwise, and nobody would notice."""
        try:
            status = os.stat(self._path)
        except OSError as error:
            self._disconnect()
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from error
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

    async def run(self, run_id: str) -> Run | None:
        def work(connection: sqlite3.Connection) -> Run | None:
            row = connection.execute(QUERIES["get_run"], (run_id,)).fetchone()
            return None if row is None else read_run(row)

        return await self._read(work)

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        find, find_floor = LISTINGS[_place(wanted)]
        values = msgspec.structs.asdict(wanted) | {
            "states": msgspec.json.encode(sorted(wanted.states)).decode() if wanted.states else None,
            "before": _LARGEST if before is None else _in_range(before),
            "most": MOST_LOOKED_AT,
            # One more than asked for tells whether there is another page.
            "limit": limit + 1,
        }

        def work(connection: sqlite3.Connection) -> RunRows:
            with one_view(connection):
                floor = connection.execute(find_floor, values).fetchone()
                rows = connection.execute(find, values | {"floor": 0 if floor is None else floor[0]}).fetchall()
            runs = [read_run(row[1:]) for row in rows[:limit]]
            if len(rows) > limit:
                return RunRows(runs, rows[limit - 1][0])
            return RunRows(runs, None if floor is None else floor[0] + 1)

        return await self._read(work)

    async def history(self, run_id: str) -> list[Transition]:
        def work(connection: sqlite3.Connection) -> list[Transition]:
            rows = connection.execute(QUERIES["get_history"], (run_id,))
            return [entry for row in rows for entry in _history_decoder.decode(row[0])]

        return await self._read(work)

    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[LogEntry]:
        values = {"run_id": run_id, "after": _in_range(after), "limit": -1 if limit is None else limit}
        return await self._read(
            lambda connection: [LogEntry(*row) for row in connection.execute(QUERIES["get_logs"], values)]
        )

    async def events(
        self, after: int, limit: int, run_id: str | None = None, job_id: str | None = None, tenant: str | None = None
    ) -> EventRows:
        after = _in_range(after)
        values = {"run_id": run_id, "job_id": job_id, "tenant": tenant, "after": after, "limit": limit}
        of_run = "" if run_id is None else "_of_run"

        def work(connection: sqlite3.Connection) -> EventRows:
            with one_view(connection):
                newest = read_position(connection)
                until = newest if of_run else min(newest, after + MOST_LOOKED_AT)
                rows = []
                for kind in ("transitions", "lines"):
                    found = connection.execute(QUERIES[f"get_{kind}{of_run}"], values | {"until": until})
                    taken, until = _take(found, limit, until)
                    rows += taken
            # What one of the two left behind may come before the last of the other.
            rows = sorted((row for row in rows if row[0] <= until), key=lambda row: row[0])
            if len(rows) > limit:
                rows = rows[:limit]
                until = rows[-1][0]
            return EventRows([_read_event(row) for row in rows], max(after, until), until < newest)

        return await self._read(work)

    async def position(self) -> int:
        return await self._read(read_position)

    async def jobs(self) -> list[Job]:
        return await self._read(read_jobs)

    async def dead_letters(self) -> list[DeadLetter]:
        return await self._read(
            lambda connection: [DeadLetter(*row) for row in connection.execute(QUERIES["get_dead_letters"])]
        )


@contextmanager
def one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Let several statements see the file as one commit left it."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def read_run(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    run.state = State(run.state)
    run.previous = None if run.previous is None else State(run.previous)
    return run


def read_position(connection: sqlite3.Connection) -> int:
    position: int = connection.execute(QUERIES["get_position"]).fetchone()[0]
    return position


def read_jobs(connection: sqlite3.Connection) -> list[Job]:
    return [_job_decoder.decode(row[0]) for row in connection.execute(QUERIES["load_jobs"])]


def _read_event(row: tuple[Any, ...]) -> StoredEvent:
    position, run_id, job_id, tenant, *rest = row
    if len(rest) == 1:
        return StoredEvent(position, run_id, job_id, tenant, _history_decoder.decode(rest[0]))
    return StoredEvent(position, run_id, job_id, tenant, [], LogEntry(position, *rest))


def _take(rows: Iterable[tuple[Any, ...]], limit: int, until: int) -> tuple[list[tuple[Any, ...]], int]:
    """The first rows, as many as one answer may have, and up to which position they are all."""
    taken: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        taken.append(row)
        size += len(row[-1])
        if size >= MOST_EVENT_BYTES:
            break
    if len(taken) == limit or size >= MOST_EVENT_BYTES:
        return taken, min(until, taken[-1][0])
    return taken, until


def _place(wanted: RunFilter) -> str:
    if wanted.only_live:
        return "live_runs"
    return "unsuccessful_runs" if wanted.only_unsuccessful else "all_runs"


def _in_range(number: int) -> int:
    """The nearest number that SQLite can compare with: a cursor may come from anywhere."""
    return max(0, min(number, _LARGEST))
