"""Both clients against a server that misbehaves: what is mended in silence, and what is said when it cannot be."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.interface.run_view import HelloEvent, LogEvent
from tests.client.faces import KINDS, face
from tests.client.faulty import DETAIL, OK, Faulty, Reply, answer, problem, stream
from tests.helpers.places import run_async, until
from tests.helpers.processes import wait_until


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_one_connection_serves_request_after_request(kind: str) -> None:
    with Faulty() as server, face(kind, server.url) as client:
        for _ in range(5):
            assert client("get", "r1") == DETAIL
        assert {one.connection for one in server.asked} == {1}


def test_a_unix_socket_serves_as_well(kind: str, tmp_path: Path) -> None:
    with Faulty(path=tmp_path / "s.http") as server, face(kind, server.url) as client:
        assert client("get", "r1") == DETAIL
        assert client("result", "r1") == {"sum": 3}
        assert {one.connection for one in server.asked} == {1}
        assert server.asked[0].headers["host"].partition(":")[0] == "localhost"


def test_a_submit_is_made_once_however_often_it_is_sent(kind: str) -> None:
    replies = [
        Reply(then="reset"),
        Reply(then="close"),
        Reply(answer()[:40], "close"),
        Reply(answer(status=201)),
    ]
    with Faulty(*replies) as server, face(kind, server.url) as client:
        assert client("submit", "echo", {"value": 1}).id == "r1"
        assert len(server.asked) == 4
        assert len({one.headers["idempotency-key"] for one in server.asked}) == 1
        assert {(one.method, one.path, one.body) for one in server.asked} == {
            ("POST", "/api/v1/runs", b'{"payload":{"value":1},"job":"echo"}')
        }
        assert {one.headers["content-type"] for one in server.asked} == {"application/json"}


@pytest.mark.parametrize("method", ["get", "cancel"])
def test_connections_that_the_server_closed_while_idle_are_no_error(kind: str, method: str) -> None:
    with Faulty() as server, face(kind, server.url) as client:
        for _ in range(3):
            client(method, "r1")
            server.hang_up()
        client(method, "r1")
        assert len(server.asked) == 4


def test_a_connection_that_is_closed_as_it_is_taken_up_again_is_no_error(kind: str) -> None:
    with Faulty(OK, Reply(then="close"), OK, Reply(then="reset"), OK) as server, face(kind, server.url) as client:
        for _ in range(3):
            assert client("cancel", "r1") == il.State.SUCCEEDED
        assert [one.connection for one in server.asked] == [1, 1, 2, 2, 3]


def test_an_answer_that_is_the_last_of_its_connection(kind: str) -> None:
    last = Reply(answer(Connection="close"), "close")
    with Faulty(last) as server, face(kind, server.url, patience=0, first_contact=0) as client:
        assert [client("get", "r1").id for _ in range(3)] == ["r1"] * 3
        assert [one.connection for one in server.asked] == [1, 2, 3]


def test_a_server_that_is_away_for_a_moment_is_asked_again(kind: str) -> None:
    busy = Reply(problem("draining", "it stops", 503, Retry_After="0"))
    with (
        Faulty(busy, Reply(then="reset"), Reply(answer()[:-20], "reset"), OK) as server,
        face(kind, server.url) as client,
    ):
        assert client("get", "r1") == DETAIL
        assert len(server.asked) == 4


def test_a_server_that_stays_away_is_an_error_in_the_end(kind: str) -> None:
    busy = Reply(problem("store_unavailable", "the store does not work now", 503, Retry_After="0.01"))
    with Faulty(busy) as server, face(kind, server.url, patience="100ms") as client:
        with pytest.raises(il.InterlockError, match="the store does not work now") as caught:
            client("get", "r1")
        assert caught.value.code == "store_unavailable"
        assert len(server.asked) >= 2


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (Reply(problem("unknown_run", "run: 'r1' does not exist", 404)), "unknown_run", "run: 'r1' does not exist"),
        (
            Reply(answer("<h1>Bad Gateway</h1>", 502, "text/html")),
            "internal",
            "status 502 and an answer that is not ours",
        ),
        (Reply(answer("<h1>Welcome</h1>", 200, "text/html")), "internal", "status 200 and text/html instead of JSON"),
        (Reply(answer('{"id": "r1', 200)), "internal", "status 200 and unexpected content"),
        (Reply(answer({"id": "r1"}, 200)), "internal", "status 200 and unexpected content"),
        (Reply(answer("", 301, Location="http://elsewhere/")), "internal", "status 301"),
        (Reply(answer()[:-10], "close"), "connection_lost", "the connection broke before the whole answer came"),
        (Reply(answer()[:45], "close"), "connection_lost", "the connection broke"),
        (Reply(answer()[:20], "close"), "connection_lost", "the connection broke"),
        (Reply(b"HTTP/1.1 2", "close"), None, ""),
        (Reply(b"", "close"), "connection_lost", "the connection broke"),
        (Reply(b"SSH-2.0-OpenSSH_9.6\r\n", "hold"), "internal", "is not HTTP"),
        (Reply(b"", "hold"), "connection_lost", "was not answered in time"),
        (Reply(answer()[:-10], "hold"), "connection_lost", "was not answered in time"),
    ],
)
def test_an_answer_that_is_of_no_use_is_a_clear_error(kind: str, reply: Reply, code: str | None, says: str) -> None:
    with (
        Faulty(reply) as server,
        face(kind, server.url, patience=0, first_contact=0, timeout="300ms", token="hunter2") as client,
    ):
        with pytest.raises(il.InterlockError) as caught:
            client("get", "r1")
        assert code in (None, caught.value.code)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "hunter2" not in repr(caught.value) + repr(caught.value.__cause__)
        assert code in (None, "unknown_run") or f"{server.url}/api/v1/runs/r1" in str(caught.value)


def test_nobody_there_says_how_to_start_a_server(kind: str, tmp_path: Path) -> None:
    with Faulty() as server:
        gone = server.url
    for url in (gone, f"unix:{tmp_path}/none.http", "http://no-such-host.invalid:1"):
        with face(kind, url, first_contact="50ms") as client:
            with pytest.raises(il.InterlockError, match="start one with: interlock up") as caught:
                client("get", "r1")
            assert caught.value.code == "not_running"
            assert url in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_socket_of_somebody_else_is_not_opened(kind: str, tmp_path: Path) -> None:
    with Faulty(path=tmp_path / "s.http") as server, face(kind, server.url) as client:
        (tmp_path / "s.http").chmod(0)
        with pytest.raises(il.InterlockError, match="belongs to another user") as caught:
            client("get", "r1")
        assert caught.value.code == "forbidden"


def test_a_secure_address_of_a_server_that_is_not(kind: str) -> None:
    with Faulty(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        with face(kind, server.url.replace("http:", "https:"), patience=0, first_contact=0) as client:
            with pytest.raises(il.InterlockError, match=r"https://127.0.0.1:\d+: no secure connection"):
                client("get", "r1")


def test_the_token_is_sent_and_never_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    refusal = Reply(problem("unauthorized", "a valid token is needed", 401))
    with caplog.at_level(logging.DEBUG), Faulty(refusal) as server, face(kind, server.url, token="hunter2") as client:
        with pytest.raises(il.InterlockError) as caught:
            client("get", "r1")
        assert caught.value.code == "unauthorized"
        assert server.asked[0].headers["authorization"] == "Bearer hunter2"
        assert "hunter2" not in repr(client) + str(caught.value) + caplog.text


def test_a_wait_goes_on_though_connections_break(kind: str) -> None:
    running = msgspec.structs.replace(DETAIL, state=il.State.RUNNING)
    replies = [Reply(answer(running)), Reply(answer()[:30], "reset"), Reply(then="close"), OK]
    with Faulty(*replies) as server, face(kind, server.url, patience=0, first_contact=0) as client:
        assert client("handle", "r1")("wait") == il.State.SUCCEEDED
        paths = [one.path for one in server.asked]
        assert paths == ["/api/v1/runs/r1", *["/api/v1/runs/r1?wait=30.000s"] * (len(paths) - 1)]


def test_an_answer_given_before_the_whole_request_was_read(kind: str) -> None:
    refusal = Reply(problem("body_too_large", "body: larger than 5 bytes", 413), "close")
    with Faulty(refusal) as server, face(kind, server.url, patience=0, first_contact=0) as client:
        with pytest.raises(il.InterlockError, match="larger than 5 bytes"):
            client("submit", "echo", {"value": "x" * 900_000})


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────

LINE = LogEvent(run_id="r", job_id="j", tenant="t", at=1.0, attempt=1, level="info", text="☃")


def event(position: int) -> str:
    return f"id: e{position}\nevent: log\ndata: {msgspec.json.encode(LINE).decode()}\n\n"


HELLO = 'event: hello\ndata: {"cursor":"e4"}\n\n'


def test_a_stream_goes_on_through_breaks_of_every_kind(kind: str) -> None:
    replies = [
        Reply(stream(HELLO, event(5), event(6)[:9]), "reset"),
        Reply(then="close"),
        Reply(problem("not_running", "the scheduler is away", 503, Retry_After="0")),
        Reply(stream(HELLO, event(6), ends=True)),
        Reply(stream(HELLO, event(7)), "close"),
        Reply(stream(": still there\n\n", event(8)), "hold"),
    ]
    with Faulty(*replies) as server, face(kind, server.url) as client:
        found = client("events", types=["log"])
        assert next(found) == (None, HelloEvent(cursor="e4"))
        told = [next(found) for _ in range(4)]
        assert [cursor for cursor, _ in told] == ["e5", "e6", "e7", "e8"]
        assert told[0][1] == LINE
        found.close()
        resumed = [one.headers.get("last-event-id") for one in server.asked]
        assert resumed == [None, "e5", "e5", "e5", "e6", "e7"]


def test_a_stream_that_is_left_leaves_no_connection(kind: str) -> None:
    with Faulty(Reply(stream(HELLO, event(5)), "hold")) as server, face(kind, server.url) as client:
        found = client("events")
        next(found)
        found.close()
        wait_until(lambda: server.closed == 1, "the connection of the stream is closed")


def test_a_stream_of_a_server_that_went_silent_is_opened_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.client.http.event_stream.SILENCE", 0.2)
    with Faulty(Reply(stream(HELLO), "hold"), Reply(stream(event(5)), "hold")) as server:
        with face(kind, server.url, timeout="200ms") as client:
            found = client("events")
            assert [next(found)[0] for _ in range(2)] == [None, "e5"]
            found.close()


# ── many at once ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_at_once_share_a_few_connections(kind: str) -> None:
    with Faulty() as server:
        if kind == "Client":
            with il.Client(server.url, connections=4) as client, ThreadPoolExecutor(32) as threads:
                assert list(threads.map(lambda _: client.get("r1"), range(400))) == [DETAIL] * 400
        else:

            async def body() -> None:
                async with il.AsyncClient(server.url, connections=4) as client:
                    assert await asyncio.gather(*(client.get("r1") for _ in range(400))) == [DETAIL] * 400

            run_async(body())
        assert len(server.connections) <= 4


def test_those_who_wait_hold_up_nobody_and_are_woken_by_the_end(kind: str) -> None:
    """More wait than there are connections in the pool, and a request still gets through; then the client is closed."""
    errors: list[str] = []

    def waiting(wait: Callable[[], Any]) -> None:
        with pytest.raises(il.InterlockError) as caught:
            wait()
        errors.append(str(caught.value))

    async def waiting_async(client: il.AsyncClient) -> None:
        with pytest.raises(il.InterlockError) as caught:
            await client.result("r1")
        errors.append(str(caught.value))

    async def body() -> None:
        client = il.AsyncClient(server.url, connections=2)
        tasks = [asyncio.ensure_future(waiting_async(client)) for _ in range(5)]
        await until(lambda: len(server.asked) == 5, "everybody waits")
        server.replies = [OK]
        assert await client.get("r1") == DETAIL
        await client.close()
        await asyncio.gather(*tasks)

    with Faulty(Reply(then="hold")) as server:
        if kind == "AsyncClient":
            run_async(body())
        else:
            client = il.Client(server.url, connections=2)
            threads = [threading.Thread(target=waiting, args=(lambda: client.result("r1"),)) for _ in range(5)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(server.asked) == 5, "everybody waits")
            server.replies = [OK]
            assert client.get("r1") == DETAIL
            client.close()
            for thread in threads:
                thread.join(10)
        assert errors == ["client: it is closed; make a new one"] * 5


def test_a_closed_client_says_so(kind: str) -> None:
    with Faulty() as server, face(kind, server.url) as client:
        client("get", "r1")
        client("close")
        with pytest.raises(il.InterlockError, match="closed"):
            client("get", "r1")


def test_a_forked_process_leaves_the_connections_of_its_parent_alone() -> None:
    program = """
import os, sys
from interlock import Client
client = Client(sys.argv[1])
client.get("r1")
child = os.fork()
code = os.waitpid(child, 0)[1] if child else 0
client.get("r1")
sys.exit(code)
"""
    with Faulty() as server:
        subprocess.run([sys.executable, "-c", program, server.url], timeout=60, check=True)
        assert [one.connection for one in server.asked] == [1, 2, 1]


def test_a_forked_process_neither_waits_for_its_parent_nor_disturbs_it() -> None:
    """The parent has its only connection in use; the child uses the client and closes it."""
    program = """
import os, signal, sys, threading
from interlock import Client
client = Client(sys.argv[1], connections=1, patience=0, first_contact=0)
found = []
thread = threading.Thread(target=lambda: found.append(client.get("r1")))
thread.start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    signal.alarm(30)  # a child that hangs is a failure
    try:
        client.get("r1")
        client.close()
        os._exit(0)
    finally:
        os._exit(1)
print(os.waitpid(child, 0)[1], flush=True)
thread.join(30)
print(len(found), flush=True)
"""
    with Faulty(Reply(then="hold"), OK) as server:
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, server.url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            wait_until(lambda: len(server.asked) == 1, "the parent waits for its answer")
            process.stdin.write("go on\n")
            process.stdin.flush()
            assert process.stdout.readline() == "0\n", "the child did not get through"
            server.connections[0].sendall(answer())
            assert process.stdout.readline() == "1\n", "the parent got no answer"
            process.stdin.close()
