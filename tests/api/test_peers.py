"""Without tokens, a loopback port serves the server's own user and root, and nobody else of the machine."""

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlock.api.peer import is_own, owner_of_peer
from tests.api.conftest import guard
from tests.api.tokens import TOKENS
from tests.helpers.http import connect, head
from tests.helpers.places import NOBODY, clean_folder
from tests.helpers.server import Server, interlock

pytestmark = pytest.mark.behaviour("SEC-1")

RUNS = "/api/v1/runs"
PROGRAM = {"run": {"process": ["true"]}}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make sockets of another user")


@contextmanager
def as_nobody() -> Iterator[None]:
    """A socket belongs to the effective user who makes it."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def accepted(listens: str, connects: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, the one that connected first."""
    with socket.socket(socket.AF_INET6 if ":" in listens else socket.AF_INET) as listener:
        if ":" in listens:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((listens, 0))
        listener.listen()
        client = socket.socket(socket.AF_INET6 if ":" in connects else socket.AF_INET)
        client.connect((connects, listener.getsockname()[1]))
        server, _ = listener.accept()
        with client, server:
            yield client, server


@pytest.mark.parametrize(
    ("listens", "connects"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_the_owner_of_the_other_end(listens: str, connects: str) -> None:
    with accepted(listens, connects) as (client, server):
        assert (owner_of_peer(server), owner_of_peer(client)) == (os.geteuid(), os.geteuid())
        if os.geteuid() == 0:
            os.fchown(client.fileno(), NOBODY, NOBODY)
            assert (owner_of_peer(server), owner_of_peer(client)) == (NOBODY, 0)
        client.shutdown(socket.SHUT_WR)
        assert owner_of_peer(server) is not None


@pytest.mark.parametrize("abrupt", [False, True])
def test_what_is_closed_belongs_to_nobody(abrupt: bool) -> None:
    """Not to root, as some kernels say of it, nor to whoever listens on the port it had."""
    with accepted("127.0.0.1", "127.0.0.1") as (client, server):
        address = client.getsockname()
        if abrupt:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert owner_of_peer(server) is None
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # a port may stay taken for a while by what was closed in order
                listener.bind(address)
                listener.listen()
            assert owner_of_peer(server) is None


@needs_root
def test_own_are_the_user_of_the_process_and_root() -> None:
    assert (is_own(0), is_own(NOBODY), is_own(1234), is_own(None)) == (True, False, False, False)
    with as_nobody():
        assert (is_own(0), is_own(NOBODY), is_own(1234), is_own(None)) == (True, True, False, False)


@pytest.mark.parametrize(("mapping", "own"), [("--map-root-user", "True"), ("--map-user=65534", "False")])
def test_a_user_namespace_shows_all_strangers_under_one_id(mapping: str, own: str) -> None:
    """So who has that id itself cannot be told from them."""
    asked = "import os; from interlock.api.peer import is_own; print(is_own(os.geteuid()))"
    done = subprocess.run(
        ["unshare", "--user", mapping, sys.executable, "-c", asked],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.stderr.startswith("unshare:"):
        pytest.skip(done.stderr)
    assert done.stdout == f"{own}\n", done.stderr


@pytest.fixture(scope="module", params=["127.0.0.1:0", "[::1]:0", ":memory:"])
def bare(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server without tokens. One with its store in memory serves HTTP inside the scheduler."""
    memory = ("--db", ":memory:", "--socket", "interlock.db.sock") if request.param == ":memory:" else ()
    address = "127.0.0.1:0" if memory else request.param
    with clean_folder() as place, Server(place, "--http", address, "--workers", "0", *memory) as server:
        yield server


@needs_root
def test_another_user_of_the_machine_is_refused(bare: Server) -> None:
    http = bare.http
    before = http.count()
    with as_nobody():
        answers = [http.get(path) for path in (RUNS, "/metrics", "/api/v1/jobs", "/healthz", "/nowhere")]
        answers.append(http.post(RUNS, {"job": "echo"}))
        answers.append(http.ask("PUT", "/api/v1/jobs/mine", PROGRAM))
        answers.append(http.post(RUNS, {"job": "echo"}, {"Authorization": "Bearer 0123456789abcdef"}))
    for answer in answers:
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert "Unix socket" in answer.json["detail"]
        assert "'tokens'" in answer.json["detail"]
    assert http.count() == before
    assert http.get("/api/v1/jobs/mine").status == 404


def test_the_same_user_needs_nothing(bare: Server) -> None:
    assert bare.http.ask("PUT", "/api/v1/jobs/own", PROGRAM).status in (200, 201)
    assert bare.http.post(RUNS, {"job": "echo"}).status == 201
    assert bare.local.get(RUNS).status == 200


def post(body: bytes) -> bytes:
    return head("POST", RUNS, **{"Content-Type": "application/json", "Content-Length": str(len(body))}) + body


@needs_root
def test_a_request_whose_sender_is_gone_is_not_the_owners(folder: Path) -> None:
    with Server(folder, "--http", "127.0.0.1:0", "--workers", "0") as server:
        gateway, http = server.gateway(), server.http
        assert http.count() == 0
        os.kill(gateway, signal.SIGSTOP)
        with as_nobody(), connect(http.address) as sock:
            sock.sendall(post(b'{"job":"echo"}') + post(b" " * 2**24)[: -(2**24)])
            sock.setblocking(False)
            with suppress(BlockingIOError):
                # The end of the connection comes behind this, long after the first request.
                while True:
                    sock.send(b" " * 2**16)
        os.kill(gateway, signal.SIGCONT)
        # Connections are taken in order: this one is answered after the other.
        assert http.submit("echo")
        assert http.count() == 1


@needs_root
def test_with_tokens_it_is_the_token_that_counts(folder: Path) -> None:
    guard(folder)
    server = Server(folder, "--http", "127.0.0.1:0", "--workers", "0")
    server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
    with server:
        http = server.http
        with as_nobody():
            assert http.with_token(TOKENS["boss"].text).get(RUNS).status == 200
            assert http.get("/healthz").status == 200
        assert http.get(RUNS).code == "unauthorized"


def test_doctor_says_whether_owners_can_be_found(folder: Path) -> None:
    ended = interlock(folder, "doctor")
    assert "ok\tloopback\t" in ended.stdout
