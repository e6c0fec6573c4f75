"""The statements of SQLite by name, its view of the tables, and the writing of a batch."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import msgspec

from interlock.core.decisions import Batch
from interlock.model.bulk import BulkRequest
from interlock.model.facets import Facets
from interlock.model.failure import Outcome
from interlock.model.record import Record
from interlock.model.run import UPDATES, Run
from interlock.model.state import State
from interlock.stores.sql import rows as r
from interlock.stores.sql.queries import AUDIT_COLUMNS, COLUMNS, RECORD_VALUES, bodies, fill, scripts, shared
from interlock.stores.sql.view import NOTHING, Key, Row

CHUNKS = (800, 200, 50)
"""Rows that one statement may take. The writing thread releases the interpreter lock for each statement; to get it back
from a busy loop can cost more than the statement, so there should be few of them."""

_DIALECT = {
    "least": "min",
    "find": "instr",
    "log_bytes": "length(CAST(logs.text AS BLOB))",
    "last_character": "char(1114111)",
    "numbers": "(SELECT value FROM json_each(:numbers))",
    "found": "(SELECT value FROM json_each(:found))",
    "states": "(SELECT value FROM json_each(:states))",
    "is_call": "idempotency_key GLOB 'call-*'",
    "is_unsuccessful": "ended_at IS NOT NULL AND state <> 'succeeded'",
    "root_id": "substr(runs.id, 1, instr(runs.id, '@') - 1)",
    "memo_number": "CAST(value AS INTEGER)",
    "retry_before": "CAST(value AS TEXT) ->> '$.before'",
    "retry_letters": "CAST(value AS TEXT) ->> '$.wanted.letters'",
    "violation_run_id": "json_extract(text, '$.run_id')",
    "violation_job_id": "json_extract(text, '$.job_id')",
    "violation_tenant": "json_extract(text, '$.tenant')",
}
_SHARED = shared(_DIALECT)
_OWN = {
    **_SHARED,
    **bodies("interlock.stores.sqlite"),
    "record_values": ", ".join(RECORD_VALUES),
    "excluded_record": ", ".join(f"excluded.{column}" for column in RECORD_VALUES),
    "audit_columns": ", ".join(AUDIT_COLUMNS),
}
QUERIES = {name: fill(body, {**_OWN, **_DIALECT}) for name, body in _OWN.items()}


class SqliteView:
    """The tables as a connection sees them. Nothing in it waits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _execute(self, name: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        given = {key: as_json(value) if type(value) is list else value for key, value in values.items()}
        return self._connection.execute(QUERIES[name], given)

    async def rows(self, name: str, values: Mapping[str, Any] = NOTHING) -> AsyncIterator[Row]:
        for row in self._execute(name, values):
            yield row

    async def first(self, name: str, values: Mapping[str, Any] = NOTHING) -> Row | None:
        row: Row | None = self._execute(name, values).fetchone()
        return row

    async def each(self, name: str, keys: Collection[Key], *given: float) -> AsyncIterator[tuple[Any, Row]]:
        for key in keys:
            values = (*key, *given) if isinstance(key, tuple) else (key, *given)
            for row in self._connection.execute(QUERIES[name], values):
                yield key, row


def as_json(values: Sequence[int | str]) -> str:
    return msgspec.json.encode(values).decode()


class ManyRows:
    """A statement for many rows at once. A row of an update begins with the id."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        places = {column: f"column{place}" for place, column in enumerate(columns, start=1)}
        if name == "update_run":
            columns = columns[1:]
        row = f"({', '.join('?' * len(places))})"
        values = {
            "columns": ", ".join(columns),
            "new_columns": ", ".join(f"new.{places[column]}" for column in columns),
            "new_id": "column1",
            "new_seq": places.get("seq", ""),
        }
        text = fill(QUERIES[name], values)
        self._texts = {count: fill(text, {"rows": ", ".join([row] * count)}) for count in (*CHUNKS, 1)}

    def write(self, connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
        start = 0
        for chunk in CHUNKS:
            while len(rows) - start >= chunk:
                connection.execute(self._texts[chunk], list(chain.from_iterable(rows[start : start + chunk])))
                start += chunk
        if start < len(rows):
            connection.executemany(self._texts[1], rows[start:])


INSERT_RUNS = {width: ManyRows("insert_run", COLUMNS[:width]) for width in (Run.PLAIN, len(COLUMNS))}
"""by the number of values in a row"""
UPDATE_RUNS = {group: ManyRows("update_run", ("id", *columns)) for group, columns in UPDATES.items()}
PUT_RECORDS = ManyRows("put_record", ("kind", "id", *RECORD_VALUES))
INSERT_HISTORY = ManyRows("insert_history", ("position", "run_id", "seq", "entries"))


def migrations() -> list[str]:
    return scripts("interlock.stores.sqlite")


# sqlite3 looks for an adapter for each value that is not exactly int, float, str or bytearray; finding none takes
# longer than calling one. Those for None and bytes return the value, so other users of sqlite3 notice nothing.
sqlite3.register_adapter(State, {state: state.value for state in State}.__getitem__)
sqlite3.register_adapter(Outcome, {outcome: outcome.value for outcome in Outcome}.__getitem__)
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(Facets, r.encode_facets)


def _publish(connection: sqlite3.Connection, batch: Batch) -> None:
    for run_id, first in r.published_rows(batch):
        held = connection.execute(QUERIES["get_held_lines"], (run_id,)).fetchall()
        moves = [(position, row[0]) for position, row in enumerate(held, start=first)]
        connection.executemany(QUERIES["publish_line"], moves)


def put_records(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    PUT_RECORDS.write(connection, [r.record_row(record) for record in records])
    if any(isinstance(record, BulkRequest) for record in records):
        # Before the runs of the batch: a request covers those stored before it.
        connection.execute(QUERIES["set_reach"])


_WRITES: tuple[tuple[str, Callable[[Batch], Sequence[Sequence[Any]]]], ...] = (
    ("free_key", lambda batch: [(run_id,) for run_id in batch.keys.freed]),
    ("insert_key", attrgetter("keys.taken")),
    ("put_checkpoint", attrgetter("inputs.checkpoints")),
    ("insert_log", r.log_rows),
    ("redact_line", attrgetter("logs.redacted")),
    ("insert_job", r.job_rows),
    ("drop_schedule", lambda batch: [(job_id,) for job_id in r.dropped_schedules(batch)]),
    ("put_schedule", r.schedule_rows),
    ("insert_service_row", r.service_rows),
    ("insert_audit", lambda batch: [r.audit_row(entry) for entry in batch.audit]),
    ("forget_record", r.forgotten_records),
)
"""in this order, before runs and history"""


def write_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """Execute the statements of one batch, inside a transaction that the caller has begun."""
    for name, rows_of in _WRITES:
        if rows := rows_of(batch):
            connection.executemany(QUERIES[name], rows)
    if batch.logs.published:
        _publish(connection, batch)
    put_records(connection, [record for record in batch.records.values() if record is not None])
    for width, created in groupby(batch.created, len):
        INSERT_RUNS[width].write(connection, list(created))
    if batch.inputs.copied:
        connection.executemany(QUERIES["copy_payloads"], batch.inputs.copied)
    for group, updated in batch.updated.items():
        UPDATE_RUNS[group].write(connection, updated)
    if batch.history:
        INSERT_HISTORY.write(connection, r.history_rows(batch))
    if past := [(run_id,) for run_id in batch.past_runs]:
        connection.executemany(QUERIES["forget_history_of_pruned"], past)
        connection.executemany(QUERIES["forget_records_of_pruned"], past)
