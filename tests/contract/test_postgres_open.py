"""Opening a store on a server: what is refused, with what to do, and what only warns."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from interlock.error import CannotOpenDatabase, DatabaseTooNew, InterlockError, NotADatabase, StoreUnavailable
from interlock.ports.store import RunFilter
from interlock.stores.postgres import PostgresReader, PostgresStore
from interlock.stores.postgres.address import read_address
from interlock.stores.postgres.database import migrations
from tests.contract.conftest import run_with
from tests.contract.samples import created, make_run, take
from tests.helpers.places import until_true
from tests.helpers.postgres import Server, execute, programs, with_options
from tests.helpers.server import interlock


@contextmanager
def role(server: str, options: str = "") -> Iterator[str]:
    """Yield the name of a role of its own."""
    name = f"r_{uuid4().hex}"
    execute(server, f"CREATE ROLE {name} LOGIN {options}")
    yield name
    execute(server, f"DROP OWNED BY {name}; DROP ROLE {name}")


def as_role(url: str, name: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}").geturl()


def refusal(url: str) -> InterlockError:
    """Return the error with which a store refuses to open; it is on one line, and leaves nothing open."""

    async def body() -> InterlockError:
        store = PostgresStore(url)
        with pytest.raises(InterlockError) as caught:
            await store.open()
        return caught.value

    error = asyncio.run(body())
    assert "\n" not in str(error)
    return error


def schema_of(url: str) -> str:
    return read_address(url).schema


async def has_run(store: PostgresStore) -> bool:
    with suppress(StoreUnavailable):
        return await store.run("r1") is not None
    return False


async def nothing(store: object) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": "/nowhere"}, ["No such file"]),
        ({"host": "127.0.0.1", "port": "1"}, ["Connect call failed ('127.0.0.1', 1)", "is PostgreSQL running there?"]),
        ({"database": "nowhere"}, ['database "nowhere" does not exist', "createdb"]),
        ({"user": "nobody at all"}, ['role "nobody at all" does not exist']),
    ],
)
def test_a_wrong_place_is_named(postgres_server: str, change: dict[str, str], words: list[str]) -> None:
    place = {"user": "postgres", "host": parse_qs(urlsplit(postgres_server).query)["host"][0]} | change
    error = refusal(with_options(f"postgresql:///{place.pop('database', 'postgres')}", **place))
    assert isinstance(error, CannotOpenDatabase)
    assert all(word in str(error) for word in words), str(error)


def test_a_role_that_may_not_make_the_schema_is_told_what_it_needs(postgres_server: str, postgres_url: str) -> None:
    with role(postgres_server) as name:
        error = refusal(as_role(postgres_url, name))
        assert "permission denied" in str(error)
        assert "let the role create schemas" in str(error)


def test_a_role_that_may_only_read_is_refused_and_reads(postgres_server: str, postgres_url: str) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    schema = schema_of(postgres_url)
    with role(postgres_server) as name:
        execute(postgres_server, f"GRANT USAGE ON SCHEMA {schema} TO {name}")
        execute(postgres_server, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
        url = as_role(postgres_url, name)

        async def read() -> None:
            reader = PostgresReader(url)
            await reader.open()
            assert (await reader.runs(RunFilter(), None, 10)).runs == []
            await reader.close()

        asyncio.run(read())

        async def write(store: PostgresStore) -> None:
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await take(store)

        run_with(PostgresStore(url), write)
    with role(postgres_server, "SUPERUSER") as name:
        execute(postgres_server, f"ALTER ROLE {name} SET default_transaction_read_only = on")
        assert "give the address of the primary" in str(refusal(as_role(postgres_url, name)))


def test_too_many_connections(postgres_server: str, postgres_url: str) -> None:
    with role(postgres_server, "CONNECTION LIMIT 0") as name:
        error = refusal(as_role(postgres_url, name))
        assert "too many connections" in str(error)
        assert "max_connections" in str(error)


def test_a_schema_of_another_program_is_refused_and_left_alone(postgres_server: str, postgres_url: str) -> None:
    schema = schema_of(postgres_url)
    for table in ("runs (id int)", "schema_version (version int, name text)", "schema_version (version int)"):
        execute(postgres_server, f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table}")
        error = refusal(postgres_url)
        assert isinstance(error, NotADatabase)
        assert f"schema {schema} has" in str(error)
        assert "?schema=NAME" in str(error)
        execute(postgres_server, f"DROP TABLE {schema}.{table.split()[0]}; DROP SCHEMA {schema}")


def test_a_schema_of_a_newer_version_is_used_only_if_it_says_so(postgres_server: str, postgres_url: str) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    table = f"{schema_of(postgres_url)}.schema_version"
    execute(postgres_server, f"UPDATE {table} SET version = 9, oldest_reader = 1")
    run_with(PostgresStore(postgres_url), nothing)
    execute(postgres_server, f"UPDATE {table} SET version = 9, oldest_reader = 8")
    error = refusal(postgres_url)
    assert isinstance(error, DatabaseTooNew)
    assert "schema version 9" in str(error)
    with pytest.raises(DatabaseTooNew):
        asyncio.run(PostgresReader(postgres_url).open())


def test_a_schema_that_is_there_only_in_part_is_refused(postgres_server: str, postgres_url: str) -> None:
    run_with(PostgresStore(postgres_url), nothing)
    execute(postgres_server, f"DROP TABLE {schema_of(postgres_url)}.audit, {schema_of(postgres_url)}.logs")
    error = refusal(postgres_url)
    assert isinstance(error, NotADatabase)
    assert "no table audit, logs" in str(error)
    assert "restore a backup" in str(error)


@pytest.mark.behaviour("CLU-3")
def test_a_script_that_a_cluster_has_run_does_not_change() -> None:
    """Nodes of two versions use one schema, and each has run its own scripts. A change is another script."""
    digests = [hashlib.sha256(script.encode()).hexdigest()[:16] for script in migrations()]
    assert digests[:1] == ["cd90d1ebf7a75833"]


def test_a_script_that_fails_leaves_nothing_behind(
    postgres_server: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = ["CREATE TABLE one (id int)", "CREATE TABLE one (id int)"]
    monkeypatch.setattr("interlock.stores.postgres.store.migrations", lambda: scripts)
    assert 'relation "one" already exists' in str(refusal(postgres_url))
    monkeypatch.undo()
    run_with(PostgresStore(postgres_url), nothing)


async def test_many_that_open_a_new_schema_at_once_make_it_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].commit(created(make_run("r1")), await take(stores[0]))
    assert [run.id for run in (await stores[3].load(10)).runs] == ["r1"]
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_reader_waits_for_the_scheduler_to_make_the_schema(postgres_url: str) -> None:
    reader = PostgresReader(postgres_url)
    await reader.open()
    with pytest.raises(StoreUnavailable, match="the scheduler brings it up to date"):
        await reader.position()
    store = PostgresStore(postgres_url)
    await store.open()
    assert await reader.position() == 0
    await store.close()
    await reader.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await reader.position()


def test_settings_that_lose_commits_are_named_and_one_is_changed(
    postgres_server: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with role(postgres_server, "SUPERUSER") as name:
        execute(postgres_server, f"ALTER ROLE {name} SET synchronous_commit = off")

        async def body(store: PostgresStore) -> None:
            assert store._writer is not None
            assert await store._writer.fetchval("SHOW synchronous_commit") == "on"

        run_with(PostgresStore(as_role(postgres_url, name)), body)
    assert "synchronous_commit is off" in caplog.text
    if "fsync" in caplog.text:  # the server of the tests has it off; one that was given may not
        assert "fsync is off on the server: acknowledged runs can be lost" in caplog.text


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip("needs PostgreSQL's own programs")
    server = Server("fsync=off", "shared_buffers=16MB", "max_connections=20", "password_encryption=scram-sha-256")
    try:
        yield server
    finally:
        server.remove()


def test_passwords_come_from_the_url_the_file_and_the_environment_and_are_not_shown(
    own_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    rules = own_server.home / "data" / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\nlocal all all trust\n")
    own_server.start()
    execute(own_server.url, "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 's3cret'")
    url = f"postgresql://guarded@/postgres?host={own_server.home}"
    run_with(PostgresStore(url.replace("guarded@", "guarded:s3cret@")), nothing)
    for wrong in (url.replace("guarded@", "guarded:wr0ng@"), with_options(url, password="wr0ng")):
        error = refusal(wrong)
        assert 'password authentication failed for user "guarded"' in str(error)
        assert "PGPASSFILE" in str(error)
        assert "wr0ng" not in str(error)
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    run_with(PostgresStore(url), nothing)
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "passwords"
    file.write_text("*:*:*:guarded:s3cret\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    run_with(PostgresStore(url), nothing)
    assert "s3cret" not in caplog.text
    assert "wr0ng" not in caplog.text


def test_a_replica_is_refused_and_a_leader_whose_server_became_one_stores_nothing(own_server: Server) -> None:
    own_server.stop()
    own_server.start()

    async def body(store: PostgresStore) -> None:
        lease = await take(store)
        await store.commit(created(make_run("r1")), lease)
        own_server.stop()
        (own_server.home / "data" / "standby.signal").touch()
        own_server.start()
        await until_true(lambda: has_run(store), "it reads again")
        for _ in range(2):
            with pytest.raises(InterlockError) as caught:
                await store.commit(created(make_run("r2")), lease)
        assert "it is a replica" in str(caught.value)
        assert caught.value.code == "store_unavailable"
        assert await store.run("r2") is None

    run_with(PostgresStore(own_server.url), body)
    assert "it is a replica; give the address of the primary" in str(refusal(own_server.url))


def test_doctor_names_what_the_server_lacks(postgres_url: str, tmp_path: Path) -> None:
    found = {}
    for _ in range(2):
        ended = interlock(tmp_path, "doctor", "--db", postgres_url, "--json")
        found = {one["name"]: one for one in json.loads(ended.stdout)["checks"]}
        assert found["fsync"]["level"] == "warning"
        assert found["rights"]["level"] == found["lease"]["level"] == "ok"
        if "is empty" in found["database"]["detail"]:
            run_with(PostgresStore(postgres_url), _lead)
    assert "schema version" not in found
    assert "version 1" in found["database"]["detail"]
    assert found["lease"]["detail"] == "held by a"


async def _lead(store: PostgresStore) -> None:
    await store.take("main", "a", "token", 1000.0)
