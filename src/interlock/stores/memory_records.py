"""The records, the audit and the collapsed payloads of the store in memory."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec

from interlock.core.audit import HEAD
from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry, AuditFilter, AuditHead
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.letter import DeadLetter
from interlock.model.record import Memo, R, Record, RecordFilter
from interlock.model.run import Run
from interlock.ports.store import (
    EVERY_ENTRY,
    EVERY_RECORD,
    MOST_LOOKED_AT,
    MOST_PRUNED,
    MOST_RECORDS,
    AuditRows,
    Reader,
    RecordRows,
)  # fmt: skip


class _Row(NamedTuple):
    number: int  # in order of creation
    record: Record
    last_run: int  # number of the last run stored before it


class MemoryRecords(Reader):
    def __init__(self) -> None:
        self._rows: dict[str, dict[str, _Row]] = {}  # kind → id → row, in order of creation
        self._last_record = 0
        self.audit_log: list[AuditEntry] = []  # in order

    def apply_records(self, batch: Batch, last_run: int) -> None:
        self.audit_log += [entry for entry in batch.audit if entry.number > self.audit_end.number]
        for (kind, id), record in batch.records.items():
            if record is None:
                self._rows.get(kind, {}).pop(id, None)
            else:
                self.put_record(record, last_run)

    def put_record(self, record: Record, last_run: int = 0) -> None:
        rows, seq = self._rows.setdefault(record.kind, {}), record.columns.seq
        if (known := rows.get(record.id)) is None:
            self._last_record += 1
            rows[record.id] = _Row(self._last_record, record, last_run)
        elif seq == 0 or seq > known.record.columns.seq:
            rows[record.id] = known._replace(record=record)

    def drop_records(self, kind: type[Record]) -> None:
        self._rows.pop(kind.kind, None)

    def _of(self, kind: type[R]) -> Iterator[tuple[_Row, R]]:
        for row in self._rows.get(kind.kind, {}).values():
            assert isinstance(row.record, kind)
            yield row, row.record

    def get_record(self, kind: type[R], id: str) -> R | None:
        row = self._rows.get(kind.kind, {}).get(id)
        return row.record if row is not None and isinstance(row.record, kind) else None

    def all_of(self, kind: type[R]) -> dict[str, R]:
        """Return the records of a kind by id, oldest first."""
        return {record.id: record for _, record in self._of(kind)}

    async def records(
        self, kind: type[R], wanted: RecordFilter = EVERY_RECORD, before: int | None = None, limit: int = MOST_RECORDS
    ) -> RecordRows[R]:
        found = [
            (row.number, record)
            for row, record in self._of(kind)
            if (before is None or row.number < before) and wanted.fits(record)
        ][::-1]
        return RecordRows([record for _, record in found[:limit]], found[limit - 1][0] if len(found) > limit else None)

    async def counts(self, kind: type[Record], wanted: RecordFilter) -> dict[str, int]:
        return Counter(str(record.columns.state) for _, record in self._of(kind) if wanted.fits(record))

    def _due(self, kind: type[R]) -> list[tuple[float, str, R]]:
        """Return time, queue and record of those that no earlier one of their order keeps back, earliest first."""
        seen, found = set[str](), []
        for _, record in self._of(kind):
            columns = record.columns
            if columns.due_at is not None and columns.order not in seen:
                found.append((columns.due_at, columns.queue, record))
                seen |= set() if columns.order is None else {columns.order}
        return sorted(found, key=itemgetter(0))

    async def due_times(self, kind: type[Record]) -> dict[str, float]:
        return {queue: due_at for due_at, queue, _ in reversed(self._due(kind))}

    async def due(self, kind: type[R], queue: str, now: float, limit: int) -> list[R]:
        return [record for due_at, of, record in self._due(kind) if of == queue and due_at <= now][:limit]

    def prune_records(self, kind: type[Record], before: float, most: int) -> int:
        """Delete old records, and return how many."""
        rows, unreached = self._rows.get(kind.kind, {}), self.unreached(of_letters=kind is DeadLetter)
        surplus = len(rows) - most
        old = [
            id
            for index, (id, row) in enumerate(list(rows.items())[:MOST_PRUNED])
            if (row.record.columns.at < before or index < surplus) and row.number >= unreached
        ]
        for id in old:
            del rows[id]
        return len(old)

    def reaches(self, number_of: Callable[[str], int | None]) -> dict[str, int]:
        """Return, for each bulk request under way, the number of the last run left to it."""
        found = {}
        for row, bulk in self._of(BulkRequest):
            number = None if bulk.walked is None else number_of(bulk.walked)
            if bulk.ended_at is None:
                found[bulk.id] = row.last_run if number is None else min(row.last_run, number - 1)
        return found

    def unreached(self, of_letters: bool) -> int:
        """Return the number below which retries under way have not looked at runs, or letters."""
        retries = (bulk for bulk in self.all_of(BulkRequest).values() if bulk.action is RunAction.RETRY)
        under_way = (bulk for bulk in retries if bulk.ended_at is None)
        return max(
            (request.before or 0 for request in under_way if (request.wanted.letters is not None) == of_letters),
            default=0,
        )

    def held_runs(self) -> set[str]:
        """Return the runs that must not be pruned."""
        every = (row.record.columns for rows in self._rows.values() for row in rows.values())
        return {columns.run for columns in every if columns.holds and columns.run is not None}

    def forget_runs(self, runs: set[str]) -> None:
        for kind, rows in self._rows.items():
            self._rows[kind] = {id: row for id, row in rows.items() if row.record.columns.run not in runs}

    @property
    def audit_end(self) -> AuditHead:
        return AuditHead(self.audit_log[-1].number, self.audit_log[-1].hash) if self.audit_log else AuditHead()

    async def audit(self, after: int, limit: int, wanted: AuditFilter = EVERY_ENTRY, last: bool = False) -> AuditRows:
        newest, noted = self.audit_end.number, self.get_record(Memo, HEAD)
        head = AuditHead() if noted is None else msgspec.json.decode(noted.value, type=AuditHead)
        start = max(0, after, newest - MOST_LOOKED_AT if last else 0)
        until = min(start + MOST_LOOKED_AT, newest)
        met = self.audit_log[bisect_right(self.audit_log, start, key=attrgetter("number")) :]
        found = [entry for entry in met if entry.number <= until and wanted.fits(entry)]
        if last:
            return AuditRows(found[max(0, len(found) - limit) :], None, head)
        reached = found[limit - 1].number if len(found) >= limit else until
        return AuditRows(found[:limit], reached if reached < newest else None, head)


def copy_payloads(batch: Batch, runs: Mapping[str, Run], further: dict[str, dict[str, bytes]]) -> None:
    """Add the payloads that a batch copies: run → source → payload, in order."""
    for into, run_id, with_own in batch.inputs.copied:
        own = {run_id: runs[run_id].payload or b""} if with_own and run_id in runs else {}
        if into in runs:
            further[into] = further.get(into, {}) | own | further.get(run_id, {})
