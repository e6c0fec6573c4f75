"""A job with its function: how a payload, or one merged from several, becomes the function's arguments."""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
import msgspec.inspect as types
from msgspec import UNSET, UnsetType

from interlock.error import BadHandler, BadPayload, BadValue
from interlock.fields import payload
from interlock.fields import payload as payloads
from interlock.fields.secret import DEEPEST, MARK, MARKED, SECRET_NAMES, BadSecret, Secret, from_json, matcher
from interlock.fields.value import ResultType, check_annotation, is_json, parts_of, plain, read_one
from interlock.model.job import ExecutorKind, Job
from interlock.worker.context import Context
from interlock.worker.redaction import Redaction, texts_of

_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
Merge = Callable[[list[dict[str, Any]]], dict[str, Any]]


def problem_of(function: object) -> str:
    """Return why it is not a plain function that can be called with one argument, or an empty text."""
    if not callable(function):
        return "cannot be called"
    if any(is_kind(function) for is_kind in _NOT_PLAIN):
        return "is async or a generator"
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        return f"cannot be called with one argument ({error})"
    except ValueError:  # a function in C may have no signature
        pass
    return ""


def check_merge(job_id: str, merge: object) -> None:
    if problem := problem_of(merge):
        raise BadHandler(f"job {job_id!r}: merge {problem}; use a plain function from a list of payloads to a payload")


def merged(merge: Merge, context: Context) -> bytes:
    """Return the payload that the function makes of all payloads of a run. Whatever it raises fails the attempt."""
    value: object = merge(context.payloads)
    if not isinstance(value, dict):
        raise BadPayload(context.job_id, f"merge returned a {type(value).__name__}; return a dict of arguments")
    return payload.encode(value, "merge", sys.maxsize)


Handler = Callable[..., Any]

_MISSING = re.compile(r"Object missing required field `(.+?)`(?: - at `\$(.*)`)?")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$(.*)`)?")
_WRONG = re.compile(r"(.+?) - at `\$\.?(.+)`")
_QUOTED = re.compile(r"Invalid (?:enum )?value .*?(?= - at `[^`]*`(?: in `[^`]*`)?$|$)")
_TAKES_SECRET = "got `Secret`"


class Definition:
    """Reads the signature once; `arguments` then turns JSON into keyword arguments, or names the wrong one."""

    def __init__(self, job: Job, handler: Handler, merge: Merge | None = None) -> None:
        self.job = job
        self.merge = merge
        self.handler = handler
        self.is_async = is_async(handler)
        self.where = where_of(handler)
        self._names: list[str] = []
        self._context: str | None = None  # the name of the argument that takes the context
        self._open = False  # whether it takes any argument
        self._rich: set[str] = set()  # the arguments with other types than those of JSON
        self._positions: list[str] = []  # the arguments that can be given by position
        self.result_type: ResultType[Any] | None = None  # None if any result fits
        self._type = self._read_signature()
        self._decoder = msgspec.json.Decoder(self._type, dec_hook=read_one)
        if secrets := self._secrets():
            self.job = msgspec.structs.replace(job, secrets=secrets, version="")

    def _bad(self, problem: str) -> BadHandler:
        return BadHandler(f"job {self.job.id!r}: {self.where} {problem}")

    def _read_signature(self) -> type[msgspec.Struct]:
        if inspect.isgeneratorfunction(self.handler) or inspect.isasyncgenfunction(self.handler):
            raise self._bad("is a generator; a handler returns its result")
        try:
            hints = typing.get_type_hints(_plain_function(self.handler), include_extras=True)
            parameters = list(inspect.signature(self.handler).parameters.values())
        except Exception as error:
            raise self._bad(f"has a signature that cannot be read: {error}") from error
        self.result_type = self._read_result(hints.get("return", Any))
        fields: list[tuple[str, Any, Any] | tuple[str, Any]] = []
        for place, parameter in enumerate(parameters):
            hint = hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_KEYWORD:
                self._open = True
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise self._bad(f"has an argument {parameter.name!r} that cannot be given by name")
            elif _is_context(hint) or (place == 0 and parameter.name == "ctx"):
                self._context = parameter.name
            else:
                self._names.append(parameter.name)
                self._read_annotation(parameter.name, hint)
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                    self._positions.append(parameter.name)
                if parameter.default is parameter.empty:
                    fields.append((parameter.name, hint))
                else:
                    # Python's own default applies to a missing argument, whatever it is.
                    fields.append((parameter.name, hint | UnsetType if hint is not Any else Any, UNSET))
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open)

    def _read_annotation(self, name: str, hint: Any) -> None:
        try:
            check_annotation(hint)
        except ValueError as error:
            raise self._bad(f"has an argument {name!r} that cannot be carried: {error}") from error
        if not is_json(hint):
            self._rich.add(name)

    def _read_result(self, hint: Any) -> ResultType[Any] | None:
        try:
            return None if hint in (Any, typing.NoReturn, typing.Never) else ResultType(hint)
        except ValueError as error:
            raise self._bad(f"has a return annotation that cannot be carried: {error}") from error

    def encode(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        """Return the payload of a call with these arguments; raise `BadPayload` or `NotJson`."""
        given = dict(zip(self._positions, arguments, strict=False))
        if len(arguments) > len(given):
            raise BadPayload(self.job.id, f"{len(arguments)} arguments by position; at most {len(given)} are allowed")
        if twice := given.keys() & named:
            raise BadPayload(self.job.id, f"argument {min(twice)!r} is given by position and by name")
        given.update(named)
        for name in self._rich & given.keys():
            given[name] = plain(given[name], f"payload.{name}")
        data = payloads.encode(given, "payload")
        self.check(data)
        return data

    def _secrets(self) -> tuple[str, ...]:
        """Return the arguments that contain a `Secret`."""
        return tuple(
            field.name
            for field in msgspec.structs.fields(self._type)
            if any(isinstance(part, types.CustomType) and part.cls is Secret for part in parts_of(field.type))
        )

    def _read(self, payload: bytes) -> Any:
        """Return the arguments, with every marked value read as a secret."""
        if payload.find(MARKED) < 0:
            return self._decoder.decode(payload)
        return msgspec.convert(from_json(payloads.decode(payload)), self._type, dec_hook=read_one, str_keys=True)

    def check(self, payload: bytes, secret_names: Sequence[str] = SECRET_NAMES) -> None:
        """Raise `BadPayload` unless the handler can be called with it."""
        try:
            self._read(payload)
        except Exception as error:
            raise BadPayload(self.job.id, self._problem(payload, error, secret_names)) from error

    @property
    def argument_names(self) -> list[str] | None:
        return None if self._open else self._names

    def misfit(self, names: Collection[str]) -> str | None:
        """Return why the handler cannot be called with arguments of these names, whatever their values; or None."""
        fields = msgspec.structs.fields(self._type)
        for name in sorted(names):
            if not self._open and name not in self._names:
                return f"job {self.job.id!r} takes no argument {name!r}"
        missing = [field.name for field in fields if field.required and field.name not in names]
        return f"job {self.job.id!r} needs argument {missing[0]!r}" if missing else None

    def mark(self, payload: bytes) -> bytes:
        """Mark each text that the handler takes as a secret, in a payload that has been checked."""
        read, given = self._read(payload), msgspec.json.decode(payload)
        below = {name: _marked(given[name], getattr(read, name)) for name in self.job.secrets if name in given}
        return msgspec.json.encode(given | below)

    def _problem(self, payload: bytes, error: Exception, secret_names: Sequence[str]) -> str:
        # First, because a changed text may hide a secret.
        text = " ".join(self._redaction(payload, secret_names)(str(error)).split())
        if isinstance(error, BadSecret):
            return text
        if isinstance(error, (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)):
            return self._explain(text)
        # Types of the app may check themselves, and raise what they like.
        return f"{type(error).__name__}: {text}"

    def _redaction(self, payload: bytes, secret_names: Sequence[str]) -> Redaction:
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # A payload that cannot be read is not quoted either.
            return Redaction(())
        return Redaction(texts_of(value, self.job.secrets, matcher(tuple(secret_names))))

    def arguments_of(self, context: Context) -> dict[str, Any]:
        """Return the keyword arguments of an attempt: from its merged payload, or else from the last one."""
        return self.arguments(context.last_payload if self.merge is None else merged(self.merge, context), context)

    def arguments(self, payload: bytes, context: Any) -> dict[str, Any]:
        """Return the keyword arguments for the handler."""
        if not self._names and not self._open:
            return {} if self._context is None else {self._context: context}
        try:
            decoded = self._read(payload)
        except Exception as error:
            # The handler has another signature than it had when the run was submitted.
            raise BadPayload(self.job.id, self._problem(payload, error, SECRET_NAMES)) from error
        given: dict[str, Any] = {}
        if self._open:
            given = msgspec.json.decode(payload)
            if payload.find(MARKED) >= 0:
                given = from_json(given)
        for name in self._names:
            value = getattr(decoded, name)
            if value is not UNSET:
                given[name] = value
        if self._context is not None:
            given[self._context] = context
        return given

    def check_result(self, data: bytes, context: Context) -> None:
        """Warn in the run's log of a result that does not fit its annotation. The work is done, so it is kept."""
        if self.result_type is None:
            return
        try:
            self.result_type.check(data)
        except BaseException as error:  # noqa: BLE001 - types of the app may raise what they like
            context.log(f"the result does not fit the return annotation of {self.where}: {error}", "warning")

    def _explain(self, text: str) -> str:
        text = _QUOTED.sub("Not an allowed value", text)
        if match := _MISSING.fullmatch(text):
            return f"argument {_at(match[2], match[1])!r} is missing"
        if match := _UNKNOWN.fullmatch(text):
            close = get_close_matches(match[1], self._names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"argument {_at(match[2], match[1])!r} is unknown{hint}"
        if match := _WRONG.fullmatch(text):
            if match[1].endswith(_TAKES_SECRET):
                return f"argument {match[2]!r}: it is a secret; annotate it as interlock.Secret"
            return f"argument {match[2]!r}: {match[1][0].lower()}{match[1][1:].replace('`', '')}"
        return text.replace("`", "")


def _marked(given: Any, read: Any, depth: int = 0) -> Any:
    """Return a JSON value with a mark on each text that was read as a secret, and nothing else changed."""
    if type(read) is Secret:
        return {MARK: given} if type(given) is str else given
    if type(given) is list and depth < DEEPEST:
        if isinstance(read, (set, frozenset)):
            # A set has no order, but its items are all of one kind.
            read = [next(iter(read), None)] * len(given)
        if isinstance(read, (list, tuple)):
            return [_marked(item, below, depth + 1) for item, below in zip(given, read, strict=True)]
    if type(given) is dict and depth < DEEPEST:
        parts = _parts_read(given, read)
        return {key: _marked(item, parts.get(key), depth + 1) for key, item in given.items()}
    return given


def _parts_read(given: dict[str, Any], read: Any) -> dict[str, Any]:
    """Return the parts that were read from an object, by their keys in JSON."""
    if isinstance(read, dict):
        return {str(key): item for key, item in read.items()}
    if isinstance(read, msgspec.Struct):
        return {field.encode_name: getattr(read, field.name) for field in msgspec.structs.fields(read)}
    return {key: getattr(read, key, None) for key in given}


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


def _is_context(hint: Any) -> bool:
    # An annotation is a class that is loaded; most apps load no workflows.
    workflows = sys.modules.get("interlock.worker.workflow_context")
    return hint is Context or (workflows is not None and hint is workflows.WorkflowContext)


def _plain_function(handler: Handler) -> Handler:
    """Return the function behind a partial or a callable object."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):
        raise BadHandler(f"{handler!r} cannot be called: a job is a function")
    if inspect.isroutine(handler) or inspect.isclass(handler):
        return handler
    return getattr(handler, "__wrapped__", None) or type(handler).__call__


def set_default_payload(definition: Definition, given: Mapping[str, Any] | None) -> None:
    """Give a job its own payload, and mark its secrets. A scheduled job without one must not need one."""
    job_id = definition.job.id
    if given is None:
        try:
            if definition.job.schedule is not None:
                definition.check(payloads.EMPTY)
        except BadPayload as error:
            problem = str(error).partition(": ")[2]
            raise BadPayload(job_id, f"{problem}; give a scheduled job its own payload={{…}}") from None
        return
    if not isinstance(given, Mapping):
        raise BadValue("payload", "…", "a mapping of arguments")
    data = definition.encode((), given)
    if definition.job.secrets:
        data = definition.mark(data)
    definition.job = msgspec.structs.replace(definition.job, payload=msgspec.json.decode(data), version="")
