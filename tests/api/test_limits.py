"""What a client may do to a connection: nothing of it ends the server, or takes more than its share."""

import asyncio
import random
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.api.protocol import MOST_BODIES
from interlock.config import Settings
from interlock.wiring.scheduler import Scheduler
from tests.api.conftest import sound
from tests.helpers.http import Http, Raw, head
from tests.helpers.jobs import app
from tests.helpers.places import clean_folder, run_async, until
from tests.helpers.processes import sockets, wait_until
from tests.helpers.server import JOBS, Server

RUNS = "/api/v1/runs"
CONNECTIONS = 20
HEALTH = head("GET", "/healthz")
JSON = {"Content-Type": "application/json"}
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """A server with little patience and little room."""
    with clean_folder() as place:
        (place / "interlock.yaml").write_text(f"max_connections: {CONNECTIONS}\nrequest_timeout: 300ms\n")
        with sound(Server(place, "--http", "127.0.0.1:0", "--drain", "1s")) as running:
            assert running.http.get("/healthz").status == 200
            yield running


@pytest.fixture(autouse=True)
def well(strict: Server) -> Iterator[None]:
    """After each test the server works as before, with the sockets that it had."""
    gateway = strict.gateway()
    before = len(sockets(gateway))
    yield
    assert strict.http.ended(strict.http.submit("echo", {"value": 1}))["result"] == 1
    assert strict.gateway() == gateway, "it died and was replaced"
    wait_until(lambda: len(sockets(gateway)) <= before, f"every connection is let go of ({before})")


def abandon(sock: socket.socket) -> None:
    """Reset the connection rather than end it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


# ── size ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-6")
@pytest.mark.parametrize(
    ("given", "code"),
    [
        (head("GET", "/healthz", Long="x" * 70_000), "head_too_large"),
        (head("GET", "/healthz", **{f"Field-{number}": "x" * 100 for number in range(700)}), "head_too_large"),
        (head("GET", "/healthz?" + "x" * 70_000), "head_too_large"),
        (b"GET /healthz HTTP/1.1\r\nEndless: " + b"x" * 1_000_000, "head_too_large"),
        (b"GET /" + b"x" * 1_000_000, "head_too_large"),
        (b"X" * 1_000_000, "bad_request"),
        (head("POST", RUNS, **JSON, **CHUNKED) + b"1\r\n{\r\n0\r\nTrailer: " + b"x" * 1_000_000, "head_too_large"),
    ],
    ids=["field", "fields", "path", "endless field", "endless path", "endless method", "endless trailer"],
)
def test_a_head_that_is_too_large(strict: Server, given: bytes, code: str) -> None:
    with Raw(strict.url) as raw:
        with suppress(BrokenPipeError, ConnectionResetError):
            raw.send(given)
        assert raw.answer().code == code
        assert raw.ended()


def test_a_head_that_is_just_not_too_large(strict: Server) -> None:
    with Raw(strict.url) as raw:
        raw.send(head("GET", "/healthz", **{f"Field-{number}": "x" * 1000 for number in range(60)}))
        assert raw.answer().status == 200


# ── how many ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-6")
def test_too_many_connections(strict: Server) -> None:
    held = [Raw(strict.url) for _ in range(CONNECTIONS)]
    for raw in held:
        # Answered, so it is known to be one of them; and then kept open.
        raw.send(HEALTH)
        assert raw.answer().status == 200
    with Raw(strict.url) as late:
        late.send(HEALTH)
        answer = late.answer()
        assert (answer.status, answer.code) == (503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert f"{CONNECTIONS}" in answer.json["detail"]
        assert late.ended()
    assert strict.local.get("/healthz").status == 200, "the owner is shut out"
    held[0].send(HEALTH)
    assert held[0].answer().status == 200, "those who are in are not affected"
    for raw in held:
        raw.close()
    wait_until(lambda: strict.http.get("/healthz").status == 200, "there is room again")


def test_connections_that_come_and_go(strict: Server) -> None:
    for place in range(200):
        raw = Raw(strict.url)
        if place % 4 == 1:
            raw.send(HEALTH[: place % len(HEALTH)])
        elif place % 4 == 2:
            raw.send(HEALTH)
        elif place % 4 == 3:
            raw.send(head("GET", "/api/v1/events"))
        if place % 2:
            abandon(raw.sock)
        raw.close()


def test_readers_of_events_that_come_and_go_are_forgotten(strict: Server) -> None:
    for _ in range(30):
        with Raw(strict.url) as raw:
            raw.send(head("GET", "/api/v1/events", **{"Last-Event-ID": "0"}))
    wait_until(lambda: "\ninterlock_event_readers 0" in strict.http.get("/metrics").body.decode(), "no reader is left")


# ── slow senders ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-6")
@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\nHost: local",
        head("POST", RUNS, **JSON, **{"Content-Length": "100"}),
        head("POST", RUNS, **JSON, **{"Content-Length": "100"}) + b'{"job": ',
        head("POST", RUNS, **JSON, **CHUNKED) + b"5\r\n{",
        head("POST", RUNS, **JSON, **CHUNKED) + b"1\r\n{\r\n",
    ],
    ids=["nothing", "a letter", "half a head", "no body", "half a body", "half a chunk", "no last chunk"],
)
def test_a_slow_sender_is_cut_off(strict: Server, given: bytes) -> None:
    before = strict.http.count()
    with Raw(strict.url) as raw:
        raw.send(given)
        answer = raw.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert "0.3s" in answer.json["detail"]
        assert raw.ended()
    assert strict.http.count() == before


def test_one_that_sends_byte_after_byte_is_cut_off_too(strict: Server) -> None:
    with Raw(strict.url) as raw:
        raw.send(b"GET /healthz HTTP/1.1\r\nSlow: ")
        raw.sock.settimeout(0.01)

        def cut_off() -> bool:
            try:
                raw.send(b"x")
                return raw.sock.recv(65536).startswith(b"HTTP/1.1 408")
            except TimeoutError:
                return False

        wait_until(cut_off, "it is cut off")


def test_one_that_hides_behind_a_request_is_cut_off_too(strict: Server) -> None:
    """The half request waits behind a whole one, and its time begins when that one is answered."""
    half = head("POST", RUNS, **JSON, **{"Content-Length": "100"}) + b"{"
    with Raw(strict.url) as raw:
        raw.send(HEALTH + half)
        assert raw.answer().status == 200
        assert raw.answer().code == "request_timeout"
        assert raw.ended()
    with Raw(strict.url) as raw:
        raw.send(HEALTH + half[:10])
        assert raw.answer().status == 200
        assert raw.answer().code == "request_timeout"
        assert raw.ended()


def test_a_connection_at_rest_is_not_a_slow_sender(strict: Server) -> None:
    """Between two requests there is all the time of a kept connection."""
    with Raw(strict.url) as kept, Raw(strict.url) as slow:
        kept.send(HEALTH)
        assert kept.answer().status == 200
        slow.send(b"G")
        assert slow.answer().status == 408
        kept.send(HEALTH)
        assert kept.answer().status == 200


def test_an_answer_that_takes_long_is_not_the_senders_fault(strict: Server) -> None:
    run_id = strict.http.submit("echo", delay="1h")
    answer = strict.http.get(f"{RUNS}/{run_id}", wait="1500ms")
    assert (answer.status, answer.json["state"]) == (200, "prerun")


# ── slow readers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-6")
def test_one_that_does_not_read_a_large_answer_is_cut_off(strict: Server) -> None:
    http = strict.http
    run_id = http.submit("echo", {"value": "x" * 1_000_000})
    http.ended(run_id)
    gateway = strict.gateway()
    before = len(sockets(gateway))
    with Raw(strict.url) as raw:
        raw.send(head("GET", f"{RUNS}/{run_id}") * 20)
        wait_until(lambda: len(sockets(gateway)) > before, "it is let in")
        wait_until(lambda: len(sockets(gateway)) == before, "it is cut off")
        size = 0
        with suppress(ConnectionResetError):
            while data := raw.file.read(65536):
                size += len(data)
    assert 0 < size < 19_000_000


def test_one_that_reads_a_large_answer_slowly_gets_it(strict: Server) -> None:
    """It takes several times as long as one that does not read at all is given."""
    http = strict.local
    run_id = http.submit("echo", {"value": "x" * 1_000_000})
    size = len(http.get(f"{RUNS}/{run_id}", wait="10s").body)
    with Raw(http.address) as raw:
        raw.send(head("GET", f"{RUNS}/{run_id}"))
        _, headers = raw.read_head()
        assert int(headers["content-length"]) == size
        left = size
        while left:
            left -= len(raw.file.read(min(left, 100_000)))
            select.select([], [], [], 0.1)


# ── odd requests ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_requests_in_one_packet_are_answered_in_order(strict: Server) -> None:
    body = b'{"job": "echo", "payload": {"value": %d}}'
    posts = [body % number for number in range(30)]
    with Raw(strict.url) as raw:
        raw.send(
            b"".join(head("POST", RUNS, **JSON, **{"Content-Length": str(len(one))}) + one + HEALTH for one in posts)
        )
        ids = []
        for _ in posts:
            ids.append(raw.answer().json["id"])
            assert raw.answer().json == {"alive": True}
    assert [strict.http.ended(one)["payload"]["value"] for one in ids] == list(range(30))


def test_a_connection_is_used_again(strict: Server) -> None:
    connection = strict.http.connection()
    for number in range(50):
        connection.request("GET" if number % 2 else "DELETE", "/healthz")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == (200 if number % 2 else 405)
    connection.close()


@pytest.mark.parametrize(
    "given",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes(2000),
        b"\r\n\r\n\r\nhello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad\x00Name: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nName: b\x00d\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    ],
    ids=lambda one: repr(one[:60]),
)
def test_what_is_not_http(strict: Server, given: bytes) -> None:
    before = strict.http.count()
    with Raw(strict.url) as raw:
        raw.send(given)
        answer = raw.answer()
        assert 400 <= answer.status < 500, answer
        assert answer.headers["content-type"] == "application/problem+json"
        assert raw.ended()
    assert strict.http.count() == before


def test_random_bytes(strict: Server) -> None:
    rng = random.Random(7)
    for _ in range(150):
        given = bytearray(
            rng.choice([HEALTH, head("POST", RUNS, **JSON, **{"Content-Length": "15"}) + b'{"job": "echo"}'])
        )
        for _ in range(rng.randrange(1, 8)):
            given[rng.randrange(len(given))] = rng.randrange(256)
        raw = Raw(strict.url)
        raw.send(bytes(given))
        if rng.random() < 0.5:
            abandon(raw.sock)
        raw.close()


@pytest.mark.parametrize(
    "line", ["GET http://localhost/healthz HTTP/1.1", "OPTIONS * HTTP/1.1", "get /healthz HTTP/1.1"]
)
def test_unusual_first_lines_get_an_answer(strict: Server, line: str) -> None:
    with Raw(strict.url) as raw:
        raw.send(f"{line}\r\nHost: localhost\r\n\r\n".encode())
        assert raw.answer().status in (200, 204, 400, 404)


def test_http_1_0(strict: Server) -> None:
    with Raw(strict.url) as raw:
        raw.send(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = raw.answer()
        assert (answer.status, answer.json) == (200, {"alive": True})
        assert answer.headers["connection"] == "close"
        assert raw.ended()


def test_a_sender_that_asks_before_it_sends(strict: Server) -> None:
    body = b'{"job": "echo", "payload": {"value": 7}}'
    expect = {"Expect": "100-continue", "Content-Length": str(len(body))}
    with Raw(strict.url) as raw:
        raw.send(head("POST", RUNS, **JSON, **expect))
        assert raw.read_head()[0] == 100
        raw.send(body)
        assert raw.answer().status == 201
    with Raw(strict.url) as raw:
        raw.send(head("POST", RUNS, **{"Content-Type": "text/plain"}, **expect))
        assert raw.answer().status == 415, "it is told to go on with what is refused"


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_upgrade_is_passed_over(strict: Server, protocol: str) -> None:
    said = strict.said
    extra = {"Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==", "Sec-WebSocket-Version": "13"}
    with Raw(strict.url) as raw:
        raw.send(head("GET", "/healthz", Connection="Upgrade", Upgrade=protocol, **extra))
        assert raw.answer().json == {"alive": True}
    assert strict.said == said, "a person is told of it"


@pytest.mark.parametrize("together", [True, False])
def test_what_follows_an_upgrade_is_its_body_and_no_request(strict: Server, together: bool) -> None:
    hidden = HEALTH
    first = head(
        "POST", "/api/v1/runs", Connection="Upgrade", Upgrade="h2c", **{
            "Content-Type": "application/json", "Content-Length": str(len(hidden))
        }
    )  # fmt: skip
    with Raw(strict.url) as raw:
        raw.send(first + hidden if together else first)
        if not together:
            raw.send(hidden)
        answer = raw.answer()
        assert (answer.status, answer.code) == (400, "bad_json")
        raw.send(HEALTH)
        assert raw.answer().status == 200, "the connection goes on behind the body"


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_question_with_a_body(strict: Server, size: int) -> None:
    with Raw(strict.url) as raw:
        raw.send(head("GET", "/healthz", **{"Content-Length": str(size)}) + b"x" * size + HEALTH)
        assert raw.answer().status == 200
        assert raw.answer().status == 200


@pytest.mark.behaviour("SEC-6")
def test_a_body_behind_its_refusal_counts_for_nothing_and_does_not_stay(strict: Server) -> None:
    """Whoever is refused at the door could otherwise use up what all requests may hold together, and keep it."""
    size = MOST_BODIES + 1
    with Raw(strict.url) as raw:
        refused = {"Origin": "http://elsewhere.example", "Content-Type": "application/json"}
        raw.send(head("POST", RUNS, **refused, **{"Content-Length": str(size)}))
        assert raw.answer().code == "wrong_origin"
        part = b"x" * 2**20
        # On a busy machine this takes longer than a request may, and the server hangs up first.
        with suppress(ConnectionResetError, BrokenPipeError):
            for sent in range(0, size, len(part)):
                raw.send(part[: size - sent])
        assert strict.http.post(RUNS, {"job": "echo"}).status == 201
        with suppress(ConnectionResetError):
            assert raw.ended(), "it is waited for"


# ── those who wait and go ───────────────────────────────────────────────────────────────────────────────────────────


def test_who_waits_for_a_run_and_goes_is_forgotten() -> None:
    """Otherwise every one of them would be kept for the time that it asked for, without a limit on how many."""

    async def body(place: Path) -> None:
        settings = Settings(database=":memory:", socket=str(place / "x.sock"), http="127.0.0.1:0", workers=0)
        scheduler = Scheduler(app.definitions, JOBS, settings)
        await scheduler.start()
        try:
            http = Http(scheduler.front.url or "")
            waiting = scheduler.engine.requests.waiting
            run_id = await asyncio.to_thread(http.submit, "echo")
            raws = [await asyncio.to_thread(Raw, http.address) for _ in range(10)]
            for raw in raws:
                raw.send(head("GET", f"{RUNS}/{run_id}?wait=300s"))
            await until(lambda: len(waiting) == 10, "all of them wait")
            for raw in raws:
                raw.close()
            await until(lambda: not waiting, "they are forgotten")
        finally:
            await scheduler.stop()

    with clean_folder() as place:
        run_async(body(place))
