"""The statements of queries.sql by name, with the columns of runs and records filled in, and the writing of a batch."""

import re
import sqlite3
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry
from interlock.model.bulk import BulkRequest
from interlock.model.facets import Facets
from interlock.model.failure import Outcome
from interlock.model.record import Columns, Record
from interlock.model.run import UPDATES, Run
from interlock.model.state import State

COLUMNS = Run.__struct_fields__
AUDIT_COLUMNS = AuditEntry.__struct_fields__
RECORD_VALUES = (*("order_key" if name == "order" else name for name in Columns._fields), "value")
CHUNKS = (800, 200, 50)
"""Rows that one statement may take. The writing thread releases the interpreter lock for each statement; to get it back
from a busy loop can cost more than the statement, so there should be few of them."""

_LARGE = ("payload", "result")
_SMALL = {"payload": "CASE WHEN length(payload) <= :small_payload THEN payload END"}


def _bodies() -> dict[str, str]:
    text = files("interlock.stores.sqlite").joinpath("queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _fill(body: str, values: dict[str, str]) -> str:
    """Insert these values, and values into them; others are inserted later."""
    return re.sub(r"\{(\w+)\}", lambda match: _fill(values[match[1]], values) if match[1] in values else match[0], body)


_BODIES = _bodies()
QUERIES = {
    name: _fill(
        body,
        {
            **_BODIES,
            "all_columns": ", ".join(COLUMNS),
            "loaded": ", ".join(_SMALL.get(column, column) for column in COLUMNS),
            "listed": ", ".join("NULL" if column in _LARGE else column for column in COLUMNS),
            "record_values": ", ".join(RECORD_VALUES),
            "excluded_record": ", ".join(f"excluded.{column}" for column in RECORD_VALUES),
            "audit_columns": ", ".join(AUDIT_COLUMNS),
        },
    )
    for name, body in _BODIES.items()
}
LISTINGS = {
    place: (
        QUERIES["list_runs"].format(place=QUERIES[place]),
        QUERIES["find_floor_of_all" if place == "all_runs" else "find_floor"].format(place=QUERIES[place]),
    )
    for place in (
        "all_runs",
        "live_runs",
        "runs_by_id",
        "runs_of_job",
        "runs_of_parent",
        "runs_of_root",
        "unsuccessful_runs",
    )
}
"""set of runs to look at → the statement that finds some, and the one that finds how far down it may look"""

RECORDS = {
    place: (QUERIES["list_records"].format(place=QUERIES[place]), QUERIES["find_floor"].format(place=QUERIES[place]))
    for place in ("all_records", "records_by_id", "records_of_run")
}


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
        text = _fill(QUERIES[name], values)
        self._texts = {count: _fill(text, {"rows": ", ".join([row] * count)}) for count in (*CHUNKS, 1)}

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
    """Return the scripts that make the schema, in order; their number is its version."""
    folder = files("interlock.stores.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [folder.joinpath(name).read_text() for name in names]


_encode_history = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode

# sqlite3 looks for an adapter for each value that is not exactly int, float, str or bytearray; finding none takes
# longer than calling one. Those for None and bytes return the value, so other users of sqlite3 notice nothing.
sqlite3.register_adapter(State, {state: state.value for state in State}.__getitem__)
sqlite3.register_adapter(Outcome, {outcome: outcome.value for outcome in Outcome}.__getitem__)
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(Facets, msgspec.msgpack.Encoder().encode)


def history_rows(batch: Batch) -> list[tuple[int, str, int, bytes]]:
    return [
        (position, run_id, entries[0].seq, _encode_history(entries))
        for position, (run_id, entries) in enumerate(batch.history, start=batch.of_history)
    ]


def _log_rows(batch: Batch) -> list[tuple[Any, ...]]:
    """A line that nobody may read yet has the negative of its position: no reader looks below 0."""
    return [
        (-position if line[0] in batch.logs.held else position, *line)
        for position, line in enumerate(batch.logs.lines, start=batch.of_logs)
    ]


def _publish(connection: sqlite3.Connection, batch: Batch) -> None:
    first = batch.position
    for run_id, count in batch.logs.published:
        held = connection.execute(QUERIES["get_held_lines"], (run_id,)).fetchall()
        moves = [(position, row[0]) for position, row in enumerate(held, start=first)]
        connection.executemany(QUERIES["publish_line"], moves)
        first += count


def _service_rows(batch: Batch) -> list[tuple[Any, ...]]:
    rows = enumerate(batch.service_log, start=batch.of_services)
    return [
        (position, service, number, at, stream, len(text.encode()) + len(change or b""), text, change)
        for position, (service, number, at, stream, text, change) in rows
    ]


def put_records(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    PUT_RECORDS.write(connection, [(record.kind, record.id, *record.columns, record.encode()) for record in records])
    if any(isinstance(record, BulkRequest) for record in records):
        # Before the runs of the batch: a request covers those stored before it.
        connection.execute(QUERIES["set_reach"])


def _audit_rows(batch: Batch) -> list[tuple[Any, ...]]:
    return [audit_row(entry) for entry in batch.audit]


def audit_row(entry: AuditEntry) -> tuple[Any, ...]:
    return msgspec.structs.astuple(replace(entry, detail=_to_json(entry.detail).decode()))


_WRITES: tuple[tuple[str, Callable[[Batch], Sequence[Sequence[Any]]]], ...] = (
    ("free_key", lambda batch: [(run_id,) for run_id in batch.keys.freed]),
    ("insert_key", attrgetter("keys.taken")),
    ("put_checkpoint", attrgetter("inputs.checkpoints")),
    ("insert_log", _log_rows),
    ("redact_line", attrgetter("logs.redacted")),
    ("insert_job", lambda batch: [(job.version, job.id, _to_json(job)) for job in batch.jobs]),
    ("drop_schedule", lambda batch: [(job_id,) for job_id, row in batch.schedules.items() if row is None]),
    ("put_schedule", lambda batch: [row for row in batch.schedules.values() if row is not None]),
    ("insert_service_row", _service_rows),
    ("insert_audit", _audit_rows),
    ("forget_record", lambda batch: [key for key, record in batch.records.items() if record is None]),
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
        INSERT_HISTORY.write(connection, history_rows(batch))
    if past := [(run_id,) for run_id in batch.past_runs]:
        connection.executemany(QUERIES["forget_history_of_pruned"], past)
        connection.executemany(QUERIES["forget_records_of_pruned"], past)
