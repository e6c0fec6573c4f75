"""Read the SQLite file, in any process, beside the scheduler that writes it."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from interlock import error as e
from interlock.core.audit import HEAD
from interlock.model.audit import AuditEntry, AuditFilter, AuditHead, AuditKind
from interlock.model.child_info import Change
from interlock.model.job import Job, read_job
from interlock.model.record import Memo, R, Record, RecordFilter
from interlock.model.run import Transition
from interlock.model.session_info import SessionEvent
from interlock.ports import store as port
from interlock.stores.event_page import last_position, take
from interlock.stores.sqlite.database import connect_reader, damage, is_damage, one_view
from interlock.stores.sqlite.lookups import facets_decoder, list_records, look_up, read_record, read_run
from interlock.stores.sqlite.queries import AUDIT_COLUMNS, LISTINGS, QUERIES
from interlock.wire.message import CHUNKS

logger = logging.getLogger("interlock.store")

T = TypeVar("T")
Row = tuple[Any, ...]

_LARGEST = 2**63 - 1
_history_decoder = msgspec.msgpack.Decoder(list[Transition])
_change_decoder = msgspec.json.Decoder(Change)
_head_decoder = msgspec.json.Decoder(AuditHead)


class SqliteReader(port.Reader):
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

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            raise e.StoreUnavailable("it is closed", asked=True)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_here, work)

    def _read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._connected())
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

    async def _rows(self, query: str, values: Mapping[str, object], read: Callable[[Row], T]) -> list[T]:
        return await self._read(lambda connection: [read(row) for row in connection.execute(QUERIES[query], values)])

    async def look_up(self, wanted: port.Lookup) -> port.Found:
        return await self._read(partial(look_up, wanted))

    async def unscanned(self, run_ids: Sequence[str]) -> list[port.Unscanned]:
        def work(connection: sqlite3.Connection) -> list[port.Unscanned]:
            found = []
            for run_id in run_ids:
                row = connection.execute(QUERIES["get_result"], (run_id,)).fetchone()
                if row is not None and facets_decoder.decode(row[1]).is_unscanned:
                    lines = connection.execute(QUERIES["get_held_lines"], (run_id,)).fetchall()
                    names = sorted({name for line in lines for name in line[4:]})
                    chunks = [line[1:3] for line in lines if line[4] == CHUNKS]
                    found.append(port.Unscanned(run_id, row[0], [line[1:4] for line in lines], names, chunks))
            return found

        return await self._read(work)

    async def runs(self, wanted: port.RunFilter, before: int | None, limit: int) -> port.RunRows:
        find, find_floor = LISTINGS[_place(wanted)]
        values = asdict(wanted) | {
            "states": msgspec.json.encode(sorted(wanted.states)).decode() if wanted.states else None,
            "before": _LARGEST if before is None else _in_range(before),
            "most": port.MOST_LOOKED_AT,
            "most_with_prefix": port.MOST_WITH_PREFIX,
            # One more than asked for tells whether there is another page.
            "limit": limit + 1,
        }

        def work(connection: sqlite3.Connection) -> port.RunRows:
            with one_view(connection):
                floor = connection.execute(find_floor, values).fetchone()
                rows = connection.execute(find, values | {"floor": 0 if floor is None else floor[0]}).fetchall()
            runs = [read_run(row[1:]) for row in rows[:limit]]
            if len(rows) > limit:
                return port.RunRows(runs, rows[limit - 1][0])
            return port.RunRows(runs, None if floor is None else floor[0] + 1)

        return await self._read(work)

    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        return dict(await self._rows("count_live", {"tenant": tenant}, lambda row: (row[0], row[1])))

    async def history(self, run_id: str) -> list[Transition]:
        rows = await self._rows("get_history", {"run_id": run_id}, lambda row: _history_decoder.decode(row[0]))
        return [entry for entries in rows for entry in entries]

    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[port.LogEntry]:
        values = {"run_id": run_id, "after": _in_range(after), "limit": -1 if limit is None else limit}
        return await self._rows("get_logs", values, lambda row: port.LogEntry(*row))

    async def events(self, after: int, limit: int, wanted: port.EventFilter = port.EVERY_EVENT) -> port.EventRows:
        after = _in_range(after)
        values = asdict(wanted) | {"after": after, "limit": limit}
        kinds: list[EventKind] = []
        if wanted.service is None:
            of_run = "" if wanted.run_id is None else "_of_run"
            kinds = [(f"transitions{of_run}", _transitions), (f"lines{of_run}", _line)]
        if wanted.run_id is wanted.job_id is wanted.tenant is None:
            kinds.append(("services" if wanted.service is None else "services_of_service", _service_entry))
        elif wanted.of_tenant is not None:
            values["service"] = SessionEvent.LOGS + wanted.of_tenant
            kinds.append(("services_of_service", _service_entry))
        elif wanted.service is None:
            kinds.append(("violations" if wanted.run_id is None else "violations_of_run", _service_entry))

        def work(connection: sqlite3.Connection) -> port.EventRows:
            with one_view(connection):
                newest = read_position(connection)
                until = last_position(wanted, after, newest)
                rows: list[tuple[Row, Callable[[Row], port.StoredEvent | port.ServiceEntry]]] = []
                for name, read in kinds:
                    found = connection.execute(QUERIES[f"get_{name}"], values | {"until": until})
                    taken, until = take(found, limit, until, _size_of, itemgetter(0))
                    rows += [(row, read) for row in taken]
            # A row that one query left behind may come before the last of another.
            rows = sorted((row for row in rows if row[0][0] <= until), key=lambda row: row[0][0])
            if len(rows) > limit:
                rows = rows[:limit]
                until = rows[-1][0][0]
            return port.EventRows([read(row) for row, read in rows], max(after, until), until < newest)

        return await self._read(work)

    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[port.ServiceEntry]:
        values = {"service": service, "after": _in_range(after), "limit": -1 if limit is None else limit}
        name = "get_last_of_service" if last else "get_services_of_service"
        found = await self._rows(name, values, _service_entry)
        return found[::-1] if last else found

    async def position(self) -> int:
        return await self._read(read_position)

    async def records(
        self,
        kind: type[R],
        wanted: RecordFilter = port.EVERY_RECORD,
        before: int | None = None,
        limit: int = port.MOST_RECORDS,
    ) -> port.RecordRows[R]:
        start = _LARGEST if before is None else _in_range(before)
        return await self._read(partial(list_records, kind, wanted, start, limit))

    async def counts(self, kind: type[Record], wanted: RecordFilter) -> dict[str, int]:
        values = asdict(wanted) | {"kind": kind.kind}
        return dict(await self._rows("count_records", values, lambda row: (row[0], row[1])))

    async def audit(
        self, after: int, limit: int, wanted: AuditFilter = port.EVERY_ENTRY, last: bool = False
    ) -> port.AuditRows:
        def work(connection: sqlite3.Connection) -> port.AuditRows:
            with one_view(connection):
                memo, newest = read_record(Memo, HEAD, connection), read_audit_end(connection)
                start = _in_range(max(after, newest.number - port.MOST_LOOKED_AT) if last else after)
                until = min(start + port.MOST_LOOKED_AT, newest.number)
                values = asdict(wanted) | {"after": start, "until": until, "limit": limit}
                rows = connection.execute(QUERIES["list_last_of_audit" if last else "list_audit"], values).fetchall()
            entries = [_audit_entry(row) for row in rows]
            head = AuditHead() if memo is None else _head_decoder.decode(memo.value)
            if last:
                return port.AuditRows(entries[::-1], None, head)
            reached = entries[-1].number if len(entries) == limit else until
            return port.AuditRows(entries, reached if reached < newest.number else None, head)

        return await self._read(work)

    async def due_times(self, kind: type[Record]) -> dict[str, float]:
        return dict(await self._rows("get_due_times", {"kind": kind.kind}, lambda row: (row[0], row[1])))

    async def due(self, kind: type[R], queue: str, now: float, limit: int) -> list[R]:
        values = {"kind": kind.kind, "queue": queue, "now": now, "limit": limit}
        found = await self._rows("get_due", values, lambda row: kind.read(*row))
        return [record for record in found if record is not None]


def read_position(connection: sqlite3.Connection) -> int:
    position: int = max(connection.execute(QUERIES["get_positions"]).fetchone())
    return position


def read_jobs(connection: sqlite3.Connection) -> list[Job]:
    """Return the versions of live runs, without those that cannot be read at all."""
    found = (read_job(row[0]) for row in connection.execute(QUERIES["load_jobs"]))
    return [job for job in found if job is not None]


def read_audit_end(connection: sqlite3.Connection) -> AuditHead:
    return AuditHead(*(connection.execute(QUERIES["get_audit_end"]).fetchone() or ()))


def _audit_entry(row: Row) -> AuditEntry:
    """Return an entry as it is stored. An entry that cannot be read gets no hash, so that a verification names it."""
    values = dict(zip(AUDIT_COLUMNS, row, strict=True))
    try:
        return msgspec.convert(values | {"detail": msgspec.json.decode(values["detail"])}, AuditEntry)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return AuditEntry(number=row[0], at=0.0, kind=AuditKind.UNREADABLE, actor="", tenant="", subject="")


def _transitions(row: Row) -> port.StoredEvent:
    position, run_id, job_id, tenant, entries = row
    return port.StoredEvent(position, run_id, job_id, tenant, _history_decoder.decode(entries))


def _line(row: Row) -> port.StoredEvent:
    position, run_id, job_id, tenant, *line = row
    return port.StoredEvent(position, run_id, job_id, tenant, [], port.LogEntry(position, *line))


def _service_entry(row: Row) -> port.ServiceEntry:
    position, service, at, stream, text, change = row
    decoded = None if change is None else _change_decoder.decode(change)
    return port.ServiceEntry(position, service, at, stream, text, decoded)


EventKind = tuple[str, Callable[[Row], port.StoredEvent | port.ServiceEntry]]


def _size_of(row: Row) -> int:
    """The large column comes last, or last but one in a row of a service without a change."""
    return len(row[-1] or row[-2])


def _place(wanted: port.RunFilter) -> str:
    if wanted.id_prefix is not None:
        return "runs_by_id"
    if wanted.parent is not None or wanted.root is not None:
        return "runs_of_root" if wanted.parent is None else "runs_of_parent"
    if wanted.only_live:
        return "live_runs"
    if wanted.only_unsuccessful:
        return "unsuccessful_runs"
    return "all_runs" if wanted.job_id is None else "runs_of_job"


def _in_range(number: int) -> int:
    """Return the nearest number that SQLite can compare with: a client may send any cursor."""
    return max(0, min(number, _LARGEST))
