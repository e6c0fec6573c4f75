"""Deliveries in a store: owed until their results are stored, in their order, and gone with their runs."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.outbox import after_try
from interlock.error import StaleEpoch
from interlock.model.delivery import Delivery, DeliveryState
from interlock.model.record import RecordFilter
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from interlock.stores.sql import lookups
from interlock.stores.sqlite import SqliteReader, SqliteStore
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import QUERIES
from interlock.wire.delivery_request import Sent
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import DELIVERY, SENT, TRIED, created, entry, make_run, take
from tests.helpers.lookups import states
from tests.helpers.pruning import prune
from tests.helpers.records import changes

pytestmark = pytest.mark.behaviour("CON-7")

ALL = RecordFilter()


def owing(id: str, **fields: Any) -> Delivery:
    return replace(DELIVERY, **{"id": id, "order": None} | fields)


def sent(id: str, **fields: Any) -> Sent:
    return replace(SENT, **{"id": id} | fields)


async def put(store: AnyStore, *deliveries: Delivery, results: tuple[Sent, ...] = ()) -> None:
    """Store deliveries, and then the results of tries, as the core does."""
    lease = await take(store)
    await store.commit(Batch(records=changes(*deliveries)), lease)
    for result in results:
        if (tried := after_try(await store.record(Delivery, result.id), result)) is not None:
            await store.commit(Batch(records=changes(tried)), lease)


async def listed(store: AnyStore, wanted: RecordFilter = ALL, limit: int = 2) -> list[str]:
    """The ids of all deliveries that are wanted, page by page."""
    page = await store.records(Delivery, wanted, None, limit)
    found = [delivery.id for delivery in page.records]
    while page.next is not None:
        page = await store.records(Delivery, wanted, page.next, limit)
        found += [delivery.id for delivery in page.records]
    return found


async def due(store: AnyStore, now: float = 1e9, host: str = "one.test", limit: int = 100) -> list[str]:
    return [one.id for one in await store.due(Delivery, host, now, limit)]


def test_a_delivery_is_stored_whole_with_or_without_history(with_store: WithStore) -> None:
    secret = replace(DELIVERY.request, url=None, url_env="HOOK", secret_env=None, token_env=None, body=b"\x00\xff")
    second = owing("d2", request=secret, host="$HOOK", give_up_at=3000.5)

    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        first = created(make_run("r1"))
        first.history, first.position = [("r1", [entry(1, None, State.PENDING)])], 5
        first.records = changes(DELIVERY)
        await store.commit(first, lease)
        await put(store, second)

    async def again(store: AnyStore) -> None:
        assert await store.record(Delivery, "d1") == DELIVERY
        assert await store.record(Delivery, "d2") == second
        assert await store.record(Delivery, "d3") is None
        assert (await store.records(Delivery, ALL, None, 10)).records == [second, DELIVERY]

    with_store(fill)
    with_store(again)


async def test_a_batch_of_deliveries_alone_needs_no_position(store: AnyStore) -> None:
    lease = await take(store)
    first = created(make_run("r1"))
    first.logs.lines, first.position = [("r1", 1, 1, 1.0, "info", "line", "app")], 7
    await store.commit(first, lease)
    assert Batch(records=changes(DELIVERY))
    await put(store, DELIVERY, results=(SENT,))
    assert await store.position() == 7
    assert await due(store) == ["d1"]


async def test_a_result_changes_a_pending_delivery_of_its_round_once(store: AnyStore) -> None:
    await put(store, owing("d1"), owing("d2"))
    for seq in (2, 3):
        await put(store, owing("d1"), results=(SENT,))
        tried = await store.record(Delivery, "d1")
        assert tried == replace(TRIED, order=None, seq=seq)
        assert tried is not None
        assert tried.state is DeliveryState.PENDING
    end = sent("d1", tries=2, ended_at=1002.0, status=200, answer="ok", error="")
    # A result of a try before the latest, one of another round, and one of an unknown delivery.
    stale = (sent("d1", tries=0), sent("d1", tries=9, round=1), sent("d9"))
    await put(store, results=stale)
    assert await store.record(Delivery, "d1") == tried
    await put(store, results=(end,))
    delivered = await store.record(Delivery, "d1")
    assert delivered == owing("d1", tries=2, next_at=1001.5, ended_at=1002.0, status=200, answer="ok", error="", seq=4)
    await put(store, results=(sent("d1", tries=3), *stale))
    assert await store.record(Delivery, "d1") == delivered
    assert await store.record(Delivery, "d2") == owing("d2")
    assert await listed(store, RecordFilter(state=DeliveryState.PENDING)) == ["d2"]


async def test_a_redelivery_begins_a_new_round(store: AnyStore) -> None:
    failed = sent("d1", tries=7, ended_at=1500.0)
    await put(store, owing("d1"), owing("d2"), results=(failed,))
    again = owing("d1", round=1, next_at=5000.0, give_up_at=6000.0, seq=3)
    await put(store, again)
    for stale in (owing("d1"), replace(again, next_at=9.0)):
        await put(store, stale, results=(failed,))
        assert await store.record(Delivery, "d1") == again
    assert await due(store, 4999.9) == ["d2"]
    assert await due(store, 5000.0) == ["d2", "d1"]
    assert await listed(store) == ["d2", "d1"], "it keeps its place"
    await put(store, results=(sent("d1", round=1, ended_at=5001.0, error=""),))
    assert [
        one.id for one in (await store.records(Delivery, RecordFilter(state=DeliveryState.DELIVERED), None, 9)).records
    ] == ["d1"]


async def test_what_is_owed_to_each_host_and_when(store: AnyStore) -> None:
    assert await store.due_times(Delivery) == {}
    await put(
        store,
        *(owing(f"a{at}", host="a", next_at=1000.0 + at) for at in (3, 1, 2)),
        owing("b", host="b", next_at=500.0),
        owing("c", host="c", next_at=1.0),
        owing("tie", host="a", next_at=1001.0),
        results=(sent("c", ended_at=2.0),),
    )
    assert await store.due_times(Delivery) == {"a": 1001.0, "b": 500.0}
    assert await due(store, 1000.9, "a") == []
    assert await due(store, 1001.0, "a") == ["a1", "tie"]
    assert await due(store, host="a") == ["a1", "tie", "a2", "a3"]
    assert await due(store, host="a", limit=3) == ["a1", "tie", "a2"]
    assert await due(store, host="c") == await due(store, host="") == []
    await put(store, results=(sent("a1", next_at=2000.0), sent("tie", next_at=3000.0)))
    assert await store.due_times(Delivery) == {"a": 1002.0, "b": 500.0}
    assert await due(store, host="a") == ["a2", "a3", "a1", "tie"]


async def test_deliveries_of_one_order_go_one_after_the_other(store: AnyStore) -> None:
    first = [owing(f"x{number}", order="x", next_at=1000.0 - number) for number in range(3)]
    await put(store, *first, owing("y0", order="y", next_at=1001.0), owing("free", next_at=1002.0))
    await put(store, owing("other", order="z", host="two.test", next_at=1.0))
    assert await due(store) == ["x0", "y0", "free"]
    assert await store.due_times(Delivery) == {"one.test": 1000.0, "two.test": 1.0}
    assert await due(store, limit=1) == ["x0"]
    # While the first waits for its next try, the second is not due, though its time has come.
    await put(store, results=(sent("x0", next_at=5000.0), sent("free", ended_at=2.0), sent("y0", ended_at=2.0)))
    assert await due(store, 4999.0) == []
    assert await store.due_times(Delivery) == {"one.test": 5000.0, "two.test": 1.0}
    await put(store, results=(sent("x0", tries=2, ended_at=2.0),))
    assert await due(store) == ["x1"]
    assert (await store.due_times(Delivery))["one.test"] == 999.0
    # One that is delivered again goes first, as it did.
    await put(store, replace(first[0], round=1, next_at=3000.0, seq=9))
    assert await due(store) == ["x0"]
    assert (await store.due_times(Delivery))["one.test"] == 3000.0


async def test_a_list_comes_in_pages_and_is_filtered(store: AnyStore) -> None:
    fields = [
        ("r1", "work", "blue"), ("r1", "work", "blue"), ("r2", "work", "red"), ("r3", "play", "red"),
        ("r4", "play", "red"),
    ]  # fmt: skip
    await put(
        store,
        *(owing(f"d{n}", run_id=run, job_id=job, tenant=tenant) for n, (run, job, tenant) in enumerate(fields)),
        results=(sent("d1", ended_at=2.0), sent("d3", ended_at=2.0, error="")),
    )
    for limit in (1, 2, 5, 9):
        assert await listed(store, limit=limit) == ["d4", "d3", "d2", "d1", "d0"]
        assert await listed(store, RecordFilter(run="r1"), limit) == ["d1", "d0"]
        assert await listed(store, RecordFilter(job="work"), limit) == ["d2", "d1", "d0"]
        assert await listed(store, RecordFilter(job="work", tenant="red"), limit) == ["d2"]
        assert await listed(store, RecordFilter(run="r1", tenant="red"), limit) == []
        assert await listed(store, RecordFilter(id_prefix="d3"), limit) == ["d3"]
        assert await listed(store, RecordFilter(run="r1", id_prefix="d"), limit) == ["d1", "d0"]
        for state, ids in (("pending", ["d4", "d2", "d0"]), ("failed", ["d1"]), ("delivered", ["d3"])):
            assert await listed(store, RecordFilter(state=DeliveryState(state)), limit) == ids
        assert await listed(store, RecordFilter(run="r1", state=DeliveryState.FAILED), limit) == ["d1"]
    page = await store.records(Delivery, ALL, None, 2)
    await put(store, owing("new"))
    following = await store.records(Delivery, ALL, page.next, 2)
    assert [one.id for one in following.records] == ["d2", "d1"], "a new one shifts no page"
    assert (await store.records(Delivery, ALL, 0, 2)).records == []
    assert (await store.records(Delivery, ALL, 2**70, 1)).records == [owing("new")]


async def test_a_page_looks_at_so_many_and_no_more(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MOST_RECORDS", 3)
    await put(sqlite, *(owing(f"d{n}", tenant="red" if n in (0, 9) else "blue") for n in range(10)))
    page = await sqlite.records(Delivery, RecordFilter(tenant="red"), None, 5)
    assert [one.id for one in page.records] == ["d9"]
    assert page.next is not None
    assert (await sqlite.records(Delivery, RecordFilter(tenant="red"), page.next, 5)).records == []
    assert await listed(sqlite, RecordFilter(tenant="red")) == ["d9", "d0"]
    assert await listed(sqlite) == [f"d{n}" for n in reversed(range(10))]
    assert len((await sqlite.records(Delivery, RecordFilter(run="old"), None, 20)).records) == 10


@pytest.mark.behaviour("TIM-16")
async def test_a_run_stays_while_it_owes_a_delivery_and_takes_its_deliveries_along(store: AnyStore) -> None:
    lease = await take(store)
    runs = [make_run(f"r{n}", state=State.FAILED, created_at=900.0, ended_at=1001.0) for n in range(3)]
    batch = created(*runs, make_run("live"))
    batch.records = changes(owing("d0", run_id="r0"), owing("d1", run_id="r1"), owing("d2", run_id="r1"))
    await store.commit(batch, lease)
    await put(store, results=(sent("d1", ended_at=1002.0), sent("d2", ended_at=1002.0, error="")))
    for limits in (PruneLimits(0, 0.0), PruneLimits(100, 1e9), PruneLimits(100, 0.0, 0)):
        await prune(store, limits)
        assert (await states(store, ["r0", "r1", "r2"])).keys() == {"r0"}
        assert await listed(store) == ["d0"]
        assert await store.record(Delivery, "d1") is None
    await put(store, results=(sent("d0", ended_at=2000.0),))
    assert (await prune(store, PruneLimits(0, 0.0))).runs == 1
    assert await listed(store) == []
    await put(store, results=(sent("d0", tries=2),))
    assert await store.due_times(Delivery) == {}


async def test_a_refused_commit_stores_no_delivery_and_no_result(store: AnyStore) -> None:
    await put(store, DELIVERY)
    lease = await take(store)
    with pytest.raises(StaleEpoch):
        await store.commit(
            Batch(records=changes(owing("d2"), replace(DELIVERY, tries=1, seq=2))),
            replace(lease, epoch=lease.epoch + 1),
        )
    assert (await store.records(Delivery, ALL, None, 9)).records == [DELIVERY]


async def test_another_process_reads_what_is_owed(sqlite: SqliteStore, database: Path) -> None:
    reader = SqliteReader(database)
    await reader.open()
    await put(sqlite, *(owing(f"d{n:03}") for n in range(120)))
    assert await reader.due_times(Delivery) == {"one.test": 1000.5}
    assert [one.id for one in await reader.due(Delivery, "one.test", 1000.5, 200)] == [f"d{n:03}" for n in range(120)]
    assert await reader.record(Delivery, "d000") == owing("d000")
    await reader.close()


def test_no_statement_goes_through_the_table(database: Path) -> None:
    values: dict[str, Any] = dict.fromkeys(["before", "floor", "most", "limit", "now"], 1)
    values |= dict.fromkeys(["kind", "run", "job", "tenant", "state", "queue", "id_prefix"], "x")
    values |= dict.fromkeys(["since", "until", "is_due"])
    with closing(connect_writer(database)) as connection:
        places = ("all_records", "records_by_id", "records_of_run")
        for name in [
            *(f"{kind} {place}" for place in places for kind in ("list", "floor")),
            "get_due",
            "get_due_times",
        ]:
            plan = _plan(connection, QUERIES[name], values)
            assert not [step for step in plan if step.startswith("SCAN records")], plan
        for name in ("list all_records", "floor all_records", "list records_of_run"):
            assert not [step for step in _plan(connection, QUERIES[name], values) if "TEMP B-TREE" in step]


def _plan(connection: sqlite3.Connection, statement: str, values: dict[str, Any]) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
