"""The SQLite store: one thread writes whole batches, others read beside it."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interlock.core.decisions import Batch
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable
from interlock.model.job import Job
from interlock.model.outcome import Outcome
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import DeadLetter, Inputs, LogEntry, Snapshot, Store
from interlock.stores.sqlite.database import FileLock, check_header, connect_reader, connect_writer
from interlock.stores.sqlite.queries import COLUMNS, QUERIES, write_rows

T = TypeVar("T")

_history_encoder = msgspec.msgpack.Encoder()
_history_decoder = msgspec.msgpack.Decoder(list[Transition])
_job_decoder = msgspec.json.Decoder(Job)

# sqlite3 takes a subclass of str for something to be adapted: that is quickest when it finds how at once.
sqlite3.register_adapter(State, {state: state.value for state in State}.__getitem__)
sqlite3.register_adapter(Outcome, {outcome: outcome.value for outcome in Outcome}.__getitem__)


def history_rows(batch: Batch) -> list[tuple[str, int, bytes]]:
    encode = _history_encoder.encode
    return [(run_id, entries[0].seq, encode(entries)) for run_id, entries in batch.history]


def _read_run(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    run.state = State(run.state)
    run.previous = None if run.previous is None else State(run.previous)
    return run


def write_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """The statements of one batch, inside a transaction that the caller has begun."""
    if batch.jobs:
        jobs = [(job.version, job.id, msgspec.json.encode(job)) for job in batch.jobs]
        connection.executemany(QUERIES["insert_job"], jobs)
    if batch.created:
        write_rows(connection, "insert_run", batch.created)
    if batch.updated:
        write_rows(connection, "update_run", batch.updated)
    if batch.history:
        write_rows(connection, "insert_history", history_rows(batch))
    if batch.keys:
        connection.executemany(QUERIES["insert_key"], batch.keys)
    if batch.checkpoints:
        connection.executemany(QUERIES["put_checkpoint"], batch.checkpoints)
    if batch.logs:
        connection.executemany(QUERIES["insert_log"], batch.logs)
    if batch.dead_letters:
        connection.executemany(QUERIES["insert_dead_letter"], batch.dead_letters)


class _Writer(threading.Thread):
    """The thread that owns the writing connection: calls go in, and are answered on the loop they came from."""

    def __init__(self) -> None:
        super().__init__(name="interlock-store", daemon=True)
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()

    def call(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Have `work` done after everything before it. Giving up on the answer does not undo or reorder it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((work, future))
        return future

    def run(self) -> None:
        while (item := self._calls.get()) is not None:
            work, future = item
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to the caller
                error = raised
            with suppress(RuntimeError):  # the loop that asked is closed: nobody waits for the answer
                future.get_loop().call_soon_threadsafe(_settle, future, result, error)

    def finish(self) -> None:
        self._calls.put(None)


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class SqliteStore(Store, Leases):
    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = FileLock(self._path)
        self._writer: _Writer | None = None
        self._connection: sqlite3.Connection | None = None
        self._broken = False
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []

    async def open(self) -> None:
        self._lock.take()
        self._writer = _Writer()
        self._writer.start()
        self._readers = ThreadPoolExecutor(2, "interlock-read")
        try:
            await self._writer.call(self._open_file)
        except BaseException:
            await self.close()
            raise

    def _open_file(self) -> None:
        check_header(self._path)
        self._connection = connect_writer(self._path)
        # The file lock proves that whoever held a lease here is gone: there is no need to wait for its end.
        self._transact(lambda connection: connection.execute(QUERIES["end_leases"]))

    async def close(self) -> None:
        if self._readers is not None:
            self._readers.shutdown(wait=True)
            self._readers = None
        for connection in self._reading:
            connection.close()
        self._reading.clear()
        # Last, because only the last connection of all can fold the write-ahead log into the file.
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

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """Run `work` in one transaction on the writer thread, beginning now; durable when it is done."""
        if self._writer is None:
            raise StoreUnavailable("it is closed")
        return self._writer.call(lambda: self._transact(work))

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._reopen() if self._broken else self._connection
        if connection is None:
            raise StoreUnavailable("it is closed")
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
            if isinstance(error, sqlite3.Error):
                raise StoreUnavailable(str(error)) from error
            raise
        return result

    def _reopen(self) -> sqlite3.Connection:
        """After a transaction that could not even be rolled back, only a new connection knows where the file is at."""
        self._close_file()
        self._broken = True
        try:
            self._connection = connect_writer(self._path)
        except InterlockError as error:
            raise StoreUnavailable(str(error)) from error
        self._broken = False
        return self._connection

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._readers is None:
            raise StoreUnavailable("it is closed")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_here, work)

    def _read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = connect_reader(self._path)
                self._reading.append(connection)
            return work(connection)
        except sqlite3.Error as error:
            raise StoreUnavailable(str(error)) from error

    # ── store ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, batch: Batch, lease: str, epoch: int) -> Awaitable[None]:
        def work(connection: sqlite3.Connection) -> None:
            row = connection.execute(QUERIES["get_lease"], (lease,)).fetchone()
            if row is None or row[3] != epoch or not row[2]:
                raise StaleEpoch(lease, epoch, 0 if row is None else row[3])
            write_batch(connection, batch)

        return self._write(work)

    async def load(self, small_payload: int) -> Snapshot:
        columns = ", ".join(
            f"CASE WHEN length(payload) <= {int(small_payload)} THEN payload END" if name == "payload" else name
            for name in COLUMNS
        )
        query = QUERIES["load_runs"].replace(", ".join(COLUMNS), columns)

        def work(connection: sqlite3.Connection) -> Snapshot:
            runs = [_read_run(row) for row in connection.execute(query)]
            jobs = [_job_decoder.decode(row[0]) for row in connection.execute(QUERIES["load_jobs"])]
            return Snapshot(runs, jobs)

        return await self._read(work)

    async def inputs(self, run_ids: Sequence[str]) -> dict[str, Inputs]:
        def work(connection: sqlite3.Connection) -> dict[str, Inputs]:
            rows = ((one, connection.execute(QUERIES["get_inputs"], (one,)).fetchone()) for one in run_ids)
            return {one: Inputs(row[0], row[1]) for one, row in rows if row is not None}

        return await self._read(work)

    async def known_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        def work(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, bytes]]:
            rows = ((key, connection.execute(QUERIES["get_key"], key).fetchone()) for key in keys)
            return {key: (row[0], row[1]) for key, row in rows if row is not None}

        return await self._read(work)

    async def known_ids(self, run_ids: Sequence[str]) -> frozenset[str]:
        def work(connection: sqlite3.Connection) -> frozenset[str]:
            return frozenset(one for one in run_ids if connection.execute(QUERIES["get_id"], (one,)).fetchone())

        return await self._read(work)

    async def run(self, run_id: str) -> Run | None:
        def work(connection: sqlite3.Connection) -> Run | None:
            row = connection.execute(QUERIES["get_run"], (run_id,)).fetchone()
            return None if row is None else _read_run(row)

        return await self._read(work)

    async def history(self, run_id: str) -> list[Transition]:
        def work(connection: sqlite3.Connection) -> list[Transition]:
            rows = connection.execute(QUERIES["get_history"], (run_id,))
            return [entry for row in rows for entry in _history_decoder.decode(row[0])]

        return await self._read(work)

    async def logs(self, run_id: str) -> list[LogEntry]:
        return await self._read(
            lambda connection: [LogEntry(*row) for row in connection.execute(QUERIES["get_logs"], (run_id,))]
        )

    async def dead_letters(self) -> list[DeadLetter]:
        return await self._read(
            lambda connection: [DeadLetter(*row) for row in connection.execute(QUERIES["get_dead_letters"])]
        )

    # ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def acquire(self, name: str, holder: str, token: str, ttl: float, now: float) -> Lease | None:
        def work(connection: sqlite3.Connection) -> Lease | None:
            current = _get_lease(connection, name)
            if current is None:
                epoch = 1
            elif current.token == token:
                epoch = current.epoch
            elif now < current.ends_at:
                return None
            else:
                epoch = current.epoch + 1
            return _put_lease(connection, Lease(name=name, holder=holder, token=token, epoch=epoch, ends_at=now + ttl))

        return await self._write(work)

    async def renew(self, lease: Lease, ttl: float, now: float) -> Lease:
        def work(connection: sqlite3.Connection) -> Lease:
            current = _get_lease(connection, lease.name)
            if current is None or current.token != lease.token or current.epoch != lease.epoch:
                raise LeaseLost(lease.name, f"now held by {current.holder if current else 'nobody'}")
            return _put_lease(connection, msgspec.structs.replace(lease, ends_at=now + ttl))

        return await self._write(work)

    async def release(self, lease: Lease) -> None:
        def work(connection: sqlite3.Connection) -> None:
            current = _get_lease(connection, lease.name)
            if current is not None and current.token == lease.token:
                # The epoch stays, so that the next holder's is greater; the token goes, so that nobody writes with it.
                _put_lease(connection, msgspec.structs.replace(lease, holder="", token="", ends_at=0.0))

        await self._write(work)


def _get_lease(connection: sqlite3.Connection, name: str) -> Lease | None:
    row = connection.execute(QUERIES["get_lease"], (name,)).fetchone()
    if row is None:
        return None
    return Lease(name=row[0], holder=row[1], token=row[2], epoch=row[3], ends_at=row[4])


def _put_lease(connection: sqlite3.Connection, lease: Lease) -> Lease:
    connection.execute(QUERIES["put_lease"], (lease.name, lease.holder, lease.token, lease.epoch, lease.ends_at))
    return lease


__all__ = ["SqliteStore", "write_batch"]
