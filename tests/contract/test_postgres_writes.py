"""Writes on a server: what happens to a commit whose answer does not come, or comes too late."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg
import pytest

from interlock.core.decisions import Batch
from interlock.error import OutcomeUnknown, StaleEpoch, StoreUnavailable
from interlock.model.run import UPDATES
from interlock.model.state import State
from interlock.ports.leases import Lease
from interlock.ports.store import PruneLimits, Snapshot
from interlock.stores.postgres import PostgresStore
from interlock.stores.postgres.address import read_address
from tests.contract.conftest import open_in, run_with
from tests.contract.samples import created, entry, everything_in_one_batch, make_run, take, updated
from tests.helpers.places import until_true
from tests.helpers.postgres import Server, programs

pytestmark = pytest.mark.behaviour("LEA-2")


def one_run(run_id: str, position: int) -> Batch:
    batch = created(make_run(run_id))
    batch.history = [(run_id, [entry(1, None, State.PENDING)])]
    batch.position = position
    return batch


def patient(url: str) -> PostgresStore:
    """A store that gives up on no call because the machine is busy."""
    return PostgresStore(url, write_seconds=300.0)


@pytest.fixture
def store(request: pytest.FixtureRequest, postgres_url: str) -> PostgresStore:
    return open_in(request, patient(postgres_url))


async def ids(store: PostgresStore) -> list[str]:
    return [run.id for run in (await store.load(100)).runs]


@asynccontextmanager
async def beside(url: str) -> AsyncIterator[Any]:
    """A connection of somebody else to the same schema."""
    address = read_address(url)
    connection = await asyncpg.connect(address.url, server_settings={"search_path": address.schema})
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def stuck_commit(store: PostgresStore, url: str, lease: Lease) -> AsyncIterator[tuple[Any, Any]]:
    """A commit that has passed the fence and waits for a lock on the history, until the transaction of the connection
    ends."""
    async with beside(url) as other:
        await other.execute("BEGIN; LOCK TABLE history")
        commit = asyncio.ensure_future(store.commit(one_run("r2", 2), lease))

        async def waits() -> bool:
            return await _waiting(other) is not None

        await until_true(waits, "the commit waits for the lock")
        yield other, commit


async def _waiting(connection: Any) -> int | None:
    """Return the process of the server that waits for the history, and so has passed the fence."""
    found: int | None = await connection.fetchval(
        "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'history'::regclass"
    )
    return found


async def test_a_commit_whose_connection_is_ended_has_an_unknown_outcome_and_goes_on_after_a_new_epoch(
    store: PostgresStore, postgres_url: str
) -> None:
    lease = await take(store)
    await store.commit(one_run("r1", 1), lease)
    async with stuck_commit(store, postgres_url, lease) as (other, commit):
        await other.fetchval("SELECT pg_terminate_backend($1)", await _waiting(other))
        with pytest.raises(OutcomeUnknown, match="terminating connection"):
            await commit
        await other.execute("ROLLBACK")
    lease = await take(store)
    assert await ids(store) == ["r1"]
    await store.commit(one_run("r2", 2), lease)
    assert await ids(store) == ["r1", "r2"]


def test_a_commit_that_takes_too_long_has_an_unknown_outcome_and_cannot_take_effect_after_a_new_epoch(
    postgres_url: str,
) -> None:
    async def body(store: PostgresStore) -> None:
        lease = await take(store)
        await store.commit(one_run("r1", 1), lease)
        async with stuck_commit(store, postgres_url, lease) as (other, commit):
            with pytest.raises(OutcomeUnknown, match=r"no answer in 0\.5 s"):
                await commit
            await other.execute("ROLLBACK")
        second = await take(store)
        found = await ids(store)
        with pytest.raises(StaleEpoch):
            await store.commit(one_run("r3", 3), lease)
        assert await ids(store) == found
        assert second.epoch == lease.epoch + 1

    run_with(PostgresStore(postgres_url, write_seconds=0.5), body)


async def test_a_commit_that_fails_after_its_caller_gave_up_is_no_fault(
    store: PostgresStore, postgres_url: str
) -> None:
    found: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context["message"]))
    lease = await take(store)
    async with stuck_commit(store, postgres_url, lease) as (other, commit):
        commit.cancel()
        await other.fetchval("SELECT pg_terminate_backend($1)", await _waiting(other))
        await other.execute("ROLLBACK")
    await take(store)  # after the commit has failed
    gc.collect()
    await asyncio.sleep(0)
    assert found == []


async def test_a_take_over_waits_for_a_commit_that_has_passed_the_fence_and_loads_it(
    store: PostgresStore, postgres_url: str
) -> None:
    lease = await store.take("scheduler", "tester", "t1", 0.0)
    assert lease is not None
    second = patient(postgres_url)
    await second.open()
    try:
        async with stuck_commit(store, postgres_url, lease) as (other, commit):
            taken = asyncio.ensure_future(second.take("scheduler", "other", "t2", 10.0))

            async def waits() -> bool:
                query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid))"
                return bool(await other.fetchval(query, await _waiting(other)))

            await until_true(waits, "the take waits for the commit")
            assert not taken.done()
            await other.execute("ROLLBACK")
            await commit
            assert await taken is not None
        assert await ids(second) == ["r2"]
        with pytest.raises(StaleEpoch):
            await store.commit(one_run("r3", 3), lease)
    finally:
        await second.close()


@pytest.mark.behaviour("LEA-7")
@pytest.mark.parametrize("notice", ["WARNING", "NOTICE"])
async def test_a_commit_that_comes_back_with_a_warning_has_an_unknown_outcome(
    store: PostgresStore, postgres_url: str, notice: str
) -> None:
    lease = await take(store)
    async with beside(postgres_url) as other:
        await other.execute(f"""
            CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE {notice} 'canceling wait'; RETURN NULL; END $$;
            CREATE TRIGGER warn AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION warn()""")
    if notice == "WARNING":
        with pytest.raises(OutcomeUnknown, match="canceling wait"):
            await store.commit(one_run("r1", 1), lease)
    else:
        await store.commit(one_run("r1", 1), lease)
    await take(store)
    assert await ids(store) == ["r1"]


async def test_a_server_that_went_back_is_noticed_before_anything_is_stored(
    store: PostgresStore, postgres_url: str
) -> None:
    lease = await take(store)
    await store.commit(one_run("r1", 1), lease)
    await store.commit(one_run("r2", 2), lease)
    async with beside(postgres_url) as other:
        await other.execute("DELETE FROM history WHERE position = 2; UPDATE leases SET position = 1")
    with pytest.raises(OutcomeUnknown, match="ends at position 1, but 2 was stored"):
        await store.commit(one_run("r3", 3), lease)
    lease = await take(store)
    assert (await store.load(100)).position == 1
    await store.commit(one_run("r3", 2), lease)


async def test_a_caller_that_gives_up_does_not_cut_the_commit_off(store: PostgresStore, postgres_url: str) -> None:
    lease = await take(store)
    async with stuck_commit(store, postgres_url, lease) as (other, commit):
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await other.execute("ROLLBACK")
    await store.commit(one_run("r3", 3), lease)
    assert await ids(store) == ["r2", "r3"]


async def test_commits_are_stored_in_the_order_of_their_calls(store: PostgresStore) -> None:
    lease = await take(store)
    await asyncio.gather(*(store.commit(one_run(f"r{number}", number), lease) for number in range(1, 20)))
    assert await ids(store) == [f"r{number}" for number in range(1, 20)]


async def test_a_table_dropped_under_the_leader_is_named(store: PostgresStore, postgres_url: str) -> None:
    lease = await take(store)
    await store.commit(one_run("r1", 1), lease)
    async with beside(postgres_url) as other:
        await other.execute("DROP TABLE history")
    with pytest.raises(StoreUnavailable, match='relation "history" does not exist; the table was dropped'):
        await store.commit(one_run("r2", 2), lease)
    with pytest.raises(StoreUnavailable, match="no table history"):
        await store.history("r1")
    async with beside(postgres_url) as other:
        assert await other.fetchval("SELECT array_agg(id) FROM runs") == ["r1"]


async def test_no_write_goes_through_a_table_even_if_it_was_empty_when_the_plan_was_made(
    store: PostgresStore, postgres_url: str
) -> None:
    lease = await take(store)
    await store.commit(everything_in_one_batch(), lease)
    position = 100
    for number in range(3):
        runs = [make_run(f"r{number}-{index}", seq=1) for index in range(50)]
        batch = created(*runs)
        batch.history = [(run.id, [entry(1, None, State.PENDING)]) for run in runs]
        batch.logs.lines = [(run.id, 1, 1, 1.0, "info", "line", "") for run in runs]
        batch.keys.taken = [("default", run.id, run.id, b"digest", 1.0) for run in runs]
        batch.position = position
        await store.commit(batch, lease)
        for group in UPDATES:
            later = [make_run(run.id, seq=2, ended_at=1.0) for run in runs]
            await store.commit(updated(*later, group=group), lease)
        position += 100
    assert (await store.prune(PruneLimits(ended_before=1e12, keys_before=1e12), lease)).runs == 149
    assert store._writer is not None
    await store._writer.execute("SELECT pg_stat_force_next_flush()")
    async with beside(postgres_url) as other:
        rows = await other.fetch(
            "SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = current_schema "
            "AND seq_tup_read > 0 AND relname NOT IN ('leases', 'schema_version')"
        )
    assert [dict(row) for row in rows] == []


@pytest.mark.behaviour("POL-8")
async def test_the_audit_cannot_be_changed(store: PostgresStore, postgres_url: str) -> None:
    async with beside(postgres_url) as other:
        for change in ("UPDATE audit SET actor = 'x'", "DELETE FROM audit", "TRUNCATE audit"):
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await other.execute(change)


@pytest.fixture
def crashing_server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip("needs PostgreSQL's own programs")
    server = Server("fsync=off", "shared_buffers=16MB", "max_connections=20", "restart_after_crash=on")
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.behaviour("REC-1")
def test_whatever_is_killed_nothing_acknowledged_is_lost_and_nothing_is_doubled(crashing_server: Server) -> None:
    acknowledged: list[str] = []
    unknown: list[str] = []
    refused: list[str] = []

    async def body(store: PostgresStore) -> None:
        lease = await take(store)
        position = 0

        async def write(count: int) -> None:
            nonlocal position
            for _ in range(count):
                run_id = f"r{len(acknowledged) + len(unknown) + len(refused):04}"
                try:
                    await store.commit(one_run(run_id, position + 1), lease)
                except OutcomeUnknown:
                    unknown.append(run_id)
                    return
                except StoreUnavailable:
                    refused.append(run_id)
                    return
                acknowledged.append(run_id)
                position += 1

        writing: asyncio.Future[None]

        async def has_written(count: int) -> bool:
            """The server may notice only now that one of its processes was killed, and end all others."""
            nonlocal lease, position, writing
            if writing.done():
                lease, snapshot = await _taken(store)
                position = snapshot.position
                writing = asyncio.ensure_future(write(1000))
            return len(acknowledged) >= count

        for number in range(6):
            writing = asyncio.ensure_future(write(1000))
            await until_true(partial(has_written, len(acknowledged) + 3 + 5 * number), "some commits")
            if number % 2:
                crashing_server.stop(signal.SIGKILL)
                await writing
                crashing_server.start()
            else:
                assert store._writer is not None
                os.kill(store._writer.get_server_pid(), signal.SIGKILL)  # the server starts all others anew
                await writing
            lease, snapshot = await _taken(store)
            found, position = snapshot.runs, snapshot.position
            assert len({run.id for run in found}) == len(found) == position
            assert set(acknowledged) <= {run.id for run in found} <= {*acknowledged, *unknown}
        assert unknown, "some commits were under way"
        histories = [await store.history(run_id) for run_id in acknowledged]
        assert {len(history) for history in histories} == {1}

    run_with(patient(crashing_server.url), body)


async def _taken(store: PostgresStore) -> tuple[Lease, Snapshot]:
    """Take the lease and load as soon as the server is there again, with connections that are whole."""
    found: list[tuple[Lease, Snapshot]] = []

    async def is_taken() -> bool:
        with suppress(StoreUnavailable):
            found.append((await take(store), await store.load(100)))
        return bool(found)

    await until_true(is_taken, "the server is there again")
    return found[-1]


@pytest.mark.behaviour("REC-8")
async def test_a_server_that_has_gone_back_is_found_at_the_next_write_and_at_the_take(
    store: PostgresStore, postgres_url: str
) -> None:
    """Whoever leads knows what was confirmed to it, and who stands by what it has seen."""
    second = patient(postgres_url)
    await second.open()
    try:
        lease = await store.take("scheduler", "tester", "t1", 1000.0)
        assert lease is not None
        await store.commit(one_run("r1", 1), lease)
        await store.commit(one_run("r2", 9), lease)
        assert await second.take("scheduler", "other", "t2", 10.0) is None
        async with beside(postgres_url) as other:
            await other.execute("DELETE FROM history WHERE position = 9; UPDATE leases SET position = 1")
        with pytest.raises(OutcomeUnknown, match="the server went back to an earlier state"):
            await store.commit(one_run("r3", 10), lease)
        with pytest.raises(OutcomeUnknown, match="the server went back to an earlier state"):
            await store.renew(lease, 1000.0)
        again = await store.take("scheduler", "tester", "t1", 1000.0, again=True)
        assert again is not None
        assert again.lost == 8
        await store.release(again)
        taken = [await second.take("scheduler", "other", "t2", 10.0) for _ in range(2)]
        assert [one and one.lost for one in taken] == [8, 0]
    finally:
        await second.close()


@asynccontextmanager
async def behind_a_take(store: PostgresStore, url: str, is_released: bool = False) -> AsyncIterator[tuple[Lease, Any]]:
    """A server without the last take of the lease, and without the commit after it: an earlier holder, which is gone,
    seems to have it, or to have released it."""
    earlier = patient(url)
    await earlier.open()
    first = await earlier.take("scheduler", "earlier", "t0", 1000.0)
    assert first is not None
    async with beside(url) as other:
        await other.execute("CREATE TABLE kept AS SELECT * FROM leases")
        await earlier.release(first)
        await earlier.close()
        for _ in range(2):
            lease = await store.take("scheduler", "tester", "t1", 1000.0)
        assert lease is not None
        assert lease.epoch == 3
        await store.commit(one_run("r1", 7), lease)
        await other.execute("TRUNCATE history, leases; INSERT INTO leases SELECT * FROM kept; DROP TABLE kept")
        if is_released:
            await other.execute("UPDATE leases SET holder = '', token = '', ends_at = 0")
        yield lease, other


@pytest.mark.behaviour("REC-8")
async def test_a_server_that_has_gone_back_behind_the_take_of_its_leader_is_found_by_every_write(
    store: PostgresStore, postgres_url: str
) -> None:
    """It knows an earlier holder, which is not one that has led since."""
    async with behind_a_take(store, postgres_url) as (lease, _):
        for write in (store.renew(lease, 1000.0), store.commit(one_run("r2", 8), lease)):
            with pytest.raises(OutcomeUnknown, match="the server went back to an earlier state"):
                await write


@pytest.mark.behaviour("REC-8", "LEA-2")
@pytest.mark.parametrize("is_released", [False, True])
async def test_a_leader_takes_its_lease_again_from_a_server_that_has_gone_back_behind_its_take(
    store: PostgresStore, postgres_url: str, is_released: bool
) -> None:
    """Once the earlier holder has been gone for 2 s, with an epoch that the lost time has not used."""
    refused, found = list[str](), list[Lease | None]()

    async def is_taken() -> bool:
        try:
            found.append(await store.take("scheduler", "tester", "t1", 1000.0, again=True))
        except StoreUnavailable as error:
            refused.append(str(error))
        return bool(found)

    async with behind_a_take(store, postgres_url, is_released):
        await until_true(is_taken, "it is taken again")
        (again,) = found
        assert again is not None
        assert (again.epoch, again.lost) == (4, 7)
        assert (refused == []) is is_released
        assert all("the server went back" in why for why in refused)
        await store.commit(one_run("r2", 8), again)


@pytest.mark.behaviour("REC-8", "LEA-2")
async def test_a_leader_does_not_follow_one_that_has_taken_the_lease_since_its_server_went_back(
    store: PostgresStore, postgres_url: str
) -> None:
    second = patient(postgres_url)
    async with behind_a_take(store, postgres_url, is_released=True):
        await second.open()
        try:
            taken = await second.take("scheduler", "other", "t2", 1000.0)
            assert taken is not None
            assert taken.epoch == 2
            assert await store.take("scheduler", "tester", "t1", 1000.0, again=True) is None
        finally:
            await second.close()


@pytest.mark.behaviour("REC-8")
async def test_a_standby_uses_no_epoch_again_that_it_has_seen(store: PostgresStore, postgres_url: str) -> None:
    async with beside(postgres_url) as other:
        second = patient(postgres_url)
        await second.open()
        try:
            for _ in range(3):
                await store.take("scheduler", "tester", "t1", 1000.0)
            assert await second.take("scheduler", "other", "t2", 1000.0) is None
            await other.execute("UPDATE leases SET epoch = 1, holder = '', token = ''")
            taken = await second.take("scheduler", "other", "t2", 1000.0)
            assert taken is not None
            assert taken.epoch == 4
        finally:
            await second.close()
