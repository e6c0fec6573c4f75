"""The SQLite store of the scheduler: one thread writes whole batches, others read beside it."""

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interlock import error as e
from interlock.core.decisions import Batch
from interlock.model.record import Record
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import Pruned, PruneLimits, Snapshot, Store
from interlock.stores.sql.lookups import load, read_position
from interlock.stores.sql.pruning import UNCOUNTED, find_old_keys, find_prunable, find_service_cuts
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite import database, pruning
from interlock.stores.sqlite.queries import QUERIES, SqliteView, write_batch
from interlock.stores.sqlite.reader import SqliteReader

T = TypeVar("T")

LONGEST_LOG = 64 * 1024 * 1024  # bytes of the write-ahead log after which it is truncated, despite readers
FOLD_EVERY = 2.0  # seconds between two checks of its length
FOLD_MILLISECONDS = 100  # to wait for readers then


class _Writer(threading.Thread):
    """The thread that owns the writing connection. It answers each call on the loop it came from."""

    def __init__(self) -> None:
        super().__init__(name="interlock-store", daemon=True)
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any], Callable[[], None]] | None]
        self._calls = queue.SimpleQueue()
        self.under_way = 0  # calls without an answer yet; counted on the loop

    def call(self, work: Callable[[], T], confirm: Callable[[], None] = lambda: None) -> "asyncio.Future[T]":
        """Do `work` after all calls before it. Giving up on the answer does not undo or reorder it.

        `confirm` is then called on the loop, and may raise the error to answer with. It makes system calls, each of
        which would cost this thread the interpreter lock.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.under_way += 1
        self._calls.put((work, future, confirm))
        return future

    def run(self) -> None:
        while (item := self._calls.get()) is not None:
            work, future, confirm = item
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - the caller gets it, whatever it is
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                future.get_loop().call_soon_threadsafe(self._settle, future, result, error, confirm)

    def finish(self) -> None:
        self._calls.put(None)

    def _settle(
        self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None, confirm: Callable[[], None]
    ) -> None:
        self.under_way -= 1
        if future.done():
            return
        if error is None:
            try:
                confirm()
            except e.StoreUnavailable as raised:
                error = raised
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class SqliteStore(SqliteReader, Store, Leases):
    def __init__(
        self, path: str | Path, longest_log: int = LONGEST_LOG, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` is that of its leases."""
        super().__init__(path, threads=2)
        self._clock = clock
        self._longest_log = longest_log
        self._fold_at = 0.0
        self._lock = database.FileLock(self._path)
        self._writer: _Writer | None = None
        self._connection: sqlite3.Connection | None = None
        self._broken = False
        self._files: list[tuple[str, tuple[int, int] | None]] = []  # the written files: name and identity
        self._trouble: e.StoreUnavailable | None = None  # the reason why nothing may be written
        self._counted = UNCOUNTED

    async def open(self) -> None:
        self._counted = UNCOUNTED
        self._lock.take()
        self._writer = _Writer()
        self._writer.start()
        self._start_reading()
        try:
            await self._writer.call(self._open_file)
        except BaseException:
            await self.close()
            raise

    def _open_file(self) -> None:
        is_new = not self._path.exists()
        self._trouble = None
        if not is_new:
            database.check_header(self._path)
        self._log_name, self._log_size = f"{os.path.realpath(self._path)}-wal", 0
        if is_new and not database.check_files(self._path) and _size_of(self._log_name):
            # SQLite would delete the log of a missing file, and with it runs that can still be saved.
            raise e.DatabaseBehind(str(self._path), None, self._lock.position)
        self._connection = database.connect_writer(self._path)
        try:
            position = at_once(read_position(SqliteView(self._connection)))
        except sqlite3.Error as error:
            if database.is_damage(error):
                raise self._damaged(self._connection, error) from error
            raise e.CannotOpenDatabase(str(self._path), str(error)) from error
        if position < self._lock.position and not is_new:
            raise e.DatabaseBehind(str(self._path), position, self._lock.position)
        self._lock.note(position)
        # The file lock proves that the last holder of a lease is gone, so there is no need to wait for its end.
        self._transact(lambda connection: connection.execute(QUERIES["end_leases"]))
        self._know_files()

    def _know_files(self) -> None:
        names = (str(self._path), self._lock.path, self._log_name)
        self._files = [(name, database.identity_of(name)) for name in names]

    def _check_files(self, files: Sequence[tuple[str, tuple[int, int] | None]]) -> None:
        """Raise unless each of these is still the same file: writes to another one are lost."""
        for name, identity in files:
            if database.identity_of(name) != identity:
                raise e.DatabaseGone(name)

    def _confirm(self, position: int) -> None:
        """Check that a write went into the right files, and note its position; called before it is acknowledged."""
        try:
            self._check_files(self._files)
        except e.DatabaseGone as error:
            self._trouble = error
            raise
        self._log_size = _size_of(self._log_name)
        if position > self._lock.position:
            self._lock.note(position)

    async def close(self) -> None:
        self._stop_reading()
        # Last, because only the last connection can fold the write-ahead log into the file.
        if self._writer is not None:
            await self._writer.call(self._close_file)
            self._writer.finish()
            self._writer = None
        self._lock.release()

    def _close_file(self) -> None:
        self._broken = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(
        self, work: Callable[[sqlite3.Connection], T], position: int = 0, lease: Lease | None = None
    ) -> "asyncio.Future[T]":
        """Run `work` in one transaction on the writer thread, under the lease if given; durable when done. `position`
        is one that it stores."""
        fenced = work if lease is None else partial(_under, lease, work)
        if self._writer is None:
            raise e.StoreUnavailable("it is closed")
        if self._trouble is not None:
            if isinstance(self._trouble, e.DatabaseDamaged):
                # Another write may damage the file further.
                raise self._trouble.with_traceback(None)
            self._check_files(self._files)
            self._check_log()
            self._trouble = None
        if not self._writer.under_way:
            self._check_log()
        return self._writer.call(lambda: self._transact(fenced), partial(self._confirm, position))

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._reopen() if self._broken else self._connection
        if connection is None:
            raise e.StoreUnavailable("it is closed")
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._broken = True
            if database.is_damage(error):
                self._trouble = self._damaged(connection, error)
                raise self._trouble from error
            if isinstance(error, sqlite3.Error):
                raise e.StoreUnavailable(str(error)) from error
            raise
        self._fold_log(connection)
        return result

    def _check_log(self) -> None:
        """Raise if the log was cut since the last write: SQLite would never find writes behind the cut. The identity
        of a file shows that it is missing."""
        if _size_of(self._log_name, self._log_size) < self._log_size:
            self._trouble = e.DatabaseGone(self._log_name)
            raise self._trouble

    def _fold_log(self, connection: sqlite3.Connection) -> None:
        """Truncate the write-ahead log when it has grown too long. SQLite cannot while readers overlap without a pause;
        here it waits for them a moment, now and then."""
        now = time.monotonic()
        if now < self._fold_at:
            return
        self._fold_at = now + FOLD_EVERY
        with suppress(OSError, sqlite3.Error):
            if os.stat(self._log_name).st_size > self._longest_log:
                connection.execute(f"PRAGMA busy_timeout = {FOLD_MILLISECONDS}")
                try:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {int(database.BUSY_SECONDS * 1000)}")

    def _reopen(self) -> sqlite3.Connection:
        """Connect anew after a failed rollback: only a new connection knows the state of the file."""
        self._close_file()
        self._broken = True
        try:
            self._check_files(self._files[:2])
            self._connection = database.connect_writer(self._path, make=False)
        except e.StoreUnavailable:
            raise
        except e.InterlockError as error:
            raise e.StoreUnavailable(str(error)) from error
        self._know_files()
        self._broken, self._log_size = False, 0
        return self._connection

    # ── store ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, batch: Batch, lease: Lease) -> Awaitable[None]:
        # Only history: a log line that is already stored gets a position and no row, and so does a pruned run.
        position = batch.of_services - 1 if batch.history and not batch.past_runs else 0
        return self._write(lambda connection: write_batch(connection, batch), position, lease)

    async def prune(self, limits: PruneLimits, lease: Lease) -> Pruned:
        # Searching beside the writer holds it up only for the deletion.
        cuts = await self._read(partial(find_service_cuts, limits.log_lines, limits.log_bytes))
        lines = await self._write(partial(pruning.prune_services, cuts), 0, lease) if cuts else 0
        old = await self._read(partial(find_old_keys, limits.keys_before, limits.calls_before))
        keys = await self._write(partial(pruning.prune_keys, old), 0, lease) if old else 0
        records = sum([await self._write(partial(pruning.prune_records, *kept), 0, lease) for kept in limits.records])
        return msgspec.structs.replace(await self._prune_runs(limits, lease), lines=lines, keys=keys, records=records)

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        return await self._read(partial(load, small_payload, kinds))

    async def _prune_runs(self, limits: PruneLimits, lease: Lease) -> Pruned:
        found = await self._read(partial(find_prunable, limits, self._counted))
        self._counted = found.counted
        deleted = 0
        for part in found.parts:
            pruned = await self._write(partial(pruning.prune, part), 0, lease)
            deleted += pruned
            self._counted = msgspec.structs.replace(self._counted, runs=self._counted.runs - pruned)
        return Pruned(deleted, found.more)

    # ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        def work(connection: sqlite3.Connection) -> Lease | None:
            now = self._clock()
            lease = Lease(name=name, holder=holder, token=token, epoch=0, granted_at=now, ends_at=now + ttl)
            values = {**msgspec.structs.asdict(lease), "again": again}
            row = connection.execute(QUERIES["take_lease"], values).fetchone()
            return None if row is None else msgspec.structs.replace(lease, epoch=row[0])

        return await self._write(work)

    async def renew(self, lease: Lease, ttl: float) -> Lease:
        def work(connection: sqlite3.Connection) -> Lease:
            now = self._clock()
            renewed = msgspec.structs.replace(lease, granted_at=now, ends_at=now + ttl)
            if not connection.execute(QUERIES["renew_lease"], msgspec.structs.asdict(renewed)).rowcount:
                row = connection.execute(QUERIES["get_lease"], (lease.name,)).fetchone()
                raise e.LeaseLost(lease.name, f"now held by {(row and row[1]) or 'nobody'}")
            return renewed

        return await self._write(work)

    async def release(self, lease: Lease, to: str = "", within: float = 0.0) -> None:
        values = {"name": lease.name, "token": lease.token, "holder": to, "ends_at": self._clock() + within}
        await self._write(lambda connection: connection.execute(QUERIES["release_lease"], values))


def _under(lease: Lease, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """Do `work` if the lease is current."""
    values = lease.name, lease.epoch, lease.token
    if connection.execute(QUERIES["has_lease"], values).fetchone() is None:
        row = connection.execute(QUERIES["get_lease"], (lease.name,)).fetchone()
        raise e.StaleEpoch(lease.name, lease.epoch, 0 if row is None else row[0])
    return work(connection)


def _size_of(name: str, otherwise: int = 0) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return otherwise
