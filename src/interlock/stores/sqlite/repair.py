"""Save the readable rows of a damaged database into a new file, table by table."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from interlock.error import BadUse, CannotOpenDatabase, shown
from interlock.fields.payload import digest
from interlock.model.job import Job, StoredJob
from interlock.model.run import Run, Transition
from interlock.stores.sqlite.database import check_header, connect_writer
from interlock.stores.sqlite.queries import QUERIES

Row = tuple[Any, ...]

_transitions = msgspec.msgpack.Decoder(list[Transition])
_jobs = msgspec.json.Decoder(Job)
_CHECKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "runs": lambda row: msgspec.convert(row, Run),
    "history": lambda row: _transitions.decode(row["entries"]),
    "job_versions": lambda row: _jobs.decode(row["definition"]),
    "records": lambda row: row["kind"] == StoredJob.kind and _jobs.decode(row["value"]),
}
"""table → a check that raises for a row that SQLite can read and the scheduler cannot"""


class Saved(msgspec.Struct, frozen=True):
    table: str
    saved: int
    lost: int  # rows that an index lists and SQLite cannot read
    exact: bool  # whether no others are lost


def repair_copy(source: Path, target: Path) -> list[Saved]:
    """Make `target`, a database with every readable row of `source`. The source stays as it is."""
    if os.path.lexists(target):
        raise BadUse("--repair-copy", f"{shown(str(target))} exists already; name a new file")
    with closing(_opened(source)) as old:
        try:
            with closing(connect_writer(target)) as new:
                return _copy(old, new, target)
        except BaseException:
            for end in ("", "-wal", "-shm"):
                Path(f"{target}{end}").unlink(missing_ok=True)
            raise


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, target: Path) -> list[Saved]:
    tables = [row[0] for row in new.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    new.execute("BEGIN IMMEDIATE")
    saved = {table: _Copy(old, new, table, target).run() for table in tables}
    # A scheduler cannot go on with a run whose definition is lost.
    gone = new.execute(
        "DELETE FROM runs WHERE ended_at IS NULL AND job_version NOT IN (SELECT version FROM job_versions)"
    ).rowcount
    for table, found in (("idempotency_keys", _restore_keys(new)), ("runs", -gone)):
        one = saved[table]
        saved[table] = Saved(table, one.saved + found, max(0, one.lost - found), one.exact)
    new.execute("COMMIT")
    return list(saved.values())


def _restore_keys(new: sqlite3.Connection) -> int:
    """Restore lost keys from their runs, and return how many."""
    rows = new.execute(
        "SELECT id, tenant, idempotency_key, job_id, payload, created_at FROM runs "
        "WHERE idempotency_key IS NOT NULL AND id NOT IN (SELECT run_id FROM idempotency_keys)"
    ).fetchall()
    for run_id, tenant, key, job_id, data, created_at in rows:
        values = (tenant, key, run_id, digest(job_id, data), created_at)
        new.execute(QUERIES["insert_key"], values)
    return len(rows)


def _opened(source: Path) -> sqlite3.Connection:
    if not source.exists():
        raise CannotOpenDatabase(str(source), "no such file")
    check_header(source)
    connection = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        # Lets SQLite read a file that is shorter than its header says.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        connection.close()
        why = f"nothing of it can be read: {error}; restore a backup"
        raise CannotOpenDatabase(str(source), why) from error
    return connection


class _Copy:
    """The copy of one table. It reads from each end up to the first unreadable row, and the rows in between one by one,
    where an index lists them."""

    def __init__(self, old: sqlite3.Connection, new: sqlite3.Connection, table: str, target: Path) -> None:
        self._old, self._new, self._table, self._target = old, new, table, target
        info = new.execute(f"PRAGMA table_info({table})").fetchall()
        self._columns = [row[1] for row in info]
        self._key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
        self._numbered = not new.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (table,)).fetchone()[0]
        if self._numbered and [row[2] for row in info if row[5]] != ["INTEGER"]:
            self._columns.insert(0, "rowid")
            self._key = ["rowid"]
        self._places = [self._columns.index(name) for name in self._key]
        self._select = f"SELECT {', '.join(self._columns)} FROM {table} NOT INDEXED"
        values = ", ".join("?" * len(self._columns))
        self._insert = f"INSERT OR IGNORE INTO {table} ({', '.join(self._columns)}) VALUES ({values})"
        self._saved = self._lost = 0

    def run(self) -> Saved:
        first, is_whole = self._scan("ASC", None)
        exact = True
        if not is_whole:
            last, _ = self._scan("DESC", first)
            exact = self._numbered and self._seek(first, last)
        return Saved(self._table, self._saved, self._lost, exact)

    def _scan(self, order: str, until: Row | None) -> tuple[Row | None, bool]:
        """Save rows in this order; return the key of the last one read, and whether it was the last of all."""
        reached = None
        try:
            for row in self._old.execute(f"{self._select} ORDER BY {', '.join(f'{key} {order}' for key in self._key)}"):
                key = tuple(row[index] for index in self._places)
                if until is not None and key <= until:
                    break
                self._save(row)
                reached = key
        except (sqlite3.Error, TypeError):
            return reached, False
        return reached, True

    def _seek(self, after: Row | None, before: Row | None) -> bool:
        """Save the rows between these keys that an index lists; return whether those are all."""
        low = -(2**63) if after is None else after[0]
        high = 2**63 if before is None else before[0]
        known: set[int] = set()
        exact = False
        for index, column in self._indexes():
            exact = self._list(index, column, "ASC", known, low, high) or exact
            if not exact:
                self._list(index, column, "DESC", known, low, high)
        for number in sorted(known):
            try:
                row = self._old.execute(f"{self._select} WHERE {self._key[0]} = ?", (number,)).fetchone()
            except sqlite3.Error:
                row = None
            if row is None:
                self._lost += 1
            else:
                self._save(row)
        return exact

    def _indexes(self) -> Iterator[tuple[str, str]]:
        """Yield the indexes of all rows, with their first columns."""
        for _, name, _, _, partial in self._new.execute(f"PRAGMA index_list({self._table})").fetchall():
            if not partial:
                yield name, self._new.execute(f"PRAGMA index_info({name})").fetchone()[2]

    def _list(self, index: str, column: str, order: str, known: set[int], low: int, high: int) -> bool:
        query = f"SELECT rowid FROM {self._table} INDEXED BY {index} ORDER BY {column} {order}"
        try:
            known.update(number for (number,) in self._old.execute(query) if low < number < high)
        except sqlite3.Error:
            return False
        return True

    def _save(self, row: Row) -> None:
        try:
            if self._table in _CHECKS:
                _CHECKS[self._table](dict(zip(self._columns, row, strict=True)))
            written = self._new.execute(self._insert, row).rowcount
        except (msgspec.MsgspecError, ValueError, TypeError, sqlite3.IntegrityError):
            written = 0
        except sqlite3.Error as error:
            raise CannotOpenDatabase(str(self._target), f"it cannot be written: {error}") from error
        self._saved += written
        self._lost += 1 - written
