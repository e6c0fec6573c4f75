"""A job and the function that does it: how a payload becomes the function's arguments."""

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
        self.is_async = inspect.iscoroutinefunction(handler)
        self.where = f"{handler.__module__}.{handler.__qualname__}"
        self._names: list[str] = []
        self.takes_context = False
        self._open = False
        self._decoder = self._read_signature()

    def _read_signature(self) -> msgspec.json.Decoder[Any]:
        try:
            hints = typing.get_type_hints(self.handler)
        except Exception as error:
            raise BadHandler(f"job {self.job.id!r}: annotations of {self.where} cannot be read: {error}") from error
        fields: list[tuple[str, Any, Any] | tuple[str, Any]] = []
        for place, parameter in enumerate(inspect.signature(self.handler).parameters.values()):
            hint = hints.get(parameter.name, Any)
            if place == 0 and (parameter.name == "ctx" or hint is Context):
                self.takes_context = True
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._open = True
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise BadHandler(
                    f"job {self.job.id!r}: argument {parameter.name!r} of {self.where} cannot be given by name"
                )
            else:
                self._names.append(parameter.name)
                if parameter.default is parameter.empty:
                    fields.append((parameter.name, hint))
                else:
                    # Left out means left out: Python's own default applies, whatever it is.
                    fields.append((parameter.name, hint | UnsetType if hint is not Any else Any, UNSET))
        try:
            if self._open:
                return msgspec.json.Decoder(dict[str, Any])
            arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
            return msgspec.json.Decoder(arguments)
        except (TypeError, ValueError) as error:
            raise BadHandler(
                f"job {self.job.id!r}: arguments of {self.where} cannot come from JSON: {error}"
            ) from error

    def check(self, payload: bytes) -> None:
        """Raise `BadPayload` unless the handler can be called with it."""
        try:
            decoded = self._decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(self.job.id, self._explain(str(error))) from error
        if self._open:
            self._check_open(decoded)

    def _check_open(self, given: dict[str, Any]) -> None:
        signature = inspect.signature(self.handler)
        for name in self._names:
            if name not in given and signature.parameters[name].default is inspect.Parameter.empty:
                raise BadPayload(self.job.id, f"argument {name!r} is missing")

    def arguments(self, payload: bytes) -> dict[str, Any]:
        decoded = self._decoder.decode(payload)
        if self._open:
            return dict(decoded)
        values = ((name, getattr(decoded, name)) for name in self._names)
        return {name: value for name, value in values if value is not UNSET}

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
    return ExecutorKind.ASYNC if inspect.iscoroutinefunction(handler) else ExecutorKind.THREAD
