"""The fence: every write carries its lease, and is refused if its name, epoch and token are not current."""

import pytest
from msgspec.structs import replace

from interlock.error import StaleEpoch
from interlock.model.letter import DeadLetter
from interlock.ports.leases import Lease
from interlock.ports.store import Pruned, PruneLimits
from tests.contract.conftest import AnyStore
from tests.contract.samples import NAME, created, everything, everything_in_one_batch, make_run, take
from tests.contract.test_pruning import LATER, ended, put

pytestmark = pytest.mark.behaviour("LEA-2")


@pytest.mark.behaviour("RUN-2")
@pytest.mark.parametrize("off", [-1, 1, 100])
async def test_a_write_with_another_epoch_is_refused_and_stores_nothing(store: AnyStore, off: int) -> None:
    await take(store, "t1")
    lease = await take(store, "t2")
    await store.commit(created(make_run("old")), lease)
    before = await everything(store)
    with pytest.raises(StaleEpoch) as caught:
        await store.commit(everything_in_one_batch(), replace(lease, epoch=lease.epoch + off))
    assert caught.value.code == "stale_epoch"
    assert str(lease.epoch) in str(caught.value)
    assert await everything(store) == before
    await store.commit(everything_in_one_batch(), lease)


async def test_a_holder_that_was_replaced_can_write_no_more(store: AnyStore) -> None:
    paused = await take(store, "t1")
    await store.commit(created(make_run("r1")), paused)
    current = await take(store, "t2")
    with pytest.raises(StaleEpoch):
        await store.commit(created(make_run("r2")), paused)
    assert await store.run("r2") is None
    await store.commit(created(make_run("r2")), current)


async def test_nobody_writes_without_a_lease(store: AnyStore) -> None:
    forged = Lease(name=NAME, holder="tester", token="t1", epoch=0, granted_at=0.0, ends_at=1e12)
    for epoch in (0, 1):
        with pytest.raises(StaleEpoch):
            await store.commit(created(make_run("r1")), replace(forged, epoch=epoch))
    lease = await take(store)
    for change in ({"name": "another lease"}, {"token": "t2"}, {"token": ""}):
        with pytest.raises(StaleEpoch):
            await store.commit(created(make_run("r1")), replace(lease, **change))
    await store.release(lease)
    for token in (lease.token, ""):
        with pytest.raises(StaleEpoch):
            await store.commit(created(make_run("r1")), replace(lease, token=token))
    assert await store.run("r1") is None


async def test_a_holder_that_takes_its_lease_again_can_write_no_more_under_the_earlier_one(store: AnyStore) -> None:
    """Whoever gave up on a commit takes the lease before it loads: then the commit cannot take effect any more."""
    given_up = await take(store)
    current = await take(store)
    with pytest.raises(StaleEpoch):
        await store.commit(created(make_run("r1")), given_up)
    assert (await store.load(10)).runs == []
    await store.commit(created(make_run("r1")), current)


async def test_pruning_without_a_current_lease_is_refused_and_deletes_nothing(store: AnyStore) -> None:
    await put(store, ended("r1", idempotency_key="k"), make_run("new"), letters=["r1"])
    before = await everything(store)
    every = PruneLimits(0, LATER, keys_before=LATER, records=((DeadLetter, LATER, 0),))
    stale, lease = await take(store), await take(store)
    for change in ({"epoch": stale.epoch}, {"epoch": lease.epoch + 1}, {"token": "t2"}, {"name": "another lease"}):
        with pytest.raises(StaleEpoch):
            await store.prune(every, replace(lease, **change))
    await store.release(lease)
    for token in (lease.token, ""):
        with pytest.raises(StaleEpoch):
            await store.prune(every, replace(lease, token=token))
    assert await everything(store) == before
    assert await store.prune(every, await take(store)) == Pruned(1, False, keys=1, records=1)
