"""A full disk under PostgreSQL: what was acknowledged stays, and the scheduler goes on when there is room."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.error import OutcomeUnknown, StoreUnavailable
from interlock.stores.postgres import PostgresStore
from tests.contract.conftest import run_with
from tests.contract.samples import created, make_run, take
from tests.contract.test_postgres_writes import one_run
from tests.helpers.places import until_true
from tests.helpers.postgres import NOBODY, Server, execute, programs


def mount(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["tables", "log"])
def full(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str, Path]]:
    """A server, a URL of it, and the small disk on which it has its tables, or its log."""
    if os.geteuid() != 0 or programs() is None:
        pytest.skip("needs root, and PostgreSQL's own programs")
    server = Server("fsync=off", "full_page_writes=off", "autovacuum=off", "max_wal_size=32MB", "min_wal_size=32MB")
    small, log = server.home / "small", server.home / "data" / "pg_wal"
    small.mkdir()
    size = {"tables": "40m", "log": "22m"}[request.param]
    if not mount("-t", "tmpfs", "-o", f"size={size},mode=700,uid={NOBODY},gid={NOBODY}", "tmpfs", str(small)):
        server.remove()
        pytest.skip("may not mount")
    try:
        if request.param == "log":
            subprocess.run(["cp", "-a", log, small / "log"], check=True)
            shutil.rmtree(log)
            log.symlink_to(small / "log")
        server.start()
        url = server.url
        if request.param == "tables":
            execute(url, f"CREATE TABLESPACE small LOCATION '{small}'")
            execute(url, "CREATE DATABASE d TABLESPACE small")
            url = url.replace("/postgres?", "/d?")
        yield server, url, small
    finally:
        server.stop()
        subprocess.run(["umount", small], check=True)
        server.remove()


def test_nothing_acknowledged_is_lost(full: tuple[Server, str, Path]) -> None:
    server, url, small = full

    async def body(store: PostgresStore) -> None:
        lease, stored = await take(store), 0

        async def fill() -> None:
            nonlocal stored
            while stored < 1000:
                large = created(make_run(f"r{stored}", payload=b'"' + os.urandom(150_000).hex().encode() + b'"'))
                large.position = stored + 1
                await store.commit(large, lease)
                stored += 1

        with pytest.raises((StoreUnavailable, OutcomeUnknown), match="No space left on device"):
            await fill()
        assert stored
        assert mount("-o", "remount,size=400m", str(small))

        async def works() -> bool:
            if server.process is not None and server.process.poll() is not None:
                server.start()  # it ends when its log finds no room
            try:
                again = await take(store)
                snapshot = await store.load(10)
                await store.commit(one_run("last", snapshot.position + 1), again)
            except (StoreUnavailable, OutcomeUnknown):
                return False
            assert {run.id for run in snapshot.runs} >= {f"r{number}" for number in range(stored)}
            return True

        await until_true(works, "it works again")

    run_with(PostgresStore(url), body)
