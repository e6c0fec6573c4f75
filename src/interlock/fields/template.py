"""Templates: JSON values in which `${…}` stands for a value that is known later. `$${` is a plain `${`.

A text that is one `${…}` becomes the value itself, of any type; in a longer text each becomes a part of the text.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from interlock.error import BadValue
from interlock.fields import payload
from interlock.fields.field_types import FieldPath, Kind, Schema
from interlock.fields.secret import BadSecret, Secret

_PART = re.compile(r"""\$\$\{|\$\{((?:[^{}"']|"[^"]*"|'[^']*'|\{[^{}]*\})*)\}|\$\{""")
_PATH = re.compile(r"""([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\[(?:\d{1,9}|"[^"\\]*"|'[^'\\]*')\])*)""")
_STEP = re.compile(r"""\.([A-Za-z_]\w*)|\[(\d+)\]|\[["'](.*?)["']\]""")

Path = tuple[str | int, ...]


def path_of(expression: str) -> Path | None:
    """Return the parts of an expression that is a path, such as `steps.probe.result[0]`; None for any other."""
    found = _PATH.fullmatch(expression)
    if found is None or found[1] in ("true", "false", "null"):
        return None
    parts = (int(part[2]) if part[2] is not None else part[1] or part[3] or "" for part in _STEP.finditer(found[2]))
    return (found[1], *parts)


def has_expression(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def expressions(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the expressions of a template, each with its place."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from expressions(item, f"{place}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from expressions(item, f"{place}[{index}]")
    elif has_expression(value):
        for part in _PART.finditer(value):
            if part[0] != "$${":
                yield place, (part[1] or "").strip()


def fill(value: Any, evaluate: Callable[[str], Any]) -> Any:
    """Return a template with the values of its expressions."""
    if isinstance(value, dict):
        return {name: fill(item, evaluate) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(item, evaluate) for item in value]
    if not has_expression(value):
        return value
    whole = _PART.fullmatch(value)
    if whole is not None and whole[1] is not None:
        return evaluate(whole[1].strip())

    def text_of(part: re.Match[str]) -> str:
        if part[1] is None:
            return "${"
        found = evaluate(part[1].strip())
        if type(found) is Secret:
            raise BadSecret(f"{part[0]}: a secret cannot be a part of a longer text; pass it as a value of its own")
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    return _PART.sub(text_of, value)


class Template(Kind):
    """JSON with expressions; with a `plain` kind, a value of that kind or one expression."""

    def __init__(self, plain: Kind | None = None, expected: str = "") -> None:
        self.plain, self.expected = plain, expected

    def check(self, value: Any, place: FieldPath) -> Any:
        if self.plain is not None and not has_expression(value):
            return self.plain.check(value, place)
        if place.document is not None:
            payload.encode(value, str(place))
        for where, expression in expressions(value):
            if not expression:
                raise BadValue(f"{place}{where}", value, "`${` with an expression and a closing `}`")
        if self.expected and not (isinstance(value, str) and (part := _PART.fullmatch(value)) and part[1]):
            raise BadValue(str(place), value, self.expected)
        return value

    def schema(self) -> Schema:
        return {} if self.plain is None else {"anyOf": [self.plain.schema(), {"type": "string", "pattern": r"\$\{"}]}


class Condition(Template):
    """One expression, or a truth value."""

    def check(self, value: Any, place: FieldPath) -> Any:
        return value if isinstance(value, bool) else super().check(value, place)

    def schema(self) -> Schema:
        return {"type": ["string", "boolean"]}


class Items(Template):
    """One expression, or a list."""

    def check(self, value: Any, place: FieldPath) -> Any:
        if isinstance(value, (list, tuple)):
            return Template().check(list(value), place)
        return super().check(value, place)

    def schema(self) -> Schema:
        return {"type": ["string", "array"]}


class Arguments(Template):
    """A mapping of arguments."""

    def check(self, value: Any, place: FieldPath) -> Any:
        if not isinstance(value, dict):
            raise BadValue(str(place), value, "a mapping of arguments")
        return super().check(value, place)

    def schema(self) -> Schema:
        return {"type": "object"}
