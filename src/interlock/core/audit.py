"""The audit: entries join the chain in the pass that they record. Repeated refusals are counted for a minute.

`Pass.audit(kind, actor, tenant, subject, repeats, **detail)` adds an entry to the batch, so it is stored with what it
records or not at all. An entry has the number and the hash after those of the last one. This head is in memory, and in
a memo of the same commit, so a removed tail is noticed. Triggers of the table refuse changes.

A refusal that anybody can cause gets a key (`repeats`). The first is an entry; others of the next 60 s raise a count in
a memo, from which a restart continues. At most 1,000 keys are counted apart. So the audit grows by at most some 2,000
entries a minute, whatever is refused. The gateway cannot write: it counts refused tokens, and reports them at most once
a second (`api/refusals.py`).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.core.facts import Snapshot
from interlock.core.part import Part
from interlock.fields.json_form import rfc3339
from interlock.model.audit import AuditEntry, AuditHead, AuditKind, chained
from interlock.model.job_info import JobEvent
from interlock.model.reload_report import Difference
from interlock.model.run import Now
from interlock.wire.audit_request import NoteRefusals
from interlock.wire.command import NoteTokens
from interlock.wire.request import ValueAnswer

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass

AUDIT = "audit"  # the kind of a span that ends when a count becomes an entry
HEAD = "audit:head"  # name of the memo with the end of the chain
COUNTED = "audit:repeated:"  # prefix of the names of memos with counts
DECLARED, TOKENS = "audit:jobs", "audit:tokens"  # names of memos: what was last declared, as a digest or by name
COUNT_FOR = 60.0  # seconds
MOST_COUNTED = 1000  # keys of a group that are counted apart; any others share a count
LONGEST = 1000  # characters of a text in an entry
MOST_NAMES = 20  # names in an entry
MOST_ANNOUNCED = 100  # names in an event

_sorted = msgspec.json.Encoder(order="sorted").encode


class RepeatedEntry(msgspec.Struct):
    """Repetitions of an entry, which are not in the chain yet."""

    kind: AuditKind
    actor: str
    tenant: str
    since: float  # time of the entry that they repeat
    detail: dict[str, Any]
    count: int = 0
    first: str = ""  # subjects
    last: str = ""
    group: str = ""


class Audit:
    """The end of the chain, and the counts that are to join it."""

    def __init__(self) -> None:
        self.head = AuditHead()
        self.repeated: dict[str, RepeatedEntry] = {}
        self.groups: Counter[str] = Counter()  # how many of them each group has
        self.declared = ""  # digest of the declared jobs; empty if there were none
        self.tokens: dict[str, str] = {}  # as in `NoteTokens`


def load(state: "SchedulerState", snapshot: Snapshot, now: Now) -> None:
    """Continue after the last entry, and with the counts that were stored."""
    kept = snapshot.memos.get(HEAD)
    head = AuditHead() if kept is None else msgspec.json.decode(kept, type=AuditHead)
    # Rows beyond the head are not ours; no entry may get the number of one, or it would be lost.
    state.of(Audit).head = head if head.number >= snapshot.audit.number else snapshot.audit
    state.of(Audit).declared = snapshot.memos.get(DECLARED, b"").decode()
    state.of(Audit).tokens = msgspec.json.decode(snapshot.memos.get(TOKENS, b"{}"))
    for name, memo in snapshot.memos.items():
        if name.startswith(COUNTED):
            repeated = msgspec.json.decode(memo, type=RepeatedEntry)
            left = min(repeated.since + COUNT_FOR - now.wall, COUNT_FOR)
            _count(state, name.removeprefix(COUNTED), repeated, now.elapsed + left)


def note(
    p: "Pass",
    kind: AuditKind,
    actor: str,
    tenant: str,
    subject: str,
    repeats: tuple[str, ...] | None = None,
    count: int = 1,
    **given: Any,
) -> None:
    """Add an entry to the audit, with small values that hold no secrets. `repeats` is the key of a refusal that may
    come often: one entry, and then the sum of each minute."""
    state, detail = p.state, _small(msgspec.to_builtins(given))
    if repeats is None:
        _write(p, kind, actor, tenant, subject, detail, count)
        return
    key = _digest_of(repeats)
    fresh = RepeatedEntry(kind, actor, tenant, p.now, detail)
    # Each kind of decision has a budget of its own, so that none hides another.
    group = f"{kind}:{detail.get('decision', '')}"
    if key not in state.of(Audit).repeated and state.of(Audit).groups[group] >= MOST_COUNTED:
        key, fresh = f"others:{group}", RepeatedEntry(kind, "others", "", p.now, {})
    fresh.group = group
    known = state.of(Audit).repeated.get(key)
    if known is None:
        _write(p, kind, actor, tenant, subject, detail, count)
        _count(state, key, fresh, p.elapsed + COUNT_FOR)
        return
    known.first = known.first if known.count else _small(subject)
    known.last = _small(subject)
    known.count += count
    p.keep_memo(COUNTED + key, msgspec.json.encode(known))


def end_count(p: "Pass", key: str, at: float) -> None:
    """Write the sum of a minute, if anything was repeated in it."""
    found = p.state.of(Audit).repeated.pop(key)
    p.state.of(Audit).groups[found.group] -= 1
    if found.count:
        detail = found.detail | {"repeated_since": rfc3339(found.since), "last": found.last}
        _write(p, found.kind, found.actor, found.tenant, found.first, detail, found.count)
        p.keep_memo(COUNTED + key, None)


def note_refusals(p: "Pass", origin: str, command: NoteRefusals) -> None:
    for refusal in command.refusals:
        who = refusal.actor, refusal.tenant
        key = ("refused", refusal.reason, *who)
        p.audit(AuditKind.TOKEN_REFUSED, *who, refusal.subject, key, refusal.count, reason=refusal.reason)
    p.answers.append((origin, ValueAnswer(command.request)))


def note_tokens(p: "Pass", origin: str, command: NoteTokens) -> None:
    """Audit the difference from the tokens of the previous start."""
    audit = p.state.of(Audit)
    if command.tokens != audit.tokens:
        detail = _named(Difference.between(audit.tokens, command.tokens))
        detail |= {"before": _digest_of(audit.tokens), "after": _digest_of(command.tokens)}
        _write(p, AuditKind.TOKENS_CHANGED, "scheduler", "", "tokens", detail, 1)
        audit.tokens = command.tokens
        p.keep_memo(TOKENS, msgspec.json.encode(command.tokens))


def note_declared(p: "Pass", actor: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    """Audit a change of the declared jobs, given by their versions. After a start, those before are known only by their
    digest."""
    audit = p.state.of(Audit)
    digest = _digest_of(after) if after else ""
    if digest != audit.declared:
        detail: dict[str, Any] = {"jobs": len(after)}
        if before is not None:
            found = Difference.between(before, after)
            detail = _named(found)
            _announce(p, actor, "reloaded", [*found.added, *found.changed, *found.removed])
        detail |= {"action": "declared", "before": audit.declared, "after": digest}
        _write(p, AuditKind.JOB_CHANGED, actor, "", "declared jobs", detail, 1)
        audit.declared = digest
        p.keep_memo(DECLARED, digest.encode())


def note_jobs(p: "Pass", actor: str, action: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Audit and announce a change of jobs by a request. `before` and `after` map jobs to their versions, or to another
    state that has changed."""
    names = list({**after, **before})
    if not names:
        return
    subject, *others = names
    detail: dict[str, Any] = {"before": before.get(subject, ""), "after": after.get(subject, "")}
    if others:
        subject = f"{len(names)} jobs"
        detail = {"before": _digest_of(before), "after": _digest_of(after), "names": names[:MOST_NAMES]}
    _write(p, AuditKind.JOB_CHANGED, actor, "", subject, {"action": action, **detail}, 1)
    _announce(p, actor, action, names)


def _announce(p: "Pass", actor: str, action: str, names: Sequence[str]) -> None:
    named = list(names[:MOST_ANNOUNCED])
    p.announce(JobEvent(at=p.now, action=action, actor=actor, jobs=named, count=len(names)))


def _named(found: Difference) -> dict[str, Any]:
    counts = {"added": len(found.added), "changed": len(found.changed), "removed": len(found.removed)}
    return {**counts, "names": [*found.added, *found.changed, *found.removed][:MOST_NAMES]}


def _digest_of(value: object) -> str:
    return hashlib.blake2b(_sorted(value), digest_size=16).hexdigest()


def _count(state: "SchedulerState", key: str, repeated: RepeatedEntry, end: float) -> None:
    state.of(Audit).repeated[key] = repeated
    state.of(Audit).groups[repeated.group] += 1
    state.set_alarm(end, AUDIT, key)


def _write(
    p: "Pass", kind: AuditKind, actor: str, tenant: str, subject: str, detail: dict[str, Any], count: int
) -> None:
    audit, at = p.state.of(Audit), round(p.now, 3)
    entry = AuditEntry(
        number=0, at=at, kind=kind, actor=actor, tenant=tenant, subject=_small(subject), detail=detail, count=count
    )
    entry = chained(audit.head, entry)
    audit.head = AuditHead(entry.number, entry.hash)
    p.batch.audit.append(entry)
    p.keep_memo(HEAD, msgspec.json.encode(audit.head))


def _small(value: Any) -> Any:
    """Cut long texts."""
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}…"
    return {name: _small(item) for name, item in value.items()} if isinstance(value, dict) else value


AUDITING = Part(
    name="audit",
    slices=(Audit,),
    handlers={NoteRefusals: note_refusals, NoteTokens: note_tokens},
    alarms={AUDIT: end_count},
    loads=(load,),
)
