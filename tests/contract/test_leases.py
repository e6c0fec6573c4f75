"""The lease port, at the instant a lease ends and on either side of it."""

import math

import pytest

from interlock.error import LeaseLost
from interlock.ports.leases import Lease
from tests.contract.conftest import AnyStore

pytestmark = pytest.mark.behaviour("LEA-1")

NAME = "scheduler"


async def take(store: AnyStore, holder: str, token: str, now: float, ttl: float = 10.0) -> Lease | None:
    return await store.acquire(NAME, holder, token, ttl, now)


async def test_a_lease_has_holder_token_end_and_epoch(store: AnyStore) -> None:
    lease = await take(store, "a", "t1", 1000.0)
    assert lease == Lease(name=NAME, holder="a", token="t1", epoch=1, ends_at=1010.0)


async def test_a_lease_that_runs_belongs_to_its_holder_until_exactly_its_end(store: AnyStore) -> None:
    first = await take(store, "a", "t1", 1000.0)
    assert first is not None
    for now in (1000.0, 1005.0, math.nextafter(1010.0, 0.0)):
        assert await take(store, "b", "t2", now) is None
    second = await take(store, "b", "t2", 1010.0)
    assert second is not None
    assert (second.holder, second.token) == ("b", "t2")
    assert second.epoch > first.epoch
    assert second.ends_at == 1020.0


async def test_the_epoch_only_grows(store: AnyStore) -> None:
    epochs = []
    for number in range(5):
        lease = await take(store, f"holder {number}", f"t{number}", 1000.0 + 10 * number)
        assert lease is not None
        epochs.append(lease.epoch)
        if number % 2:
            await store.release(lease)
    assert epochs == sorted(set(epochs))


async def test_the_same_token_keeps_its_epoch(store: AnyStore) -> None:
    first = await take(store, "a", "t1", 1000.0)
    again = await take(store, "a", "t1", 1004.0)
    after_its_end = await take(store, "a", "t1", 1100.0)
    assert first is not None
    assert again is not None
    assert after_its_end is not None
    assert first.epoch == again.epoch == after_its_end.epoch
    assert (again.ends_at, after_its_end.ends_at) == (1014.0, 1110.0)


async def test_renewing_prolongs_and_keeps_the_epoch(store: AnyStore) -> None:
    lease = await take(store, "a", "t1", 1000.0)
    assert lease is not None
    renewed = await store.renew(lease, 10.0, 1003.0)
    assert renewed == Lease(name=NAME, holder="a", token="t1", epoch=lease.epoch, ends_at=1013.0)
    assert await take(store, "b", "t2", 1012.0) is None
    assert await take(store, "b", "t2", 1013.0) is not None


async def test_a_lease_that_ran_out_can_be_renewed_as_long_as_nobody_took_it(store: AnyStore) -> None:
    lease = await take(store, "a", "t1", 1000.0)
    assert lease is not None
    late = await store.renew(lease, 10.0, 5000.0)
    assert late.ends_at == 5010.0
    other = await take(store, "b", "t2", 5010.0)
    assert other is not None
    with pytest.raises(LeaseLost) as caught:
        await store.renew(late, 10.0, 5011.0)
    assert caught.value.code == "lease_lost"
    assert "now held by b" in str(caught.value)
    assert await take(store, "c", "t3", 5011.0) is None, "the failed renewal did not touch it"


@pytest.mark.parametrize(("token", "epoch"), [("forged", 1), ("t1", 2), ("t1", 0), ("", 1)])
async def test_renewing_checks_token_and_epoch(store: AnyStore, token: str, epoch: int) -> None:
    await take(store, "a", "t1", 1000.0)
    forged = Lease(name=NAME, holder="b", token=token, epoch=epoch, ends_at=1010.0)
    with pytest.raises(LeaseLost):
        await store.renew(forged, 100.0, 1005.0)
    assert await take(store, "c", "t3", 1010.0) is not None


async def test_renewing_what_nobody_has_is_refused(store: AnyStore) -> None:
    with pytest.raises(LeaseLost, match="nobody"):
        await store.renew(Lease(name=NAME, holder="a", token="t", epoch=1, ends_at=9.0), 10.0, 5.0)


async def test_after_a_release_the_next_need_not_wait_and_the_last_is_out(store: AnyStore) -> None:
    first = await take(store, "a", "t1", 1000.0)
    assert first is not None
    await store.release(first)
    with pytest.raises(LeaseLost):
        await store.renew(first, 10.0, 1001.0)
    second = await take(store, "b", "t2", 1001.0)
    assert second is not None
    assert second.epoch > first.epoch


async def test_a_released_lease_taken_by_the_same_token_has_a_greater_epoch(store: AnyStore) -> None:
    first = await take(store, "a", "t1", 1000.0)
    assert first is not None
    await store.release(first)
    again = await take(store, "a", "t1", 1001.0)
    assert again is not None
    assert again.epoch > first.epoch


async def test_releasing_checks_the_token(store: AnyStore) -> None:
    first = await take(store, "a", "t1", 1000.0)
    assert first is not None
    second = await take(store, "b", "t2", 1010.0)
    assert second is not None
    await store.release(first)
    await store.release(Lease(name=NAME, holder="b", token="forged", epoch=second.epoch, ends_at=1020.0))
    await store.release(Lease(name="never taken", holder="b", token="t2", epoch=1, ends_at=1020.0))
    assert await take(store, "c", "t3", 1011.0) is None
    assert (await store.renew(second, 10.0, 1012.0)).ends_at == 1022.0


async def test_leases_of_other_names_are_of_no_concern(store: AnyStore) -> None:
    await take(store, "a", "t1", 1000.0)
    other = await store.acquire("sweep", "b", "t2", 10.0, 1000.0)
    assert other is not None
    assert (other.name, other.holder, other.epoch) == ("sweep", "b", 1)
