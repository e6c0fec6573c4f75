"""Probes from outside: whether a child is ready, and whether it is still well."""

import asyncio
import errno
import os
import re
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from urllib.parse import SplitResult, unquote, urlsplit

from interlock.error import InterlockError, shown
from interlock.fields.duration import brief, checked
from interlock.supervision.instance import Instance
from interlock.supervision.spec import Alive, Ready, parse_address

Look = Callable[[float], Awaitable[str]]
"""looks once, for at most these seconds; returns why the child is not well, empty if it is; raises `CannotLook`"""

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
LIMIT = 5.0  # seconds for one look at a child that is not ready yet
MOST_BUFFERED = 4096  # bytes of a status line
MOST_READ = 65536  # bytes of an answer that are read only to let the other side finish
POLITE = 0.1  # seconds for which they are
OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""errors of a shortage on this side, which say nothing about the child"""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
_NUMBER = re.compile(r"\[Errno ([0-9]+)\]")


class NotReady(InterlockError, code="not_ready"):
    """A child was not ready in time."""

    def __init__(self, timeout: float, last: str) -> None:
        super().__init__(f"not ready within {timeout:g}s ({last})")


class CannotLook(Exception):
    """The look was not possible because of a shortage on this side."""


class ReadyProbe:
    """Create it before the instance is started, so that it misses no line; wait for it afterwards."""

    def __init__(self, ready: Ready, instance: Instance, look: Look | None = None) -> None:
        self._ready = ready
        self._instance = instance
        self._look = look or partial(look_at, ready)
        self._seen = asyncio.Event()
        if ready.log is not None:
            instance.on_line = self._line

    async def wait(self) -> None:
        """Return when the child is ready; raise `NotReady` when its time is up."""
        timeout = checked(self._ready.timeout)
        try:
            if self._ready.delay is not None:
                await asyncio.sleep(checked(self._ready.delay))
            elif self._ready.log is None:
                await self._try_until_well(timeout)
            else:
                async with asyncio.timeout(timeout):
                    await self._seen.wait()
        except TimeoutError:
            raise NotReady(timeout, f"no complete line with {shown(self._ready.log)}") from None
        finally:
            self._instance.on_line = None

    def _line(self, line: str) -> None:
        if contains(line, self._ready.log or ""):
            self._seen.set()
            self._instance.on_line = None

    async def _try_until_well(self, timeout: float) -> None:
        """Look at once, and again after pauses that grow."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        pause, last = FIRST_PAUSE, ""
        while (left := end - loop.time()) > 0:
            try:
                why = await self._look(min(LIMIT, left))
            except CannotLook as error:
                why = str(error)
            if not why:
                return
            # A look that the timeout cut short says less than the one before it.
            last = why if left >= LIMIT or not last else last
            await asyncio.sleep(max(0.0, min(pause, end - loop.time())))
            pause = min(pause * 2, LONGEST_PAUSE)
        raise NotReady(timeout, f"last: {last}")


async def until_unwell(alive: Alive, paused: Callable[[], bool], look: Look | None = None) -> str:
    """Look until the child is not well any more, and return why. While `paused`, do not look and forget failures."""
    loop = asyncio.get_running_loop()
    look = look or partial(look_at, alive)
    every, timeout = checked(alive.every), checked(alive.timeout)
    due, failed = loop.time(), 0
    while True:
        due = max(due + every, loop.time())
        await asyncio.sleep(due - loop.time())
        if paused():
            failed = 0
            continue
        try:
            why = await look(timeout)
        except CannotLook:
            continue
        # It may have been paused during the look.
        failed = failed + 1 if why and not paused() else 0
        if failed >= alive.failures:
            count = "a look" if failed == 1 else f"{failed} looks in a row"
            return f"not well: {count} failed (last: {why})"


def contains(line: str, text: str) -> bool:
    """Return whether a line contains a text in which `*` stands for anything. Unlike a regular expression, this cannot
    take forever and block the event loop."""
    end = 0
    for part in text.split("*"):
        # The first place leaves the most room for the parts that follow.
        begin = line.find(part, end)
        if begin < 0:
            return False
        end = begin + len(part)
    return True


async def look_at(probe: Ready | Alive, limit: float) -> str:
    """Look once by HTTP or TCP; see `Look`."""
    try:
        async with asyncio.timeout(limit) as clock:
            if probe.http is not None:
                return await _get(probe.http, clock)
            address = parse_address(probe.tcp or "")
            assert address is not None  # its description was checked
            async with _connected(*address):
                return ""
    except TimeoutError:
        return f"no answer within {brief(limit)}"
    except OSError as error:
        why = _reason(error)
        if error.errno in OUR_OWN:
            raise CannotLook(why) from None
        return why
    except ValueError as error:
        # The host is not a valid name.
        return str(error)


async def _get(url: str, clock: asyncio.Timeout) -> str:
    parts = urlsplit(url)
    async with _connected(parts.hostname or "", parts.port or 80) as (reader, writer):
        writer.write(_request(parts))
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            return "the answer is not HTTP" if error.partial else "the connection was closed without an answer"
        except asyncio.LimitOverrunError:
            return "the answer is not HTTP"
        answer = _STATUS.fullmatch(line)
        if answer is None:
            return "the answer is not HTTP"
        # The result is known; reading on must not change it.
        clock.reschedule(None)
        await _let_finish(reader)
        return "" if 200 <= int(answer[1]) <= 399 else f"status {int(answer[1])}"


def _request(parts: SplitResult) -> bytes:
    credentials, _, host = parts.netloc.rpartition("@")
    lines = [
        f"GET {parts.path or '/'}{'?' if parts.query else ''}{parts.query} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: interlock",
        "Accept: */*",
        "Connection: close",
    ]
    if credentials:
        lines.append(f"Authorization: Basic {b64encode(unquote(credentials).encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _let_finish(reader: asyncio.StreamReader) -> None:
    """Read on for a moment: a child that is cut off in the middle of its answer would log an error."""
    left = MOST_READ
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(POLITE):
            while left > 0 and (data := await reader.read(left)):
                left -= len(data)


@asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, limit=MOST_BUFFERED)
    try:
        # On loopback, a connection to a port from the ephemeral range can end up connected to itself.
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        yield reader, writer
    finally:
        writer.transport.abort()


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    # The loops word it differently, and join the errors of all addresses of a name; the numbers are the same.
    numbers = dict.fromkeys(_NUMBER.findall(str(error)))
    return ", ".join(os.strerror(int(number)).lower() for number in numbers) or str(error) or type(error).__name__
