"""The reader port's events: every history row and log line by position, resumable anywhere."""

import pytest

from interlock.core.decisions import Batch, LogChanges
from interlock.error import StoreUnavailable
from interlock.model.state import State
from interlock.ports.leases import Lease
from interlock.ports.store import MOST_EVENT_BYTES, MOST_LOOKED_AT, EventFilter, LogEntry, StoredEvent
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import created, entry, everything, make_run, take

FIRST = [entry(1, None, State.PENDING), entry(2, State.PENDING, State.SCHEDULED)]
SECOND = [entry(3, State.SCHEDULED, State.DISPATCHED)]
THIRD = [entry(4, State.DISPATCHED, State.RUNNING), entry(5, State.RUNNING, State.TERMINATING)]


def batches() -> list[Batch]:
    """Three commits: positions 1 and 2; 3 to 6; and, after a commit that was lost, 9 to 11."""
    first = created(make_run("a", tenant="blue"), make_run("b", job_id="play"))
    first.history, first.position = [("a", FIRST), ("b", FIRST)], 1
    second = Batch(history=[("b", SECOND), ("a", SECOND)], position=3)
    second.logs.lines = [("a", 1, 1, 5.0, "info", "one", "app"), ("b", 1, 1, 6.0, "error", "two", "app")]
    third = Batch(history=[("a", THIRD)], position=9)
    third.logs.lines = [("a", 1, 2, 7.0, "info", "three", "app"), ("b", 1, 2, 8.0, "info", "four", "app")]
    return [first, second, third]


EVENTS = [
    StoredEvent(1, "a", "work", "blue", FIRST),
    StoredEvent(2, "b", "play", "default", FIRST),
    StoredEvent(3, "a", "work", "blue", [], LogEntry(3, 5.0, 1, "info", "one", "app")),
    StoredEvent(4, "b", "play", "default", [], LogEntry(4, 6.0, 1, "error", "two", "app")),
    StoredEvent(5, "b", "play", "default", SECOND),
    StoredEvent(6, "a", "work", "blue", SECOND),
    StoredEvent(9, "a", "work", "blue", [], LogEntry(9, 7.0, 1, "info", "three", "app")),
    StoredEvent(10, "b", "play", "default", [], LogEntry(10, 8.0, 1, "info", "four", "app")),
    StoredEvent(11, "a", "work", "blue", THIRD),
]


async def fill(store: AnyStore) -> Lease:
    lease = await take(store)
    for batch in batches():
        await store.commit(batch, lease)
    return lease


async def test_events_are_in_order_and_can_be_resumed_at_every_position(store: AnyStore) -> None:
    await fill(store)
    assert (await store.events(0, 1000)).events == EVENTS
    for run_id in (None, "a", "b", "unknown"):
        events = [one for one in EVENTS if run_id in (None, one.run_id)]
        for after in range(13):
            for limit in (1, 2, 5, 1000):
                expected = [one for one in events if one.position > after][:limit]
                assert (await store.events(after, limit, EventFilter(run_id))).events == expected


async def test_an_event_may_be_asked_for_after_any_number(store: AnyStore) -> None:
    await fill(store)
    for after in (-(2**80), -1):
        assert (await store.events(after, 1000)).events == EVENTS
        assert len(await store.logs("a", after)) == 2
    for after in (2**63 - 1, 2**63, 2**80):
        assert (await store.events(after, 1000)).events == []
        assert (await store.events(after, 1000, EventFilter("a"))).events == []
        assert await store.logs("a", after) == []


def test_positions_go_on_after_opening_again(with_store: WithStore) -> None:
    with_store(fill)

    async def body(store: AnyStore) -> None:
        lease = await take(store, "t2")
        assert await store.position() == 11
        await store.commit(Batch(logs=LogChanges([("b", 1, 3, 9.0, "info", "five", "app")]), position=12), lease)
        assert [event.position for event in (await store.events(10, 10)).events] == [11, 12]

    with_store(body)


@pytest.mark.parametrize("what", ["history", "logs"])
async def test_a_position_that_is_taken_is_refused_and_nothing_of_the_batch_is_stored(
    store: AnyStore, what: str
) -> None:
    lease = await fill(store)
    before = await everything(store)
    batch = created(make_run("new"))
    if what == "history":
        batch.history, batch.position = [("new", FIRST), ("b", THIRD)], 10
    else:
        batch.logs.lines, batch.position = (
            [("new", 1, 1, 9.0, "info", "x", "app"), ("b", 1, 3, 9.0, "info", "y", "app")],
            8,
        )
    with pytest.raises(StoreUnavailable):
        await store.commit(batch, lease)
    assert await everything(store) == before
    batch.position = 12
    await store.commit(batch, lease)
    assert [event.position for event in (await store.events(11, 10)).events] == [12, 13]


@pytest.mark.parametrize(("job_id", "tenant"), [("work", None), (None, "blue"), ("play", "default"), ("play", "blue")])
async def test_events_of_a_job_and_of_a_tenant_are_all_of_them_wherever_one_goes_on(
    store: AnyStore, job_id: str | None, tenant: str | None
) -> None:
    wanted = [one for one in EVENTS if job_id in (None, one.job_id) and tenant in (None, one.tenant)]
    await fill(store)
    for limit in (1, 2, 1000):
        found, after, more = [], 0, True
        while more:
            rows = await store.events(after, limit, EventFilter(None, job_id, tenant))
            assert len(rows.events) <= limit
            assert rows.reached > after
            found += rows.events
            after, more = rows.reached, rows.more
        assert found == wanted
        assert after == 11


async def test_one_call_looks_at_so_many_positions_and_says_how_far_it_came(store: AnyStore) -> None:
    lease = await fill(store)
    far = Batch(history=[("a", [entry(6, State.TERMINATING, State.SUCCEEDED)])], position=3 * MOST_LOOKED_AT)
    await store.commit(far, lease)
    near = await store.events(11, 10)
    assert (near.events, near.reached, near.more) == ([], 11 + MOST_LOOKED_AT, True)
    assert [one.position for one in (await store.events(11, 10, EventFilter("a"))).events] == [3 * MOST_LOOKED_AT]
    last = await store.events(3 * MOST_LOOKED_AT - 1, 10)
    assert (len(last.events), last.reached, last.more) == (1, 3 * MOST_LOOKED_AT, False)


async def test_one_call_gives_so_many_bytes_and_leaves_nothing_out(store: AnyStore) -> None:
    lease = await fill(store)
    long = "x" * (MOST_EVENT_BYTES // 4)
    many = Batch(history=[("b", THIRD)], position=12)
    many.logs.lines = [("a", 2, number, 9.0, "info", long, "") for number in range(10)]
    await store.commit(many, lease)
    positions, after, more = [], 0, True
    while more:
        rows = await store.events(after, 1000)
        lines = [one.line for one in rows.events if isinstance(one, StoredEvent) and one.line is not None]
        assert sum(len(line.text) for line in lines) <= 2 * MOST_EVENT_BYTES
        positions += [one.position for one in rows.events]
        after, more = rows.reached, rows.more
    assert positions == [one.position for one in EVENTS] + list(range(12, 23))
