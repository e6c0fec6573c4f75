"""A backup by PostgreSQL's own means is one of Interlock: the commands of docs/cluster.md."""

import shlex
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from interlock.stores.postgres import PostgresStore
from tests.contract.conftest import run_with
from tests.contract.samples import everything_in_one_batch, take
from tests.contract.test_postgres_writes import ids, one_run
from tests.docs.blocks import of_language
from tests.helpers.postgres import execute, programs

PAGE = "docs/cluster.md"
URL = "postgresql://interlock@db.example"


def test_a_dump_is_a_backup_and_a_scheduler_goes_on_from_it(postgres_server: str, tmp_path: Path) -> None:
    folder = programs()
    host = parse_qs(urlsplit(postgres_server).query).get("host", [""])[0]
    if folder is None or not host:
        pytest.skip("needs PostgreSQL's own programs")
    names = [f"d_{uuid4().hex}" for _ in range(2)]
    old, new = (f"postgresql://postgres@/{name}?host={host}" for name in names)
    (dump, restore) = (
        block.text for block in of_language(PAGE, "console") if "pg_dump" in block.text or "pg_restore" in block.text
    )

    def run(text: str, url: str) -> None:
        (line,) = [line for line in text.splitlines() if line.startswith("$ pg_")]
        program, *words = shlex.split(line.removeprefix("$ "), comments=True)
        given = [
            url if word.startswith(URL) else word.replace(f"--dbname={URL}/interlock", f"--dbname={url}")
            for word in words
        ]
        assert url in " ".join(given)
        subprocess.run([folder / program, *given], cwd=tmp_path, check=True, capture_output=True)

    async def fill(store: PostgresStore) -> None:
        lease = await take(store)
        await store.commit(everything_in_one_batch(), lease)
        position = (await store.load(100)).position
        await store.commit(one_run("last", position + 1), lease)
        run(dump, old)
        await store.commit(one_run("too late", position + 2), lease)

    async def go_on(store: PostgresStore) -> None:
        lease = await take(store)
        found = await ids(store)
        assert "last" in found
        assert "too late" not in found
        await store.commit(one_run("next", (await store.load(100)).position + 1), lease)
        assert await ids(store) == [*found, "next"]

    for name in names:
        execute(postgres_server, f"CREATE DATABASE {name}")
    try:
        run_with(PostgresStore(old), fill)
        run(restore, new)
        run_with(PostgresStore(new), go_on)
    finally:
        for name in names:
            execute(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")
