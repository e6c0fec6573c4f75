"""The audit of the store in memory."""

from bisect import bisect_right
from operator import attrgetter

import msgspec

from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry, AuditFilter, AuditHead
from interlock.ports.store import MOST_LOOKED_AT, AuditRows

_NUMBER = attrgetter("number")


class AuditLog:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []  # in order

    def apply(self, batch: Batch) -> None:
        self.entries += [entry for entry in batch.audit if entry.number > self.end.number]

    @property
    def end(self) -> AuditHead:
        return AuditHead(self.entries[-1].number, self.entries[-1].hash) if self.entries else AuditHead()

    def page(self, after: int, limit: int, wanted: AuditFilter, last: bool, noted: bytes | None) -> AuditRows:
        newest = self.end.number
        head = AuditHead() if noted is None else msgspec.json.decode(noted, type=AuditHead)
        start = max(0, after, newest - MOST_LOOKED_AT if last else 0)
        until = min(start + MOST_LOOKED_AT, newest)
        met = self.entries[bisect_right(self.entries, start, key=_NUMBER) :]
        found = [entry for entry in met if entry.number <= until and wanted.fits(entry)]
        if last:
            return AuditRows(found[max(0, len(found) - limit) :], None, head)
        reached = found[limit - 1].number if len(found) >= limit else until
        return AuditRows(found[:limit], reached if reached < newest else None, head)
