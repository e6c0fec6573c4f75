"""What workers send is bounded, field by field, before the scheduler believes any of it."""

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from interlock.engine.links import WORKER_MESSAGES
from interlock.fields import payload
from interlock.interface.run_view import info_of
from interlock.model.failure import Failure
from interlock.model.run import Run
from interlock.model.state import State
from interlock.wire import message as m
from interlock.wire.frames import FrameReader
from tests.core.machine import Machine, at_once

KINDS = sorted({*WORKER_MESSAGES, m.Hello, m.Unready, m.Credential} - {m.Unread}, key=lambda kind: kind.__name__)


def fields(kind: type) -> Iterator[tuple[str, inspect.Type]]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for place, field in enumerate(info.fields):
        yield from parts(f"{place} {field.name}", field.type)


def parts(where: str, kind: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """Yield each part of a field that has a bound of its own, with the way to it."""
    if isinstance(kind, inspect.Metadata):
        yield from parts(where, kind.type)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from parts(where, one)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from parts(f"{where} {field.name}", field.type)
    else:
        yield where, kind
        for below in ("item_type", "key_type", "value_type"):
            if (item := getattr(kind, below, None)) is not None:
                yield from parts(f"{where} {below}", item)


def is_bounded(kind: inspect.Type) -> bool:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return (kind.ge, kind.le) != (None, None) and None not in ((kind.ge or kind.gt) or 0, kind.le or kind.lt)
        case inspect.StrType() | inspect.BytesType() | inspect.ListType() | inspect.DictType():
            return kind.max_length is not None
        case _:
            return isinstance(kind, (inspect.BoolType, inspect.NoneType))


@pytest.mark.behaviour("SEC-6")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_message_of_a_worker_has_a_bound(kind: type[m.Message]) -> None:
    assert [where for where, one in fields(kind) if not is_bounded(one)] == []


def beyond(kind: inspect.Type) -> list[Any]:
    """Values that are just outside a bound, or far outside."""
    match kind:
        case inspect.IntType(ge=ge, lt=lt):
            assert ge is not None
            assert lt is not None
            return [ge - 1, lt]
        case inspect.FloatType(ge=ge, le=le):
            assert ge is not None
            assert le is not None
            return [math.nan, math.inf, -math.inf, math.nextafter(ge, -math.inf), math.nextafter(le, math.inf)]
        case inspect.StrType(max_length=most):
            assert most is not None
            return ["x" * (most + 1)]
        case inspect.BytesType(max_length=most):
            assert most is not None
            return [b"x" * (most + 1)] if most < 2**21 else []
    return []


GOOD: dict[type[m.Message], m.Message] = {
    m.Starting: m.Starting("r", 1, ""),
    m.Started: m.Started("r", 1, 0.0),
    m.Finished: m.Finished("r", 1, "succeeded", b"1", "", 0, 0.0, 0.0, Failure(["E"], "", 0.0)),
    m.Lost: m.Lost("r", 1, "", 0),
    m.Returned: m.Returned("r", 1, ""),
    m.Heartbeat: m.Heartbeat([], 0.0),
    m.Load: m.Load(),
    m.Progress: m.Progress("r", 1, 0.0, ""),
    m.Usage: m.Usage("r", 1, 0, 0),
    m.LogMessage: m.LogMessage("r", 1, 0, 0.0, "info", "", ""),
    m.Checkpoint: m.Checkpoint("r", 1, b""),
    m.Leaving: m.Leaving(),
    m.Hello: m.Hello("w", 1, 1, 1, 1, {}, [], "", "", [], {}, 0.0),
    m.Unready: m.Unready("w", "", "", ""),
    m.Credential: m.Credential("t"),
}


def read(*rows: list[Any]) -> list[m.Message]:
    body = msgspec.msgpack.encode(rows)
    return [one for frame in FrameReader(tolerant=True).feed(len(body).to_bytes(4, "big") + body) for one in frame]


@pytest.mark.behaviour("SEC-6", "REC-5")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_field_beyond_its_bound_cannot_be_read_and_the_rest_of_its_frame_can(kind: type[m.Message]) -> None:
    good = msgspec.msgpack.decode(msgspec.msgpack.encode(GOOD[kind]))
    assert read(good) == [GOOD[kind]]
    names = [field.name for field in msgspec.structs.fields(kind)]
    assert len(good) == 1 + len(names), "the sample gives every field"
    for where, one in fields(kind):
        place, *way = where.split()
        if len(way) == 1:
            for value in beyond(one):
                bad = [*good[: int(place) + 1], value, *good[int(place) + 2 :]]
                first, second = read(bad, good)
                assert type(first) is m.Unread, where
                assert second == GOOD[kind]


LARGEST = 1024 * 1024
WRONG = {
    "nothing": b"",
    "no JSON": b"{result}",
    "two values": b"1 2",
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "201 levels": b"[" * 201 + b"]" * 201,
    "201 levels of objects": b'{"a":' * 201 + b"1" + b"}" * 201,
    "a byte too many": b'"' + b"x" * (LARGEST - 1) + b'"',
    "no UTF-8": b'"\xff"',
    "half a surrogate": b'"\\ud800"',
    "no number": b"NaN",
    "a number beyond every float": b"1e999",
    "a whole number that no text shows": b"1" + b"0" * 5000,
}
RIGHT = {
    "null": b"null",
    "200 levels": b"[" * 200 + b"]" * 200,
    "as long as it may be": b'"' + b"x" * (LARGEST - 2) + b'"',
    "a text of brackets": b'"' + b"[" * 500 + b'"',
    "many values": b"[" + b"[1]," * 500 + b"{}]",
}


def ended(result: bytes) -> Run:
    machine = Machine()
    run_id = machine.running()
    machine.finished(run_id, result=result)
    (run,) = machine.ended
    shown = None if run.shown_result is None else payload.decode(run.shown_result)
    assert json.loads(msgspec.json.encode((info_of(run), shown)))[1] == shown
    return run


@pytest.mark.behaviour("SEC-6", "RUN-12")
@pytest.mark.parametrize("result", WRONG.values(), ids=WRONG)
def test_a_result_that_nobody_could_read_fails_its_run_for_good(result: bytes) -> None:
    run = ended(result)
    assert (run.state, run.outcome, run.result) == (State.FAILED, "failed_fatal", None)
    assert run.error is not None
    assert run.error.startswith("result")
    assert len(run.error) < 2000


@pytest.mark.behaviour("RUN-12")
@pytest.mark.parametrize("result", RIGHT.values(), ids=RIGHT)
def test_a_result_at_its_bounds_is_kept(result: bytes) -> None:
    assert (ended(result).state, ended(result).result) == (State.SUCCEEDED, result)


@pytest.mark.behaviour("SEC-6")
def test_a_long_reason_of_a_worker_is_cut() -> None:
    machine = Machine()
    run_id = machine.running()
    machine.lost(run_id, "x" * 60_000)
    assert 2000 <= max(len(one.reason) for one in at_once(machine.store.history(run_id))) < 2100
