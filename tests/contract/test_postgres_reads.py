"""A read of a server has a limit, however the server keeps it waiting."""

import os
import signal
import time
from contextlib import suppress

import pytest

from interlock.error import StoreUnavailable
from interlock.stores.postgres import PostgresStore
from tests.contract.test_postgres_writes import beside
from tests.helpers.places import until_true
from tests.helpers.postgres import VARIABLE

pytestmark = pytest.mark.behaviour("LEA-5")
READER = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%history%' AND pid <> pg_backend_pid()"


async def give_up(postgres: PostgresStore) -> float:
    """Read what does not come; return the seconds until the store gave up."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="no answer in 2 s"):
        await postgres.history("r1")
    return time.monotonic() - began


async def test_a_read_that_waits_for_a_lock_ends_after_2_s_and_so_does_its_statement(
    postgres: PostgresStore, postgres_url: str
) -> None:
    async with beside(postgres_url) as other:
        await other.execute("BEGIN; LOCK TABLE history")
        assert await give_up(postgres) >= 2.0

        async def is_gone() -> bool:
            return await other.fetchval(f"{READER} AND wait_event_type = 'Lock'") is None

        await until_true(is_gone, "the server has given up too")
        await other.execute("ROLLBACK")
    assert await postgres.history("r1") == []


@pytest.mark.skipif(VARIABLE in os.environ, reason="its processes may be elsewhere")
async def test_a_server_process_that_stands_still_keeps_no_reader(postgres: PostgresStore, postgres_url: str) -> None:
    """It could not even answer that it has cancelled a statement."""
    async with beside(postgres_url) as other:
        assert await postgres.history("r1") == []
        pid = await other.fetchval(READER)
        os.kill(pid, signal.SIGSTOP)
        try:
            assert await give_up(postgres) >= 2.0
            assert await postgres.history("r1") == []
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
