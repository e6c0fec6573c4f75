"""Write a batch: the statement for each part, and its rows."""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry
from interlock.model.bulk import BulkRequest
from interlock.model.facets import Facets
from interlock.model.outcome import Outcome
from interlock.model.record import Record
from interlock.model.state import State
from interlock.stores.sqlite.queries import (
    INSERT_HISTORY,
    INSERT_RUNS,
    PUT_RECORDS,
    QUERIES,
    UPDATE_RUNS,
)

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
