"""`interlock migrate`: a server continues on PostgreSQL with what it had in a file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import clean_folder
from tests.helpers.postgres import schema, server
from tests.helpers.processes import wait_until
from tests.helpers.server import JOBS, Command, Server, interlock

pytestmark = pytest.mark.behaviour("CLU-4")


@pytest.fixture
def url() -> Iterator[str]:
    with server() as postgres, schema(postgres) as found:
        yield found


@pytest.fixture
def place() -> Iterator[Path]:
    with clean_folder() as found:
        yield found


def with_password(url: str) -> str:
    """The same place with a password, which a server that trusts everybody does not look at."""
    return url.replace("postgres@", "postgres:s3cret@", 1)


def test_runs_and_audit_go_on_where_the_file_was_left(place: Path, url: str) -> None:
    with Server(place, "--http", "local") as file:
        first = interlock(place, "submit", "echo", "-p", "value=1", "--wait", "--json")
        assert first.returncode == 0, first.stderr
        head = interlock(place, "audit", "verify").stdout
        assert head.startswith("1\t")
        refused = interlock(place, "migrate", "--from", str(file.database), "--to", url)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.endswith("stop it or choose another file [store_in_use]\n")
    run_id = json.loads(first.stdout)["id"]

    moved = interlock(place, "migrate", "--from", str(file.database), "--to", with_password(url))
    assert moved.returncode == 0, moved.stderr
    rows = dict(line.split("\t") for line in moved.stdout.splitlines())
    assert (rows["runs"], rows["logs"]) == ("1", "0")
    again = json.loads(interlock(place, "migrate", "--from", str(file.database), "--to", url, "--json").stdout)
    assert again["rows"] == {}

    closed = interlock(place, "up", "-A", JOBS, "--db", str(file.database), "--http", "off")
    assert closed.returncode != 0
    assert f"{file.database} was moved to {url}; use --db {url}" in closed.stderr
    assert f"was moved to {url}" in interlock(place, "doctor", "--db", str(file.database)).stdout
    assert "s3cret" not in moved.stdout + moved.stderr + closed.stdout + closed.stderr

    node = Command(place, "interlock.cli", "up", "-A", JOBS, "--db", url, "--http", "local", name="node")
    node.begin()
    try:
        wait_until(lambda: interlock(place, "show", run_id, "--db", url).returncode == 0, "the run is there", 60.0)
        second = interlock(place, "submit", "echo", "-p", "value=2", "--wait", "--json", "--db", url)
        assert second.returncode == 0, second.stderr
        listed = interlock(place, "runs", "--db", url).stdout
        assert run_id in listed
        assert json.loads(second.stdout)["id"] in listed
        verified = interlock(place, "audit", "verify", "--db", url)
        assert (verified.returncode, verified.stdout) == (0, head)
    finally:
        node.stop()


def test_both_places_are_needed(tmp_path: Path) -> None:
    for given, missing in ((["--from", "a.db"], "--to"), (["--to", "postgresql://db/runs"], "--from")):
        ended = interlock(tmp_path, "migrate", *given)
        assert (ended.returncode, missing in ended.stderr) == (2, True), ended.stderr
    assert list(tmp_path.iterdir()) == []
