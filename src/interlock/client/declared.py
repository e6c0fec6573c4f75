"""Methods of clients and apps that are made from a request: its fields are the arguments, its answer is the result.

    worker = sends(AskWorker)

is `async def worker(self, worker_id: str) -> WorkerInfo` in a class that awaits, and a plain method in one that blocks.
`lists` makes a method that yields the items of all pages.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from enum import StrEnum
from types import GenericAlias, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from interlock.client.http.sync import finish, iterate
from interlock.error import BadValue
from interlock.interface.operation import CALLER
from interlock.wire.operation import Declared, GatewayRequest, Order, Question

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E", bound=StrEnum)
PAGE = 500


class RequestSender(ABC):
    """Sends requests to a server over HTTP, or to a scheduler over a link."""

    @abstractmethod
    async def _send(self, request: Declared[A]) -> A: ...


class Awaits(RequestSender):
    """Its methods are coroutines."""


class Blocks(RequestSender):
    """Its methods block, and `_send` never suspends."""


class Method(Generic[P, B, A]):
    """A method that returns `A` in a class that awaits, and `B` in one that blocks."""

    def __init__(self, kind: Any, take: Callable[[Any], Any]) -> None:
        self._kind = kind
        self._take = take
        self._hidden = {"cursor"} if issubclass(kind, GatewayRequest) else {"cursor", *CALLER} - {"action"}

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Blocks, owner: type) -> Callable[P, B]: ...
    @overload
    def __get__(self, client: Awaits, owner: type) -> Callable[P, A]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        call = self._block if issubclass(owner, Blocks) else self._call
        return self._described(call, owner) if client is None else MethodType(call, client)

    def _request(self, arguments: Any, named: Any) -> Any:
        if hidden := self._hidden & named.keys():  # nobody acts in the name of another
            raise TypeError(f"{self._name}() got an unexpected keyword argument {min(hidden)!r}")
        first = () if issubclass(self._kind, GatewayRequest) else (0,)
        request = self._kind(*first, *arguments, **named)
        action, actions = getattr(request, "action", None), self._kind.http.actions
        if actions and action not in actions:
            raise BadValue("action", action, f"one of {', '.join(actions)}")
        return request

    async def _answer(self, client: RequestSender, request: Any) -> Any:
        return self._take(await client._send(request))

    def _call(self, client: RequestSender, *arguments: Any, **named: Any) -> Any:
        return self._answer(client, self._request(arguments, named))

    def _block(self, client: RequestSender, *arguments: Any, **named: Any) -> Any:
        return finish(self._call(client, *arguments, **named))

    def _returns(self, owner: type) -> Any:
        if self._take is _itself:
            return self._kind.answer
        names = self._take.__code__.co_names  # of `lambda answer: answer.name`
        return get_type_hints(self._kind.answer)[names[0]] if names else None

    def _described(self, call: Callable[..., Any], owner: type) -> Callable[..., Any]:
        """Return the method of a class as `help` and `inspect` show it."""

        def method(client: Any, *arguments: Any, **named: Any) -> Any:
            return call(client, *arguments, **named)

        kind, hints = self._kind, get_type_hints(self._kind)
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)] + [
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if field.required else field.default,
                annotation=hints[field.name],
            )
            for field in msgspec.structs.fields(kind)
            if field.name not in self._hidden
        ]
        method.__name__ = method.__qualname__ = self._name
        signature = inspect.Signature(parameters, return_annotation=self._returns(owner))
        method.__signature__ = signature  # type: ignore[attr-defined] # read by inspect
        method.__doc__ = "\n\n".join(kind.http.actions.values()) or kind.__doc__
        return method


class PagedMethod(Method[P, B, A], Generic[P, B, A]):
    """A method that yields the items of all pages, or `limit` of them."""

    def __init__(self, kind: Any, take: Callable[[Any], Any], page: int) -> None:
        super().__init__(kind, take)
        self._page = page

    def _call(self, client: RequestSender, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        limit = named.pop("limit", None)
        from interlock.client.http.request import request_of

        size = _page_size(limit, self._page)
        request = msgspec.structs.replace(self._request(arguments, named), limit=size)
        request_of(request)  # refuses it now, and not with the first item
        return self._items(client, request, limit)

    def _block(self, client: RequestSender, *arguments: Any, **named: Any) -> Iterator[Any]:
        return iterate(self._call(client, *arguments, **named))  # type: ignore[arg-type] # it is a generator

    async def _items(self, client: RequestSender, request: Any, limit: int | None) -> AsyncIterator[Any]:
        async for page in pages(client, request):
            items: Sequence[Any] = self._take(page)
            for item in items[:limit]:
                yield item
            if limit is not None and (limit := limit - len(items)) <= 0:
                return

    def _returns(self, owner: type) -> Any:
        (item,) = super()._returns(owner).__args__
        return GenericAlias(Iterator if issubclass(owner, Blocks) else AsyncIterator, (item,))


async def pages(client: RequestSender, request: Any) -> AsyncIterator[Any]:
    """Yield the page that a request asks for, and all that follow."""
    while True:
        page = await client._send(request)
        yield page
        if page.next is None:
            return
        request = msgspec.structs.replace(request, cursor=page.next)


def _page_size(limit: int | None, most: int) -> int:
    """Return the size of the pages to ask for, given the number of wanted items."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadValue("limit", limit, "a whole number of 1 or more")
    return min(most, limit or most)


def _itself(answer: A) -> A:
    return answer


@overload
def sends(
    kind: Callable[Concatenate[int, P], Question[A] | Order[A]],
) -> Method[P, A, Coroutine[Any, Any, A]]: ...
@overload
def sends(
    kind: Callable[Concatenate[int, P], Question[A] | Order[A]], take: Callable[[A], B]
) -> Method[P, B, Coroutine[Any, Any, B]]: ...
@overload
def sends(kind: Callable[P, GatewayRequest[A]]) -> Method[P, A, Coroutine[Any, Any, A]]: ...
@overload
def sends(kind: Callable[P, GatewayRequest[A]], take: Callable[[A], B]) -> Method[P, B, Coroutine[Any, Any, B]]: ...
def sends(kind: Any, take: Any = _itself) -> Any:
    """Make a method that sends this request, and returns its answer, or what `take` takes from it."""
    return Method(kind, take)


@overload
def lists(
    kind: Callable[Concatenate[int, P], Question[A]], take: Callable[[A], list[B]]
) -> Method[P, Iterator[B], AsyncIterator[B]]: ...
@overload
def lists(
    kind: Callable[P, GatewayRequest[A]], take: Callable[[A], list[B]], page: int = PAGE
) -> Method[P, Iterator[B], AsyncIterator[B]]: ...
def lists(kind: Any, take: Any, page: int = PAGE) -> Any:
    """Make a method that yields the items that `take` takes from the pages, each of at most `page` items."""
    return PagedMethod(kind, take, page)


def acts(
    kind: Callable[Concatenate[int, str, E, P], Order[A]],
) -> Method[Concatenate[str, E | str, P], A, Coroutine[Any, Any, A]]:
    """Make a method that sends a request with an action, which may also be given as a text."""
    return Method(kind, _itself)
