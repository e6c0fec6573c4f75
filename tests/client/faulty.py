"""A real HTTP server that gives the answers of a script, and misbehaves on purpose."""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from interlock.fields import json_form
from interlock.interface.run_view import RunDetail, RunInternals
from interlock.model.run import RunStats
from interlock.model.state import State

DETAIL = RunDetail(
    id="r1", job_id="echo", tenant="default", session=None, idempotency_key=None, created_at=1.0, scheduled_at=1.0,
    deadline_at=None, job_version="v", lane="main", state=State.SUCCEEDED, previous=None, reason="done", actor="worker",
    created_by="ann", changed_at=2.0, attempt=1, failures=0, crashes=0, worker_id="w", due_at=None, started_at=1.5,
    attempt_started_at=1.5, stop=None, stop_reason=None, ended_at=2.0, outcome="success", exit_code=0,
    internals=RunInternals(seq=5, fence=1, stop_actor=None),
    heartbeats=0, has_checkpoint=False, origin="submit", error=None, payload={}, result={"sum": 3},
    stats=RunStats(
        seconds_in={}, transitions=5, constraints_checked=0, constraints_violated=0, actions_run=0, actions_failed=0,
        attempts=1, failures=0, crashes=0, heartbeats=0, start_latency=0.5, exit_code=0, outcome="success",
    ),
)  # fmt: skip


class Asked(NamedTuple):
    """A request as it arrived, and by which connection: their numbers count up."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


def answer(value: Any = DETAIL, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer; text is sent as it is, anything else as JSON."""
    body = value.encode() if isinstance(value, str) else json_form.encode(value)
    lines = {"Content-Type": kind, "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


def problem(code: str, detail: str, status: int, **headers: str) -> bytes:
    return answer({"code": code, "detail": detail}, status, "application/problem+json", **headers)


def stream(*pieces: str, ends: bool = False) -> bytes:
    """The beginning of a stream of events, or all of it."""
    chunks = b"".join(f"{len(piece.encode()):x}\r\n{piece}\r\n".encode() for piece in pieces)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + chunks + (b"0\r\n\r\n" if ends else b"")


class Reply(NamedTuple):
    """What happens to a request: bytes, and then perhaps the end of the connection."""

    data: bytes = b""
    then: str = "keep"
    """or `close`, `reset`, or `hold`, which leaves it open and says no more"""


OK = Reply(answer())


class Faulty:
    """Answers request after request as `replies` say, and with the last of them from then on."""

    def __init__(self, *replies: Reply, path: Path | None = None, greeting: bytes = b"") -> None:
        self.replies = list(replies) or [OK]
        self.asked: list[Asked] = []
        self.connections: list[socket.socket] = []
        self.closed = 0
        """connections that have ended, by either side"""
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._path = path
        self._greeting = greeting
        """said to whoever comes, before anything is asked; then the connection is closed"""
        if path is not None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(path))
        else:
            self._socket = socket.socket()
            self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self.url = f"unix:{path}" if path is not None else f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._path is not None:
            self._path.unlink()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _begin(self, *call: Any) -> None:
        thread = threading.Thread(target=call[0], args=call[1:], daemon=True)
        self._threads.append(thread)
        thread.start()

    def hang_up(self) -> None:
        """Close every connection, as a server does with those that are idle."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._begin(self._serve, connection, len(self.connections))

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):
            if self._greeting:
                connection.sendall(self._greeting)
                return
            while (asked := _read(reader, number)) is not None:
                with self._lock:
                    self.asked.append(asked)
                    reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                connection.sendall(reply.data)
                if reply.then == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if reply.then in ("close", "reset"):
                    return
                if reply.then == "hold":
                    reader.read()
        self.closed += 1


def _read(reader: Any, number: int) -> Asked | None:
    first = reader.readline()
    if not first:
        return None
    method, path, _ = first.decode("latin-1").split(" ")
    headers: dict[str, str] = {}
    while (line := reader.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body, number)
