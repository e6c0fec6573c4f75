"""The lease port: who has it, until when, and what checks its token. A term of 0 seconds ends at once, so no test waits
for an end; the clock of the stores that take one is set to the instant."""

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from interlock.error import LeaseLost, OutcomeUnknown
from interlock.ports.leases import Lease
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteStore
from soak.simulation.store import Disk
from tests.contract.conftest import AnyStore, WithStore, opened, run_simulated

pytestmark = pytest.mark.behaviour("LEA-1")

NAME = "scheduler"
LONG = 1000.0
OVER = 0.0


async def take(store: AnyStore, holder: str, ttl: float = LONG) -> Lease:
    """Take it with the token of this holder."""
    lease = await store.take(NAME, holder, f"token of {holder}", ttl)
    assert lease is not None, f"{holder} is refused"
    return lease


async def is_refused(store: AnyStore, holder: str) -> bool:
    return await store.take(NAME, holder, f"token of {holder}", LONG) is None


async def test_a_lease_has_holder_token_end_and_epoch(store: AnyStore) -> None:
    lease = await take(store, "a")
    assert (lease.name, lease.holder, lease.token, lease.epoch) == (NAME, "a", "token of a", 1)
    assert lease.ends_at == pytest.approx(lease.granted_at + LONG)


async def test_a_lease_that_runs_belongs_to_its_holder(store: AnyStore) -> None:
    await take(store, "a")
    assert await is_refused(store, "b")
    lease = await take(store, "a", OVER)
    second = await take(store, "b")
    assert (second.holder, second.token) == ("b", "token of b")
    assert second.epoch > lease.epoch
    assert second.granted_at >= lease.ends_at
    assert await is_refused(store, "a")


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_a_lease_ends_at_exactly_its_end_by_the_clock_of_the_store(
    kind: type[MemoryStore | SqliteStore], tmp_path: Path
) -> None:
    now = 5000.0

    def clock() -> float:
        return now

    made = MemoryStore(clock) if kind is MemoryStore else SqliteStore(tmp_path / "runs.db", clock=clock)

    async def body(store: AnyStore) -> None:
        nonlocal now
        lease = await take(store, "a", 10.0)
        assert (lease.granted_at, lease.ends_at) == (5000.0, 5010.0)
        now = 5004.0
        lease = await store.renew(lease, 10.0)
        assert (lease.granted_at, lease.ends_at) == (5004.0, 5014.0)
        for instant in (5004.0, 5010.0, math.nextafter(5014.0, 0.0)):
            now = instant
            assert await is_refused(store, "b")
        now = 5014.0
        assert (await take(store, "b", 10.0)).ends_at == 5024.0

    await opened(made, body)


async def test_the_epoch_grows_with_every_take_whoever_takes_it(store: AnyStore) -> None:
    epochs = []
    for holder in ("a", "a", "b", "b", "a", "c"):
        lease = await take(store, holder)
        epochs += [lease.epoch, (await take(store, holder)).epoch]
        await store.release(lease)
    assert epochs == list(range(1, 13))


@pytest.mark.behaviour("CLU-2")
async def test_a_lease_released_to_a_holder_is_for_that_one_until_its_time_is_over(store: AnyStore) -> None:
    lease = await take(store, "a")
    await store.release(lease, "c", LONG)
    assert await is_refused(store, "b")
    assert await is_refused(store, "a")
    lease = await take(store, "c")
    assert lease.epoch == 2
    await store.release(lease, "b", OVER)
    assert (await take(store, "a")).epoch == 3


@pytest.mark.behaviour("LEA-2")
async def test_a_lease_taken_again_ends_the_one_before_it(store: AnyStore) -> None:
    first = await take(store, "a")
    second = await take(store, "a")
    with pytest.raises(LeaseLost):
        await store.renew(first, LONG)
    assert (await store.renew(second, LONG)).epoch == second.epoch


@pytest.mark.behaviour("LEA-2")
@pytest.mark.parametrize("is_released", [False, True])
async def test_a_lease_is_taken_again_only_if_nobody_else_had_it_since(store: AnyStore, is_released: bool) -> None:
    """Also if it has ended, or is free once more."""
    first = await take(store, "a", OVER)
    again = await store.take(NAME, "a", first.token, OVER, again=True)
    assert again is not None
    assert again.epoch == first.epoch + 1
    other = await take(store, "b", OVER)
    if is_released:
        await store.release(other)
    assert await store.take(NAME, "a", first.token, LONG, again=True) is None
    assert (await take(store, "c")).epoch == other.epoch + 1, "the attempt did not touch it"


async def test_renewing_prolongs_and_keeps_the_epoch(store: AnyStore) -> None:
    lease = await take(store, "a", OVER)
    renewed = await store.renew(lease, LONG)
    assert replace(renewed, granted_at=lease.granted_at, ends_at=lease.ends_at) == lease
    assert renewed.ends_at == pytest.approx(renewed.granted_at + LONG)
    assert await is_refused(store, "b")
    await store.renew(renewed, OVER)
    await take(store, "b")


async def test_a_lease_that_has_ended_can_be_renewed_as_long_as_nobody_took_it(store: AnyStore) -> None:
    lease = await take(store, "a", OVER)
    late = await store.renew(lease, OVER)
    await take(store, "b")
    with pytest.raises(LeaseLost) as caught:
        await store.renew(late, LONG)
    assert caught.value.code == "lease_lost"
    assert "now held by b" in str(caught.value)
    assert await is_refused(store, "c"), "the failed renewal did not touch it"


@pytest.mark.parametrize(("token", "epoch"), [("forged", 1), ("token of a", 2), ("token of a", 0), ("", 1)])
async def test_renewing_checks_token_and_epoch(store: AnyStore, token: str, epoch: int) -> None:
    lease = await take(store, "a", OVER)
    with pytest.raises(LeaseLost):
        await store.renew(replace(lease, token=token, epoch=epoch), LONG)
    await take(store, "c")


async def test_renewing_what_nobody_has_is_refused(store: AnyStore) -> None:
    with pytest.raises(LeaseLost, match="nobody"):
        await store.renew(Lease(name=NAME, holder="a", token="t", epoch=1, granted_at=0.0, ends_at=9.0), LONG)


async def test_after_a_release_the_next_need_not_wait_and_the_last_is_out(store: AnyStore) -> None:
    first = await take(store, "a")
    await store.release(first)
    for token in (first.token, ""):
        with pytest.raises(LeaseLost, match="nobody"):
            await store.renew(replace(first, token=token), LONG)
    second = await take(store, "b")
    assert second.epoch > first.epoch


async def test_releasing_checks_the_token_alone(store: AnyStore) -> None:
    """A holder that gave up on a take may not know its epoch."""
    first = await take(store, "a", OVER)
    second = await take(store, "b")
    await store.release(first)
    await store.release(replace(second, token="forged"))
    await store.release(replace(second, name="never taken"))
    assert await is_refused(store, "c")
    await store.renew(second, LONG)
    third = await take(store, "b")
    await store.release(second)
    assert (await take(store, "c")).epoch == third.epoch + 1


async def test_leases_of_other_names_are_of_no_concern(store: AnyStore) -> None:
    await take(store, "a")
    other = await store.take("sweep", "b", "t2", LONG)
    assert other is not None
    assert (other.name, other.holder, other.epoch) == ("sweep", "b", 1)


def test_the_epoch_is_kept_when_the_store_is_closed(with_store: WithStore) -> None:
    async def first(store: AnyStore) -> None:
        await take(store, "a")
        await take(store, "a", OVER)

    async def second(store: AnyStore) -> None:
        assert (await take(store, "b")).epoch == 3

    with_store(first)
    with_store(second)


@pytest.mark.behaviour("REC-8")
def test_a_simulated_store_that_has_gone_back_behind_a_take_is_found_as_one_on_a_server() -> None:
    disk = Disk()

    async def body(store: AnyStore) -> None:
        await take(store, "a")
        before = dict(disk.leases)
        lease = await take(store, "a")
        disk.leases = before
        with pytest.raises(OutcomeUnknown):
            await store.renew(lease, LONG)
        again = await store.take(NAME, "a", lease.token, LONG, again=True)
        assert again is not None
        assert again.epoch == 3

    run_simulated(disk, body)
