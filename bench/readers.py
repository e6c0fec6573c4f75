"""Many readers of the event stream in a process of their own: print `ready`, read until a line comes, print how many
were cut off."""

import asyncio
import resource
import sys
from typing import cast

import uvloop


class _Reader(asyncio.Protocol):
    lost = 0

    def __init__(self, port: int, opened: asyncio.Semaphore) -> None:
        self._request = f"GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
        self._opened = opened
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._is_open and b"hello" in data:
            self._is_open = True
            self._opened.release()

    def connection_lost(self, exc: Exception | None) -> None:
        _Reader.lost += 1


async def read(port: int, readers: int) -> int:
    loop = asyncio.get_running_loop()
    opened = asyncio.Semaphore(0)
    for _ in range(readers):
        await loop.create_connection(lambda: _Reader(port, opened), "127.0.0.1", port)
    for _ in range(readers):
        await opened.acquire()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.readline)
    return _Reader.lost


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.stdout.write(f"{uvloop.run(read(*map(int, sys.argv[1:])))}\n")
