"""kill -9 of the server in the middle of 10,000 submits over HTTP: every answer that was given holds."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.helpers.places import run_async, until
from tests.helpers.processes import alive, wait_until
from tests.helpers.server import Server

COUNT = 10_000
CONNECTIONS = 300
ANSWERED = 3_000
"""submits that are answered before the server is killed"""


class Submits:
    """Numbered submits over many connections; each number has a key, and whatever is answered with 2xx is noted."""

    def __init__(self, url: str, numbers: Sequence[int]) -> None:
        self._address = urlsplit(url)
        self._left = list(reversed(numbers))
        self.answered: dict[int, str] = {}
        self.broken = 0
        """connections that ended before the answer came"""

    async def run(self) -> None:
        await asyncio.gather(*(self._one_after_another() for _ in range(CONNECTIONS)))

    async def _one_after_another(self) -> None:
        try:
            reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        except OSError:
            self.broken += 1
            return
        try:
            while self._left:
                number = self._left.pop()
                writer.write(request(number))
                run_id = await answer(reader)
                self.answered[number] = run_id
        except (OSError, asyncio.IncompleteReadError):
            self.broken += 1
        finally:
            writer.close()


def request(number: int) -> bytes:
    body = json.dumps({"job": "echo", "payload": {"value": number}}).encode()
    return (
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: key-%d\r\nContent-Length: %d\r\n\r\n%b" % (number, len(body), body)
    )


async def answer(reader: asyncio.StreamReader) -> str:
    """The id of the run; a server that goes down may only break off, not say that something is wrong."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].split()[0])
    body = json.loads(await reader.readexactly(length))
    assert head.startswith("http/1.1 201 "), body
    run_id: str = body["id"]
    return run_id


def runs_in(database: Path) -> dict[str, str]:
    """Run id → key, as they stand in the file."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = connection.execute("SELECT id, idempotency_key FROM runs").fetchall()
    assert len({key for _, key in rows}) == len(rows), "a key has two runs"
    return dict(rows)


@pytest.mark.behaviour("RUN-17", "RUN-6")
def test_every_answer_holds(folder: Path) -> None:
    server = Server(folder, "--http", "127.0.0.1:0", "--workers", "0")
    numbers = range(COUNT)

    async def until_killed() -> Submits:
        submits = Submits(server.url, numbers)
        going = asyncio.create_task(submits.run())
        await until(lambda: len(submits.answered) >= ANSWERED or going.done(), "many are answered")
        await asyncio.to_thread(server.kill)
        await going
        return submits

    with server:
        gateway = server.gateway()
        first = run_async(until_killed())
        assert ANSWERED <= len(first.answered) < COUNT
        assert first.broken == CONNECTIONS
        wait_until(lambda: not alive(gateway), "its gateway dies with it")

        stored = runs_in(server.database)
        for number, run_id in first.answered.items():
            assert stored.get(run_id) == f"key-{number}", "answered, and not in the store"

        server.start()
        again = Submits(server.url, numbers)
        run_async(again.run())
        assert (len(again.answered), again.broken) == (COUNT, 0)
        for number, run_id in first.answered.items():
            assert again.answered[number] == run_id, "the same key, another run"
        for run_id, key in stored.items():
            assert again.answered[int(key.removeprefix("key-"))] == run_id, "what was stored unanswered was made anew"
        assert runs_in(server.database) == {run_id: f"key-{number}" for number, run_id in again.answered.items()}
