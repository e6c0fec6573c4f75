"""Read the arguments of a run from the command line."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from interlock.cli.shared.output import WrongUsage
from interlock.error import BadJson, BadPayload, BadUse, BadValue

FIELD = "--payload"
_WANTS_TEXT = re.compile(r"argument '([^']+)': expected str")


def read_one(source: str | None, parameters: Sequence[str], field: str = FIELD) -> dict[str, Any] | None:
    """Read the arguments of one run; `parameters` override the payload."""
    return _with(read_value(source, field), _parameters(parameters), field)


def read_value(source: str | None, field: str = FIELD) -> Any:
    """Read any JSON value; null without a source."""
    return None if source is None else _decode(_text(source, field), field)


@contextmanager
def parameters_explained(given: Sequence[str] | None) -> Iterator[None]:
    """Say how to pass a text, if an argument of `-p` was read as another JSON value."""
    try:
        yield
    except BadPayload as error:
        match = _WANTS_TEXT.search(str(error))
        if match is not None and any(parameter.startswith(f"{match[1]}=") for parameter in given or ()):
            error.args = (f"{error}; -p reads JSON where it can: for a text, write -p '{match[1]}=\"…\"'",)
        raise


def read_many(source: str | None, parameters: Sequence[str]) -> list[dict[str, Any] | None]:
    """Read the arguments of each run, from a JSON array or from JSON lines."""
    if source is None:
        raise WrongUsage("--many needs --payload: a JSON array, or JSON lines")
    text = _text(source)
    if text.lstrip()[:1] == b"[":
        values = _decode(text, FIELD)
        names = [f"{FIELD}[{place}]" for place in range(len(values))]
    else:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        names = [f"{FIELD} line {number}" for number, _ in lines]
        values = [_decode(line, name) for name, (_, line) in zip(names, lines, strict=True)]
    if not values:
        raise BadUse(FIELD, "is empty; give the arguments of at least one run")
    over = _parameters(parameters)
    return [_with(value, over, name) for name, value in zip(names, values, strict=True)]


def _text(source: str, field: str = FIELD) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    if not source.startswith("@"):
        return source.encode("utf-8", "surrogateescape")
    try:
        with open(source[1:], "rb") as file:
            return file.read()
    except OSError as error:
        raise BadValue(field, source, f"a file that can be read ({error.strerror})") from error


def _decode(text: bytes, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson(field, str(error)) from error


def _parameters(given: Sequence[str]) -> dict[str, Any]:
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise BadValue("-p", "…", "of the form KEY=VALUE")
        try:
            found[name] = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found[name] = value
    return found


def _with(payload: Any, over: dict[str, Any], field: str) -> dict[str, Any] | None:
    if payload is not None and not isinstance(payload, dict):
        # The value is not quoted: it may contain a secret.
        raise BadValue(field, "…", "a JSON object")
    return {**(payload or {}), **over} if over else payload
