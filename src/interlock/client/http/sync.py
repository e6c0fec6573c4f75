"""Blocking methods made from coroutines: an operation is written once, as a coroutine, for both clients."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from types import FunctionType, GenericAlias
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args, overload

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a transport that blocks: it never suspends, so its first step is its last."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for an event loop")


@overload
def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]: ...


@overload
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], convert: Callable[[T], U]
) -> Callable[Concatenate[Any, P], U]: ...


def blocking(method: Any, convert: Any = None) -> Any:
    """Make the blocking twin of an async method, which runs on `self._target`."""

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        found = finish(method(self._target, *arguments, **options))
        return found if convert is None else convert(found)

    if convert is None or isinstance(convert, type):
        return _twin(call, method, convert or method.__annotations__["return"])
    return _twin(call, method, convert.__annotations__["return"])


def iterate(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of an async generator on a transport that blocks."""
    try:
        while True:
            yield finish(source.__anext__())
    except StopAsyncIteration:
        return
    finally:
        finish(source.aclose())


def blocking_iterator(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Make the blocking twin of a method that returns an async iterator."""

    def call(self: Any, *arguments: Any, **options: Any) -> Iterator[T]:
        return iterate(cast(AsyncGenerator[T, None], method(self._target, *arguments, **options)))

    twin: Callable[Concatenate[Any, P], Iterator[T]] = _twin(
        call, method, GenericAlias(Iterator, get_args(method.__annotations__["return"]))
    )
    return twin


def _twin(call: Any, method: Any, returns: object) -> Any:
    """Give `call` the name, signature and docstring of a method, and its own result type: for `help` and `inspect`."""
    shape = FunctionType(method.__code__, {}, method.__name__, method.__defaults__, method.__closure__)
    shape.__kwdefaults__ = method.__kwdefaults__
    shape.__annotations__ = method.__annotations__ | {"return": returns}
    update_wrapper(call, method).__wrapped__ = shape
    return call
