"""The audit in a store: entries are added, never changed, read in order, and outlive their runs."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.core.audit import HEAD
from interlock.core.decisions import Batch
from interlock.model.audit import AuditEntry, AuditFilter, AuditHead, AuditKind, chained, verify
from interlock.model.record import Memo
from interlock.ports import store as port
from interlock.stores.sqlite import SqliteReader, SqliteStore
from tests.contract.conftest import AnyStore, WithStore, run_with
from tests.contract.samples import ENTRIES, take
from tests.helpers.records import Changes, changes

pytestmark = pytest.mark.behaviour("SEC-7")

FIRST, SECOND = ENTRIES
KINDS = AuditKind.VERDICT, AuditKind.APPROVED, AuditKind.TOKEN_REFUSED


def chain(count: int) -> list[AuditEntry]:
    """Entries 1 to `count`: the kinds take turns, `at` is the number, and every tenth is of tenant red."""
    entries: list[AuditEntry] = []
    head = AuditHead()
    for number in range(1, count + 1):
        fresh = replace(FIRST, at=float(number), kind=KINDS[number % 3], tenant="red" if number % 10 == 0 else "blue")
        entries.append(chained(head, replace(fresh, subject=f"r{number}", actor="bob" if number > 20 else "ann")))
        head = AuditHead(entries[-1].number, entries[-1].hash)
    return entries


def head_of(entries: list[AuditEntry]) -> Changes:
    return changes(Memo(HEAD, msgspec.json.encode(AuditHead(entries[-1].number, entries[-1].hash))))


async def put(store: AnyStore, entries: list[AuditEntry]) -> None:
    lease = await take(store)
    await store.commit(Batch(audit=entries, records=head_of(entries)), lease)


async def listed(store: AnyStore | SqliteReader, limit: int, wanted: AuditFilter = port.EVERY_ENTRY) -> list[int]:
    page = await store.audit(0, limit, wanted)
    found = [one.number for one in page.entries]
    while page.next is not None:
        page = await store.audit(page.next, limit, wanted)
        found += [one.number for one in page.entries]
    return found


def test_entries_are_stored_whole_and_found_after_a_restart(with_store: WithStore) -> None:
    async def fill(store: AnyStore) -> None:
        assert await store.audit(0, 10) == port.AuditRows([], None, AuditHead())
        await put(store, [FIRST])
        await put(store, [SECOND])

    async def again(store: AnyStore) -> None:
        head = AuditHead(2, SECOND.hash)
        assert await store.audit(0, 10) == port.AuditRows([FIRST, SECOND], None, head)
        assert (await store.load(0)).audit == head
        assert verify([FIRST, SECOND], head).faults == []

    with_store(fill)
    with_store(again)


async def test_what_is_stored_stays_as_it_is(store: AnyStore) -> None:
    await put(store, [FIRST, SECOND])
    await put(store, [FIRST, SECOND])
    await put(store, [replace(FIRST, actor="mallory"), SECOND])
    assert (await store.audit(0, 10)).entries == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, range(1, 31)),
        ({"kind": AuditKind.APPROVED}, range(1, 31, 3)),
        ({"actor": "bob"}, range(21, 31)),
        ({"tenant": "red"}, [10, 20, 30]),
        ({"subject": "r17"}, [17]),
        ({"since": 29.0}, [29, 30]),
        ({"since": 29.001}, [30]),
        ({"tenant": "red", "actor": "ann", "kind": AuditKind.APPROVED}, [10]),
        ({"actor": "nobody"}, []),
    ],
)
@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_pages_have_what_matches_every_field(
    store: AnyStore, wanted: dict[str, Any], numbers: list[int], limit: int
) -> None:
    await put(store, chain(30))
    assert await listed(store, limit, AuditFilter(**wanted)) == list(numbers)
    last = await store.audit(0, limit, AuditFilter(**wanted), last=True)
    assert [one.number for one in last.entries] == list(numbers)[-limit:]
    assert last.next is None
    assert (await store.audit(29, 10)).entries == chain(30)[29:]
    assert (await store.audit(2**80, 10)).entries == []
    assert (await store.audit(-5, 1)).entries == chain(1)


async def test_a_call_looks_at_a_bounded_number(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr("interlock.stores.memory_records.MOST_LOOKED_AT", 4)
    await put(store, chain(30))
    page = await store.audit(0, 10, AuditFilter(tenant="red"))
    assert (page.entries, page.next) == ([], 4)
    assert await listed(store, 10, AuditFilter(tenant="red")) == [10, 20, 30]
    last = await store.audit(0, 10, AuditFilter(actor="bob"), last=True)
    assert [one.number for one in last.entries] == [27, 28, 29, 30]


@pytest.fixture
def file(database: Path) -> Path:
    run_with(SqliteStore(database), lambda store: put(store, chain(5)))
    return database


@pytest.mark.parametrize("change", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit WHERE number = 5"])
def test_the_table_refuses_changes(file: Path, change: str) -> None:
    with closing(sqlite3.connect(file)) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(change)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ("UPDATE audit SET actor = 'x' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET kind = 'x' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET at = 9e99 WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET count = 'x' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET detail = '{' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET detail = x'ff' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("UPDATE audit SET hash = x'ff' WHERE number = 3", ["entry 3 was altered: its hash does not match"]),
        ("DELETE FROM audit WHERE number IN (2, 3)", ["entries 2 to 3 are missing"]),
        ("DELETE FROM audit WHERE number = 1", ["entry 1 is missing"]),
        ("DELETE FROM audit WHERE number = 5", ["entry 5 is missing"]),
        ("DELETE FROM audit", ["entries 1 to 5 are missing"]),
        ("DELETE FROM records WHERE kind = 'memo'", ["entry 1 is beyond the head: it was added by somebody else"]),
    ],
)
def test_changes_of_the_file_are_named(file: Path, change: str, faults: list[str]) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for trigger in ("audit_not_changed", "audit_not_deleted"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(change)
        connection.commit()

    async def found(store: AnyStore) -> list[str]:
        page = await store.audit(0, 100)
        return [one.text for one in verify(page.entries, page.head).faults]

    assert run_with(SqliteStore(file), found) == faults
