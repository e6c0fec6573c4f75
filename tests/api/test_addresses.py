"""Addresses of HTTP: which are served, which need tokens, and which are refused."""

import socket
from pathlib import Path

import pytest

from tests.api.conftest import guard
from tests.api.tokens import TOKENS
from tests.helpers.http import Http
from tests.helpers.processes import wait_until
from tests.helpers.server import JOBS, Server, interlock

RUNS = "/api/v1/runs"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_another_address_than_loopback_needs_tokens(folder: Path, address: str) -> None:
    ended = interlock(folder, "up", "-A", JOBS, "--http", address)
    assert ended.returncode == 2
    assert "[tokens_needed]" in ended.stderr
    assert address in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert list(folder.glob("*.http")) == []


def test_another_address_with_tokens(folder: Path) -> None:
    guard(folder)
    server = Server(folder, "--http", "0.0.0.0:0", "--workers", "0")
    server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
    with server:
        port = server.url.rpartition(":")[2]
        http = Http(f"http://127.0.0.1:{port}", TOKENS["boss"].text)
        assert http.get(RUNS, {"Host": "whatever.example"}).status == 200
        assert Http(http.address).get(RUNS).code == "unauthorized"


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = interlock(folder, "up", "-A", JOBS, "--http", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    assert "[port_taken]" in ended.stderr
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "--http" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_local_serves_no_port(folder: Path) -> None:
    with Server(folder, "--http", "local", "--workers", "0") as server:
        assert server.local.get("/healthz").json == {"alive": True}
        assert "http://" not in server.said
    assert not server.http_socket.exists()


def test_a_store_in_memory_is_served_as_well(folder: Path) -> None:
    arguments = ("--db", ":memory:", "--socket", str(folder / "interlock.db.sock"), "--http", "127.0.0.1:0")
    with Server(folder, *arguments) as server:
        assert server.http.ended(server.http.submit("echo", {"value": 5}))["result"] == 5
        assert server.local.get("/readyz").json["ready"] is True
        with server.http.events(after=0) as stream:
            assert stream.next().name == "run"


MOST_KNOCKS = 3000  # more than may wait, so that somebody has opened


def test_a_gateway_inside_is_let_in_however_many_knock_while_it_starts(folder: Path) -> None:
    """The scheduler cannot let anybody in while it loads what serves HTTP; those who wait fill the queue meanwhile."""
    arguments = ("--db", ":memory:", "--socket", str(folder / "interlock.db.sock"), "--http", "127.0.0.1:0")
    server = Server(folder, *arguments)
    knocking: list[socket.socket] = []

    def is_full() -> bool:
        """Knock until it is, or until somebody opens."""
        for _ in range(200):
            one = socket.socket(socket.AF_UNIX)
            knocking.append(one)
            one.setblocking(False)
            try:
                one.connect(str(server.socket))
            except BlockingIOError:
                return True
            except OSError:  # there is nothing to knock at yet
                knocking.pop().close()
                return False
        return len(knocking) > MOST_KNOCKS

    try:
        server.begin()
        wait_until(is_full, "no more may knock")
        wait_until(server._answers, "the scheduler answers")
        assert server.http.get("/readyz").json["ready"] is True
        assert server.stop() == 0
    finally:
        for one in knocking:
            one.close()
        server.kill()
