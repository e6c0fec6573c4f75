"""Probes of real sockets: the answers that count, and that a look leaves no socket behind."""

import asyncio
import base64
import functools
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvloop

from interlock.supervision import probes
from interlock.supervision.probes import CannotLook, ReadyProbe, look_at, until_unwell
from interlock.supervision.spec import Alive, Ready
from tests.helpers.places import until
from tests.helpers.processes import sockets
from tests.supervision.stage import Printing, never

pytestmark = pytest.mark.usefixtures("run")

Run = Callable[[Coroutine[Any, Any, None]], None]
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs the body of a test, at the end of which no socket and no task is left."""

    async def checked(body: Coroutine[Any, Any, None]) -> None:
        before = sockets()
        await asyncio.wait_for(body, 60)
        await until(lambda: sockets() <= before, "every socket is closed", 10)
        assert len(asyncio.all_tasks()) == 1

    start = asyncio.run if request.param == "asyncio" else uvloop.run
    return lambda body: start(checked(body))


@asynccontextmanager
async def serving(answer: Answer, host: str = "127.0.0.1", bound: socket.socket | None = None) -> AsyncIterator[int]:
    """A server on a free port, or where it is bound to, gone with all of its connections at the end."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    if bound is None:
        bound = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    server = await asyncio.start_server(serve, sock=bound)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if tasks:
            await asyncio.wait(tasks, timeout=30)
        assert all(task.done() for task in tasks)


def saying(text: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        writer.write_eof()
        await reader.read()

    return answer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the request and answers nothing; ends when the other side does."""
    await reader.read()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Padding: " + b"x" * 8000 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""),
        (b"HTTP/1.0 204 No Content\r\n\r\n", ""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", ""),
        (b"HTTP/1.1 399\r\n\r\n", ""),
        (b"HTTP/1.1 200 \n\n", ""),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "status 400"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "status 503"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "status 101"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "the answer is not HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP"),
        (b"\xff\x00\xfe\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200", "the answer is not HTTP"),
        (b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n", "the answer is not HTTP"),
        (b"x" * 100_000, "the answer is not HTTP"),
        (b"", "the connection was closed without an answer"),
    ],
)
async def test_the_status_of_the_answer_decides(text: bytes, why: str) -> None:
    async with serving(saying(text)) as port:
        assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == why


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://127.0.0.1:{}", "GET / HTTP/1.1", "127.0.0.1:{}"),
        ("http://localhost:{}/health", "GET /health HTTP/1.1", "localhost:{}"),
        ("http://127.0.0.1:{}/a%20b/?deep=1&b=%2F#part", "GET /a%20b/?deep=1&b=%2F HTTP/1.1", "127.0.0.1:{}"),
        ("http://me:a%3Ab@127.0.0.1:{}?x", "GET /?x HTTP/1.1", "127.0.0.1:{}"),
    ],
)
async def test_what_is_asked_for(url: str, line: str, host: str) -> None:
    heads: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async with serving(answer) as port:
        assert await look_at(Ready(http=url.format(port)), 30) == ""
    (head,) = heads
    assert head[0] == line
    assert f"Host: {host.format(port)}" in head
    assert "Connection: close" in head
    secret = [f"Authorization: Basic {base64.b64encode(b'me:a:b').decode()}"] if "me:" in url else []
    assert [one for one in head if one.startswith("Authorization")] == secret


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 on this machine")
async def test_ipv6() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async with serving(answer, "::1") as port:
        assert await look_at(Alive(http=f"http://[::1]:{port}/"), 30) == ""
        assert f"Host: [::1]:{port}\r\n".encode() in heads[0]
        assert await look_at(Alive(tcp=f"[::1]:{port}"), 30) == ""


async def test_one_that_takes_the_connection_and_never_answers_is_not_well_by_http_but_by_tcp() -> None:
    async with serving(silent) as port:
        assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 0.05) == "no answer within 0.05s"
        assert await look_at(Alive(tcp=f"127.0.0.1:{port}"), 30) == ""


async def test_an_answer_without_end_is_cut_off_and_its_status_counts() -> None:
    async with serving(endless) as port:
        assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == ""


async def test_an_answer_that_stays_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    async with serving(answer) as port:
        look = partial(look_at, Alive(http=f"http://127.0.0.1:{port}/"))
        assert await look(30) == ""
        # The limit is over before one gives up being polite, and the answer had come.
        monkeypatch.setattr(probes, "POLITE", 1.1)
        assert await look(1.0) == ""


async def test_a_connection_that_is_reset_is_told() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What was sent and is not read makes the system reset it.
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with serving(answer) as port:
        assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == "connection reset by peer"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_on_which_nobody_listens_refuses(host: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert await look_at(Alive(tcp=f"{host}:{port}"), 30) == "connection refused"
        assert await look_at(Ready(http=f"http://{host}:{port}/"), 30) == "connection refused"


async def test_a_host_that_cannot_be_one_is_a_reason() -> None:
    assert "idna" in await look_at(Alive(tcp="a..b:80"), 30)


async def test_a_connection_to_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    # The system may choose this very port by chance; here it is told to.
    monkeypatch.setattr(asyncio, "open_connection", functools.partial(asyncio.open_connection, local_addr=place))
    assert await look_at(Alive(tcp=f"127.0.0.1:{place[1]}"), 30) == "connection refused"


async def test_without_a_free_descriptor_there_is_no_look() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    look = partial(look_at, Alive(tcp="127.0.0.1:1"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(CannotLook, match="too many open files"):
            await look(30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_it_is_ready_once_it_listens_and_answers_well() -> None:
    asked: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        writer.write(b"HTTP/1.1 %d Now\r\n\r\n" % (503 if len(asked) < 3 else 200))

    with socket.socket() as later:
        later.bind(("127.0.0.1", 0))
        port = later.getsockname()[1]
        waiting = asyncio.ensure_future(ReadyProbe(Ready(http=f"http://127.0.0.1:{port}/"), Printing()).wait())
        opened = asyncio.ensure_future(ReadyProbe(Ready(tcp=f"127.0.0.1:{port}"), Printing()).wait())
        assert (await asyncio.wait([waiting, opened], timeout=0.1))[0] == set()
        async with serving(answer, bound=later):
            await waiting
            await opened
    assert len(asked) == 3


@pytest.mark.parametrize("kind", ["ready", "alive", "tries"])
async def test_cancelled_it_leaves_no_connection(kind: str) -> None:
    open_now: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        await reader.read()
        open_now.discard(writer)

    async with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/"
        for turns in range(30 if kind == "tries" else 3):
            work = (
                ReadyProbe(Ready(http=url), Printing()).wait()
                if kind != "alive"
                else until_unwell(Alive(http=url, every="1ms"), never)
            )
            task = asyncio.ensure_future(work)
            if kind == "tries":
                # At every step of the way to a connection.
                for _ in range(turns):
                    await asyncio.sleep(0)
            else:
                await until(lambda: open_now, "it is connected")
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await until(lambda: not open_now, "the connection is gone")
