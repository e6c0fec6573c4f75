"""A lease on a server is free sooner than at its end once the session of its holder is gone."""

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from interlock.error import OutcomeUnknown, StoreUnavailable
from interlock.ports.leases import Lease
from interlock.stores.postgres import PostgresStore
from tests.contract.test_postgres_writes import beside, one_run
from tests.helpers.places import until_true

pytestmark = pytest.mark.behaviour("LEA-6")
LONG = 1000.0


@asynccontextmanager
async def another(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def take(store: PostgresStore, holder: str) -> Lease | None:
    return await store.take("main", holder, f"token of {holder}", LONG)


async def end_session(url: str) -> None:
    """End the session of the holder, as the loss of its machine does."""
    async with beside(url) as other:
        await other.execute("SELECT pg_terminate_backend(split_part(session, ' ', 1)::int) FROM leases")


async def test_it_is_taken_once_the_session_of_its_holder_has_been_gone_for_2_s(
    postgres: PostgresStore, postgres_url: str
) -> None:
    async with another(postgres_url) as second:
        assert await take(postgres, "a") is not None
        assert await take(second, "b") is None
        await end_session(postgres_url)
        began = time.monotonic()
        found: list[Lease | None] = []

        async def is_taken() -> bool:
            found.append(await take(second, "b"))
            return found[-1] is not None

        await until_true(is_taken, "it is taken")
        assert time.monotonic() - began >= 2.0
        assert found[-1] is not None
        assert found[-1].epoch == 2


@pytest.mark.parametrize("renews", [True, False])
async def test_a_holder_that_comes_back_keeps_it(postgres: PostgresStore, postgres_url: str, renews: bool) -> None:
    """With a renewal, or with a commit: its next renewal may be 3.3 s away."""
    async with another(postgres_url) as second:
        lease = await take(postgres, "a")
        assert lease is not None
        await end_session(postgres_url)
        assert not renews or await take(second, "b") is None

        def write() -> Awaitable[object]:
            return postgres.renew(lease, LONG) if renews else postgres.commit(one_run("1", 1), lease)

        await until_true(lambda: _is_done(write()), "it has connected again")
        began = time.monotonic()

        async def is_over() -> bool:
            assert await take(second, "b") is None
            return time.monotonic() - began > 2.2

        await until_true(is_over, "it was tried for longer than 2 s")


async def test_a_holder_that_comes_back_between_two_looks_keeps_it(postgres: PostgresStore, postgres_url: str) -> None:
    """It may have been gone for less than 2 s, although the last look found it gone."""
    async with another(postgres_url) as second:
        lease = await take(postgres, "a")
        assert lease is not None
        await end_session(postgres_url)
        assert await take(second, "b") is None
        gone = time.monotonic()
        await until_true(lambda: _is_done(postgres.renew(lease, LONG)), "it has connected again")
        await until_true(lambda: _has_passed(gone + 2.2), "2 s have passed")
        assert await take(second, "b") is None
        await postgres.renew(lease, LONG)


async def _is_done(write: Awaitable[object]) -> bool:
    try:
        await write
    except (StoreUnavailable, OutcomeUnknown):  # its connection has just ended
        return False
    return True


async def _has_passed(end: float) -> bool:
    return time.monotonic() >= end
