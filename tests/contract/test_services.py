"""The store's part in services: what is kept of them, and their log, which has a place in the order of everything."""

import copy
import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from interlock.core.decisions import Batch
from interlock.error import StaleEpoch, StoreUnavailable
from interlock.model.child_info import Exit, Kept
from interlock.model.guard import ViolationEvent
from interlock.model.state import State
from interlock.ports import store as ps
from interlock.ports.leases import Lease
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import QUERIES
from interlock.wire.command import ServiceRow
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import CHANGE, EXIT, TEXT, created, entry, everything, make_run, take
from tests.helpers.pruning import prune_service_log
from tests.helpers.records import kept, kept_services

PENDING = [entry(1, None, State.PENDING)]
SCHEDULED = [entry(2, State.PENDING, State.SCHEDULED)]
TOLD = msgspec.json.encode(CHANGE)


def row(service: str, number: int, text: str = "", change: bytes | None = None) -> ServiceRow:
    return service, number, 1000.0 + number, "stdout" if change is None else "status", text, change


def batches() -> list[Batch]:
    """Positions 1 to 3; 4 to 6; and, after a commit that was lost, 9 and 10."""
    first = created(make_run("a", tenant="blue"))
    first.history, first.position = [("a", PENDING)], 1
    first.service_log = [row("web", 1, "one"), row("db", 1, "eins")]
    second = Batch(history=[("a", SCHEDULED)], position=4)
    second.logs.lines = [("a", 1, 1, 5.0, "info", "line", "")]
    second.service_log = [row("web", 2, "changed", TOLD)]
    third = Batch(service_log=[row("db", 2, "zwei"), row("web", 3, "three")], position=9)
    return [first, second, third]


WEB = [
    ps.ServiceEntry(2, "web", 1001.0, "stdout", "one"),
    ps.ServiceEntry(6, "web", 1002.0, "status", "changed", CHANGE),
    ps.ServiceEntry(10, "web", 1003.0, "stdout", "three"),
]
DB = [ps.ServiceEntry(3, "db", 1001.0, "stdout", "eins"), ps.ServiceEntry(9, "db", 1002.0, "stdout", "zwei")]


async def fill(store: AnyStore) -> Lease:
    lease = await take(store)
    for batch in batches():
        await store.commit(batch, lease)
    return lease


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-7")
def test_what_is_kept_of_a_service_is_the_latest_and_is_there_after_opening_again(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        first = Batch(records=kept(**{"web": Kept(resume_id="1"), "shop/db": Kept(resume_id="2")}))
        await store.commit(first, lease)
        assert await kept_services(store) == {"web": Kept(resume_id="1"), "shop/db": Kept(resume_id="2")}
        await store.commit(Batch(records=kept(web=Kept(resume_id="1", last_exit=EXIT))), lease)

    with_store(body)

    async def again(store: AnyStore) -> None:
        assert await kept_services(store) == {
            "web": Kept(resume_id="1", last_exit=EXIT),
            "shop/db": Kept(resume_id="2"),
        }

    with_store(again)


@pytest.mark.behaviour("SUP-7")
async def test_what_is_forgotten_is_gone_and_the_last_word_in_a_batch_counts(store: AnyStore) -> None:
    lease = await take(store)
    one, two = Kept(resume_id="1"), Kept(resume_id="2")
    await store.commit(Batch(records=kept(a=one, b=one, c=one)), lease)
    await store.commit(Batch(records=kept(a=None, b=two, c=None)), lease)
    await store.commit(Batch(records=kept(never=None)), lease)
    assert await kept_services(store) == {"b": two}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=TEXT,
    resume_id=TEXT,
    exit=st.none()
    | st.builds(
        Exit,
        at=st.floats(0, 1e11),
        code=st.none() | st.integers(-255, 255),
        signal=st.none() | st.integers(1, 64),
        error=TEXT,
    ),
)
def test_any_name_and_any_exit_survive(with_store: WithStore, name: str, resume_id: str, exit: Exit | None) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        found = Kept(resume_id=resume_id, last_exit=exit)
        position = await store.position() + 1
        batch = Batch(records=kept(**{name: found}), service_log=[row(name, position, resume_id)], position=position)
        await store.commit(batch, lease)
        assert (await kept_services(store))[name] == found
        assert (await store.service_log(name, last=True, limit=1))[0].text == resume_id

    with_store(body)


async def test_events_of_the_sessions_of_a_tenant_have_that_tenant(store: AnyStore) -> None:
    lease = await fill(store)
    rows = [row(name, number, "{}") for name, number in (("@sessions:blue", 1), ("@sessions:red", 2), ("@lanes", 3))]
    await store.commit(Batch(service_log=rows, position=11), lease)

    async def found(wanted: ps.EventFilter, after: int = 6, limit: int = 10) -> list[int]:
        return [one.position for one in (await store.events(after, limit, wanted)).events]

    assert await found(ps.EventFilter()) == [9, 10, 11, 12, 13]
    assert await found(ps.EventFilter(tenant="blue"), 0) == [1, 4, 5, 11]
    assert await found(ps.EventFilter(tenant="blue"), 0, 3) == [1, 4, 5]
    assert await found(ps.EventFilter(tenant="red")) == [12]
    for none in ({"job_id": "work"}, {"run_id": "a"}, {"service": "@sessions:red"}, {"service": "@sessions:blue"}):
        assert await found(ps.EventFilter(tenant="red", **none)) == []


@pytest.mark.behaviour("CON-1", "OBS-4")
async def test_a_violation_has_its_run_its_job_and_its_tenant(store: AnyStore) -> None:
    lease = await fill(store)
    violations = [("a", "work", "blue"), ("b", "work", "red"), ("c", "other", "red")]
    rows: list[ServiceRow] = [
        (f"@sessions:{tenant}", number, 1.0, "violation", text_of(run_id, job_id, tenant), None)
        for number, (run_id, job_id, tenant) in enumerate(violations, start=1)
    ]
    await store.commit(Batch(service_log=[*rows, row("web", 9, "no JSON")], position=11), lease)

    async def found(after: int = 10, limit: int = 10, **wanted: Any) -> list[int]:
        return [one.position for one in (await store.events(after, limit, ps.EventFilter(**wanted))).events]

    assert await found() == [11, 12, 13, 14]
    assert await found(job_id="work") == [11, 12]
    assert await found(job_id="work", limit=1) == [11]
    assert await found(run_id="c") == [13]
    assert await found(0, run_id="a") == [1, 4, 5, 11]
    assert await found(tenant="red") == await found(service="@sessions:red") == [12, 13]
    assert await found(tenant="red", job_id="work") == [12]
    assert await found(tenant="red", run_id="b", job_id="work") == [12]
    nothing: tuple[dict[str, Any], ...]
    nothing = ({"tenant": "blue", "run_id": "b"}, {"job_id": "other", "run_id": "b"}, {"run_id": "work"})
    for none in nothing:
        assert await found(**none) == []


def text_of(run_id: str, job_id: str, tenant: str) -> str:
    event = ViolationEvent(run_id=run_id, job_id=job_id, tenant=tenant, at=1.0, constraint="checks", message="no")
    return msgspec.json.encode(event).decode()


async def test_what_is_handed_out_of_kept_is_a_copy(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(Batch(records=kept(web=Kept(resume_id="1"))), lease)
    (await kept_services(store)).clear()
    assert await kept_services(store) == {"web": Kept(resume_id="1")}


# ── the log ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_log_of_a_service_is_in_order_from_either_end(store: AnyStore) -> None:
    await fill(store)
    for service, entries in (("web", WEB), ("db", DB), ("unknown", [])):
        assert await store.service_log(service) == entries
        for after, limit in itertools.product((-(2**80), *range(12), 2**63, 2**80), (0, 1, 2, 3, 1000, None)):
            above = [one for one in entries if one.position > after]
            assert await store.service_log(service, after, limit) == above[:limit]
            newest = above if limit is None else above[max(0, len(above) - limit) :]
            assert await store.service_log(service, after, limit, last=True) == newest


async def test_rows_of_services_are_among_the_events_where_nothing_else_is_asked_for(store: AnyStore) -> None:
    await fill(store)
    everything = (await store.events(0, 1000)).events
    assert [one.position for one in everything] == [1, 2, 3, 4, 5, 6, 9, 10]
    of_services = sorted(WEB + DB, key=lambda one: one.position)
    assert [one for one in everything if isinstance(one, ps.ServiceEntry)] == of_services
    of_runs = [one for one in everything if isinstance(one, ps.StoredEvent)]
    for filters in ({"run_id": "a"}, {"job_id": "work"}, {"tenant": "blue"}):
        assert (await store.events(0, 1000, ps.EventFilter(**filters))).events == of_runs
    for filters in ({"run_id": ""}, {"job_id": ""}, {"tenant": ""}):
        assert (await store.events(0, 1000, ps.EventFilter(**filters))).events == []
    for after, limit in itertools.product(range(12), (1, 2, 3, 1000)):
        expected = [one for one in everything if one.position > after][:limit]
        assert (await store.events(after, limit)).events == expected


@pytest.mark.parametrize(("service", "entries"), [("web", WEB), ("db", DB), ("unknown", []), ("", [])])
async def test_events_of_one_service_are_all_of_them_wherever_one_goes_on(
    store: AnyStore, service: str, entries: list[ps.ServiceEntry]
) -> None:
    await fill(store)
    for limit in (1, 2, 1000):
        assert await paged(store, limit, service) == entries
        for filters in ({"run_id": "a"}, {"job_id": "work"}, {"tenant": "blue"}):
            found = await store.events(0, limit, ps.EventFilter(service=service, **filters))
            assert (found.events, found.reached, found.more) == ([], 10, False), "a service is of none of these"


async def paged(store: AnyStore, limit: int, service: str | None = None) -> list[ps.StoredEvent | ps.ServiceEntry]:
    found: list[ps.StoredEvent | ps.ServiceEntry] = []
    rows = ps.EventRows([], 0, True)
    while rows.more:
        rows = await store.events(rows.reached, limit, ps.EventFilter(service=service))
        assert len(rows.events) <= limit
        found += rows.events
    assert rows.reached == await store.position()
    return found


async def test_the_position_is_that_of_the_last_row_whatever_it_is(store: AnyStore) -> None:
    lease = await take(store)
    for batch, position in zip(batches(), (3, 6, 10), strict=True):
        assert batch.last_position == position
        await store.commit(batch, lease)
        assert await store.position() == (await store.load(256)).position == position
    await store.commit(Batch(records=kept(web=Kept(resume_id="1")), position=11), lease)
    assert await store.position() == 10, "what is kept takes no position"


async def test_a_batch_stored_twice_leaves_every_row_where_it_was(store: AnyStore) -> None:
    lease = await fill(store)
    before = await everything(store)
    for batch in batches():
        await store.commit(batch, lease)
        moved = copy.deepcopy(batch)
        moved.position = 100
        await store.commit(moved, lease)
    assert await everything(store) == before
    again = Batch(service_log=[row("web", 3, "another text"), row("web", 4, "four")], position=11)
    await store.commit(again, lease)
    assert [one.text for one in await store.service_log("web", 9)] == ["three", "four"]


async def test_a_position_that_is_taken_is_refused_and_nothing_of_the_batch_is_stored(store: AnyStore) -> None:
    lease = await fill(store)
    before = await everything(store)
    batch = created(make_run("new"))
    batch.records, batch.service_log = kept(new=Kept(resume_id="9")), [row("new", 1), row("new", 2)]
    batch.position = 9
    with pytest.raises(StoreUnavailable):
        await store.commit(batch, lease)
    with pytest.raises(StaleEpoch):
        await store.commit(batch, msgspec.structs.replace(lease, epoch=lease.epoch + 1))
    assert await everything(store) == before
    batch.position = 11
    await store.commit(batch, lease)
    assert [one.position for one in await store.service_log("new")] == [11, 12]


async def test_one_call_looks_at_so_many_positions_unless_it_is_for_one_service(store: AnyStore) -> None:
    lease = await fill(store)
    await store.commit(Batch(service_log=[row("web", 9, "far")], position=3 * ps.MOST_LOOKED_AT), lease)
    near = await store.events(10, 10)
    assert (near.events, near.reached, near.more) == ([], 10 + ps.MOST_LOOKED_AT, True)
    far = await store.events(10, 10, ps.EventFilter(service="web"))
    assert [one.position for one in far.events] == [3 * ps.MOST_LOOKED_AT]
    assert (far.reached, far.more) == (3 * ps.MOST_LOOKED_AT, False)


async def test_one_call_gives_so_many_bytes_and_leaves_nothing_out(store: AnyStore) -> None:
    lease = await fill(store)
    long = "x" * (ps.MOST_EVENT_BYTES // 4)
    many = Batch(history=[("a", [entry(3, State.SCHEDULED, State.DISPATCHED)])], position=11)
    many.logs.lines = [("a", 1, number, 9.0, "info", long, "") for number in range(2, 7)]
    many.service_log = [row("web", number, long) for number in range(10, 20)]
    await store.commit(many, lease)
    await store.commit(Batch(service_log=[row("db", 3, "last")], position=many.last_position + 1), lease)
    positions, after, more = [], 0, True
    while more:
        rows = await store.events(after, 1000)
        texts = [one.text for one in rows.events if isinstance(one, ps.ServiceEntry)]
        assert sum(map(len, texts)) <= 2 * ps.MOST_EVENT_BYTES
        positions += [one.position for one in rows.events]
        after, more = rows.reached, rows.more
    assert positions == [1, 2, 3, 4, 5, 6, 9, 10, *range(11, 28)]


# ── pruning ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def put(store: AnyStore, lease: Lease, *rows: ServiceRow) -> None:
    await store.commit(Batch(service_log=list(rows), position=await store.position() + 1), lease)


async def numbers(store: AnyStore, service: str) -> list[int]:
    return [round(one.at - 1000) for one in await store.service_log(service)]


@pytest.mark.parametrize("most_lines", [0, 1, 2, 3, 4, 100])
@pytest.mark.parametrize("most_bytes", [0, 9, 10, 19, 20, 29, 30, 31, 1000])
async def test_the_newest_of_each_service_are_kept_up_to_both_limits(
    store: AnyStore, most_lines: int, most_bytes: int
) -> None:
    lease = await take(store)
    # Two bytes a letter: it is bytes that are counted.
    await put(store, lease, *(row(one, number, "äöüßé") for number in range(1, 4) for one in ("web", "db")))
    await put(store, lease, row("other", 1, ""))
    fitting = min(most_lines, most_bytes // 10, 3)
    assert await prune_service_log(store, most_lines, most_bytes) == 2 * (3 - fitting)
    assert await numbers(store, "web") == await numbers(store, "db") == [1, 2, 3][3 - fitting :]
    assert await numbers(store, "other") == [1], "it has the highest position of all"
    assert await prune_service_log(store, most_lines, most_bytes) == 0


def test_what_was_pruned_is_gone_everywhere_and_no_position_comes_again(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        lease = await fill(store)
        await put(store, lease, row("web", 4, "newest of all"))
        assert await prune_service_log(store, 0, 0) == 5
        left = [one.position for one in (await store.events(0, 1000)).events]
        assert left == [1, 4, 5, 11], "runs are not touched"
        assert await store.service_log("db") == (await store.events(0, 10, ps.EventFilter(service="db"))).events == []
        assert [one.position for one in await store.service_log("web")] == [11]
        assert await store.position() == 11
        await put(store, lease, row("db", 9, "later"))
        assert await prune_service_log(store, 0, 0) == 1
        assert [one.position for one in (await store.events(0, 1000)).events] == [1, 4, 5, 12]

    with_store(body)

    async def again(store: AnyStore) -> None:
        assert await store.position() == 12

    with_store(again)


async def test_a_change_counts_with_all_its_bytes(store: AnyStore) -> None:
    lease = await take(store)
    await put(store, lease, row("web", 1, "said"), row("web", 2, "told", TOLD), row("db", 1, "last"))
    size = 4 + len(TOLD)
    assert await prune_service_log(store, 10, size + 4) == 0
    assert await prune_service_log(store, 10, size + 3) == 1
    assert await numbers(store, "web") == [2]
    assert await prune_service_log(store, 10, size - 1) == 1
    assert await numbers(store, "web") == []


async def test_one_call_deletes_so_many_the_oldest_first(store: AnyStore) -> None:
    lease = await take(store)
    lines = ps.MOST_PRUNED + 200
    for service in ("web", "db"):
        await put(store, lease, *(row(service, number, "x") for number in range(lines)))
    await put(store, lease, row("other", 1))
    counts: list[int] = []
    left: list[tuple[list[int], list[int]]] = []
    while not counts or counts[-1]:
        counts.append(await prune_service_log(store, 100, 1000))
        left.append((await numbers(store, "web"), await numbers(store, "db")))
    assert counts == [ps.MOST_PRUNED, ps.MOST_PRUNED, 200, 0]
    for found in itertools.chain.from_iterable(left):
        assert found == list(range(lines))[-len(found) :]
    assert left[-1] == (list(range(lines))[-100:],) * 2


def test_pruning_goes_through_no_table_and_reads_no_text(database: Path) -> None:
    values = {"service": "web", "most_lines": 1, "most_bytes": 1, "cut": 1, "newest": 1, "limit": 1}
    with closing(connect_writer(database)) as connection:
        for name in ("get_logged_services", "is_beyond", "find_cut", "prune_service"):
            plan = plan_of(connection, QUERIES[name], values)
            assert not [step for step in plan if step.startswith("SCAN service_log")], name
            if name in ("is_beyond", "find_cut"):
                assert [step for step in plan if "COVERING INDEX service_log_of_service" in step], plan


def plan_of(connection: sqlite3.Connection, statement: str, values: dict[str, object]) -> list[str]:
    return [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
