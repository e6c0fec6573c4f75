"""The audit in the core: the chain, repeated refusals, restarts, and what a verification finds."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from interlock.core import audit
from interlock.core.decisions import Batch
from interlock.core.facts import Facts
from interlock.core.transition import Pass
from interlock.fields import json_form
from interlock.interface.run_view import EVENT_NAMES
from interlock.interface.server_operations import EventType
from interlock.model.audit import NO_HASH, AuditEntry, AuditHead, AuditKind, chained, entry_hash, verify
from interlock.model.job import Job
from interlock.model.job_info import JobEvent
from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.verdict import Ruling
from interlock.model.record import Memo
from interlock.model.schedule.schedule import Schedule
from interlock.model.work import ProcessWork
from interlock.policy.policy import Policy
from interlock.wire.audit_request import NoteRefusals, Refusal
from interlock.wire.command import Define, NoteTokens, Put
from interlock.wire.request import DropJob, SetPaused, ValueAnswer
from tests.core.machine import START, WORK, Machine, at_once

pytestmark = pytest.mark.behaviour("SEC-7")

REFUSED = AuditKind.TOKEN_REFUSED


class Auditor(Machine):
    """A machine whose next pass writes entries first."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = len(self.entries)

    def write(self, *writes: Callable[[Pass], None]) -> None:
        """One pass with these writes in it."""
        p = Pass(state=self.state, now=self.wall, elapsed=self.elapsed, rng=self.rng, facts=Facts())
        for write in writes:
            write(p)
        self.store.apply(p.finish().batch)

    def refuse(self, key: str, subject: str = "r", count: int = 1) -> None:
        self.write(lambda p: p.audit(REFUSED, "ann", "blue", subject, ("verdict", key), count, rule=key))

    @property
    def entries(self) -> list[AuditEntry]:
        return at_once(self.store.audit(0, 10_000)).entries

    @property
    def new(self) -> list[tuple[str, int]]:
        """Subject and count of each entry since the machine began."""
        return [(one.subject, one.count) for one in self.entries[self.begun :]]

    def verified(self) -> list[str]:
        page = at_once(self.store.audit(0, 10_000))
        return [one.text for one in verify(page.entries, page.head).faults]


@pytest.fixture
def m() -> Auditor:
    return Auditor()


def test_each_entry_carries_the_hash_of_the_one_before(m: Auditor) -> None:
    m.write(
        lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r1", reason="fine"),
        lambda p: p.audit(AuditKind.RELEASED, "ann", "blue", "r1"),
    )
    m.advance(0.0004)
    m.write(lambda p: p.audit(AuditKind.JOB_CHANGED, "bob", "", "work"))
    first, second, third = m.entries[m.begun :]
    assert (first.number, second.number, third.number) == (m.begun + 1, m.begun + 2, m.begun + 3)
    assert (second.previous, third.previous) == (first.hash, second.hash)
    assert (first.detail, first.at, third.at) == ({"reason": "fine"}, START, START)
    assert m.entries[0].previous == NO_HASH
    assert m.verified() == []


def test_a_restart_continues_the_chain(m: Auditor) -> None:
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r1"))
    m.restart()
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r2"))
    m.recover()
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r3"))
    assert m.new == [("r1", 1), ("r2", 1), ("r3", 1)]
    assert m.verified() == []


def test_a_lost_head_hides_no_later_entry(m: Auditor) -> None:
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r1"))
    m.store.apply(Batch(records={(Memo.kind, audit.HEAD): None}))
    m.restart()
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r2"))
    assert m.new == [("r1", 1), ("r2", 1)]


def test_a_removed_tail_leaves_a_gap_that_later_entries_do_not_fill(m: Auditor) -> None:
    m.write(*[lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r1")] * 3)
    del m.store.audit_log[-2:]
    m.restart()
    m.write(lambda p: p.audit(AuditKind.APPROVED, "ann", "blue", "r2"))
    assert m.verified() == [f"entries {m.begun + 2} to {m.begun + 3} are missing"]


def test_long_texts_are_cut(m: Auditor) -> None:
    m.write(lambda p: p.audit(AuditKind.REJECTED, "ann", "blue", "s" * 2000, reason="r" * 2000, deep={"a": "d" * 2000}))
    entry = m.entries[-1]
    assert (entry.subject, entry.detail["reason"]) == ("s" * 1000 + "…", "r" * 1000 + "…")
    assert entry.detail["deep"] == {"a": "d" * 1000 + "…"}


# ── repeated refusals ───────────────────────────────────────────────────────────────────────────────────────────────


def test_repeated_refusals_are_one_entry_and_the_sum_of_a_minute(m: Auditor) -> None:
    m.refuse("no-prod", "r1")
    m.advance(1)
    m.refuse("no-prod", "r2")
    m.refuse("other", "r3")
    m.advance(58)
    m.refuse("no-prod", "r4", count=5)
    assert m.new == [("r1", 1), ("r3", 1)]
    m.advance(0.999)
    assert len(m.new) == 2
    m.advance(0.001)
    assert m.new == [("r1", 1), ("r3", 1), ("r2", 6)]
    total = m.entries[-1]
    assert total.detail == {"rule": "no-prod", "repeated_since": json_form.rfc3339(START), "last": "r4"}
    assert (total.kind, total.actor, total.tenant, total.at) == (REFUSED, "ann", "blue", START + 60)
    assert not [name for name in m.store.memos if name.startswith(audit.COUNTED)]
    m.refuse("no-prod", "r5")
    assert m.new[-1] == ("r5", 1), "the next one is written at once again"
    m.advance(600)
    assert len(m.new) == 4, "nothing was repeated"
    assert m.verified() == []


def test_the_minute_wakes_the_scheduler(m: Auditor) -> None:
    m.refuse("no-prod")
    m.refuse("no-prod")
    assert m.step().wake_at == START + 60


@pytest.mark.parametrize("down", [0, 30, 300], ids="{}s".format)
def test_counts_outlast_a_restart(m: Auditor, down: float) -> None:
    m.refuse("no-prod", "r1")
    m.advance(20)
    m.refuse("no-prod", "r2")
    m.refuse("no-prod", "r3")
    m.wall += down
    m.elapsed = 7.0  # another process
    m.restart()
    if down < 40:
        m.refuse("no-prod", "r4")
    m.advance(max(0, 40 - down))
    assert m.new == [("r1", 1), ("r2", 3 if down < 40 else 2)]
    assert m.verified() == []


def test_a_clock_that_was_set_back_delays_a_sum_by_a_minute_at_most(m: Auditor) -> None:
    m.refuse("no-prod", "r1")
    m.refuse("no-prod", "r2")
    m.wall -= 10_000
    m.restart()
    m.advance(60)
    assert m.new == [("r1", 1), ("r2", 1)]


def test_beyond_a_thousand_keys_refusals_of_a_kind_share_a_count(m: Auditor) -> None:
    for number in range(audit.MOST_COUNTED + 50):
        m.refuse(f"k{number}", f"r{number}")
    m.refuse("k7", "again")
    assert len(m.new) == audit.MOST_COUNTED + 1, "the first of the others is an entry too"
    m.restart()
    m.advance(60)
    assert m.new[-2:] == [("r1001", 49), ("again", 1)] or m.new[-2:] == [("again", 1), ("r1001", 49)]
    (others,) = [one for one in m.entries if one.count == 49]
    assert (others.actor, others.tenant, others.detail["last"]) == ("others", "", "r1049")
    assert m.verified() == []


# ── what the core itself writes ─────────────────────────────────────────────────────────────────────────────────────


def changes(m: Machine) -> list[tuple[str, str, dict[str, Any]]]:
    entries = at_once(m.store.audit(0, 10_000)).entries
    return [
        (one.actor, one.subject, without_digests(one.detail)) for one in entries if one.kind is AuditKind.JOB_CHANGED
    ]


def without_digests(detail: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if name not in ("before", "after")}


def digests(m: Machine, kind: AuditKind) -> list[tuple[str, str, str]]:
    """Actor, and digests before and after each change of a kind."""
    entries = at_once(m.store.audit(0, 10_000)).entries
    return [(one.actor, one.detail["before"], one.detail["after"]) for one in entries if one.kind is kind]


def test_other_declared_jobs_are_noticed_at_a_start_and_named_at_a_reload() -> None:
    m = Machine(WORK)
    first = [("scheduler", "declared jobs", {"action": "declared", "jobs": 1})]
    assert changes(m) == first
    m.restart()
    m.recover()
    m.step(("", Define(1, [WORK], "ann")))
    assert changes(m) == first, "nothing has changed"
    more = [Job(id=f"j{number:02}") for number in range(25)]
    m.step(("", Define(2, [replace(WORK, lane="team", version=""), *more], "ann")))
    names = [job.id for job in more][:20]
    second = ("ann", "declared jobs", {"action": "declared", "added": 25, "changed": 1, "removed": 0, "names": names})
    assert changes(m) == [*first, second]
    m.jobs = more
    m.restart()
    assert changes(m) == [*first, second, ("scheduler", "declared jobs", {"action": "declared", "jobs": 25})]
    m.step(("", Define(3, [], "ann")))
    assert changes(m)[-1][2]["removed"] == 25


def test_jobs_that_are_put_and_deleted_are_audited_with_the_change_and_refused_ones_are_not(m: Machine) -> None:
    made, start = Job(id="made", work=ProcessWork(command=("true",))), len(changes(m))
    other = replace(made, id="other", version="")
    m.step(("client", Put(1, [made], "ann")), ("client", DropJob(2, "work", "ann")), ("client", Put(3, [made], "bob")))
    m.step(("client", Put(4, [made, other], "ann")), ("client", DropJob(5, "made", "ann")))
    m.step(("client", Put(6, [made, replace(other, lane="team", version="")], "bob")), ("client", DropJob(7, "other")))
    assert changes(m)[start:] == [
        ("ann", "made", {"action": "put"}),
        ("ann", "other", {"action": "put"}),
        ("ann", "made", {"action": "dropped"}),
        ("bob", "2 jobs", {"action": "put", "names": ["made", "other"]}),
        ("client", "other", {"action": "dropped"}),
    ]


def assert_each_follows(changes: list[tuple[str, str, str]]) -> None:
    assert all(before != after for _, before, after in changes)
    assert [after for _, _, after in changes[:-1]] == [before for _, before, _ in changes[1:]]


def test_each_change_of_the_policy_and_of_jobs_is_an_entry_by_whoever_made_it() -> None:
    """Only refusals are summed: seven changes within a minute, some of them back and forth, are seven entries."""
    m = Machine(WORK)
    policies = [Policy(PolicyDocument(id="p", default_decision=Ruling(one))) for one in ("allow", "deny", "allow")]
    for number, policy in enumerate((*policies, None, *policies)):
        changed = replace(WORK, lane=("main", "team")[number % 2], version="")
        m.step(("", Define(number + 1, [changed], f"token-{number}", policy=policy)))
    found = digests(m, AuditKind.POLICY_CHANGED)
    assert [actor for actor, _, _ in found] == [f"token-{number}" for number in range(7)]
    assert [after for _, _, after in found] == [
        "" if one is None else one.digest for one in (*policies, None, *policies)
    ]
    assert found[0][1] == ""
    assert_each_follows(found)
    jobs = digests(m, AuditKind.JOB_CHANGED)
    assert [actor for actor, _, _ in jobs] == ["scheduler", *(f"token-{number}" for number in range(7))]
    assert_each_follows(jobs)


def test_a_job_that_is_put_is_audited_with_its_versions(m: Machine) -> None:
    made = Job(id="made", work=ProcessWork(command=("true",)))
    other = replace(made, lane="team", version="")
    m.step(("client", Put(1, [made], "ann")), ("client", Put(2, [other], "bob")), ("client", DropJob(3, "made", "cid")))
    assert digests(m, AuditKind.JOB_CHANGED)[1:] == [
        ("ann", "", made.version), ("bob", made.version, other.version), ("cid", other.version, ""),
    ]  # fmt: skip


def test_other_tokens_are_noticed_at_a_start(m: Auditor) -> None:
    m.step(("", NoteTokens({})))
    assert m.new == []
    for tokens in ({"ann": "1", "bob": "1"}, {"ann": "1", "bob": "1"}, {"ann": "2", "cid": "1"}, {}):
        m.restart()
        m.step(("", NoteTokens(tokens)))
    found = [without_digests(one.detail) for one in m.entries[m.begun :]]
    assert_each_follows(digests(m, AuditKind.TOKENS_CHANGED))
    assert found == [
        {"added": 2, "changed": 0, "removed": 0, "names": ["ann", "bob"]},
        {"added": 1, "changed": 1, "removed": 1, "names": ["cid", "ann", "bob"]},
        {"added": 0, "changed": 0, "removed": 2, "names": ["ann", "cid"]},
    ]


def test_refused_tokens_are_counted_by_reason_actor_and_tenant(m: Auditor) -> None:
    one, other = Refusal("unauthorized", "10.0.0.1", "", "GET /a", 3), Refusal("forbidden", "ann", "red", "GET /b", 1)
    decisions = m.step(("gateway", NoteRefusals(7, [one, other])), ("gateway", NoteRefusals(8, [one, one])))
    assert decisions.answers == [("gateway", ValueAnswer(7)), ("gateway", ValueAnswer(8))]
    assert m.new == [("GET /a", 3), ("GET /b", 1)]
    m.advance(60)
    assert m.new[2:] == [("GET /a", 6)]
    assert m.entries[-1].detail["reason"] == "unauthorized"


def test_a_plain_run_adds_nothing(m: Auditor) -> None:
    m.worker_up()
    run_id = m.submit()
    m.finished(run_id)
    assert m.last.batch.audit == []
    assert m.new == []


# ── verification ────────────────────────────────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
fields = st.fixed_dictionaries(
    {
        "at": st.floats(0, 4e9).map(lambda at: round(at, 3)),
        "kind": st.sampled_from(AuditKind),
        "actor": texts,
        "tenant": texts,
        "subject": texts,
        "detail": st.dictionaries(texts, values, max_size=3),
        "count": st.integers(1, 10**6),
    }
)


def linked(found: list[dict[str, Any]]) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    for one in found:
        entries.append(chained(head_of(entries), AuditEntry(number=0, **one)))
    return entries


def head_of(entries: list[AuditEntry]) -> AuditHead:
    return AuditHead(entries[-1].number, entries[-1].hash) if entries else AuditHead()


chains = st.lists(fields, min_size=2, max_size=6).map(linked)


def named(entries: list[AuditEntry], head: AuditHead | None) -> list[int]:
    return [fault.number for fault in verify(entries, head).faults]


@given(chains)
def test_a_chain_as_it_was_written_is_right_wherever_it_was(entries: list[AuditEntry]) -> None:
    assert verify(entries, head_of(entries), entries[0].hash).faults == []
    exported = [json_form.decode(json_form.encode(one), AuditEntry) for one in entries]
    assert exported == entries
    assert verify(exported, head_of(entries)).faults == []


@given(fields)
def test_the_hash_is_that_of_json_that_any_program_can_write(found: dict[str, Any]) -> None:
    (entry,) = linked([found])
    plain = json.loads(json_form.encode(entry))
    expected = plain.pop("hash")
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == expected


@given(chains, st.data())
def test_an_altered_entry_is_named(entries: list[AuditEntry], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(entries) - 1))
    name = data.draw(st.sampled_from([*AuditEntry.__struct_fields__[1:]]))
    other = {**asdict(entries[place]), "previous": "1" * 64, "hash": "2" * 64, **data.draw(fields)}[name]
    changed = replace(entries[place], **{name: other})
    if changed == entries[place]:
        return
    head = head_of(entries)
    for altered in (changed, replace(changed, hash=entry_hash(changed))):
        if altered == entries[place]:  # only its hash had been altered
            continue
        rest = [*entries[:place], altered, *entries[place + 1 :]]
        found = named(rest, head)
        assert place + 1 in found or (name == "previous" and place in found)
        assert min(found) >= place, "no entry before it is blamed, but the one that it follows"


@given(chains, st.data())
def test_removed_and_reordered_entries_are_named(entries: list[AuditEntry], data: st.DataObject) -> None:
    place, head = data.draw(st.integers(0, len(entries) - 1)), head_of(entries)
    assert named(entries[:place] + entries[place + 1 :], head) == [place + 1]
    assert named(entries[:place], head) == [place + 1], "a removed tail"
    one, other = data.draw(st.permutations(range(len(entries))))[:2]
    swapped = list(entries)
    swapped[one], swapped[other] = entries[other], entries[one]
    assert max(one, other) in named(swapped, head) or min(one, other) + 1 in named(swapped, head)
    renumbered = list(entries)
    renumbered[one] = replace(entries[other], number=one + 1)
    renumbered[other] = replace(entries[one], number=other + 1)
    assert {one + 1, other + 1} <= set(named(renumbered, head))


@given(chains, fields)
def test_a_rewritten_chain_is_found_by_a_hash_that_was_kept(entries: list[AuditEntry], new: dict[str, Any]) -> None:
    kept = entries[0].hash
    rewritten = linked([new, *({name: asdict(one)[name] for name in new} for one in entries[1:])])
    if rewritten[0] == entries[0]:
        return
    assert verify(rewritten, head_of(rewritten)).faults == [], "the chain alone does not show it"
    assert [one.text for one in verify(rewritten, head_of(rewritten), kept).faults] == [
        f"no entry has the hash {kept}: the audit was rewritten or cut"
    ]


@pytest.mark.behaviour("OBS-4")
def test_changes_of_jobs_are_events_too() -> None:
    machine = Machine(Job(id="work"))
    made = [
        Job(id=f"made{number}", schedule=Schedule(every=60), work=ProcessWork(command=("true",)))
        for number in range(102)
    ]
    machine.step(("ann", Put(1, made, "ann")))
    machine.step(("ann", Put(2, made, "ann")))
    for paused in (True, True, False):
        machine.step(("ann", SetPaused(3, "made0", paused, "ann")))
    machine.step(("bob", DropJob(4, "made1", "bob")))
    machine.jobs = [Job(id="work", lane="team"), Job(id="other")]
    machine.step(("", machine.define()))
    found = [msgspec.json.decode(row.text, type=JobEvent) for row in at_once(machine.store.service_log("@jobs"))]
    assert [(one.actor, one.action, one.count, one.jobs[:2]) for one in found] == [
        ("ann", "put", 102, ["made0", "made1"]),
        ("ann", "paused", 1, ["made0"]),
        ("ann", "resumed", 1, ["made0"]),
        ("bob", "dropped", 1, ["made1"]),
        ("scheduler", "reloaded", 2, ["other", "work"]),
    ]
    assert (len(found[0].jobs), found[0].at) == (100, machine.wall)


@pytest.mark.behaviour("OBS-4")
def test_the_stream_can_be_asked_for_every_stored_type_of_event() -> None:
    assert set(get_args(EventType)) == set(EVENT_NAMES.values()) - {"hello", "gap"}
