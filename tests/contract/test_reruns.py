"""The store's part in retries and unique keys: keys that are freed, and facets of ended runs."""

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch, KeyChanges
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.facets import Facets, OtherRun, Unique
from interlock.model.state import State
from interlock.ports.store import RunFilter
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import BULK, created, make_run, take, updated
from tests.helpers.lookups import digests, known_keys
from tests.helpers.records import changes

KEY = ("default", "k")


def keyed(run_id: str, key: str | None = "k") -> Batch:
    batch = created(make_run(run_id, idempotency_key=key, facets=Facets(unique=Unique())))
    batch.keys.taken = [("default", key, run_id, b"digest", 1000.0)]
    return batch


@pytest.mark.behaviour("RUN-6")
def test_a_freed_key_is_taken_again_in_one_batch(with_store: WithStore) -> None:
    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(keyed("r1"), lease)
        assert await known_keys(store, [KEY]) == {KEY: ("r1", b"digest")}
        taken_again = keyed("r2")
        taken_again.keys.freed = ["r1", "unknown"]
        for batch in (taken_again, taken_again, keyed("r1")):  # stored again, nothing changes
            await store.commit(batch, lease)
            assert await known_keys(store, [KEY]) == {KEY: ("r2", b"digest")}

    async def again(store: AnyStore) -> None:
        lease = await take(store, "t2")
        assert await known_keys(store, [KEY]) == {KEY: ("r2", b"digest")}
        await store.commit(Batch(keys=KeyChanges(freed=["r2"])), lease)
        await store.commit(keyed("r3", None), lease)
        assert await known_keys(store, [KEY]) == {}
        assert set(await digests(store, ["r1", "r2", "r3"])) == {"r1", "r2", "r3"}, "their runs are known as before"

    with_store(fill)
    with_store(again)


@pytest.mark.behaviour("RUN-6")
async def test_a_refused_commit_frees_no_key(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(keyed("r1"), lease)
    with pytest.raises(Exception, match="epoch"):
        await store.commit(Batch(keys=KeyChanges(freed=["r1"])), replace(lease, epoch=lease.epoch + 1))
    assert await known_keys(store, [KEY]) == {KEY: ("r1", b"digest")}


@pytest.mark.behaviour("RUN-23")
def test_new_facets_of_an_ended_run_leave_its_other_fields(with_store: WithStore) -> None:
    ended = make_run("r1", state=State.FAILED, ended_at=1001.0, error="no", result=b"1", payload=b'{"a":1}')
    marked = Facets(labels={"a": "b"}, retried_as=OtherRun(run_id="r2"))

    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(ended), lease)
        # As a retry reads it from a list, without payload and result.
        listed = (await store.runs(RunFilter(live=False), None, 10)).runs[0]
        batch = updated(replace(listed, facets=marked), group="facets")
        batch.created = created(make_run("r2", facets=Facets(retry_of=OtherRun(run_id="r1")))).created
        await store.commit(batch, lease)
        await store.commit(updated(make_run("pruned"), group="facets"), lease)

    async def again(store: AnyStore) -> None:
        assert await store.run("r1") == replace(ended, facets=marked)
        new = await store.run("r2")
        assert new is not None
        assert new.facets == Facets(retry_of=OtherRun(run_id="r1"))
        assert await store.run("pruned") is None

    with_store(fill)
    with_store(again)


@pytest.mark.behaviour("RUN-25")
def test_a_bulk_retry_keeps_where_its_next_page_begins(with_store: WithStore) -> None:
    bulk: BulkRequest = replace(BULK, action=RunAction.RETRY, left=None, done=2, before=3, seq=2)

    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        runs = [make_run(f"r{number}", state=State.FAILED, ended_at=1.0) for number in range(4)]
        await store.commit(created(*runs), lease)
        await store.commit(Batch(records=changes(bulk)), lease)
        await store.commit(created(make_run("later", state=State.FAILED, ended_at=1.0)), lease)

    async def again(store: AnyStore) -> None:
        assert await store.record(BulkRequest, "b1") == bulk
        page = await store.runs(RunFilter(states=frozenset({State.FAILED}), live=False), bulk.before, 10)
        assert [run.id for run in page.runs] == ["r1", "r0"]

    with_store(fill)
    with_store(again)
