"""Carrying out operations with blocking sockets: a pool of kept connections that threads may share."""

import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, RemoteDisconnected
from typing import Any, TypeVar
from weakref import WeakSet

from interlock.client.http.address import Address
from interlock.client.http.exchange import (
    Failure,
    Iteration,
    Open,
    Operation,
    Pause,
    Policy,
    Read,
    Request,
    Response,
    Tell,
    closed,
)

T = TypeVar("T")

PIECE = 65536


_TRANSPORTS: "WeakSet[BlockingTransport]" = WeakSet()
"""all there are: a forked child has copies of them"""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Link:
    """One open connection, and what is being read from it."""

    def __init__(self, address: Address, timeout: float) -> None:
        if address.path is not None:
            self.http: HTTPConnection = _UnixConnection(address.path, timeout)
        else:
            kind = HTTPSConnection if address.secure else HTTPConnection
            self.http = kind(address.host, address.port, timeout=timeout)
        try:
            self.http.connect()
        except BaseException:
            self.http.close()
            raise
        # The connection forgets its socket when an answer is its last; the answer goes on reading from it.
        self.socket: socket.socket = self.http.sock
        self.response: HTTPResponse | None = None
        self.reused = False

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last answer: what comes unasked is the end, or nothing to rely on."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def send(self, request: Request, path: str, headers: dict[str, str], within: float) -> None:
        """Send it, and wait for the head of the answer."""
        self.socket.settimeout(within)
        try:
            self.http.request(request.method, path, request.body, headers)
        except TimeoutError:
            raise
        except OSError:
            # A server that has seen enough answers before it has read all; that answer says why.
            with suppress(HTTPException, OSError):
                self.response = self.http.getresponse()
                return
            raise
        self.response = self.http.getresponse()

    def answer(self, body: bytes = b"") -> Response:
        assert self.response is not None
        headers = {name.lower(): value for name, value in self.response.getheaders()}
        return Response(self.response.status, headers, body)

    def read(self) -> bytes:
        assert self.response is not None
        if self.response.length is None and not self.response.chunked:
            # It has no end but that of the connection, which may as well have broken within its head.
            raise IncompleteRead(b"")
        return self.response.read()

    def read_piece(self) -> bytes:
        assert self.response is not None
        return self.response.read1(PIECE)

    def interrupt(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.http.close()
        if self.response is not None:
            self.response.close()


def _forked() -> None:
    for one in _TRANSPORTS:
        one.forked()


os.register_at_fork(after_in_child=_forked)


class BlockingTransport:
    """Threads may share it. A request that is made alone is not counted in the pool."""

    def __init__(self, policy: Policy, token: str | None) -> None:
        self._address = policy.address
        self._timeout = policy.timeout
        self._connections = policy.connections
        self._headers = {"User-Agent": "interlock"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._closing = threading.Event()
        self._reset()
        _TRANSPORTS.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(self._connections)
        self._idle: list[_Link] = []
        self._busy: set[_Link] = set()

    def forked(self) -> None:
        """Leave the connections to the parent, and the locks to threads that are not here."""
        for link in self._idle:
            link.close()  # this copy of it alone
        was_closed, self._closing = self._closing.is_set(), threading.Event()
        if was_closed:
            self._closing.set()
        self._reset()

    def close(self) -> None:
        """End everything; what waits in another thread is woken and told."""
        self._closing.set()
        with self._lock:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for link in idle:
            link.close()
        for link in busy:
            link.interrupt()

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, operation: Operation[T]) -> T:
        answer: Response | Failure | None = None
        try:
            while True:
                step = operation.send(answer)
                answer = None
                if isinstance(step, Request):
                    answer = self._ask(step)
                else:
                    self._pause(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # what the generator returns is a T

    def iterate(self, iteration: Iteration) -> Iterator[Any]:
        """What the operation tells, until it ends or the caller leaves."""
        link: _Link | None = None
        answer: Any = None
        try:
            while True:
                step = iteration.send(answer)
                answer = None
                match step:
                    case Tell(value):
                        yield value
                    case Request():
                        answer = self._ask(step)
                    case Open(request):
                        self._release(link)
                        link, answer = self._open(request)
                    case Read() if link is not None:
                        answer = self._read(link)
                    case _:
                        self._pause(step)
        except StopIteration:
            return
        finally:
            self._release(link)

    def _pause(self, step: object) -> None:
        if isinstance(step, Pause) and self._closing.wait(step.seconds):
            raise closed()

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, request: Request) -> Response | Failure:
        if request.alone:
            return self._exchange(request)
        with self._places:
            return self._exchange(request)

    def _exchange(self, request: Request) -> Response | Failure:
        link = self._begin(request)
        if isinstance(link, Failure):
            return link
        whole = False
        try:
            answer = link.answer(link.read())
            whole = True
            return answer
        except (HTTPException, OSError) as error:
            return _failure(error)
        finally:
            self._release(link, keep=whole)

    def _open(self, request: Request) -> tuple[_Link | None, Response | Failure]:
        link = self._begin(request)
        if isinstance(link, Failure):
            return None, link
        answer = link.answer()
        if answer.status == 200:
            return link, answer
        try:
            return None, link.answer(link.read())
        except (HTTPException, OSError) as error:
            return None, _failure(error)
        finally:
            self._release(link)

    def _read(self, link: _Link) -> bytes | Failure:
        try:
            return link.read_piece()
        except (HTTPException, OSError) as error:
            return _failure(error)

    def _begin(self, request: Request) -> _Link | Failure:
        """A link on which the request was sent and the head of its answer has come."""
        link = self._take()
        if link is None:
            try:
                link = _Link(self._address, self._timeout)
            except OSError as error:
                return _unreachable(error)
            with self._lock:
                self._busy.add(link)
        headers = {**self._headers, **request.headers}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        begun = False
        try:
            link.send(request, self._address.prefix + request.path, headers, request.within or self._timeout)
            begun = True
        except (HTTPException, OSError) as error:
            return _failure(error, link.reused)
        finally:
            if not begun:
                self._release(link)
        return link

    # ── the pool ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self) -> _Link | None:
        """A kept connection that is still good."""
        while True:
            with self._lock:
                if self._closing.is_set():
                    raise closed()
                if not self._idle:
                    return None
                link = self._idle.pop()
                self._busy.add(link)
            if link.is_quiet():
                link.reused = True
                return link
            self._release(link)

    def _release(self, link: _Link | None, keep: bool = False) -> None:
        if link is None:
            return
        with self._lock:
            self._busy.discard(link)
            last = link.response is None or link.response.will_close or self._closing.is_set()
            if keep and not last and len(self._idle) < self._connections:
                self._idle.append(link)
                return
        link.close()


def _unreachable(error: OSError) -> Failure:
    if isinstance(error, ssl.SSLError):
        return Failure("insecure", error)
    return Failure("denied" if isinstance(error, PermissionError) else "unreachable", error)


def _failure(error: HTTPException | OSError, reused: bool = False) -> Failure:
    if isinstance(error, TimeoutError):
        return Failure("silent", error)
    if isinstance(error, (OSError, IncompleteRead, RemoteDisconnected)):
        return Failure("lost", error, reused)
    return Failure("garbled", error)
