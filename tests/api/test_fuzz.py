"""Whatever is sent to the scheduler's socket, it goes on; whatever is given as a payload, it is taken or refused."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import msgspec.inspect as types
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.api import problems
from interlock.error import InterlockError
from interlock.fields import payload
from interlock.interface.bodies import BatchBody, NewRunBody
from interlock.interface.operation import operation_of
from interlock.interface.run_builder import new_run
from interlock.wire import frames
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.frames import MESSAGES
from interlock.wire.run_request import RetryRun
from tests.api.conftest import sound
from tests.helpers.http import Http
from tests.helpers.jobs import app
from tests.helpers.places import clean_folder
from tests.helpers.secret_jobs import app as secret_app
from tests.helpers.server import Server

LIMIT = 20.0
BOUNDED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
RUNS: list[str] = []
"""runs that there are"""
KNOWN = ["echo", "hold", "w1", "client-1", "default", "main", "succeeded", "failed"]
"""other texts that mean something to a scheduler"""

# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = (
    st.integers(0, 3) | st.sampled_from([-1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
)
RUN = st.integers(0, 7).map(lambda number: RUNS[number % len(RUNS)] if RUNS else "r")
TEXT = RUN | RUN | st.sampled_from(KNOWN) | st.text(max_size=10)
NUMBER = st.floats() | st.sampled_from([0.0, -1.0, 1e9, 1e11, 1e308])
DATA = st.sampled_from([b"{}", b'{"value": 1}', b"null", b"\xff", b""]) | st.binary(max_size=30)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | WHOLE | NUMBER | TEXT | DATA,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def fields_of(kind: type) -> st.SearchStrategy[list[Any]]:
    """The fields of a message, each of the type that it should have, or now and then of any."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    strategies = [value_of(field.type) for field in info.fields]
    return st.tuples(*(st.one_of(one, one, one, one, ANYTHING) for one in strategies)).map(list)


def value_of(kind: types.Type) -> st.SearchStrategy[Any]:  # noqa: C901 - one case for each kind of type
    match kind:
        case types.IntType():
            return WHOLE
        case types.FloatType():
            return NUMBER
        case types.StrType():
            return TEXT
        case types.BoolType():
            return st.booleans()
        case types.BytesType():
            return DATA
        case types.NoneType():
            return st.none()
        case types.UnionType():
            return st.one_of(*(value_of(one) for one in kind.types))
        case types.ListType():
            return st.lists(value_of(kind.item_type), max_size=3)
        case types.TupleType():
            return st.tuples(*(value_of(one) for one in kind.item_types)).map(list)
        case types.StructType():
            return struct_of(kind)
        case _:
            return ANYTHING


STRUCTS: dict[type, st.SearchStrategy[Any]] = {}


def struct_of(kind: types.StructType) -> st.SearchStrategy[Any]:
    """As an array or a mapping, as it travels; made once, for it may have others of its kind in it."""
    if kind.cls not in STRUCTS:
        STRUCTS[kind.cls] = st.deferred(lambda: made[0])
        fields = {field.encode_name: value_of(field.type) for field in kind.fields}
        made = [st.tuples(*fields.values()).map(list) if kind.array_like else st.fixed_dictionaries(fields)]
    return STRUCTS[kind.cls]


def message_of(kind: type) -> st.SearchStrategy[list[Any]]:
    return fields_of(kind).map(lambda fields: [kind.__name__, *fields])


ANY_MESSAGE = st.one_of(*(message_of(kind) for kind in MESSAGES))
GREETING = ["Greeting", m.PROTOCOL]
HELLO = st.lists(st.tuples(RUN, st.integers(0, 3), st.booleans()), max_size=2).map(
    lambda held: ["Hello", "w1", m.PROTOCOL, 1, 4, 1, {"echo": "", "hold": ""}, held, ""]
)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


FRAME = st.one_of(
    st.lists(ANY_MESSAGE, max_size=4).map(lambda messages: framed(msgspec.msgpack.encode(messages))),
    st.lists(ANY_MESSAGE, max_size=4).map(lambda messages: framed(msgspec.msgpack.encode(messages))),
    st.lists(ANY_MESSAGE, min_size=1, max_size=2).map(lambda found: framed(msgspec.msgpack.encode(found))[:-3]),
    ANYTHING.map(lambda value: framed(msgspec.msgpack.encode(value))),
    st.binary(max_size=60).map(framed),
    st.binary(max_size=60),
    st.sampled_from([b"\xff\xff\xff\xff", b"\x02\x00\x00\x01", b"\x00\x00\x00\x00", b"\x01\xff\xff\xff{"]),
    st.integers(2, 100_000).map(lambda depth: framed(b"\x91" * depth)),
)


# ── the scheduler's socket ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def target() -> Iterator[Server]:
    """A scheduler without workers: those who say that they are workers get the work."""
    with clean_folder() as place, sound(Server(place, "--http", "local", "--workers", "0")) as server:
        RUNS.extend(server.local.submit("echo") for _ in range(3))
        yield server


class Good:
    """A client that does as it should."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT)
        self._socket.connect(str(server.socket))
        self._socket.sendall(framed(msgspec.msgpack.encode([GREETING])))
        self._reader = frames.FrameReader()

    def close(self) -> None:
        self._socket.close()

    def ask(self, message: m.Message) -> m.Message:
        self._socket.sendall(frames.encode([message]))
        while True:
            data = self._socket.recv(65536)
            assert data, "the scheduler hung up on a good client"
            for messages in self._reader.feed(data):
                return messages[0]


@pytest.fixture(scope="module")
def good(target: Server) -> Iterator[Good]:
    client = Good(target)
    yield client
    client.close()


def send(server: Server, data: list[bytes], how: str) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(LIMIT)
        peer.connect(str(server.socket))
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in data:
                peer.sendall(part)
            if how == "wait":
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
        if how == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def check_answers(target: Server, good: Good) -> None:
    status = good.ask(r.AskStatus(1))
    assert isinstance(status, r.StatusReport)
    assert status.available
    assert target.process is not None
    assert target.process.poll() is None


HOW = st.sampled_from(["close", "wait", "reset"])


@BOUNDED
@given(st.lists(FRAME, min_size=1, max_size=4), HOW)
def test_a_link_that_begins_with_anything(target: Server, good: Good, data: list[bytes], how: str) -> None:
    send(target, data, how)
    check_answers(target, good)


@BOUNDED
@given(st.lists(FRAME, min_size=1, max_size=5), HOW)
def test_a_client_that_says_anything(target: Server, good: Good, data: list[bytes], how: str) -> None:
    send(target, [framed(msgspec.msgpack.encode([GREETING])), *data], how)
    check_answers(target, good)


@BOUNDED
@given(HELLO, st.lists(FRAME, min_size=1, max_size=5), HOW)
def test_a_worker_that_says_anything(target: Server, good: Good, hello: Any, data: list[bytes], how: str) -> None:
    accepted = good.ask(r.Submit(1, [r.NewRun("echo", b"{}")]))
    assert isinstance(accepted, r.Accepted)
    # The newest are those that such a worker is given.
    RUNS[:] = [*RUNS[-7:], *accepted.run_ids]
    send(target, [framed(msgspec.msgpack.encode([hello])), *data], how)
    check_answers(target, good)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_first_and_later(target: Server, good: Good, kind: type) -> None:
    """In the place of a greeting, after one, and after a worker's hello, with plausible fields."""

    @settings(BOUNDED, max_examples=8)
    @given(message_of(kind), HELLO)
    def body(message: list[Any], hello: Any) -> None:
        frame = framed(msgspec.msgpack.encode([message]))
        send(target, [frame], "wait")
        for first in (GREETING, hello):
            send(target, [framed(msgspec.msgpack.encode([first])), frame, frame], "wait")
        check_answers(target, good)

    body()


def test_after_all_that_every_run_can_be_looked_at(target: Server, good: Good) -> None:
    """Nothing of what was said made it into the store in a form that cannot be shown."""
    http: Http = target.local
    runs = http.runs(limit=1000)
    assert runs
    for run in runs:
        for part in ("", "/history", "/logs"):
            answer = http.get(f"/api/v1/runs/{run['id']}{part}")
            assert answer.status == 200, answer
    with http.events(after=0) as stream:
        stream.until(lambda told: told.data["run_id"] == runs[0]["id"])
    assert isinstance(good.ask(r.Submit(7, [r.NewRun("echo", b"{}")])), r.Accepted)


# ── payloads and bodies ─────────────────────────────────────────────────────────────────────────────────────────────

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.just("$secret"), inner, max_size=4)
    ),
    max_leaves=10,
)
JSON = VALUES.map(lambda value: json.dumps(value, default=str, skipkeys=True).encode())
BYTES = (
    st.binary(max_size=60) | JSON | JSON.map(lambda data: data[:-1]) | st.integers(1, 100_000).map(lambda n: b"[" * n)
)
DEFINITIONS = [*app.definitions.values(), *secret_app.definitions.values()]


def refusal(take: Callable[[], object]) -> InterlockError | None:
    """The error of ours that it raises; anything else that it raises is a fault."""
    try:
        take()
    except InterlockError as error:
        return error
    return None


def is_clear(error: InterlockError) -> bool:
    return problems.details(error).status in (400, 413) and "\n" not in str(error)


@BOUNDED
@given(VALUES)
def test_any_value_as_a_payload(value: Any) -> None:
    for encode in (partial(payload.encode, what="payload"), payload.encode_result):
        error = refusal(lambda encode=encode: payload.decode(encode(value)))  # type: ignore[misc] # the default binds it
        assert error is None or is_clear(error)


@BOUNDED
@given(BYTES, st.sampled_from(DEFINITIONS))
@example(b"{" * 100_000, DEFINITIONS[0])
@example(b'{"value": ' * 100_000, DEFINITIONS[0])
@example(b'{"value": {"$secret": 5}}', DEFINITIONS[0])
@example(b'{"value": ' + b'{"$secret":' * 500 + b"1" + b"}" * 500 + b"}", DEFINITIONS[0])
@example(b'{"value": "\\ud800"}', DEFINITIONS[0])
@example(b'{"password": {"$secret": "x"}, "options": {"$secret": ["y"]}}', DEFINITIONS[-1])
def test_any_bytes_for_any_job(data: bytes, definition: Any) -> None:
    error = refusal(lambda: definition.check(data))
    assert error is None or (error.code == "bad_payload" and is_clear(error))


def read(data: bytes, kind: Any) -> Any:
    """As the routes read a body."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise problems.unreadable(data, error, kind) from error


@BOUNDED
@given(BYTES, st.sampled_from([NewRunBody, BatchBody, operation_of(RetryRun).body]))
@example(b'{"\\n": 1}', NewRunBody)
@example(b'{"runs": [{"job": "echo", "a\\nb": 1}]}', BatchBody)
@example(b'{"a` - at `$.b`": 1}', NewRunBody)
def test_any_bytes_as_a_body(data: bytes, kind: Any) -> None:
    error = refusal(lambda: read(data, kind))
    assert error is None or is_clear(error)


@BOUNDED
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(NewRunBody.__struct_fields__, VALUES)))
def test_any_fields_of_a_body(fields: dict[str, Any]) -> None:
    """What the decoder lets through, a run is made of or a clear error."""

    def take() -> None:
        body = read(json.dumps({"job": "echo"} | fields, default=str, skipkeys=True).encode(), NewRunBody)
        new_run(body.job, body.payload, session=body.session, deadline=body.deadline, at=body.at, delay=body.delay)

    error = refusal(take)
    assert error is None or is_clear(error)
