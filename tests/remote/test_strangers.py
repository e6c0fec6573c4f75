"""Connections that never become links: they end without a word, and nothing of them reaches the scheduler."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from interlock.buses import tls
from interlock.buses.tls import TlsBus
from interlock.ports.bus import Endpoint, Peer
from interlock.runtime import new_event_loop
from interlock.wire import message as m
from interlock.wire.frames import encode
from tests.helpers.places import until
from tests.remote.stage import TOKEN, connecting_bus, listening_bus

VIEWER = "viewer-0123456789abcdef"
HELLO = m.Hello("worker-1", m.PROTOCOL, 1, 1, 1, {}, [], "")


class Recorder(Endpoint):
    """An endpoint that must see only links."""

    def __init__(self) -> None:
        self.opened_by: list[Peer] = []
        self.heard: list[m.Message] = []
        self.ended = 0

    def opened(self, peer: Peer) -> None:
        self.opened_by.append(peer)

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        self.heard.extend(messages)

    def closed(self, peer: Peer) -> None:
        self.ended += 1


def on_loop(body: Callable[[], Coroutine[Any, Any, None]], kind: str = "uvloop") -> None:
    loop = new_event_loop() if kind == "uvloop" else asyncio.new_event_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(body(), 60))
    finally:
        loop.close()


run_test = on_loop


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[TlsBus, Recorder]]:
    bus, recorder = listening_bus(), Recorder()
    await bus.listen(recorder)
    try:
        yield bus, recorder
    finally:
        await bus.close()


def trusting(newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    return context


async def answer_to(address: tuple[str, int], *said: bytes, context: ssl.SSLContext | None) -> bytes:
    """What comes back until the connection ends."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=context)
        for part in said:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    except OSError:
        return b""
    finally:
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


RIGHT = encode([m.Credential(TOKEN)])
SAID: dict[str, list[bytes]] = {
    "a wrong token": [encode([m.Credential("wrong-0123456789abcdef")])],
    "an empty token": [encode([m.Credential("")])],
    "a token that is not text": [encode([m.Credential("x")]).replace(b"\xa1x", b"\xa1\xff")],
    "a client's greeting": [encode([m.Greeting(m.PROTOCOL)])],
    "a hello without a token": [encode([HELLO])],
    "a worker that cannot start": [encode([m.Unready("worker-1", "", "why", "")])],
    "a right token and more": [encode([m.Credential(TOKEN), HELLO])],
    "two frames at once": [RIGHT + encode([HELLO])],
    "an empty frame, for ever": [encode([]) * 10_000, encode([m.Credential("no")])],
    "garbage": [bytes(range(256)) * 20],
    "a frame of 65,537 bytes": [(tls.FIRST + 1).to_bytes(4, "big")],
    "a giant frame": [(2**32 - 1).to_bytes(4, "big") + b"x" * 100_000],
    "a request of HTTP": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
}


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_they_get_no_answer(said: str, loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with listening() as (bus, recorder):
            assert await answer_to(bus.address, *SAID[said], context=trusting()) == b""
            await until(lambda: caplog.records, "it is logged")
            assert (recorder.opened_by, recorder.heard, recorder.ended) == ([], [], 0)

    on_loop(body, loop)
    (record,) = caplog.records
    text = record.getMessage()
    assert (record.levelno, "127.0.0.1" in text) == (logging.WARNING, True)
    assert TOKEN not in text
    assert "0123456789abcdef" not in text


async def test_without_tls_or_with_an_old_version(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as (bus, recorder):
        assert not (await answer_to(bus.address, RIGHT, context=None)).strip(b"\x15\x03\x01\x00\x02\x46\x16")
        assert await answer_to(bus.address, RIGHT, context=trusting(ssl.TLSVersion.TLSv1_2)) == b""
        assert recorder.opened_by == []


@pytest.mark.parametrize("part", [b"", RIGHT[:3], RIGHT[:-1]])
@pytest.mark.parametrize("speaks_tls", [True, False])
def test_they_have_ten_seconds(
    part: bytes, speaks_tls: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert tls.PATIENCE == 10.0
    monkeypatch.setattr(tls, "PATIENCE", 0.3)

    async def body() -> None:
        async with listening() as (bus, recorder):
            assert await answer_to(bus.address, part, context=trusting() if speaks_tls else None) in (b"", ALERT)
            assert recorder.opened_by == []

    on_loop(body)
    assert len(caplog.records) == 1


ALERT = b"\x15\x03\x01\x00\x02\x02\x46"


def test_idle_ones_keep_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest of a hundred ends when another comes."""

    async def body() -> None:
        async with listening() as (bus, recorder):
            idle = [await asyncio.open_connection(*bus.address) for _ in range(tls.STRANGERS)]
            worker = connecting_bus(bus.address)
            peer = await worker.connect(Recorder())
            assert len(recorder.opened_by) == 1
            assert await idle[0][0].read() == b""
            assert not any(reader.at_eof() for reader, _ in idle[1:])
            peer.close()
            for _, writer in idle:
                writer.close()
            await worker.close()

    on_loop(body)
    (record,) = caplog.records
    assert "100 others came before" in record.getMessage()


async def test_the_log_has_one_refusal_a_second(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as (bus, _):
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            await answer_to(bus.address, *SAID["garbage"], context=trusting())
        assert len(caplog.records) <= 1 + (asyncio.get_running_loop().time() - began)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_right_token_makes_a_link(loop: str) -> None:
    """It carries large frames both ways, and ends on both sides."""

    async def body() -> None:
        async with listening() as (bus, recorder):
            worker, other = connecting_bus(bus.address), Recorder()
            there = await worker.connect(other)
            (here,) = recorder.opened_by
            assert here.caller is not None
            assert (here.caller.name, here.identity) == ("site", "token site")
            large = m.Finished("run", 1, "succeeded", bytes(5_000_000))
            there.send([HELLO, large])
            here.send([m.Welcome(1.0), large])
            await until(lambda: (len(recorder.heard), len(other.heard)) == (2, 2), "all has arrived")
            assert (recorder.heard, other.heard) == ([HELLO, large], [m.Welcome(1.0), large])
            here.pause()
            there.send([HELLO])
            here.resume()
            await until(lambda: len(recorder.heard) == 3, "it reads on")
            there.close()
            await until(lambda: (recorder.ended, other.ended) == (1, 1), "both know that it has ended")
            await worker.close()

    on_loop(body, loop)


def test_no_text_shows_a_token() -> None:
    assert TOKEN not in f"{m.Credential(TOKEN)} {m.Credential(TOKEN)!r}"
