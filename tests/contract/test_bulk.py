"""The store's part in bulk requests: their counts, and the runs that were there when they came."""

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.bulk import BulkRequest
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import BULK, created, make_run, take, updated
from tests.helpers.pruning import prune
from tests.helpers.records import changes

pytestmark = pytest.mark.behaviour("RUN-25")


async def bulks(store: AnyStore) -> list[tuple[BulkRequest, int]]:
    """The requests, each with the number of live runs that are left to it."""
    snapshot = await store.load(0, [BulkRequest])
    return [(bulk, snapshot.reaches[bulk.id]) for bulk in snapshot.of(BulkRequest)]


def test_a_request_is_for_the_runs_that_were_stored_before_it(with_store: WithStore) -> None:
    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        # What was created later may look older: the clock can be set back.
        await store.commit(created(*(make_run(f"r{number}") for number in range(4))), lease)
        with_request = created(make_run("same", created_at=1.0))
        with_request.records = changes(BULK)
        await store.commit(with_request, lease)
        await store.commit(created(make_run("later", created_at=1.0)), lease)
        assert await bulks(store) == [(BULK, 4)]
        end = make_run("r1", ended_at=1.0)
        counted = replace(BULK, seq=2, done=1, left=3)
        progress = updated(end)
        progress.records = changes(counted, replace(BULK, id="b2"))
        await store.commit(progress, lease)

    async def again(store: AnyStore) -> None:
        counted = replace(BULK, seq=2, done=1, left=3)
        assert await bulks(store) == [(counted, 3), (replace(BULK, id="b2"), 5)]
        assert [run.id for run in (await store.load(0)).runs] == ["r0", "r2", "r3", "same", "later"]
        assert await store.record(BulkRequest, "b1") == counted
        assert await store.record(BulkRequest, "nothing") is None

    with_store(fill)
    with_store(again)


async def test_a_request_goes_on_behind_the_last_run_it_looked_at(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(created(*(make_run(f"r{number}") for number in range(5))), lease)
    await store.commit(Batch(records=changes(BULK)), lease)
    for seq, (run_id, left) in enumerate((("r3", 3), ("r3", 3), ("r2", 2), ("r1", 1)), start=2):
        bulk = replace(BULK, walked=run_id, seq=seq)
        for _ in range(2):
            await store.commit(Batch(records=changes(bulk)), lease)
            assert await bulks(store) == [(bulk, left)]


async def test_the_last_run_that_a_request_looked_at_stays_until_the_request_has_ended(store: AnyStore) -> None:
    lease = await take(store)
    batch = created(*(make_run(f"r{number}", state=State.FAILED, ended_at=1.0) for number in range(3)))
    batch.records = changes(replace(BULK, walked="r1"))
    await store.commit(batch, lease)
    limits = PruneLimits(0, 1e9)
    assert (await prune(store, limits)).runs == 1
    ended = replace(BULK, walked="r1", seq=2, ended_at=2.0)
    await store.commit(Batch(records=changes(ended)), lease)
    assert (await prune(store, limits)).runs == 1
    assert await store.record(BulkRequest, BULK.id) == ended


async def test_an_older_state_of_a_request_changes_nothing(store: AnyStore) -> None:
    lease = await take(store)
    newer, finished = replace(BULK, seq=2, done=5), replace(BULK, seq=3, done=5, ended_at=1001.0)
    for bulk in (BULK, newer, finished):
        await store.commit(Batch(records=changes(bulk)), lease)
    await store.commit(Batch(records=changes(newer)), lease)
    assert await store.record(BulkRequest, "b1") == finished
    await store.commit(
        Batch(records=changes(replace(BULK, id="b2"), gone=[(BulkRequest, "b1"), (BulkRequest, "unknown")])),
        lease,
    )
    assert [bulk.id for bulk, _ in await bulks(store)] == ["b2"]
