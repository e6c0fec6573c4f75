"""A job and the function that does it: how a payload becomes the function's arguments."""

import functools
import inspect
import re
import typing
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from interlock.model.error import BadHandler, BadPayload
from interlock.model.job import ExecutorKind, Job
from interlock.worker.context import Context

Handler = Callable[..., Any]

_MISSING = re.compile(r"Object missing required field `(.+?)`(?: - at `\$(.*)`)?")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$(.*)`)?")
_WRONG = re.compile(r"(.+?) - at `\$\.?(.+)`")


class Definition:
    """Reads the signature once; `arguments` then turns JSON into keyword arguments or says which one is wrong."""

    def __init__(self, job: Job, handler: Handler) -> None:
        self.job = job
        self.handler = handler
        self.is_async = is_async(handler)
        self.where = where_of(handler)
        self._names: list[str] = []
        self._context: str | None = None
        """the name of the argument that takes the context"""
        self._open = False
        """takes arguments that it does not name"""
        self._decoder = self._read_signature()

    def _bad(self, problem: str) -> BadHandler:
        return BadHandler(f"job {self.job.id!r}: {self.where} {problem}")

    def _read_signature(self) -> msgspec.json.Decoder[Any]:
        if inspect.isgeneratorfunction(self.handler) or inspect.isasyncgenfunction(self.handler):
            raise self._bad("is a generator; a handler returns its result")
        try:
            hints = typing.get_type_hints(_plain_function(self.handler))
            parameters = list(inspect.signature(self.handler).parameters.values())
        except Exception as error:
            raise self._bad(f"has a signature that cannot be read: {error}") from error
        fields: list[tuple[str, Any, Any] | tuple[str, Any]] = []
        for place, parameter in enumerate(parameters):
            hint = hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_KEYWORD:
                self._open = True
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise self._bad(f"has an argument {parameter.name!r} that cannot be given by name")
            elif hint is Context or (place == 0 and parameter.name == "ctx"):
                self._context = parameter.name
            else:
                self._names.append(parameter.name)
                if parameter.default is parameter.empty:
                    fields.append((parameter.name, hint))
                else:
                    # Left out means left out: Python's own default applies, whatever it is.
                    fields.append((parameter.name, hint | UnsetType if hint is not Any else Any, UNSET))
        try:
            arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open)
            return msgspec.json.Decoder(arguments)
        except (TypeError, ValueError) as error:
            raise self._bad(f"has arguments that cannot come from JSON: {error}") from error

    def check(self, payload: bytes) -> None:
        """Raise `BadPayload` unless the handler can be called with it."""
        try:
            self._decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(self.job.id, self._explain(str(error))) from error
        except Exception as error:
            # Types of the app may check themselves, and raise what they like.
            raise BadPayload(self.job.id, f"{type(error).__name__}: {' '.join(str(error).split())}") from error

    def arguments(self, payload: bytes, context: Context) -> dict[str, Any]:
        """The keyword arguments to call the handler with."""
        if not self._names and not self._open:
            return {} if self._context is None else {self._context: context}
        decoded = self._decoder.decode(payload)
        given: dict[str, Any] = msgspec.json.decode(payload) if self._open else {}
        for name in self._names:
            value = getattr(decoded, name)
            if value is not UNSET:
                given[name] = value
        if self._context is not None:
            given[self._context] = context
        return given

    def _explain(self, text: str) -> str:
        if match := _MISSING.fullmatch(text):
            return f"argument {_at(match[2], match[1])!r} is missing"
        if match := _UNKNOWN.fullmatch(text):
            close = get_close_matches(match[1], self._names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"there is no argument {_at(match[2], match[1])!r}{hint}"
        if match := _WRONG.fullmatch(text):
            return f"argument {match[2]!r}: {match[1][0].lower()}{match[1][1:].replace('`', '')}"
        return text.replace("`", "")


def _at(path: str | None, name: str) -> str:
    return f"{path.lstrip('.')}.{name}" if path else name


def kind_of(handler: Handler, processes: bool) -> ExecutorKind:
    if processes:
        return ExecutorKind.PROCESS
    return ExecutorKind.ASYNC if is_async(handler) else ExecutorKind.THREAD


def is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(_plain_function(handler))


def where_of(handler: Handler) -> str:
    function = _plain_function(handler)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(handler).__name__)}"


def _plain_function(handler: Handler) -> Handler:
    """The function behind a partial or an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):
        raise BadHandler(f"{handler!r} cannot be called: a job is a function")
    return handler if inspect.isroutine(handler) or inspect.isclass(handler) else type(handler).__call__
