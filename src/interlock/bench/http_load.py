"""Load over HTTP: the same request again and again, on bare sockets, to measure the server alone."""

import asyncio
import time
from typing import cast

from interlock import runtime
from interlock.error import InterlockError


def post(port: int, path: str, body: str, requests: int, connections: int) -> float:
    """Return the requests answered a second; every answer must be a success."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
    return runtime.run(_post(port, request, requests, connections))


async def _post(port: int, request: bytes, requests: int, connections: int) -> float:
    loop = asyncio.get_running_loop()
    load = _HttpFlood(request, requests, loop.create_future())
    begun = time.perf_counter()
    transports = [
        (await loop.create_connection(lambda: _Poster(load), "127.0.0.1", port))[0]
        for _ in range(min(connections, requests))
    ]
    await load.done
    took = time.perf_counter() - begun
    for transport in transports:
        transport.abort()
    return requests / took


class _HttpFlood:
    def __init__(self, request: bytes, requests: int, done: "asyncio.Future[None]") -> None:
        self.request = request
        self.done = done
        self.to_send = self.unanswered = requests

    def fail(self, text: str) -> None:
        if not self.done.done():
            self.done.set_exception(InterlockError(f"bench: {text}"))


class _Poster(asyncio.Protocol):
    def __init__(self, load: _HttpFlood) -> None:
        self._load = load
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        if self._load.to_send:
            self._load.to_send -= 1
            self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self._buffer = b""
        if not head.startswith(b"HTTP/1.1 20"):
            self._load.fail(f"answered with {head[:40]!r} {body[:200]!r}")
        self._load.unanswered -= 1
        if not self._load.unanswered and not self._load.done.done():
            self._load.done.set_result(None)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.fail("a connection was lost")
