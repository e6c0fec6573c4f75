"""HTTP connections with limits: how many, how large a head, how slow a sender, how slow a reader."""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from interlock.api import problems
from interlock.api.auth import PEER, PeerKind
from interlock.api.peer import is_own, owner_of_peer
from interlock.error import BadRequest, HeadTooLarge, InterlockError, Overloaded, RequestTimeout

LARGEST_HEAD = 64 * 1024
LARGEST_PACKET = 256 * 1024  # most bytes received at once, which may hold complete and incomplete parts
CONNECTION = "interlock.connection"  # in the scope of a request: its connection
MOST_UNREAD = 1024 * 1024  # bytes of a stream that its reader may leave unread
MOST_UNREAD_ANSWERS = 64 * 1024 * 1024  # bytes that all readers who are behind may leave unread together
MOST_BODIES = 256 * 1024 * 1024  # bytes of unanswered requests on all connections together
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
SWEEP = 1.0  # seconds between two checks for slow peers


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 4096
    request: float = 30.0  # seconds for a request to arrive, and for a reader to take more of an answer


class HttpLoad(msgspec.Struct):
    """Load of all connections together."""

    bodies: int = 0  # bytes of unanswered requests
    behind: dict["HttpConnection", None] = {}  # connections with more than 64 KiB unread, longest first

    def relieve(self) -> None:
        """While too much is unread, cut off the readers who have been behind for longest, but never the last one."""
        unread = {one: one.transport.get_write_buffer_size() for one in self.behind}
        total = sum(unread.values())
        for connection in list(unread)[:-1]:
            if total <= MOST_UNREAD_ANSWERS:
                return
            del self.behind[connection]
            connection.abort()
            total -= unread[connection]


class HttpConnection(HttpToolsProtocol):
    """One connection. `sweep` ends it when the peer takes too long."""

    limits: HttpLimits  # set on the class that `limited` makes
    load: HttpLoad  # likewise, shared by all connections
    looks_for_owner: bool  # likewise: whether to look up the owner of the peer

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._awaiting: float | None = self.loop.time()  # start of the wait for a request, or of its arrival
        self._arriving = False  # a request has begun and is not complete
        self._unfinished = 0  # bytes received since the parser last completed a part
        self._size = 0
        self._body = 0  # bytes of its requests that are not answered yet
        self._unread: tuple[float, int] | None = None  # time since which this number of bytes is unread
        self._peer = PeerKind.ANYBODY
        self._answering: Any = None
        """the request being answered; `cycle` is the latest, which may wait behind it"""
        self._lost = False
        self._on_lost: Callable[[], object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            # Many connections at the port do not shut the owner out.
            self._peer = PeerKind.SOCKET
        elif len(self.connections) > self.limits.connections:
            self._refuse(
                Overloaded(f"connections: the limit of {self.limits.connections:,} is reached; try again later")
            )
        elif self.looks_for_owner and sock is not None and is_own(owner_of_peer(sock)):
            self._peer = PeerKind.OWN

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        self.load.behind.pop(self, None)
        self._forget_bodies()
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
        if self._on_lost is not None:
            self._on_lost()
            self._on_lost = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self.load.behind[self] = None
        self.load.relieve()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.load.behind.pop(self, None)

    @property
    def lost(self) -> bool:
        return self._lost

    def when_lost(self, call: Callable[[], object]) -> None:
        """Call this if the connection ends before the answer does; at once if it has ended already."""
        if self._lost:
            call()
        else:
            self._on_lost = call

    def data_received(self, data: bytes) -> None:
        if self.parser is None or self.transport.is_closing():
            return
        if self._awaiting is None and (self.cycle is None or self.cycle.response_complete):
            self._awaiting = self.loop.time()
        # The parser keeps a field of the head or the trailer until it is complete.
        self._unfinished += len(data)
        if self._unfinished > LARGEST_HEAD + LARGEST_PACKET:
            self._refuse(HeadTooLarge(f"head: larger than {LARGEST_HEAD:,} bytes"))
            return
        self._unset_keepalive_if_required()
        if not self._arriving and b"pgrade" in data:
            data = _without_upgrade(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            # Not logged: anybody who finds the port could fill the log.
            self._refuse(BadRequest("request: this is not HTTP/1.1"))
        except httptools.HttpParserUpgrade:
            # The parser would read what follows as another protocol: a body here is a request to it.
            self._refuse(BadRequest("upgrade: no other protocol is spoken here"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving = True
        self._size = 0
        scope: Any = self.scope
        scope[CONNECTION] = self
        scope[PEER] = self._peer

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._grow(len(name) + len(value) + 4)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > LARGEST_HEAD:
            self._refuse(HeadTooLarge(f"head: larger than {LARGEST_HEAD:,} bytes"))
            raise httptools.HttpParserError("head too large")

    def on_headers_complete(self) -> None:
        self._unfinished = 0
        if self.parser.should_upgrade():
            # Not answered: its end is unknown.
            return
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        if self.cycle.response_complete:
            # It was answered unread; the rest of it is dropped.
            return
        self._body += len(body)
        self.load.bodies += len(body)
        if self.load.bodies > MOST_BODIES:
            self._refuse(Overloaded("body: too many large requests at once"))
            return
        super().on_body(body)

    def _forget_bodies(self) -> None:
        self.load.bodies -= self._body
        self._body = 0

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        # After an answer that did not wait for the body, the connection waits for the next request.
        self._awaiting = self.loop.time() if self.cycle.response_complete else None
        self._arriving = False
        self._unfinished = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._on_lost = None
        self._forget_bodies()
        if self._arriving and self._awaiting is None:
            # The next request arrived behind this one and was held back until now.
            self._awaiting = self.loop.time()
        super().on_response_complete()

    def _refuse(self, error: InterlockError) -> None:
        """Answer below the application, and close the connection."""
        if self.transport.is_closing():
            return
        found = problems.details(error)
        body = msgspec.json.encode(found)
        head = b"".join(b"%s: %s\r\n" % header for header in problems.headers(error))
        length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        answering = self._answering
        if answering is None or answering.response_complete or not answering.response_started:
            self.transport.write(STATUS_LINE[found.status] + head + length + body)
        self.transport.close()

    def write_through(self, chunk: bytes) -> bool:
        """Send a part of an answer without waiting; return False, and send nothing, if too much is unread."""
        if self.transport.is_closing():
            return True
        if self.transport.get_write_buffer_size() > MOST_UNREAD:
            return False
        self.transport.write(chunk)
        return True

    def abort(self) -> None:
        """Close the connection at once; unread bytes are dropped."""
        self.transport.abort()

    def sweep(self, now: float) -> None:
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size() == 0:
                return
        elif self._awaiting is not None and now - self._awaiting > self.limits.request:
            self._refuse(RequestTimeout(f"request: not complete after {self.limits.request:g}s"))
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._unread = None
        elif self._unread is None or waiting < self._unread[1]:
            self._unread = (now, waiting)
        elif now - self._unread[0] > self.limits.request:
            self.abort()


def connection_of(scope: Any) -> HttpConnection:
    """Return the connection of a request."""
    connection: HttpConnection = scope[CONNECTION]
    return connection


def limited(limits: HttpLimits, looks_for_owner: bool) -> type[HttpConnection]:
    members = {"limits": limits, "load": HttpLoad(), "looks_for_owner": looks_for_owner}
    return type("LimitedConnection", (HttpConnection,), members)


def _without_upgrade(data: bytes) -> bytes:
    """Hide offers of another protocol in a head. A server may ignore them, but the parser would accept."""
    end = data.find(b"\r\n\r\n")
    return data if end < 0 else _UPGRADE.sub(b"\r\nx-upgrd:", data[: end + 2]) + data[end + 2 :]
