"""Values from rows, and rows from values."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.timetable.table import ScheduleRow
from interlock.model.audit import AuditEntry, AuditKind
from interlock.model.child_info import Change
from interlock.model.facets import Facets
from interlock.model.record import Record
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.ports.store import LogEntry, ServiceEntry, StoredEvent
from interlock.stores.sql.queries import AUDIT_COLUMNS
from interlock.stores.sql.view import Row

decode_facets = msgspec.msgpack.Decoder(Facets).decode
encode_facets = msgspec.msgpack.Encoder().encode
decode_history = msgspec.msgpack.Decoder(list[Transition]).decode
_decode_change = msgspec.json.Decoder(Change).decode
_encode_history = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode
_STATES = {str(state): state for state in State}  # faster than a call of the class, which refuses damaged values


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


_decode_labelled = msgspec.msgpack.Decoder(_Labelled).decode


def decode_labels(facets: bytes | None) -> dict[str, str]:
    """Return the labels among the facets of a run, and leave the others unread."""
    return {} if facets is None else _decode_labelled(facets).labels or {}


def read_run(row: Row) -> Run:
    run = Run(*row)
    run.state = _STATES.get(run.state) or State(run.state)
    run.previous = None if run.previous is None else _STATES.get(run.previous) or State(run.previous)
    if run.facets is not None:
        run.facets = decode_facets(run.facets)  # type: ignore[arg-type] # as it comes from the table
    return run


def share_texts(run: Run, shared: dict[str, str]) -> Run:
    """Let runs have equal texts in common: a million of them may wait."""
    for name in ("job_id", "tenant", "job_version", "lane", "reason", "actor", "created_by"):
        text = getattr(run, name)
        setattr(run, name, shared.setdefault(text, text))
    return run


def read_schedule(row: Row) -> ScheduleRow:
    """Make equal numbers one object: there may be very many rows in memory."""
    job_id, identity, anchor, cursor, following, paused, done, reached = row
    cursor = anchor if cursor == anchor else cursor
    return job_id, identity, anchor, cursor, following, bool(paused), bool(done), reached or 0.0


def read_audit_entry(row: Row) -> AuditEntry:
    """Return an entry as it is stored. An entry that cannot be read gets no hash, so that a verification names it."""
    values = dict(zip(AUDIT_COLUMNS, row, strict=True))
    try:
        return msgspec.convert(values | {"detail": msgspec.json.decode(values["detail"])}, AuditEntry)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return AuditEntry(number=row[0], at=0.0, kind=AuditKind.UNREADABLE, actor="", tenant="", subject="")


def read_transitions(row: Row) -> StoredEvent:
    position, run_id, job_id, tenant, entries = row
    return StoredEvent(position, run_id, job_id, tenant, decode_history(entries))


def read_line(row: Row) -> StoredEvent:
    position, run_id, job_id, tenant, *line = row
    return StoredEvent(position, run_id, job_id, tenant, [], LogEntry(position, *line))


def read_service_entry(row: Row) -> ServiceEntry:
    position, service, at, stream, text, change = row
    return ServiceEntry(position, service, at, stream, text, None if change is None else _decode_change(change))


def history_rows(batch: Batch) -> list[tuple[int, str, int, bytes]]:
    return [
        (position, run_id, entries[0].seq, _encode_history(entries))
        for position, (run_id, entries) in enumerate(batch.history, start=batch.of_history)
    ]


def log_rows(batch: Batch) -> list[Row]:
    """A line that nobody may read yet has the negative of its position: no reader looks below 0."""
    return [
        (-position if line[0] in batch.logs.held else position, *line)
        for position, line in enumerate(batch.logs.lines, start=batch.of_logs)
    ]


def published_rows(batch: Batch) -> Iterator[tuple[str, int]]:
    """Yield each run whose held lines get new positions, and the first of these."""
    first = batch.position
    for run_id, count in batch.logs.published:
        yield run_id, first
        first += count


def service_rows(batch: Batch) -> list[Row]:
    rows = enumerate(batch.service_log, start=batch.of_services)
    return [
        (position, service, number, at, stream, len(text.encode()) + len(change or b""), text, change)
        for position, (service, number, at, stream, text, change) in rows
    ]


def job_rows(batch: Batch) -> list[Row]:
    return [(job.version, job.id, _to_json(job)) for job in batch.jobs]


def schedule_rows(batch: Batch) -> list[Row]:
    return [row for row in batch.schedules.values() if row is not None]


def dropped_schedules(batch: Batch) -> list[str]:
    return [job_id for job_id, row in batch.schedules.items() if row is None]


def record_row(record: Record) -> Row:
    return (record.kind, record.id, *record.columns, record.encode())


def forgotten_records(batch: Batch) -> list[tuple[str, str]]:
    return [key for key, record in batch.records.items() if record is None]


def audit_row(entry: AuditEntry) -> Row:
    return msgspec.structs.astuple(replace(entry, detail=_to_json(entry.detail).decode()))
