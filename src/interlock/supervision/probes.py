"""Whether a child is ready, and whether it is still well: looks from outside, by the little HTTP that this takes."""

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from interlock.model.duration import brief
from interlock.model.error import InterlockError, shown
from interlock.supervision.field_checks import check_address
from interlock.supervision.instance import Instance
from interlock.supervision.spec import Alive, Ready

if TYPE_CHECKING:
    from urllib.parse import SplitResult

Look = Callable[[float], Awaitable[str]]
"""looks once, for so many seconds at the most; says why it is not well, and nothing when it is; raises `CannotLook`"""

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
FIRST_LIMIT = 1.0
LONGEST_LIMIT = 10.0
MOST_BUFFERED = 4096
"""bytes: a status line that is longer is none"""
MOST_READ = 65536
"""bytes of an answer that are read only to let the other side finish"""
POLITE = 0.1
"""seconds for which they are"""
OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""what fails for want of something here and says nothing about the child"""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
_NUMBER = re.compile(r"\[Errno ([0-9]+)\]")


class NotReady(InterlockError):
    """A child was not ready in time."""

    code = "not_ready"

    def __init__(self, timeout: float, last: str) -> None:
        super().__init__(f"not ready within {timeout:g}s ({last})")


class CannotLook(Exception):
    """There was no look at all, because something was wanting on this side."""


class ReadyProbe:
    """Made before the instance is started, so that no line it prints is missed; waited for afterwards."""

    def __init__(self, ready: Ready, instance: Instance, look: Look | None = None) -> None:
        self._ready = ready
        self._instance = instance
        self._look = look
        self._is_it = None if ready.log is None else finding(ready.log)
        self._seen = asyncio.Event()
        self._listens = self._is_it is not None
        self._before = instance.on_line
        if self._listens:
            instance.on_line = self._line

    async def wait(self) -> None:
        """Until it is ready; raises `NotReady` when its time is up. It may be cancelled."""
        ready = self._ready
        try:
            if ready.delay is not None:
                await asyncio.sleep(float(ready.delay))  # type: ignore[arg-type]
            elif ready.log is not None:
                await self._wait_for_line(ready.log)
            else:
                await self._try_until_well(self._look or looking(ready))
        finally:
            self.close()

    def close(self) -> None:
        """Listen no more; for one that is not waited for, and harmless otherwise."""
        if self._listens:
            self._listens = False
            self._instance.on_line = self._before

    def _line(self, line: str) -> None:
        if self._before is not None:
            self._before(line)
        if self._is_it is not None and self._is_it(line):
            self._seen.set()
            self.close()

    async def _wait_for_line(self, text: str) -> None:
        timeout = float(self._ready.timeout)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(timeout):
                await self._seen.wait()
        except TimeoutError:
            raise NotReady(timeout, f"no complete line with {shown(text)}") from None

    async def _try_until_well(self, look: Look) -> None:
        """At once and soon again at first, so that one that is quick is seen quickly, and then ever more rarely. When a
        try took long, the next may take longer: it is either the connection that was lost, or the child is slow."""
        loop = asyncio.get_running_loop()
        timeout = float(self._ready.timeout)  # type: ignore[arg-type]
        end = loop.time() + timeout
        pause, limit, last = FIRST_PAUSE, FIRST_LIMIT, ""
        while (left := end - loop.time()) > 0:
            begun = loop.time()
            try:
                why = await look(min(limit, left))
            except CannotLook as error:
                why = str(error)
            if not why:
                return
            # A try that was cut short because the time was up says less than the one before it.
            last = why if left >= limit or not last else last
            if loop.time() - begun > limit / 2:
                limit = min(limit * 2, LONGEST_LIMIT)
            await asyncio.sleep(max(0.0, min(pause, end - loop.time())))
            pause = min(pause * 2, LONGEST_PAUSE)
        raise NotReady(timeout, f"last: {last}")


async def until_unwell(alive: Alive, paused: Callable[[], bool], look: Look | None = None) -> str:
    """Why it is taken not to be well any more. While `paused`, nobody looks, and what was seen before is forgotten."""
    loop = asyncio.get_running_loop()
    look = look or looking(alive)
    every, timeout = float(alive.every), float(alive.timeout)  # type: ignore[arg-type]
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
        # It may have been paused in the middle of a look.
        failed = failed + 1 if why and not paused() else 0
        if failed >= alive.failures:
            count = "a look" if failed == 1 else f"{failed} looks in a row"
            return f"not well: {count} failed (last: {why})"


def finding(text: str) -> Callable[[str], bool]:
    """Tells whether a line has the text in it, where `*` stands for anything. It is no regular expression: one of those
    may take for ever over a line, and the whole event loop with it."""
    parts = [part for part in text.split("*") if part]

    def is_it(line: str) -> bool:
        # Each part where it is found first: what follows has the most room there.
        end = 0
        for part in parts:
            begin = line.find(part, end)
            if begin < 0:
                return False
            end = begin + len(part)
        return True

    return is_it


def looking(probe: Ready | Alive) -> Look:
    """How one looks by HTTP or TCP."""
    if probe.http is not None:
        url = probe.http

        async def look(limit: float) -> str:
            return await _told(_get(url, limit), limit)
    else:
        host, port = check_address(f"{probe.where}.tcp", probe.tcp)

        async def look(limit: float) -> str:
            return await _told(_connect(host, port, limit), limit)

    return look


async def _told(work: Awaitable[str], limit: float) -> str:
    """What was raised, as a reason."""
    try:
        return await work
    except TimeoutError:
        return f"no answer within {brief(limit)}"
    except OSError as error:
        why = _reason(error)
        if error.errno in OUR_OWN:
            raise CannotLook(why) from None
        return why
    except ValueError as error:
        # The name of a host that cannot be one.
        return str(error)


async def _connect(host: str, port: int, limit: float) -> str:
    async with asyncio.timeout(limit), _connected(host, port):
        return ""


async def _get(url: str, limit: float) -> str:
    # Here and below: a supervisor that asks nobody by HTTP need not have what takes URLs apart in its memory.
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    async with asyncio.timeout(limit) as clock, _connected(parts.hostname or "", parts.port or 80) as (reader, writer):
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
        # It is decided; what follows must not change it.
        clock.reschedule(None)
        await _let_finish(reader)
        return "" if 200 <= int(answer[1]) <= 399 else f"status {int(answer[1])}"


def _request(parts: "SplitResult") -> bytes:
    credentials, _, host = parts.netloc.rpartition("@")
    lines = [
        f"GET {parts.path or '/'}{'?' if parts.query else ''}{parts.query} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: interlock",
        "Accept: */*",
        "Connection: close",
    ]
    if credentials:
        import base64
        from urllib.parse import unquote

        lines.append(f"Authorization: Basic {base64.b64encode(unquote(credentials).encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _let_finish(reader: asyncio.StreamReader) -> None:
    """A child that is cut off in the middle of its answer would tell of an error that is none."""
    left = MOST_READ
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(POLITE):
            while left > 0 and (data := await reader.read(left)):
                left -= len(data)


@asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, limit=MOST_BUFFERED)
    try:
        # On loopback, a try at a port from which the system also gives out its own can end up connected to itself.
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        yield reader, writer
    finally:
        writer.transport.abort()


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    # The loops word it differently, and join what they were told by each address of a name; the numbers are the same.
    numbers = dict.fromkeys(_NUMBER.findall(str(error)))
    return ", ".join(os.strerror(int(number)).lower() for number in numbers) or str(error) or type(error).__name__
