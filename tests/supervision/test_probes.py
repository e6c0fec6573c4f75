"""Probes: when a child is ready, when it is not well any more, and that a look leaves nothing behind."""

import asyncio
import base64
import functools
import os
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from interlock.supervision import probes
from interlock.supervision.instance import Instance
from interlock.supervision.probes import CannotLook, NotReady, ReadyProbe, contains, look_at, until_unwell
from interlock.supervision.spec import Alive, Ready
from soak.simulation.loop import VirtualLoop
from tests.helpers.places import until

Run = Callable[[Coroutine[Any, Any, None]], None]
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Printing(Instance):
    """Does nothing but print what it is told to."""

    async def start(self) -> None: ...

    async def stop(self, timeout: float) -> None: ...

    def kill(self) -> None: ...

    def say(self, line: str) -> None:
        if self.on_line is not None:
            self.on_line(line)


class Looks:
    """Gives the answers that were prepared, one a look, and the last one for ever; remembers when it was asked."""

    def __init__(self, *answers: str | type[CannotLook], takes: float = 0.0) -> None:
        self._answers = list(answers)
        self._takes = takes
        self.at: list[float] = []
        self.limits: list[float] = []

    async def __call__(self, limit: float) -> str:
        self.at.append(round(asyncio.get_running_loop().time(), 6))
        self.limits.append(limit)
        await asyncio.sleep(min(self._takes, limit))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, str):
            return answer
        raise answer("no file can be opened")


def virtually(body: Callable[[], Awaitable[None]]) -> float:
    """The time it took."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(body(), 100_000))
        assert loop.errors == []
        return round(loop.time(), 6)
    finally:
        loop.close()


def never() -> bool:
    return False


# Ready.


def test_after_a_delay_it_is_ready() -> None:
    async def body() -> None:
        await ReadyProbe(Ready(delay="2s"), Printing()).wait()

    assert virtually(body) == 2


def test_a_line_that_matches_makes_it_ready_and_then_nobody_listens() -> None:
    async def body() -> None:
        instance = Printing()
        probe = ReadyProbe(Ready(log="listening on *80"), instance)
        asyncio.get_running_loop().call_later(3, instance.say, "it is listening on port 80 now")
        asyncio.get_running_loop().call_later(1, instance.say, "listening on nothing")
        await probe.wait()
        assert instance.on_line is None

    assert virtually(body) == 3


def test_a_line_printed_before_anybody_waits_counts() -> None:
    async def body() -> None:
        instance = Printing()
        probe = ReadyProbe(Ready(log="up"), instance)
        instance.say("up")
        instance.say("and running")
        await probe.wait()

    assert virtually(body) == 0


def test_without_a_line_that_matches_it_is_not_ready_in_time() -> None:
    async def body() -> None:
        instance = Printing()
        probe = ReadyProbe(Ready(log="up", timeout="90s"), instance)
        instance.say("UP")
        with pytest.raises(NotReady, match="'up'"):
            await probe.wait()
        assert instance.on_line is None

    assert virtually(body) == 90


@pytest.mark.parametrize(
    ("text", "line", "is_in"),
    [
        ("up", "up", True),
        ("up", "it is up now", True),
        ("up", "UP", False),
        ("up", "", False),
        ("in * s", "started in 5 s", True),
        ("in * s", "started in  s", True),
        ("in * s", "started in s", False),
        ("in*s", "started ins", True),
        ("*up*", "up", True),
        ("a**b", "a b", True),
        ("b*a", "a b", False),
        ("aa*aa", "aaa", False),
        ("ab*ab*b", "abab", False),
        ("ab*ab*b", "ababb", True),
        ("[::]:80 (ok)?", "on [::]:80 (ok)?", True),
        ("^up$", "up", False),
    ],
)
def test_a_star_is_anything_and_the_rest_is_what_it_is(text: str, line: str, is_in: bool) -> None:
    assert contains(line, text) is is_in


@given(st.text("ab*?[]!-.\\", max_size=8), st.text("ab*?[]!-.\\", max_size=16))
def test_a_text_is_found_as_a_shell_would_find_it_anywhere_in_a_name(text: str, line: str) -> None:
    # There, other characters than the star have a meaning too, which brackets take away.
    pattern = text.replace("[", "[[]").replace("?", "[?]")
    assert contains(line, text) is fnmatchcase(line, f"*{pattern}*")


@pytest.mark.parametrize("text", ["^(a+)+$", "*a" * 5_000 + "b", "a" * 5_000 + "*b"])
def test_no_text_takes_for_ever_over_a_line(text: str) -> None:
    assert not contains("a" * 16_384, text)


def test_tries_begin_at_once_and_become_rare() -> None:
    looks = Looks(*["connection refused"] * 9, "")

    async def body() -> None:
        await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), looks).wait()

    assert virtually(body) == looks.at[-1]
    assert looks.at == [0, 0.01, 0.03, 0.07, 0.15, 0.31, 0.56, 0.81, 1.06, 1.31]


def test_when_its_time_is_up_it_is_not_ready_and_the_last_reason_is_told() -> None:
    looks = Looks("connection refused")

    async def body() -> None:
        with pytest.raises(NotReady, match="last: connection refused"):
            await ReadyProbe(Ready(http="http://127.0.0.1:1/"), Printing(), looks).wait()

    assert virtually(body) == 30
    assert len(looks.at) < 130


def test_a_try_that_is_not_answered_ends_in_time() -> None:
    looks = Looks("first reason", "no answer", takes=1000)

    async def body() -> None:
        with pytest.raises(NotReady, match="last: no answer"):
            await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), looks).wait()

    assert virtually(body) == 30
    assert looks.limits[:5] == [probes.LIMIT] * 5
    assert looks.limits[5] < probes.LIMIT


def test_a_try_that_was_cut_short_does_not_hide_the_reason() -> None:
    looks = Looks("status 503", "no answer within 0.49s", takes=0.5)

    async def body() -> None:
        with pytest.raises(NotReady, match=r"last: status 503"):
            await ReadyProbe(Ready(tcp="127.0.0.1:1", timeout="1s"), Printing(), looks).wait()

    assert virtually(body) == 1
    assert len(looks.at) == 2


def test_a_look_that_could_not_be_taken_is_taken_again() -> None:
    async def body() -> None:
        await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), Looks(CannotLook, CannotLook, "")).wait()
        with pytest.raises(NotReady, match="last: no file can be opened"):
            await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), Looks(CannotLook)).wait()

    virtually(body)


# Alive.


def test_it_is_not_well_when_so_many_looks_in_a_row_failed() -> None:
    looks = Looks("", "status 500", "status 500", "", "status 500", "status 500", "status 502")

    async def body() -> None:
        why = await until_unwell(Alive(tcp="127.0.0.1:1", every="10s", failures=3), never, looks)
        assert why == "not well: 3 looks in a row failed (last: status 502)"

    assert virtually(body) == 70
    assert looks.at == [10, 20, 30, 40, 50, 60, 70]
    assert set(looks.limits) == {5.0}


def test_one_failure_is_enough_if_it_is_to_be() -> None:
    async def body() -> None:
        why = await until_unwell(Alive(tcp="127.0.0.1:1", every="10s", failures=1), never, Looks("status 500"))
        assert why == "not well: a look failed (last: status 500)"

    assert virtually(body) == 10


def test_while_it_is_paused_nobody_looks_and_what_was_seen_is_forgotten() -> None:
    looks = Looks("status 500")

    async def body() -> None:
        loop = asyncio.get_running_loop()
        alive = Alive(tcp="127.0.0.1:1", every="1s", failures=3)
        await until_unwell(alive, lambda: 2.5 < loop.time() < 8.5, looks)

    assert virtually(body) == 11
    assert looks.at == [1, 2, 9, 10, 11]


def test_a_look_in_the_middle_of_which_it_was_paused_does_not_count() -> None:
    looks = Looks("no answer", takes=0.6)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        alive = Alive(tcp="127.0.0.1:1", every="1s", failures=2)
        await until_unwell(alive, lambda: 2.3 < loop.time() < 2.7, looks)

    assert virtually(body) == 4.6
    assert looks.at == [1, 2, 3, 4]


def test_a_look_that_could_not_be_taken_counts_neither_way() -> None:
    looks = Looks("status 500", CannotLook, CannotLook, CannotLook, "status 500")

    async def body() -> None:
        await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=2), never, looks)

    assert virtually(body) == 5


def test_looks_that_take_long_keep_the_pace_and_are_not_made_up_for() -> None:
    slow, at = Looks("no answer", takes=0.7), []

    async def slow_at_first(limit: float) -> str:
        at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(3.5 if len(at) == 1 else 0)
        return "no answer"

    async def body() -> None:
        await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=3), never, slow)
        begun = asyncio.get_running_loop().time()
        await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=4), never, slow_at_first)
        assert [round(one - begun, 6) for one in at] == [1, 4.5, 5.5, 6.5]

    virtually(body)
    assert slow.at == [1, 2, 3]


# Looks at real sockets.


def sockets() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {one for one in found if one.startswith("socket:")}


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
def test_the_status_of_the_answer_decides(run: Run, text: bytes, why: str) -> None:
    async def body() -> None:
        async with serving(saying(text)) as port:
            assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == why

    run(body())


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://127.0.0.1:{}", "GET / HTTP/1.1", "127.0.0.1:{}"),
        ("http://localhost:{}/health", "GET /health HTTP/1.1", "localhost:{}"),
        ("http://127.0.0.1:{}/a%20b/?deep=1&b=%2F#part", "GET /a%20b/?deep=1&b=%2F HTTP/1.1", "127.0.0.1:{}"),
        ("http://me:a%3Ab@127.0.0.1:{}?x", "GET /?x HTTP/1.1", "127.0.0.1:{}"),
    ],
)
def test_what_is_asked_for(run: Run, url: str, line: str, host: str) -> None:
    heads: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def body() -> None:
        async with serving(answer) as port:
            assert await look_at(Ready(http=url.format(port)), 30) == ""
        (head,) = heads
        assert head[0] == line
        assert f"Host: {host.format(port)}" in head
        assert "Connection: close" in head
        secret = [f"Authorization: Basic {base64.b64encode(b'me:a:b').decode()}"] if "me:" in url else []
        assert [one for one in head if one.startswith("Authorization")] == secret

    run(body())


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 on this machine")
def test_ipv6(run: Run) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def body() -> None:
        async with serving(answer, "::1") as port:
            assert await look_at(Alive(http=f"http://[::1]:{port}/"), 30) == ""
            assert f"Host: [::1]:{port}\r\n".encode() in heads[0]
            assert await look_at(Alive(tcp=f"[::1]:{port}"), 30) == ""

    run(body())


def test_one_that_takes_the_connection_and_never_answers_is_not_well_by_http_but_by_tcp(run: Run) -> None:
    async def body() -> None:
        async with serving(silent) as port:
            assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 0.05) == "no answer within 0.05s"
            assert await look_at(Alive(tcp=f"127.0.0.1:{port}"), 30) == ""

    run(body())


def test_an_answer_without_end_is_cut_off_and_its_status_counts(run: Run) -> None:
    async def body() -> None:
        async with serving(endless) as port:
            assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == ""

    run(body())


def test_an_answer_that_stays_open_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    async def body() -> None:
        async with serving(answer) as port:
            look = partial(look_at, Alive(http=f"http://127.0.0.1:{port}/"))
            assert await look(30) == ""
            # The limit is over before one gives up being polite, and the answer had come.
            monkeypatch.setattr(probes, "POLITE", 1.1)
            assert await look(1.0) == ""

    run(body())


def test_a_connection_that_is_reset_is_told(run: Run) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What was sent and is not read makes the system reset it.
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def body() -> None:
        async with serving(answer) as port:
            assert await look_at(Alive(http=f"http://127.0.0.1:{port}/"), 30) == "connection reset by peer"

    run(body())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_on_which_nobody_listens_refuses(run: Run, host: str) -> None:
    async def body() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            assert await look_at(Alive(tcp=f"{host}:{port}"), 30) == "connection refused"
            assert await look_at(Ready(http=f"http://{host}:{port}/"), 30) == "connection refused"

    run(body())


def test_a_host_that_cannot_be_one_is_a_reason(run: Run) -> None:
    async def body() -> None:
        assert "idna" in await look_at(Alive(tcp="a..b:80"), 30)

    run(body())


def test_a_connection_to_itself_is_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = free.getsockname()
        # The system may choose this very port by chance; here it is told to.
        monkeypatch.setattr(asyncio, "open_connection", functools.partial(asyncio.open_connection, local_addr=place))
        assert await look_at(Alive(tcp=f"127.0.0.1:{place[1]}"), 30) == "connection refused"

    run(body())


def test_without_a_free_descriptor_there_is_no_look(run: Run) -> None:
    async def body() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        look = partial(look_at, Alive(tcp="127.0.0.1:1"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(CannotLook, match="too many open files"):
                await look(30)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    run(body())


def test_it_is_ready_once_it_listens_and_answers_well(run: Run) -> None:
    asked: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        writer.write(b"HTTP/1.1 %d Now\r\n\r\n" % (503 if len(asked) < 3 else 200))

    async def body() -> None:
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

    run(body())


@pytest.mark.parametrize("kind", ["ready", "alive", "tries"])
def test_cancelled_it_leaves_no_connection(run: Run, kind: str) -> None:
    open_now: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        await reader.read()
        open_now.discard(writer)

    async def body() -> None:
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

    run(body())
