"""Other ways to a server than its socket: TLS, and a pooler. They need Debian's programs."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from interlock.error import CannotOpenDatabase
from interlock.ports.store import RunFilter
from interlock.stores.postgres import PostgresReader, PostgresStore
from interlock.stores.postgres.address import read_address
from interlock.stores.postgres.database import settings
from interlock.stores.postgres.promises import look_at
from interlock.wiring.certificate import have_certificate
from tests.contract.conftest import run_with
from tests.contract.samples import take
from tests.contract.test_postgres_open import nothing, refusal
from tests.contract.test_postgres_writes import one_run
from tests.helpers.postgres import NOBODY, Server, end_with_parent, execute, with_options
from tests.helpers.processes import wait_until
from tests.remote.elsewhere import free_port

DEBIAN = Path("/usr/lib/postgresql/15/bin")
POOLER = Path("/usr/sbin/pgbouncer")
FAST = "fsync=off", "shared_buffers=16MB", "autovacuum=off"

needs_debian = pytest.mark.skipif(not (DEBIAN / "postgres").exists(), reason="needs Debian's postgresql-15")
needs_pooler = pytest.mark.skipif(not POOLER.exists(), reason="needs Debian's pgbouncer")


@pytest.fixture(scope="module")
def over_tls() -> Iterator[tuple[str, Path]]:
    """A server on TCP, which takes a role `safe` over TLS alone; and its certificate, which it has signed itself."""
    port = free_port()
    given = ("listen_addresses=127.0.0.1", f"port={port}", "ssl=on", "ssl_cert_file=own.crt", "ssl_key_file=own.key")
    server = Server(*FAST, *given, of=DEBIAN)
    data = server.home / "data"
    try:
        assert have_certificate(data / "own.crt", data / "own.key", ["db.test", "127.0.0.1"])
        for name in ("own.crt", "own.key"):
            if os.geteuid() == 0:
                shutil.chown(data / name, NOBODY, NOBODY)
        (data / "pg_hba.conf").write_text(
            "local all all trust\nhostssl all safe all trust\nhost all postgres all trust\n"
        )
        server.start()
        execute(f"{server.url}&port={port}", "CREATE ROLE safe LOGIN SUPERUSER")
        yield f"postgresql://safe@127.0.0.1:{port}/postgres", data / "own.crt"
    finally:
        server.remove()


@needs_debian
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, None),
        ({"sslmode": "require"}, None),
        ({"sslmode": "verify-full", "sslrootcert": "OWN"}, None),
        ({"sslmode": "disable"}, ["no pg_hba.conf entry", "no encryption", "see pg_hba.conf"]),
        ({"sslmode": "verify-full"}, ["root certificate file", "root.crt"]),
        ({"sslmode": "verify-full", "sslrootcert": "OTHER"}, ["certificate verify failed", "sslrootcert"]),
        ({"sslmode": "verify-full", "sslrootcert": "OWN", "host": "localhost"}, ["'localhost'", "certificate"]),
    ],
)
def test_a_server_with_tls(
    over_tls: tuple[str, Path], tmp_path: Path, options: dict[str, str], words: list[str] | None
) -> None:
    url, certificate = over_tls
    other = tmp_path / "other.crt"
    have_certificate(other, tmp_path / "other.key", ["127.0.0.1"])
    places = {"OWN": str(certificate), "OTHER": str(other)}
    given = {name: places.get(value, value) for name, value in options.items()}
    url = url.replace("127.0.0.1", given.pop("host", "127.0.0.1"))
    url = with_options(url, **given) if given else url
    if words is None:

        async def is_safe(store: PostgresStore) -> None:
            assert store._writer is not None
            assert await store._writer.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")

        run_with(PostgresStore(url), is_safe)
        return
    error = refusal(url)
    assert isinstance(error, CannotOpenDatabase)
    assert all(word in str(error) for word in words), str(error)


@needs_debian
def test_a_server_without_tls_says_what_to_do(postgres_server: str) -> None:
    port = free_port()
    server = Server(*FAST, "listen_addresses=127.0.0.1", f"port={port}", of=DEBIAN)
    try:
        server.start()
        error = refusal(f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=require")
        assert "the server offers no TLS; set it up there, or add sslmode=disable to the URL" in str(error)
    finally:
        server.remove()


@pytest.fixture(scope="module", params=["refuses", "drops"])
def pooler(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    """The server behind a pooler in transaction mode, which refuses settings that it does not know, or drops them."""
    place = Path(tempfile.mkdtemp(prefix="interlock-pool-"))
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(place, NOBODY, NOBODY)
        as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    address = read_address("postgresql:///")
    ignored = [*settings(address, writes=True), *settings(address, writes=False)] if request.param == "drops" else ["x"]
    host = parse_qs(urlsplit(postgres_server).query)["host"][0]
    (place / "users").write_text('"postgres" ""\n')
    (place / "ini").write_text(
        f"[databases]\npostgres = host={host}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {place}\n"
        f"auth_type = trust\nauth_file = {place}/users\npool_mode = transaction\n"
        f"ignore_startup_parameters = {', '.join(ignored)}\n"
    )
    command = [str(POOLER), "-q", str(place / "ini")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=end_with_parent, **as_user)
    try:
        wait_until((place / ".s.PGSQL.6432").exists, "the pooler listens")
        yield f"postgresql://postgres@/postgres?host={place}&port=6432"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(place)


@needs_pooler
def test_a_gateway_reads_through_a_pooler_in_transaction_mode(postgres_url: str, pooler: str) -> None:
    url = with_options(pooler, schema=read_address(postgres_url).schema, pooler="transaction")

    async def body(store: PostgresStore) -> None:
        lease = await take(store)
        reader = PostgresReader(url)
        await reader.open()
        for number in range(1, 21):
            await store.commit(one_run(f"r{number}", number), lease)
            positions = await asyncio.gather(*(reader.position() for _ in range(8)))
            found = await asyncio.gather(*(reader.runs(RunFilter(), None, 100) for _ in range(8)))
            assert set(positions) == {number}
            assert {len(page.runs) for page in found} == {number}
        await reader.close()
        state = await look_at(url, 10.0)
        assert (state.layout, state.may_write) == (1, True)

    run_with(PostgresStore(postgres_url), body)


@needs_pooler
@pytest.mark.parametrize("option", [{}, {"pooler": "transaction"}])
def test_a_scheduler_behind_a_pooler_is_refused(postgres_url: str, pooler: str, option: dict[str, str]) -> None:
    """Where the pooler drops settings silently too: a schema that seems to have no tables would be made anew."""
    run_with(PostgresStore(postgres_url), nothing)
    url = with_options(pooler, schema=read_address(postgres_url).schema, **option)
    error = refusal(url)
    assert isinstance(error, CannotOpenDatabase)
    assert "give the address of PostgreSQL itself" in str(error)
    assert "add pooler=transaction to its URL" in str(error)
    if not option:
        with pytest.raises(CannotOpenDatabase, match=r"is lost|unsupported startup parameter"):
            asyncio.run(PostgresReader(url).open())
