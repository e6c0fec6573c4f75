"""A lease on a server is free sooner than at its end once the session of its holder is gone."""

import time
from collections.abc import Awaitable

import pytest

from interlock.error import OutcomeUnknown, StoreUnavailable
from interlock.ports.leases import Lease
from interlock.stores.postgres import PostgresStore
from tests.contract.conftest import run_with
from tests.contract.test_postgres_writes import beside, one_run
from tests.helpers.places import until_true

LONG = 1000.0


async def take(store: PostgresStore, holder: str) -> Lease | None:
    return await store.take("main", holder, f"token of {holder}", LONG)


async def end_session(url: str) -> None:
    """End the session of the holder, as the loss of its machine does."""
    async with beside(url) as other:
        await other.execute("SELECT pg_terminate_backend(split_part(session, ' ', 1)::int) FROM leases")


@pytest.mark.behaviour("LEA-6")
def test_it_is_taken_once_the_session_of_its_holder_has_been_gone_for_2_s(postgres_url: str) -> None:
    async def body(holder: PostgresStore) -> None:
        second = PostgresStore(postgres_url)
        await second.open()
        try:
            assert await take(holder, "a") is not None
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
        finally:
            await second.close()

    run_with(PostgresStore(postgres_url), body)


@pytest.mark.behaviour("LEA-6")
def test_a_holder_that_comes_back_keeps_it(postgres_url: str) -> None:
    async def body(holder: PostgresStore) -> None:
        second = PostgresStore(postgres_url)
        await second.open()
        try:
            lease = await take(holder, "a")
            assert lease is not None
            await end_session(postgres_url)
            assert await take(second, "b") is None
            await until_true(lambda: _is_done(holder.renew(lease, LONG)), "it has connected again")
            began = time.monotonic()

            async def is_over() -> bool:
                assert await take(second, "b") is None
                return time.monotonic() - began > 2.2

            await until_true(is_over, "it was tried for longer than 2 s")
        finally:
            await second.close()

    run_with(PostgresStore(postgres_url), body)


@pytest.mark.behaviour("LEA-6")
def test_a_holder_that_comes_back_between_two_looks_keeps_it(postgres_url: str) -> None:
    """It may have been gone for less than 2 s, although the last look found it gone."""

    async def body(holder: PostgresStore) -> None:
        second = PostgresStore(postgres_url)
        await second.open()
        try:
            lease = await take(holder, "a")
            assert lease is not None
            await end_session(postgres_url)
            assert await take(second, "b") is None
            gone = time.monotonic()
            await until_true(lambda: _is_done(holder.renew(lease, LONG)), "it has connected again")
            await until_true(lambda: _has_passed(gone + 2.2), "2 s have passed")
            assert await take(second, "b") is None
            await holder.renew(lease, LONG)
        finally:
            await second.close()

    run_with(PostgresStore(postgres_url), body)


@pytest.mark.behaviour("LEA-6")
def test_a_holder_that_commits_over_a_new_connection_is_not_gone(postgres_url: str) -> None:
    """Its next renewal may be 3.3 s away."""

    async def body(holder: PostgresStore) -> None:
        second = PostgresStore(postgres_url)
        await second.open()
        try:
            lease = await take(holder, "a")
            assert lease is not None
            await end_session(postgres_url)
            await until_true(lambda: _is_done(holder.commit(one_run("1", 1), lease)), "it has connected again")
            began = time.monotonic()

            async def is_over() -> bool:
                assert await take(second, "b") is None
                return time.monotonic() - began > 2.2

            await until_true(is_over, "it was tried for longer than 2 s")
        finally:
            await second.close()

    run_with(PostgresStore(postgres_url), body)


async def _is_done(write: Awaitable[object]) -> bool:
    try:
        await write
    except (StoreUnavailable, OutcomeUnknown):  # its connection has just ended
        return False
    return True


async def _has_passed(end: float) -> bool:
    return time.monotonic() >= end
