"""A stand-in for a container engine that answers as a test says, also as no real one does at will."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.helpers.places import until

NOTHING = b""
"""the connection is ended without an answer"""
START = 1_767_225_600
"""the beginning of the year 2026"""
GARBAGE = b"\x00\xff this is not HTTP\r\n\r\n"


def reply(status: int, body: Any = b"", *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"HTTP/1.1 {status} Something", f"Content-Length: {len(data)}", *headers, "", "")
    return "\r\n".join(lines).encode() + data


def cut(answer: bytes) -> bytes:
    """The last byte of it never comes, because the connection is ended."""
    return answer.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")[:-1]


def state(status: str, code: int = 0, **more: Any) -> bytes:
    """What is known of the container."""
    found = {"Status": status, "ExitCode": code, "Pid": 7, "StartedAt": "2026-01-01T00:00:01Z"} | more
    return reply(200, {"Created": "2026-01-01T00:00:00.123456789Z", "State": found, "Config": {}})


SOUND = {
    "GET /_ping": reply(200, b"OK", "Api-Version: 1.41"),
    "GET containers/json": reply(200, []),
    "POST containers/create": reply(201, {"Id": "c1"}),
    "GET c1/json": state("running"),
    "PUT c1/archive": reply(200),
    "GET c1/archive": reply(404),
    "POST c1/start": reply(204),
    "POST c1/kill": reply(204),
    "GET c1/logs": reply(200),
    "DELETE containers": reply(204),
}
"""an engine with one container, which runs for ever and prints nothing"""


class Peer:
    """Answers on a socket as it is told to. Whatever it is not told of it leaves without an answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, bytes] = dict(SOUND)
        self.first: dict[str, list[bytes]] = {}
        """what is answered before that"""
        self.asked: list[str] = []
        self.heads: dict[str, str] = {}
        """question → the head of the last request with it"""
        self.held: dict[str, asyncio.Event] = {}
        """questions that are only answered after this"""
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        try:
            yield
        finally:
            await self.vanish()

    async def vanish(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._connections):
                writer.close()
            await until(lambda: not self._connections, "every connection has ended")
            self._server = None
            self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while answer := await self._answer(await reader.readuntil(b"\r\n\r\n"), reader):
                writer.write(answer)
                await writer.drain()
                if b"Connection: close" in answer:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader) -> bytes:
        lines = head.decode().splitlines()
        sizes = [int(line.split()[1]) for line in lines if line.lower().startswith("content-length:")]
        await reader.readexactly(sum(sizes))
        method, target = lines[0].split()[:2]
        parts = urlsplit(target).path.split("/")
        question = f"{method} {parts[-2] if method == 'DELETE' else '/'.join(parts[-2:])}"
        self.asked.append(question)
        self.heads[question] = head.decode()
        if question in self.held:
            await self.held[question].wait()
        if self.first.get(question):
            return self.first[question].pop(0)
        if (answer := self.answers.get(question)) is None:
            await reader.read()
            return NOTHING
        return answer
