"""A plain way to speak HTTP with a server, down to single bytes, so that a test sees what is really sent."""

import http.client
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from interlock.model.state import TERMINAL

LIMIT = 30.0
"""seconds after which a server that does not answer is a failure"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    """the names in lower case"""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        code: str = self.json["code"]
        return code


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = connect(self._path)


def connect(address: str | Path, limit: float = LIMIT) -> socket.socket:
    """A connection to a URL's host, or to a Unix socket."""
    if isinstance(address, Path):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(limit)
        try:
            sock.connect(str(address))
        except OSError:
            sock.close()
            raise
        return sock
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname or "", parts.port or 80), limit)


def accepts(address: str | Path) -> bool:
    """Whether somebody listens there: a Unix socket is a file before that."""
    try:
        connect(address).close()
    except OSError:
        return False
    return True


class Http:
    """One request a connection; `token` and `headers` go with each."""

    def __init__(self, address: str | Path, token: str | None = None, headers: Mapping[str, str] = {}) -> None:
        self.address = address
        self._headers = dict(headers) | ({} if token is None else {"Authorization": f"Bearer {token}"})

    def with_token(self, token: str) -> "Http":
        return Http(self.address, token)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}, **query: object) -> Answer:
        """`body` is sent as it is if it is bytes or chunks of them, and as JSON otherwise."""
        given = dict(self._headers)
        if body is not None and not isinstance(body, (bytes, Iterator)):
            body = json.dumps(body).encode()
        if body is not None:
            given["Content-Type"] = "application/json"
        given |= headers
        given = {name: value for name, value in given.items() if value}
        connection = self.connection()
        try:
            connection.request(method, path_with(path, query), body, given, encode_chunked=isinstance(body, Iterator))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        if isinstance(self.address, Path):
            return _UnixConnection(self.address)
        return http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=LIMIT)

    def get(self, path: str, headers: Mapping[str, str] = {}, **query: object) -> Answer:
        return self.ask("GET", path, None, headers, **query)

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] = {}, **query: object) -> Answer:
        return self.ask("POST", path, body, headers, **query)

    def submit(self, job: str, payload: Any = None, **fields: Any) -> str:
        """Create a run and return its id."""
        answer = self.post("/api/v1/runs", {"job": job, "payload": payload} | fields)
        assert answer.status == 201, answer
        run_id: str = answer.json["id"]
        return run_id

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        answer = self.get(f"/api/v1/runs/{run_id}", wait="30s")
        assert answer.status == 200, answer
        assert answer.json["ended_at"] is not None, answer
        run: dict[str, Any] = answer.json
        return run

    def runs(self, **query: object) -> list[dict[str, Any]]:
        """Every run that is wanted, over all pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            place = query if cursor is None else query | {"cursor": cursor}
            answer = self.get(path_with("/api/v1/runs", place))
            assert answer.status == 200, answer
            found += answer.json["runs"]
            cursor = answer.json["next"]
            if cursor is None:
                return found

    def count(self) -> int:
        """How many runs there are, of every state."""
        return len(self.runs(limit=1000))

    @contextmanager
    def events(self, last: Any = None, **query: object) -> Iterator["EventStream"]:
        """A stream that begins behind `last`, if that is given."""
        headers = self._headers | ({} if last is None else {"Last-Event-ID": cursor_of(last)})
        if "after" in query:
            query["after"] = cursor_of(query["after"])
        with Raw(self.address) as raw:
            raw.send(head("GET", path_with("/api/v1/events", query), **headers))
            yield EventStream(raw)


def seconds_of(time: str) -> float:
    """A time as answers have it, in seconds since 1970."""
    assert time.endswith("Z")
    return datetime.fromisoformat(time).timestamp()


def position_of(cursor: str) -> int:
    assert cursor[0] == "e"
    return int(cursor[1:])


def cursor_of(position: object) -> str:
    """The cursor of a position; a text is one already."""
    return "start" if position == 0 else f"e{position}" if isinstance(position, int) else str(position)


def path_with(path: str, query: Mapping[str, object]) -> str:
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def head(method: str, path: str, **headers: str) -> bytes:
    """The head of a request, with a host that is ours unless another is given."""
    given = {"Host": "localhost"} | headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Raw:
    """A connection on which bytes are sent and answers are read, one after another."""

    def __init__(self, address: str | Path, limit: float = LIMIT) -> None:
        self.sock = connect(address, limit)
        self.file = self.sock.makefile("rb")

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read_head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer; raises `EOFError` if the connection was ended instead."""
        line = self.file.readline()
        if not line:
            raise EOFError("the connection was ended")
        status = int(line.split()[1])
        headers: dict[str, str] = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def answer(self) -> Answer:
        status, headers = self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join(iter(self.chunk, b""))
        else:
            body = self.file.read(int(headers.get("content-length", 0)))
        return Answer(status, headers, body)

    def chunk(self) -> bytes:
        size = int(self.file.readline() or b"0", 16)
        data = self.file.read(size)
        self.file.readline()
        return data

    def ended(self) -> bool:
        """Wait for the other side to end the connection, dropping what it still says."""
        try:
            while self.file.read(65536):
                pass
        except ConnectionResetError:
            pass
        return True


class Told(NamedTuple):
    """One event of a stream."""

    id: int | None
    """the position in its cursor"""
    name: str
    data: Any


class EventStream:
    """Events as they come. Reading beyond what comes within the limit raises `TimeoutError`; the end, `EOFError`."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.status, self.headers = raw.read_head()
        if self.status != 200:
            raise AssertionError(f"{self.status}: {raw.file.read(int(self.headers['content-length'])).decode()}")
        self._text = b""
        self.position = -1
        hello = self.next()
        assert hello.name == "hello", hello
        self.position = position_of(hello.data["cursor"])
        """from where on everything is told"""
        assert hello.id == self.position

    def next(self) -> Told:
        while True:
            block, found, rest = self._text.partition(b"\n\n")
            if not found:
                chunk = self.raw.chunk()
                if not chunk:
                    raise EOFError("the stream ended")
                self._text += chunk
                continue
            self._text = rest
            fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if not line.startswith(":"))
            # A stream of one run says hello again when the stored events are out.
            if "event" in fields and (fields["event"] != "hello" or self.position < 0):
                number = fields.get("id")
                return Told(
                    None if number is None else position_of(number), fields["event"], json.loads(fields["data"])
                )

    def until(self, wanted: Callable[[Told], object]) -> list[Told]:
        """Everything up to and including the first event that is wanted."""
        found: list[Told] = []
        while not found or not wanted(found[-1]):
            found.append(self.next())
        return found


def ends(run_ids: Iterable[str]) -> Callable[[Told], bool]:
    """Whether, with this event, all of these runs have been told to have ended."""
    left = set(run_ids)

    def wanted(told: Told) -> bool:
        if told.name == "run" and told.data["state"] in TERMINAL:
            left.discard(told.data["run_id"])
        return not left

    return wanted
