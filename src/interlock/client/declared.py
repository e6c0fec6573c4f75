"""Methods of clients and apps that are made from a request: its fields are the arguments, its answer is the result.

    worker = sends(AskWorker)

is `async def worker(self, worker_id: str) -> WorkerInfo` in a class that awaits, and a plain method in one that blocks.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from enum import StrEnum
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from interlock.client.http.sync import finish
from interlock.error import BadValue
from interlock.wire.operation import Order, Question

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E", bound=StrEnum)
CALLER = frozenset({"request", "actor", "only_tenant", "parent"})


class Sender(ABC):
    """Sends requests to a scheduler, over HTTP or over a link."""

    @abstractmethod
    async def _send(self, request: Question[A] | Order[A]) -> A: ...


class Awaits(Sender):
    """Its methods are coroutines."""


class Blocks(Sender):
    """Its methods block, and `_send` never suspends."""


class Sends(Generic[P, A]):
    def __init__(self, kind: type[Question[Any] | Order[Any]], take: Callable[[Any], Any]) -> None:
        self._kind = kind
        self._take = take

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Blocks, owner: type) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: Awaits, owner: type) -> Callable[P, Coroutine[Any, Any, A]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        call = self._block if issubclass(owner, Blocks) else self._call
        return self._described(call) if client is None else MethodType(call, client)

    async def _call(self, client: Sender, *arguments: P.args, **named: P.kwargs) -> A:
        request = self._kind(0, *arguments, **named)
        action, actions = getattr(request, "action", None), self._kind.http.actions
        if actions and action not in actions:
            raise BadValue("action", action, f"one of {', '.join(actions)}")
        found: A = self._take(await client._send(request))
        return found

    def _block(self, client: Sender, *arguments: P.args, **named: P.kwargs) -> A:
        return finish(self._call(client, *arguments, **named))

    def _described(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method of a class as `help` and `inspect` show it."""

        def method(client: Any, *arguments: Any, **named: Any) -> Any:
            return call(client, *arguments, **named)

        kind, hints = self._kind, get_type_hints(self._kind)
        empty, plain = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter("self", plain)] + [
            inspect.Parameter(
                field.name, plain, default=empty if field.required else field.default, annotation=hints[field.name]
            )
            for field in msgspec.structs.fields(kind)
            if field.name not in CALLER
        ]
        returns = kind.answer if self._take is _itself else next(iter(get_type_hints(kind.answer).values()))
        method.__name__ = method.__qualname__ = self._name
        method.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
        method.__doc__ = "\n\n".join(kind.http.actions.values()) or kind.__doc__
        return method


def _itself(answer: A) -> A:
    return answer


@overload
def sends(kind: Callable[Concatenate[int, P], Question[A] | Order[A]]) -> Sends[P, A]: ...
@overload
def sends(kind: Callable[Concatenate[int, P], Question[A] | Order[A]], take: Callable[[A], B]) -> Sends[P, B]: ...
def sends(kind: Any, take: Any = _itself) -> Any:
    """Make a method that sends this request, and returns its answer, or what `take` takes from it."""
    return Sends(kind, take)


def acts(kind: Callable[Concatenate[int, str, E, P], Order[A]]) -> Sends[Concatenate[str, E | str, P], A]:
    """Make a method that sends a request with an action, which may also be given as a text."""
    return Sends(kind, _itself)  # type: ignore[arg-type] # a class of such a request
