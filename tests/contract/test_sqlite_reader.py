"""Reading the SQLite file beside the scheduler: from other connections and processes, with the file there or not."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock.core.decisions import Batch
from interlock.error import DatabaseTooNew, NotADatabase, StoreUnavailable
from interlock.model.state import State
from interlock.ports.store import EventFilter, RunFilter
from interlock.stores.sqlite import SqliteReader, SqliteStore
from interlock.stores.sqlite.database import connect_reader, connect_writer
from interlock.stores.sqlite.queries import QUERIES, migrations
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import JOB, created, entry, everything_in_one_batch, make_run, take
from tests.helpers.lookups import definition
from tests.helpers.records import kept_services

ROOT = Path(__file__).parents[2]


def read_with(path: Path, body: Callable[[SqliteReader], Awaitable[None]]) -> None:
    async def reading() -> None:
        reader = SqliteReader(path)
        await reader.open()
        try:
            await body(reader)
        finally:
            await reader.close()

    asyncio.run(reading())


def make(path: Path, run_id: str = "r1") -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(created(make_run(run_id)), lease)

    run_with(SqliteStore(path), body)


def fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def fails(reader: SqliteReader) -> str:
    """Every call must say that the store does not work; the message comes back."""
    message = ""
    for call in (
        reader.run("r1"),
        reader.runs(RunFilter(), None, 10),
        reader.history("r1"),
        reader.logs("r1"),
        reader.events(0, 10),
        reader.events(0, 10, EventFilter("r1")),
        reader.position(),
        definition(reader, JOB.version),
        reader.service_log("web"),
        kept_services(reader),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            await call
        message = str(caught.value)
        assert "\n" not in message
    return message


async def test_a_reader_sees_what_the_store_has_as_soon_as_it_is_committed(sqlite: SqliteStore, database: Path) -> None:
    reader = SqliteReader(database)
    await reader.open()
    lease = await take(sqlite)
    assert await reader.position() == 0
    await sqlite.commit(created(make_run("old")), lease)
    assert await reader.run("old") is not None
    await sqlite.commit(everything_in_one_batch(), lease)
    for run_id in ("old", "new", "keyed", "unknown"):
        assert repr(await reader.run(run_id)) == repr(await sqlite.run(run_id))
        assert await reader.history(run_id) == await sqlite.history(run_id)
        assert await reader.logs(run_id) == await sqlite.logs(run_id)
        assert (await reader.events(0, 10, EventFilter(run_id))).events == (
            await sqlite.events(0, 10, EventFilter(run_id))
        ).events
    assert len((await reader.events(0, 10)).events) == 7
    assert await reader.service_log("web") == await sqlite.service_log("web")
    assert await kept_services(reader) == await kept_services(sqlite)
    assert [run.id for run in (await reader.runs(RunFilter(), None, 10)).runs] == ["keyed", "new", "old"]
    assert await definition(reader, JOB.version) == JOB
    assert await reader.position() == 16
    await reader.close()
    await sqlite.commit(created(make_run("more")), lease)


def test_a_reader_cannot_write(database: Path) -> None:
    make(database)
    with closing(connect_reader(database)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM runs")


async def test_nothing_stays_open_between_two_calls(sqlite: SqliteStore, database: Path) -> None:
    reader = SqliteReader(database)
    await reader.open()
    lease = await take(sqlite)
    await sqlite.commit(everything_in_one_batch(), lease)
    await asyncio.gather(*(reader.runs(RunFilter(), None, 1) for _ in range(20)))
    await asyncio.gather(*(reader.run("new") for _ in range(20)))
    await asyncio.gather(*(reader.events(0, 1) for _ in range(20)), *(reader.logs("old", 0, 1) for _ in range(20)))
    await sqlite.load(256)
    with closing(sqlite3.connect(database)) as other:
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0, "a reader that is in the middle of something keeps the log from being cut"
    assert os.stat(f"{database}-wal").st_size == 0
    await reader.close()


READING = """
import asyncio, sys
from interlock.stores.sqlite import SqliteReader

async def main():
    reader = SqliteReader(sys.argv[1])
    await reader.open()
    print("reading", flush=True)
    seen = 0
    while seen < int(sys.argv[2]):
        events = (await reader.events(seen, 1000)).events
        assert [event.position for event in events] == list(range(seen + 1, seen + 1 + len(events))), events
        assert len(events) % 2 == 0, "half a commit"
        seen += len(events)
        assert await reader.position() >= seen
        live = await reader.runs(reading, None, 10)
        assert len(live.runs) == 1
    await reader.close()
    print("read", seen, flush=True)

from interlock.ports.store import RunFilter
reading = RunFilter(live=True)
asyncio.run(main())
"""


async def test_another_process_reads_whole_commits_in_order_while_they_are_written(
    sqlite: SqliteStore, database: Path
) -> None:
    commits = 300
    lease = await take(sqlite)
    await sqlite.commit(created(make_run("r1")), lease)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READING, str(database), str(2 * commits), cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"reading\n"
    for number in range(1, commits + 1):
        batch = Batch(history=[("r1", [entry(number, None, State.PENDING)])], position=2 * number - 1)
        batch.logs.lines = [("r1", 1, number, 1.0, "info", "line", "app")]
        await sqlite.commit(batch, lease)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert output == b"read %d\n" % (2 * commits)


def test_a_missing_file_is_not_made_and_is_read_once_it_is_there(database: Path) -> None:
    async def body(reader: SqliteReader) -> None:
        assert "No such file" in await fails(reader)
        assert list(database.parent.iterdir()) == []
        fill(database, b"")
        assert "not up to date" in await fails(reader)
        assert os.stat(database).st_size == 0
        await asyncio.to_thread(make, database)
        assert await reader.run("r1") is not None

    read_with(database, body)


def test_a_file_that_is_moved_away_or_replaced_is_noticed(database: Path) -> None:
    make(database)
    aside = database.with_name("aside.db")

    async def body(reader: SqliteReader) -> None:
        assert await reader.run("r1") is not None
        os.rename(database, aside)
        assert "No such file" in await fails(reader)
        os.rename(aside, database)
        assert await reader.run("r1") is not None
        os.rename(database, aside)
        await asyncio.to_thread(make, database, "r2")
        assert await reader.run("r1") is None
        assert await reader.run("r2") is not None
        os.rename(aside, database)
        assert await reader.run("r1") is not None

    read_with(database, body)


def test_a_scheduler_that_stops_and_starts_again_is_read_on(database: Path) -> None:
    make(database)

    async def body(reader: SqliteReader) -> None:
        for run_id in ("r2", "r3"):
            assert await reader.run(run_id) is None
            await asyncio.to_thread(make, database, run_id)
            assert await reader.run(run_id) is not None

    read_with(database, body)


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("index", ["kept", "lost"])
def test_what_a_killed_scheduler_committed_is_read_before_the_next_one_starts(database: Path, index: str) -> None:
    script = f"""
import asyncio, os
from interlock.stores.sqlite import SqliteStore
from tests.contract.samples import NAME, created, make_run, take

async def body():
    store = SqliteStore({str(database)!r})
    await store.open()
    lease = await take(store)
    await store.commit(created(make_run("r1")), lease)
    os._exit(9)

asyncio.run(body())
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False, timeout=120)
    assert ended.returncode == 9
    if index == "lost":
        Path(f"{database}-shm").unlink()

    async def body(reader: SqliteReader) -> None:
        assert await reader.run("r1") is not None

    read_with(database, body)
    make(database, "r2")
    read_with(database, body)


def test_a_closed_reader_says_so_and_can_be_opened_again(database: Path) -> None:
    make(database)

    async def body() -> None:
        reader = SqliteReader(database)
        assert "closed" in await fails(reader)
        await reader.close()
        for _ in range(2):
            await reader.open()
            assert await reader.run("r1") is not None
            await reader.close()
            await reader.close()
        assert "closed" in await fails(reader)

    asyncio.run(body())


def test_files_that_are_not_ours_are_refused_at_the_start(database: Path) -> None:
    async def body() -> None:
        reader = SqliteReader(database)
        fill(database, b"something else entirely" * 100)
        with pytest.raises(NotADatabase):
            await reader.open()
        os.unlink(database)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE other (id)")
        with pytest.raises(NotADatabase, match="another program"):
            await reader.open()
        os.unlink(database)
        await asyncio.to_thread(make, database)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
        with pytest.raises(DatabaseTooNew):
            await reader.open()
        assert "closed" in await fails(reader)

    asyncio.run(body())


def test_a_file_that_is_not_ours_in_its_place_makes_the_store_unavailable(database: Path) -> None:
    make(database)
    aside = database.with_name("aside.db")

    async def body(reader: SqliteReader) -> None:
        assert await reader.run("r1") is not None
        os.rename(database, aside)
        fill(database, b"something else entirely" * 100)
        assert "not an Interlock database" in await fails(reader)
        os.rename(aside, database)
        assert await reader.run("r1") is not None

    read_with(database, body)


def test_no_statement_of_a_reader_goes_through_a_whole_table(database: Path) -> None:
    names = ["run", "history", "logs", "positions", "transitions", "transitions_of_run", "lines", "lines_of_run"]
    names += ["services", "services_of_service", "last_of_service", "violations", "violations_of_run"]
    statements = {name: QUERIES[f"get_{name}"] for name in names}
    listings = {name: text for name, text in QUERIES.items() if re.fullmatch(r"list \w*runs\w*", name)}
    assert len(listings) == 7
    statements |= listings | {f"floor {name[5:]}": QUERIES[f"floor {name[5:]}"] for name in listings}
    with closing(connect_writer(database)) as connection:
        for name, statement in statements.items():
            values = dict.fromkeys(
                [
                    "states",
                    "job_id",
                    "tenant",
                    "created_by",
                    "session",
                    "lane",
                    "since",
                    "until",
                    "live",
                    "is_step",
                    "parent",
                    "root",
                ]
            )
            numbers = dict.fromkeys(["before", "floor", "most", "most_with_prefix", "limit", "after", "reach"], 1)
            given = (
                ("r1",) if "?" in statement else values | numbers | {"run_id": "r1", "id_prefix": "r", "service": "web"}
            )
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
            tables = ("SCAN runs", "SCAN history", "SCAN logs", "SCAN service_log")
            assert not [step for step in plan if step.startswith(tables)], name
            if name in listings or "service" in name:
                assert not [step for step in plan if "TEMP B-TREE" in step], "found in order"


def test_a_log_that_a_reader_made_long_is_cut_as_soon_as_there_is_a_moment_without(database: Path) -> None:
    limit = 1_000_000

    async def body(store: AnyStore) -> None:
        lease = await take(store)
        with closing(connect_reader(database)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchone()
            for number in range(20):
                run = make_run(f"r{number}", payload=b'{"x":"' + b"y" * 100_000 + b'"}')
                await store.commit(created(run), lease)
            assert os.stat(f"{database}-wal").st_size > limit
            reader.execute("ROLLBACK")
            end = asyncio.get_running_loop().time() + 30
            number = 20
            while os.stat(f"{database}-wal").st_size > limit:
                assert asyncio.get_running_loop().time() < end, "the log stays as it is"
                await store.commit(created(make_run(f"r{number}")), lease)
                number += 1
        assert len((await store.load(0)).runs) == number

    run_with(SqliteStore(database, longest_log=limit), body)
