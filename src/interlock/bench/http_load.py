"""Load over HTTP from a process of its own: requests as fast as they are answered, or many readers of the event stream.

Bare sockets and prepared bytes: what is to be measured is the server.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import cast

import uvloop

from interlock.model.error import InterlockError


class _Poster(asyncio.Protocol):
    """Sends the same request again as soon as it is answered."""

    def __init__(self, load: "_Load") -> None:
        self._load = load
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = b""
        if not head.startswith(b"HTTP/1.1 20"):
            self._load.fail(f"bench: answered with {head[:40]!r} {rest[:200]!r}")
        elif self._load.answered() and self._transport is not None:
            self._transport.write(self._load.request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.fail("bench: a connection was lost")


class _Load:
    def __init__(self, request: bytes, requests: int) -> None:
        self.request = request
        self._left = requests
        self._to_send = requests
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        self._to_send -= 1

    def answered(self) -> bool:
        """Count an answer; whether another request is to be sent."""
        self._left -= 1
        if self._left == 0 and not self.done.done():
            self.done.set_result(None)
        self._to_send -= 1
        return self._to_send >= 0

    def fail(self, text: str) -> None:
        if not self.done.done():
            self.done.set_exception(InterlockError(text))


async def post(port: int, path: str, body: str, requests: int, connections: int) -> float:
    """Requests a second; every answer must be a success."""
    data = body.encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    load = _Load(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data, requests)
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    transports = []
    for _ in range(min(connections, requests)):
        load.begin()
        transport, _protocol = await loop.create_connection(lambda: _Poster(load), "127.0.0.1", port)
        transports.append(transport)
    await load.done
    took = time.perf_counter() - begun
    for transport in transports:
        transport.abort()
    return requests / took


class _Reader(asyncio.Protocol):
    """Takes what it is sent; tells when the stream has begun."""

    def __init__(self, begun: Callable[[], None], lost: Callable[[], None], request: bytes) -> None:
        self._begun: Callable[[], None] | None = begun
        self._lost = lost
        self._request = request
        self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        if self._begun is not None and b"hello" in data:
            self._begun()
            self._begun = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


async def read(port: int, readers: int) -> dict[str, int]:
    """Hold so many event streams open, say when all of them are, and go on until told to end."""
    loop = asyncio.get_running_loop()
    open_streams = asyncio.Semaphore(0)
    lost = 0

    def count_lost() -> None:
        nonlocal lost
        lost += 1

    request = f"GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    protocols = []
    for _ in range(readers):
        _, protocol = await loop.create_connection(
            lambda: _Reader(open_streams.release, count_lost, request), "127.0.0.1", port
        )
        protocols.append(protocol)
    for _ in range(readers):
        await open_streams.acquire()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.readline)
    return {"lost": lost, "bytes": sum(one.bytes for one in protocols)}


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kind, *arguments = sys.argv[1:]
    if kind == "post":
        port, path, body, requests, connections = arguments
        rate = uvloop.run(post(int(port), path, body, int(requests), int(connections)))
        sys.stdout.write(f"{rate}\n")
    else:
        port, readers = arguments
        sys.stdout.write(json.dumps(uvloop.run(read(int(port), int(readers)))) + "\n")


if __name__ == "__main__":
    main()
