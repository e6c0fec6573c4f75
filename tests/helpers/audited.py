"""An audit in a database, before a server starts with it."""

import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from interlock.core.audit import HEAD
from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry, AuditHead, AuditKind, chained
from interlock.model.record import Memo
from tests.helpers.records import changes
from tests.helpers.written import write

KINDS = {
    "red-run": (AuditKind.VERDICT, "clerk", "red"),
    "blue-run": (AuditKind.APPROVED, "judge", "blue"),
    "red-two": (AuditKind.REJECTED, "judge\x1b[2J", "red"),
}
"""subject → kind, actor and tenant of an entry that has it, in order"""


def audited(count: int = 0) -> list[AuditEntry]:
    """The entries above, an hour ago, and `count` more of no tenant, now."""
    now, head, entries = round(time.time(), 3), AuditHead(), list[AuditEntry]()
    plain = [AuditEntry(number=0, at=now, kind=AuditKind.JOB_CHANGED, actor="x", tenant="", subject="y")] * count
    for one in [*(_entry(now - 3600, subject) for subject in KINDS), *plain]:
        entries.append(chained(head, one))
        head = AuditHead(entries[-1].number, entries[-1].hash)
    return entries


def _entry(at: float, subject: str) -> AuditEntry:
    kind, actor, tenant = KINDS[subject]
    detail = {"rule": "no-prod", "reason": "not on Fridays"}
    entry = AuditEntry(number=0, at=at, kind=kind, actor=actor, tenant=tenant, subject=subject, detail=detail)
    return replace(entry, at=round(at, 3))


def audit(database: Path, count: int = 0) -> list[AuditEntry]:
    """Store these entries, and return them."""
    entries = audited(count)
    head = msgspec.json.encode(AuditHead(entries[-1].number, entries[-1].hash))
    write(database, Batch(audit=entries, records=changes(Memo(HEAD, head))))
    return entries
