"""The audit: entries that are only ever added, each with the hash of the one before.

The hash of an entry is the SHA-256 of its JSON without the field `hash`: keys sorted, no spaces, UTF-8, and times as
every interface shows them. So any program can verify an exported file. Verification is a pure function of the entries
and the head (`Chain`). Clients read all pages and verify them themselves; the server has no part in it.
"""

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace

from interlock.fields.field import doc
from interlock.fields.json_form import Time, rfc3339
from interlock.model.job_info import Cursor

NO_HASH = "0" * 64  # `previous` of the first entry

_encode = msgspec.json.Encoder(order="sorted").encode


class AuditKind(StrEnum):
    VERDICT = "verdict"  # policy denied, throttled or constrained a run, or asks for approval
    BYPASSED = "bypassed"  # policy could not be reached, and a run passed because the fail mode is open
    APPROVED = "approved"
    REJECTED = "rejected"
    SELF_APPROVAL = "self_approval"  # somebody tried to approve a run of their own
    APPROVAL_EXPIRED = "approval_expired"
    QUARANTINED = "quarantined"  # a result is withheld
    REDACTED = "redacted"  # a result was changed before anybody saw it
    SCAN_SKIPPED = "scan_skipped"  # a result could not be scanned, and stays
    RELEASED = "released"  # a withheld result was handed out
    ABANDONED = "abandoned"  # somebody ended a halted workflow
    TOKEN_REFUSED = "token_refused"
    TOKENS_CHANGED = "tokens_changed"
    JOB_CHANGED = "job_changed"
    POLICY_CHANGED = "policy_changed"
    WORKER_CHANGED = "worker_changed"  # a worker was drained, resumed or removed
    RESTORED = "restored"  # the database went back to a backup
    WENT_BACK = "went_back"  # the database server lost what it had confirmed, as after a failover
    UNREADABLE = "unreadable"  # stands for a row that somebody else has damaged; never written


class AuditHead(msgspec.Struct, frozen=True):
    """The end of the chain."""

    number: Annotated[int, doc("Number of the last entry; 0 if there is none.")] = 0
    hash: Annotated[str, doc("Hash of the last entry; 64 zeros if there is none.")] = NO_HASH


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit."""

    number: Annotated[int, doc("Number: 1, 2, 3 and so on, without gaps.")]
    at: Annotated[Time, doc("Time, in whole milliseconds.", ge=0, le=1e11)]
    kind: Annotated[AuditKind, doc("What happened.")]
    actor: Annotated[str, doc("Who did it: the name of a token, `local`, `scheduler`, or the address of a client.")]
    tenant: Annotated[str, doc("Tenant; empty for what belongs to none.")]
    subject: Annotated[str, doc("What it was done to: a run, a job, a path.")]
    detail: Annotated[dict[str, Any], doc("Further values, such as rule and reason.")] = {}
    count: Annotated[int, doc("How many times it happened; above 1 in the sum of repeated refusals.")] = 1
    previous: Annotated[str, doc("Hash of the entry before; 64 zeros in the first.")] = NO_HASH
    hash: Annotated[str, doc("SHA-256 of the other fields as JSON with sorted keys.")] = ""


class AuditFilter(msgspec.Struct, frozen=True):
    """The wanted entries: those that match every given field."""

    kind: AuditKind | None = None
    actor: str | None = None
    tenant: str | None = None
    subject: str | None = None
    since: float | None = None

    def fits(self, entry: AuditEntry) -> bool:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        since = given.pop("since", 0.0)
        return bool(entry.at >= since) and all(getattr(entry, name) == given[name] for name in given)


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the audit."""

    entries: Annotated[list[AuditEntry], doc("Entries, oldest first.")]
    next: Cursor
    head: Annotated[AuditHead | None, doc("End of the chain; null for callers who do not see every tenant.")]


class AuditFault(msgspec.Struct, frozen=True):
    """A place where the audit is not as it was written."""

    number: int  # of the first entry concerned
    text: str


class AuditReport(msgspec.Struct, frozen=True):
    """The result of a verification."""

    head: AuditHead  # the last entry that was found
    faults: list[AuditFault]


def entry_hash(entry: AuditEntry) -> str:
    fields = asdict(entry)
    del fields["hash"]
    return hashlib.sha256(_encode(fields | {"at": rfc3339(entry.at)})).hexdigest()


def chained(head: AuditHead, entry: AuditEntry) -> AuditEntry:
    """Return the entry as the next after `head`."""
    entry = replace(entry, number=head.number + 1, previous=head.hash)
    return replace(entry, hash=entry_hash(entry))


class Chain:
    """Verifies entries in their order."""

    def __init__(self, must_have: str | None = None) -> None:
        self.head = AuditHead()
        self.faults: list[AuditFault] = []
        self._is_sound = True  # the last entry has the hash of its fields
        self._missed = must_have  # hash of an entry that must be there

    def add(self, entry: AuditEntry) -> None:
        after, number = self.head, entry.number
        if number <= after.number:
            self._found(number, f"entry {number} comes after entry {after.number}: reordered or repeated")
            return
        if number > after.number + 1:
            self._missing(number - 1)
        follows, self._is_sound = self._is_sound and number == after.number + 1, entry_hash(entry) == entry.hash
        if not self._is_sound:
            self._found(number, f"entry {number} was altered: its hash does not match")
        elif follows and entry.previous != after.hash:
            what = f"entry {number - 1} was altered" if number > 1 else "entry 1 is not the first that was written"
            self._found(max(1, number - 1), f"{what}: entry {number} follows another hash")
        if entry.hash == self._missed:
            self._missed = None
        self.head = AuditHead(number, entry.hash)

    def end(self, head: AuditHead | None) -> AuditReport:
        """Compare the last entry with the head that is kept beside them, if given."""
        if head is not None and head.number > self.head.number:
            self._missing(head.number)
        elif head is not None and head.number < self.head.number:
            self._found(head.number + 1, f"entry {head.number + 1} is beyond the head: it was added by somebody else")
        elif head is not None and head.hash != self.head.hash:
            self._found(head.number, f"entry {head.number} was altered: the head has another hash")
        if self._missed is not None:
            self._found(0, f"no entry has the hash {self._missed}: the audit was rewritten or cut")
        return AuditReport(self.head, self.faults)

    def _missing(self, last: int) -> None:
        first = self.head.number + 1
        which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
        self._found(first, f"{which} missing")

    def _found(self, number: int, text: str) -> None:
        self.faults.append(AuditFault(number, text))


def verify(entries: Iterable[AuditEntry], head: AuditHead | None, must_have: str | None = None) -> AuditReport:
    """Find altered, missing and reordered entries in a whole audit. `must_have` is a hash that was kept elsewhere."""
    chain = Chain(must_have)
    for entry in entries:
        chain.add(entry)
    return chain.end(head)
