"""A transport on blocking sockets: a pool of connections that threads may share.

Its coroutines block instead of suspending: one `send` runs them to their end.
"""

import os
import selectors
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, RemoteDisconnected

from interlock.client.http.address import ServerAddress
from interlock.client.http.exchange import AnswerStream, ClientPolicy, FailedExchange, HttpRequest, Response, closed

PIECE = 65536


class BlockingTransport:
    def __init__(self, policy: ClientPolicy, token: str | None) -> None:
        self._policy = policy
        self._headers = {"User-Agent": "interlock"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._begin(closed=False)

    def _begin(self, closed: bool) -> None:
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(self._policy.connections)
        self._idle: list[_Link] = []
        self._busy: set[_Link] = set()
        self._closing = threading.Event()
        if closed:
            self._closing.set()
        self._process = os.getpid()

    async def close(self) -> None:
        self._leave_parent()
        self._closing.set()
        with self._lock:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for link in idle:
            link.http.close()
        for link in busy:
            link.interrupt()

    async def pause(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise closed()

    async def ask(self, request: HttpRequest) -> Response | FailedExchange:
        self._leave_parent()
        with nullcontext() if request.alone else self._places:
            link = self._send(request)
            return link if isinstance(link, FailedExchange) else link.whole()

    async def open(self, request: HttpRequest) -> AnswerStream | Response | FailedExchange:
        self._leave_parent()
        link = self._send(request)
        return link if isinstance(link, FailedExchange) or link.response.status == 200 else link.whole()

    def _leave_parent(self) -> None:
        """After a fork, leave connections to the parent process, and locks to its threads."""
        if os.getpid() != self._process:
            for link in self._idle:
                link.http.close()  # the child's copy alone
            self._begin(self._closing.is_set())

    def _send(self, request: HttpRequest) -> "_Link | FailedExchange":
        """Send a request; return once the head of its answer has arrived."""
        link = None if request.once else self._take()
        if link is None:
            try:
                link = _Link(self, self._policy)
            except OSError as error:
                if isinstance(error, ssl.SSLError):
                    return FailedExchange("insecure", error)
                return FailedExchange("denied" if isinstance(error, PermissionError) else "unreachable", error)
        with self._lock:
            if self._closing.is_set():
                link.http.close()
                raise closed()
            self._busy.add(link)
        try:
            link.send(request, self._headers)
            return link
        except (HTTPException, OSError) as error:
            self.release(link)
            return _failure(error)
        except BaseException:
            self.release(link)
            raise

    def _take(self) -> "_Link | None":
        """Return an idle connection. One with unread bytes was ended by the server, or cannot be trusted."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.is_quiet():
                return link
            link.http.close()

    def release(self, link: "_Link", keep: bool = False) -> None:
        """End the use of a link; `keep` it for the next request if there is room."""
        with self._lock:
            self._busy.discard(link)
            if keep and not self._closing.is_set() and len(self._idle) < self._policy.connections:
                self._idle.append(link)
                return
        link.end()


class _Link:
    """An open connection, and the answer that is being read from it."""

    response: HTTPResponse
    headers: Mapping[str, str]

    def __init__(self, transport: BlockingTransport, policy: ClientPolicy) -> None:
        self._transport = transport
        self._policy = policy
        self.http = _connect(policy.address, policy.timeout)
        # `http` drops its socket when an answer is its last, while the answer still reads from it.
        self._socket: socket.socket = self.http.sock

    def is_quiet(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return not selector.select(0)

    def send(self, request: HttpRequest, headers: Mapping[str, str]) -> None:
        self._socket.settimeout(request.within or self._policy.timeout)
        headers = {**headers, **request.headers}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        with suppress(ConnectionError):  # a server that refuses a request answers before it has read all of it
            self.http.request(request.method, self._policy.address.prefix + request.path, request.body, headers)
        self.response = self.http.getresponse()
        self.headers = {name.lower(): value for name, value in self.response.getheaders()}

    def whole(self) -> Response | FailedExchange:
        """Read the rest of the answer, and give the connection back."""
        keep = False
        try:
            if self.response.length is None and not self.response.chunked:
                # Only the end of the connection ends this answer, and that may be a break within its head.
                raise IncompleteRead(b"")
            body = self.response.read()
            self.response.close()  # left to its finalizer, Python would swallow a Ctrl-C that comes meanwhile
            keep = not self.response.will_close
            return Response(self.response.status, self.headers, body)
        except (HTTPException, OSError) as error:
            return _failure(error)
        finally:
            self._transport.release(self, keep)

    async def read(self) -> bytes | FailedExchange:
        try:
            return self.response.read1(PIECE)
        except (HTTPException, OSError) as error:
            return _failure(error)

    async def close(self) -> None:
        self._transport.release(self)

    def interrupt(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self.http.close()
        if hasattr(self, "response"):
            self.response.close()


def _connect(address: ServerAddress, timeout: float) -> HTTPConnection:
    kind = HTTPSConnection if address.secure else HTTPConnection
    http = kind(address.host, address.port or None, timeout=timeout)
    try:
        if address.path is None:
            http.connect()
        else:
            http.sock = socket.socket(socket.AF_UNIX)
            http.sock.settimeout(timeout)
            http.sock.connect(address.path)
    except BaseException:
        http.close()
        raise
    return http


def _failure(error: HTTPException | OSError) -> FailedExchange:
    if isinstance(error, TimeoutError):
        return FailedExchange("silent", error)
    if isinstance(error, (OSError, IncompleteRead, RemoteDisconnected)):
        return FailedExchange("lost", error)
    return FailedExchange("garbled", error)
