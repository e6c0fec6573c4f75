"""How a payload becomes the arguments of a function, whatever shape the function has."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from interlock.error import BadHandler, BadPayload
from interlock.model.job import ExecutorKind, Job
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from interlock.worker.definition import Definition, kind_of

CONTEXT = Context(Dispatch("r", 1, "job", 1, b"{}", None, False, 1.0), lambda message: None)


def define(handler: Callable[..., Any]) -> Definition:
    return Definition(Job(id="job"), handler)


def call(handler: Callable[..., Any], payload: bytes) -> Any:
    definition = define(handler)
    definition.check(payload)
    return handler(**definition.arguments(payload, CONTEXT))


@dataclass
class Picky:
    number: int

    def __post_init__(self) -> None:
        raise KeyError(f"not {self.number}\nof all numbers")


class Multiplier:
    def __call__(self, left: int, right: int = 2) -> int:
        return left * right


def plain(left: int, right: int = 2) -> int:
    return left - right


def late_context(left: int, context: Context) -> tuple[int, Any]:
    return left, context


def keyword_context(*, ctx: Context, left: int) -> tuple[int, Any]:
    return left, ctx


def open_ended(when: date, **rest: Any) -> tuple[date, dict[str, Any]]:
    return when, rest


def mutable_default(items: list[int] = [1]) -> list[int]:  # noqa: B006 - users do this
    return items


@pytest.mark.parametrize(
    ("handler", "payload", "result"),
    [
        (plain, b'{"left": 5}', 3),
        (functools.partial(plain, right=1), b'{"left": 5}', 4),
        (Multiplier(), b'{"left": 5}', 10),
        (late_context, b'{"left": 1}', (1, CONTEXT)),
        (keyword_context, b'{"left": 1}', (1, CONTEXT)),
        (open_ended, b'{"when": "2026-01-02", "other": [1]}', (date(2026, 1, 2), {"other": [1]})),
        (mutable_default, b"{}", [1]),
    ],
)
def test_every_ordinary_shape_of_function_can_be_a_job(
    handler: Callable[..., Any], payload: bytes, result: object
) -> None:
    assert call(handler, payload) == result


@pytest.mark.parametrize(
    ("handler", "payload", "says"),
    [
        (plain, b"{}", "argument 'left' is missing"),
        (plain, b'{"left": "x"}', "argument 'left': expected int, got str"),
        (plain, b'{"left": 1, "rigth": 2}', "'rigth' is unknown; did you mean 'right'?"),
        (plain, b"[1]", "expected object, got array"),
        (plain, b'{"left": 1', "truncated"),
        (open_ended, b'{"when": 5}', "argument 'when'"),
        (open_ended, b"{}", "argument 'when' is missing"),
        (late_context, b'{"left": 1, "context": 1}', "'context'"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_name(handler: Callable[..., Any], payload: bytes, says: str) -> None:
    with pytest.raises(BadPayload) as caught:
        define(handler).check(payload)
    assert says.lower() in str(caught.value).lower()


def test_a_type_that_raises_when_it_checks_itself_refuses_the_payload_on_one_line() -> None:
    def handler(value: Picky) -> None: ...

    with pytest.raises(BadPayload) as caught:
        define(handler).check(b'{"value": {"number": 3}}')
    assert "KeyError" in str(caught.value)
    assert "\n" not in str(caught.value)


def numbers() -> Iterator[int]:
    yield 1


async def later_numbers() -> AsyncIterator[int]:
    yield 1


def positional(left: int, /) -> None: ...


def variadic(*left: int) -> None: ...


def impossible(left: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821 - that is the point
    ...


@pytest.mark.parametrize("handler", [numbers, later_numbers, positional, variadic, impossible, 5, "text"])
def test_what_cannot_be_a_job_is_refused_when_it_is_defined(handler: Any) -> None:
    with pytest.raises(BadHandler):
        define(handler)


def test_where_a_function_runs_follows_from_what_it_is() -> None:
    async def later() -> None: ...

    assert kind_of(later, False) is ExecutorKind.ASYNC
    assert kind_of(functools.partial(later), False) is ExecutorKind.ASYNC
    assert kind_of(plain, False) is ExecutorKind.THREAD
    assert kind_of(Multiplier(), False) is ExecutorKind.THREAD
    assert kind_of(later, True) is ExecutorKind.PROCESS
