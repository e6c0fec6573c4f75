"""The store's part in bulk requests: their counts, and the runs that were there when they came."""

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.bulk import BulkRequest
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import BULK, NAME, created, make_run, take, updated


async def bulks(store: AnyStore) -> list[tuple[BulkRequest, int]]:
    return (await store.load(0)).bulks


@pytest.mark.behaviour("RUN-25")
def test_a_request_is_for_the_runs_that_were_stored_before_it(with_store: WithStore) -> None:
    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        # What was created later may look older: the clock can be set back.
        await store.commit(created(*(make_run(f"r{number}") for number in range(4))), NAME, lease.epoch)
        with_request = created(make_run("same", created_at=1.0))
        with_request.bulks = [BULK]
        await store.commit(with_request, NAME, lease.epoch)
        await store.commit(created(make_run("later", created_at=1.0)), NAME, lease.epoch)
        assert await bulks(store) == [(BULK, 4)]
        end = make_run("r1", ended_at=1.0)
        counted = replace(BULK, seq=2, done=1, left=3)
        progress = updated(end)
        progress.bulks = [counted, replace(BULK, id="b2")]
        await store.commit(progress, NAME, lease.epoch)

    async def again(store: AnyStore) -> None:
        counted = replace(BULK, seq=2, done=1, left=3)
        snapshot = await store.load(0)
        assert snapshot.bulks == [(counted, 3), (replace(BULK, id="b2"), 5)]
        assert [run.id for run in snapshot.runs] == ["r0", "r2", "r3", "same", "later"]
        assert await store.bulk("b1") == counted
        assert await store.bulk("nothing") is None

    with_store(fill)
    with_store(again)


@pytest.mark.behaviour("RUN-25")
def test_a_request_goes_on_behind_the_last_run_it_looked_at(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(*(make_run(f"r{number}") for number in range(5))), NAME, lease.epoch)
        await store.commit(Batch(bulks=[BULK]), NAME, lease.epoch)
        for run_id, left in (("r3", 3), ("r3", 3), ("r4", 3), ("unknown", 3), ("r1", 1)):
            await store.commit(Batch(walked=[(run_id, BULK.id)]), NAME, lease.epoch)
            assert await bulks(store) == [(BULK, left)]

    with_store(body)


def test_an_older_state_of_a_request_changes_nothing(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        newer, finished = replace(BULK, seq=2, done=5), replace(BULK, seq=3, done=5, ended_at=1001.0)
        await store.commit(Batch(bulks=[BULK, newer, finished]), NAME, lease.epoch)
        await store.commit(Batch(bulks=[newer]), NAME, lease.epoch)
        assert await store.bulk("b1") == finished
        await store.commit(Batch(bulks=[replace(BULK, id="b2")], dropped_bulks=["b1", "unknown"]), NAME, lease.epoch)
        assert [bulk.id for bulk, _ in await bulks(store)] == ["b2"]

    with_store(body)
