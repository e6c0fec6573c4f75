"""A database that moves from a file to a server: all of it or nothing, once, and never back and forth."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from interlock.error import DatabaseMoved, InterlockError, MoveUnfinished, StoreInUse
from interlock.model.audit import verify
from interlock.model.record import Memo
from interlock.model.state import State
from interlock.stores.postgres import PostgresStore
from interlock.stores.postgres.address import read_address
from interlock.stores.sqlite import SqliteStore
from interlock.stores.sqlite.backup import back_up, restore, vacuum
from interlock.stores.transfer import ARRIVED, Moved, move
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import NAME, created, entry, everything, everything_in_one_batch, make_run, take
from tests.contract.test_postgres_open import as_role, nothing, role, schema_of
from tests.contract.test_sqlite_backup import killed_at
from tests.helpers.postgres import execute, with_options
from tests.helpers.processes import wait_until
from tests.helpers.records import changes

pytestmark = pytest.mark.behaviour("CLU-4")

ODD = {"reason": "a\0b\U0001f600", "payload": bytes(range(256)), "delay": 0.1, "due_at": 1e11, "fence": 2**63 - 1}


async def fill(store: AnyStore) -> dict[str, Any]:
    """Store something of everything, texts with NUL and lines that nobody may read yet; return all of it."""
    lease = await take(store)
    await store.commit(created(make_run("old"), make_run("r1", **ODD)), lease)
    await store.commit(everything_in_one_batch(), lease)
    held = created(make_run("r2", error="\0"))
    held.position = 17
    held.logs.lines = [("r2", 1, 1, 1.0, "info", "held \0", "app")]
    held.logs.held = {"r2"}
    held.records = changes(Memo("some", b"\0value"))
    await store.commit(held, lease)
    return await everything_and_more(store)


async def everything_and_more(store: AnyStore) -> dict[str, Any]:
    memos = (await store.load(10_000)).memos
    return await everything(store) | {
        "memos": {name: value for name, value in memos.items() if not name.startswith("moved:")},
        "unscanned": await store.unscanned(["r2"]),
    }


async def at_end(store: AnyStore) -> tuple[int, int]:
    """Return the epoch of a new lease, and the position."""
    return (await take(store, "t9")).epoch, (await store.load(0)).position


@pytest.fixture
def filled(database: Path) -> dict[str, Any]:
    found: dict[str, Any] = run_with(SqliteStore(database), fill)
    return found


def of_file(database: Path) -> dict[str, Any]:
    found: dict[str, Any] = run_with(SqliteStore(database), everything_and_more)
    return found


def of_server(url: str) -> dict[str, Any]:
    found: dict[str, Any] = run_with(PostgresStore(url), everything_and_more)
    return found


def ask(url: str, text: str, *values: Any) -> Any:
    """Return the value of a statement, in the schema of a URL."""
    address = read_address(url)

    async def run() -> Any:
        connection = await asyncpg.connect(**address.options, server_settings={"search_path": address.schema})
        try:
            return await connection.fetchval(text, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def has_schema(url: str) -> bool:
    return bool(ask(url, "SELECT to_regnamespace($1) IS NOT NULL", schema_of(url)))


def refusal(database: Path | str, url: str) -> InterlockError:
    with pytest.raises(InterlockError) as caught:
        move(str(database), url)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    return caught.value


def assert_moved(database: Path, url: str, before: dict[str, Any]) -> None:
    assert of_server(url) == before
    assert ask(url, "SELECT array_agg(id) FROM records WHERE id LIKE 'moved:%'") == [ARRIVED]
    with pytest.raises(DatabaseMoved, match=f"was moved to .*{schema_of(url)}"):
        of_file(database)


def test_what_was_in_the_file_is_on_the_server_value_by_value(
    database: Path, postgres_url: str, filled: dict[str, Any]
) -> None:
    moved = move(str(database), postgres_url)
    assert_moved(database, postgres_url, filled)
    assert filled["runs"]["r1"] is not None
    assert "a\\x00b" in filled["runs"]["r1"]
    assert (moved.rows["runs"], moved.rows["history"], moved.rows["logs"], moved.rows["audit"]) == (5, 3, 3, 2)
    assert verify(filled["audit"].entries, None).faults == verify(of_server(postgres_url)["audit"].entries, None).faults


def test_the_server_continues_where_the_file_ended(database: Path, postgres_url: str, filled: dict[str, Any]) -> None:
    epochs, position = run_with(SqliteStore(database), at_end)
    move(str(database), postgres_url)
    assert run_with(PostgresStore(postgres_url), at_end) == (epochs + 1, position)
    numbers = "SELECT max(number) FROM {}"
    last = {name: ask(postgres_url, numbers.format(name)) for name in ("runs", "records", "idempotency_keys")}

    async def go_on(store: AnyStore) -> None:
        lease = await store.take(NAME, "tester", "t9", 0.0)
        assert lease is not None
        batch = created(make_run("next", idempotency_key="next"))
        batch.position = position + 1
        batch.history = [("next", [entry(1, None, State.PENDING)])]
        batch.keys.taken = [("default", "next", "next", b"digest", 1000.0)]
        batch.records = changes(Memo("next", b""))
        await store.commit(batch, lease)
        assert await store.position() == position + 1
        assert [run.id for run in (await store.load(0)).runs][-1] == "next"

    run_with(PostgresStore(postgres_url), go_on)
    for name, number in last.items():
        assert ask(postgres_url, numbers.format(name)) == number + 1, name


def test_a_file_without_a_lease_keeps_its_position(database: Path, postgres_url: str, filled: dict[str, Any]) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM leases")
        connection.commit()
    move(str(database), postgres_url)
    assert run_with(PostgresStore(postgres_url), at_end) == (1, filled["positions"][0])


def test_both_schemas_have_the_same_columns(database: Path, postgres_url: str) -> None:
    """Otherwise a new one would be left behind."""
    run_with(SqliteStore(database), nothing)
    run_with(PostgresStore(postgres_url), nothing)
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        of_sqlite = {f"{name}.{row[1]}" for name in tables for row in connection.execute(f"PRAGMA table_info({name})")}
    named = """
    SELECT array_agg(relname || '.' || attname) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND attnum > 0 AND attgenerated = ''
    """
    of_postgres = set(ask(postgres_url, named, schema_of(postgres_url)))
    assert of_sqlite <= of_postgres
    assert of_postgres - of_sqlite == {
        "leases.position", "leases.session", "schema_version.version", "schema_version.oldest_reader"
    }  # fmt: skip


def test_nothing_writes_to_a_file_that_has_moved(database: Path, postgres_url: str, filled: dict[str, Any]) -> None:
    copy, late = database.with_name("copy.db"), database.with_name("late.db")
    back_up(database, copy)
    assert move(str(database), postgres_url).rows
    data = database.read_bytes()
    for write in (lambda: vacuum(database), lambda: restore(copy, database), lambda: of_file(database)):
        with pytest.raises(DatabaseMoved):
            write()
    assert database.read_bytes() == data
    back_up(database, late)
    with pytest.raises(DatabaseMoved):
        of_file(late)
    with pytest.raises(DatabaseMoved):
        restore(late, database.with_name("new.db"))
    assert move(str(database), postgres_url) == Moved(path=str(database), to=postgres_url, rows={})
    other = with_options(postgres_url.partition("&schema=")[0], schema="elsewhere")
    assert f"was moved to {postgres_url}" in str(refusal(database, other))
    restore(copy, database.with_name("back.db"))
    assert of_file(database.with_name("back.db"))["runs"].keys() == filled["runs"].keys()


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Yield while another session keeps a move from the table of runs; most of the others are copied already."""
    begun, done = threading.Event(), threading.Event()

    async def hold() -> None:
        connection = await asyncpg.connect(**read_address(url).options)
        try:
            async with connection.transaction():
                await connection.execute(f"LOCK TABLE {schema_of(url)}.runs IN SHARE MODE")
                begun.set()
                await asyncio.to_thread(done.wait)
        finally:
            await connection.close()

    holder = threading.Thread(target=lambda: asyncio.run(hold()))
    holder.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        done.set()
        holder.join()


WAITING = """
SELECT max(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COPY "runs"%'
"""


def waiting(url: str) -> int:
    """Wait until a move waits for the table of runs; return the process of its session."""
    found: list[int] = []

    def is_waiting() -> bool:
        found[:] = [pid] if (pid := ask(url, WAITING)) is not None else []
        return bool(found)

    wait_until(is_waiting, "the move waits")
    return found[0]


def test_a_move_whose_process_is_killed_halfway_can_be_repeated(
    database: Path, postgres_url: str, filled: dict[str, Any]
) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    with held_up(postgres_url):
        mover = os.fork()
        if mover == 0:
            try:
                move(str(database), postgres_url)
            finally:
                os._exit(0)
        waiting(postgres_url)
        with pytest.raises(StoreInUse):
            of_file(database)
        assert isinstance(refusal(database, postgres_url), StoreInUse)
        os.kill(mover, signal.SIGKILL)
        os.waitpid(mover, 0)
        assert of_file(database) == filled
    assert ask(postgres_url, "SELECT count(*) FROM history") == 0
    assert move(str(database), postgres_url).rows["runs"] == 5
    assert_moved(database, postgres_url, filled)


def test_a_move_whose_session_ends_halfway_says_so_and_can_be_repeated(
    database: Path, postgres_url: str, filled: dict[str, Any]
) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    with held_up(postgres_url):
        errors: list[InterlockError] = []
        mover = threading.Thread(target=lambda: errors.append(refusal(database, postgres_url)))
        mover.start()
        ask(postgres_url, "SELECT pg_terminate_backend($1)", waiting(postgres_url))
        mover.join()
    assert isinstance(errors[0], MoveUnfinished)
    assert "terminating connection due to administrator command); mend this, then repeat" in str(errors[0])
    assert of_file(database) == filled
    move(str(database), postgres_url)
    assert_moved(database, postgres_url, filled)


def test_killed_at_any_line_a_move_can_be_repeated(database: Path, postgres_server: str) -> None:
    """The file can be used until the mark, the server after the commit, never both."""
    path, copy, seen, line = str(database), database.with_name("copy.db"), set[str](), 1
    before = run_with(SqliteStore(database), fill)
    back_up(database, copy)
    while True:
        url = with_options(postgres_server, schema=f"t_{os.getpid()}_{line}")
        try:
            if not killed_at(line, lambda url=url: move(path, url), "transfer", "_mark"):  # type: ignore[misc]
                break
            try:
                assert of_file(database) == before
                seen.add("in the file")
                assert not has_schema(url)
            except DatabaseMoved:
                seen.add("on the server" if has_schema(url) else "marked")
            seen.add("repeated" if move(path, url).rows else "complete")
            assert_moved(database, url, before)
            for end in ("", "-wal", "-shm", ".lock"):
                Path(f"{database}{end}").unlink(missing_ok=True)
            restore(copy, database)
            before = of_file(database)
        finally:
            execute(postgres_server, f"SET client_min_messages = error; DROP SCHEMA {schema_of(url)} CASCADE")
        line += 1
    assert line > 15
    assert seen == {"in the file", "marked", "on the server", "repeated", "complete"}


LIES = {
    "loses a row": "IF NEW.id = 'old' THEN RETURN NULL; END IF; RETURN NEW;",
    "changes a row": "IF NEW.id = 'old' THEN NEW.reason := 'other'; END IF; RETURN NEW;",
    "swaps a value for an equal one": "NEW.payload := set_byte(NEW.payload, 0, 1); RETURN NEW;",
}


@pytest.mark.parametrize("body", LIES.values(), ids=LIES.keys())
def test_a_server_that_stores_something_else_gets_nothing(
    database: Path, postgres_url: str, filled: dict[str, Any], body: str
) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    name = schema_of(postgres_url)
    execute(
        postgres_url.partition("&schema=")[0],
        f"CREATE FUNCTION {name}.lie() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$; "
        f"CREATE TRIGGER lie BEFORE INSERT ON {name}.runs FOR EACH ROW EXECUTE FUNCTION {name}.lie()",
    )
    error = refusal(database, postgres_url)
    assert isinstance(error, MoveUnfinished)
    stored = 4 if "NULL" in body else 5
    assert f"(table runs: 5 rows were sent and {stored} stored, with hashes " in str(error)
    assert of_file(database) == filled
    assert ask(postgres_url, "SELECT count(*) FROM audit") == 0


def test_a_target_in_use_is_refused(database: Path, postgres_url: str, filled: dict[str, Any]) -> None:
    async def one_run(store: AnyStore) -> None:
        await store.commit(created(make_run("other")), await take(store))

    run_with(PostgresStore(postgres_url), one_run)
    before = of_server(postgres_url)
    error = str(refusal(database, postgres_url))
    assert f"--to: schema {schema_of(postgres_url)} of " in error
    assert "is in use: there are rows in runs, leases; give another schema in the URL (?schema=NAME)" in error
    assert of_server(postgres_url) == before
    assert of_file(database) == filled


WAITS_FOR_LEASE = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO leases%'"


def test_a_scheduler_that_stands_by_on_the_server_takes_the_lease_after_the_move(
    database: Path, postgres_url: str, filled: dict[str, Any]
) -> None:
    async def take_while_it_moves(store: PostgresStore) -> None:
        with held_up(postgres_url):
            moved = asyncio.create_task(asyncio.to_thread(move, str(database), postgres_url))
            await asyncio.to_thread(waiting, postgres_url)
            taken = asyncio.create_task(take(store))
            waits = "the scheduler waits for the move"
            await asyncio.to_thread(wait_until, lambda: taken.done() or ask(postgres_url, WAITS_FOR_LEASE), waits)
            assert not taken.done()
        assert (await moved).rows["runs"] == 5
        assert (await taken).epoch == 2
        assert await everything_and_more(store) == filled

    run_with(PostgresStore(postgres_url), take_while_it_moves)


def test_a_file_in_use_is_refused(database: Path, postgres_url: str, filled: dict[str, Any]) -> None:
    async def body(store: AnyStore) -> None:
        error = await asyncio.to_thread(refusal, database, postgres_url)
        assert isinstance(error, StoreInUse)
        assert f"{database} is in use by another scheduler (process {os.getpid()})" in str(error)

    run_with(SqliteStore(database), body)
    assert not has_schema(postgres_url)
    assert of_file(database) == filled


def test_a_role_without_rights_is_told_what_it_needs(
    database: Path, postgres_server: str, postgres_url: str, filled: dict[str, Any]
) -> None:
    with role(postgres_server) as name:
        error = str(refusal(database, as_role(postgres_url, name)))
        assert "permission denied for database" in error
        assert "let the role create schemas" in error
        run_with(PostgresStore(postgres_url), nothing)
        schema = schema_of(postgres_url)
        execute(postgres_server, f"GRANT USAGE ON SCHEMA {schema} TO {name}")
        execute(postgres_server, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
        assert "permission denied for table leases; let the role" in str(refusal(database, as_role(postgres_url, name)))
    assert of_file(database) == filled
    assert ask(postgres_url, "SELECT count(*) FROM records WHERE id = $1", ARRIVED) == 0


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, "cannot_open_database", "no such file"),
        (b"", "not_a_database", "the file is empty"),
        (b"plain text\n", "not_a_database", "file is not a database"),
        ("CREATE TABLE own (a)", "not_a_database", "an SQLite file of another program"),
        ("PRAGMA application_id = 0x494C434B; PRAGMA user_version = 99", "database_too_new", "schema version 99"),
    ],
)
def test_what_is_no_database_of_ours_is_refused(
    database: Path, postgres_url: str, content: bytes | str | None, code: str, words: str
) -> None:
    if isinstance(content, bytes):
        database.write_bytes(content)
    elif content is not None:
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(content)
    if content is not None:
        database.chmod(0o600)
    error = refusal(database, postgres_url)
    assert (error.code, words in str(error), str(database) in str(error)) == (code, True, True), error
    assert not has_schema(postgres_url)


def test_a_file_that_has_gone_back_or_is_damaged_is_refused(database: Path, postgres_url: str) -> None:
    run_with(SqliteStore(database), fill)
    older = database.read_bytes()

    async def one_more(store: AnyStore) -> None:
        batch = created(make_run("more"))
        batch.position = 100
        batch.history = [("more", [entry(1, None, State.PENDING)])]
        await store.commit(batch, await take(store, "t2"))

    run_with(SqliteStore(database), one_more)
    newer = database.read_bytes()
    database.write_bytes(older)
    assert refusal(database, postgres_url).code == "database_behind"
    database.write_bytes(newer[: len(newer) // 2] + os.urandom(len(newer) - len(newer) // 2))
    assert refusal(database, postgres_url).code == "database_damaged"
    assert not has_schema(postgres_url)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("postgresql://ann:s3cret@db/runs", "postgresql://db/runs", "--from: postgresql://ann@db/runs is no file"),
        ("{file}", "other.db", "--to: 'other.db' is no server; use postgresql://"),
        ("{file}", "postgresql://ann:s3cret@127.0.0.1:1/runs", "is PostgreSQL running there?"),
        ("{file}", "postgresql://ann:s3cret@db/runs?schema=A", "schema: 'A' is no name of a schema"),
    ],
)
def test_a_wrong_place_is_named(database: Path, filled: dict[str, Any], source: str, target: str, words: str) -> None:
    assert words in str(refusal(source.format(file=database), target))
    assert of_file(database) == filled
