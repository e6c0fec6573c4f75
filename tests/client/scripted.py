"""Operations played by hand: each step they take is seen, and what comes of it is given. Nothing is sent."""

from collections.abc import AsyncIterator, Coroutine, Generator
from random import Random
from types import coroutine
from typing import Any, NamedTuple

import msgspec
import pytest

from interlock.client.http.address import read_address
from interlock.client.http.exchange import ClientPolicy, HttpRequest, Response
from interlock.client.http.operations import Operations

NOW = 1_000_000.0


class Pause(NamedTuple):
    seconds: float


class Open(NamedTuple):
    request: HttpRequest


class Read(NamedTuple):
    """The next bytes of a stream."""


class Tell(NamedTuple):
    """An item of an iterator."""

    value: Any


class Clock:
    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at


def policy(clock: Clock | None = None, **options: Any) -> ClientPolicy:
    return ClientPolicy(
        read_address("http://host:1", {}), random=Random(1), elapsed=clock or Clock(), now=lambda: NOW, **options
    )


@coroutine
def step(value: Any) -> Generator[Any, Any, Any]:
    return (yield value)


class ByHand:
    """A transport that does nothing: every call is a step, and its result is what the test sends. Pauses take no time
    but that of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.open_streams = 0

    async def ask(self, request: HttpRequest) -> Any:
        return await step(request)

    async def open(self, request: HttpRequest) -> Any:
        given = await step(Open(request))
        if not isinstance(given, Response) or given.status != 200:
            return given
        self.open_streams += 1
        return _Stream(self, given.headers)

    async def pause(self, seconds: float) -> None:
        await step(Pause(seconds))
        self._clock.at += seconds

    async def close(self) -> None:
        pass


class _Stream:
    def __init__(self, transport: ByHand, headers: Any) -> None:
        self.headers = headers
        self._transport = transport

    async def read(self) -> Any:
        return await step(Read())

    async def close(self) -> None:
        self._transport.open_streams -= 1


class Played:
    """The methods of `Operations`, each as a generator of steps."""

    def __init__(self, policy: ClientPolicy) -> None:
        assert isinstance(policy.elapsed, Clock)
        self.transport = ByHand(policy.elapsed)
        self.operations = Operations(policy, self.transport)

    def __getattr__(self, name: str) -> Any:
        def begin(*arguments: Any, **options: Any) -> Any:
            return steps(getattr(self.operations, name)(*arguments, **options))

        return begin


def steps(given: Any) -> Any:
    return given.__await__() if isinstance(given, Coroutine) else _items(given)


def _items(source: AsyncIterator[Any]) -> Generator[Any, Any, None]:
    while True:
        try:
            item = yield from source.__anext__().__await__()
        except StopAsyncIteration:
            return
        yield Tell(item)


def answered(value: Any, status: int = 200) -> Response:
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(value))


def returned(operation: Any, answer: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        operation.send(answer)
    return end.value.value
