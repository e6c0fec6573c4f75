"""One HTTP request as its handler sees it, and the answer that it returns."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from difflib import get_close_matches
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec

from interlock import error as e
from interlock.api import problems
from interlock.api.auth import Scope
from interlock.api.protocol import HttpConnection, connection_of
from interlock.fields.duration import seconds
from interlock.interface.operation import Operation
from interlock.interface.operations import OPERATIONS
from interlock.model.access import Caller
from interlock.model.schedule.schedule import instant
from interlock.wire.claim import HEADER
from interlock.wire.parameter import Instant

LONGEST_WAIT = 300.0
PARENT = HEADER.lower().encode()
_WAIT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?(ms|s|m|h|d)")
_KEY = re.compile(r"[ -~]+")

R = TypeVar("R")
T = TypeVar("T")
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Reply(NamedTuple):
    """An answer with headers, or with a status other than its operation's."""

    answer: Any
    headers: tuple[tuple[bytes, bytes], ...] = ()
    status: int | None = None


class HttpCall(msgspec.Struct, Generic[R], frozen=True):
    operation: Operation[Any]
    scope: Scope
    caller: Caller
    headers: Mapping[bytes, bytes]
    request: R
    body: Any  # of an operation whose body is no part of its request

    @property
    def connection(self) -> HttpConnection:
        return connection_of(self.scope)

    @property
    def key(self) -> str | None:
        """The idempotency key in the header."""
        key = self.headers.get(b"idempotency-key")
        if key is None or self.operation.http.key is None:
            return None
        text, longest = key.decode("latin-1"), self.operation.http.key.longest
        if not (len(text) <= longest and _KEY.fullmatch(text)):
            raise e.BadValue("Idempotency-Key", text, f"a text of 1 to {longest} printable ASCII characters")
        return text

    @property
    def parent(self) -> str:
        """The claim of the attempt whose code makes the request; empty for any other caller."""
        claim = self.headers.get(PARENT)
        return "" if claim is None else claim.decode("latin-1")

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns; cancel it when the client hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self.connection.when_lost(task.cancel)
        await asyncio.wait([task])
        if task.cancelled():
            raise e.ConnectionLost("the question")
        return task.result()


HttpHandler = Callable[[HttpCall[Any]], Awaitable[Any]]
Handlers = Mapping[Operation[Any], HttpHandler]


def handlers_of(part: object) -> Handlers:
    """Return the handlers among the methods of `part`: each has the name of its operation."""
    return {operation: getattr(part, operation.name) for operation in OPERATIONS if hasattr(part, operation.name)}


def seconds_of(wait: str | None) -> float:
    """Return the parameter `wait` in seconds."""
    if wait is None:
        return 0.0
    if not _WAIT.fullmatch(wait):
        raise e.BadDuration("wait", wait)
    limit = seconds(wait, "wait")
    if limit > LONGEST_WAIT:
        raise e.BadValue("wait", wait, "a duration of at most 300s")
    return limit


def moment_of(value: Instant | None, field: str) -> float | None:
    return None if value is None else instant(value, field)


# ── query ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class QueryReader:
    """Reads the query of one operation. A parameter that is unknown, or repeated where only one counts, is refused: a
    filter that is mistyped must not be taken for none."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind
        self._empty = kind()
        self._names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        self._lists = {name for name, field in self._names.items() if isinstance(getattr(self._empty, field), list)}

    def read(self, raw: bytes) -> msgspec.Struct:
        if not raw:
            return self._empty
        given: dict[str, Any] = {}
        for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
            if name not in self._names:
                close = get_close_matches(name, self._names, 1)
                raise e.UnknownField(name, close[0] if close else None)
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise e.Repeated(name, value)
            else:
                given[name] = value
        try:
            found = msgspec.convert(given, self._kind, strict=False)
        except msgspec.ValidationError as error:
            raise problems.wrong_parameter(given, error) from None
        for name, value in given.items():
            if getattr(found, self._names[name]) is None:
                # The text `null` is read as if nothing were given.
                raise e.NotHere(name, value, "in a query", "leave the parameter out instead")
        return found


# ── body ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class BodyReader:
    """Reads the JSON body of one operation."""

    def __init__(self, operation: Operation[Any], longest: int) -> None:
        self._kind = operation.body
        self._required = operation.http.body_required
        self._longest = longest
        self._decode = msgspec.json.Decoder(self._kind).decode

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> Any:
        announced = headers.get(b"content-length", b"0")
        if len(announced) > 18 or int(announced) > self._longest:
            raise e.BodyTooLarge(self._longest)
        content_type = headers.get(b"content-type", b"")
        if content_type != b"application/json" and self._required:
            _check_type(content_type)
        body = await self._whole(receive)
        if not self._required:
            if not body:
                # Without a body there is no type of it either.
                return self._kind()
            _check_type(content_type)
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = problems.unreadable(body, error, self._kind)
        # Out here, without its cause: a chain of errors would keep the body in memory until it is collected.
        raise problem

    async def _whole(self, receive: Receive) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise e.ConnectionLost("the request")
            size += len(message["body"])
            if size > self._longest:
                raise e.BodyTooLarge(self._longest)
            parts.append(message["body"])
            more = message["more_body"]
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_type(content_type: bytes) -> None:
    text = content_type.decode("latin-1")
    if text.partition(";")[0].strip().lower() != "application/json":
        raise e.UnsupportedMediaType(f"content-type: {text[:80]!r} is not application/json")
