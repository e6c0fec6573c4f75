"""Reading the settings file: plain YAML, each field with its line, every fault one line that says where."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from interlock.model.error import BadConfig, shown

DEFAULT_NAME = "interlock.yaml"
LARGEST = 1_000_000
DEEPEST = 20
NO_ALIASES = "anchors and aliases ('&', '*') are not used here; put quotes around a value that begins so"

_NOTHING = re.compile(r"~|null|Null|NULL|")
_YES = re.compile(r"true|True|TRUE")
_NO = re.compile(r"false|False|FALSE")
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


class File(msgspec.Struct, frozen=True):
    """What a settings file says, and on which line it says it."""

    name: str
    values: dict[str, Any]
    lines: dict[str, int]
    """by the path of the field: `slots`, `lanes.main`, `tokens[0].role`"""


def read(path: Path, name: str) -> File:
    """`name` is how messages call it."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise BadConfig(f"{name}: cannot be read ({error.strerror})") from error
    if len(data) > LARGEST:
        raise BadConfig(f"{name}: larger than {LARGEST:,} bytes, which no settings file is")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadConfig(f"{name}:{line}: not UTF-8 text") from error
    return _Builder(name).build(text)


class _Builder:
    """Makes values of what the parser finds. Scalars are those of YAML 1.2: `off`, `no` and `12:30` are text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, int] = {}

    def build(self, text: str) -> File:
        import yaml

        try:
            events = self._checked(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
            next(events)  # the stream
            if isinstance(next(events), yaml.StreamEndEvent):
                return File(self.name, {}, {})
            first = next(events)
            if not isinstance(first, yaml.MappingStartEvent):
                raise self._wrong(first, "settings are written as 'name: value'")
            values = self._mapping(events, "", 1)
            next(events)  # the end of the document
            after = next(events)
            if not isinstance(after, yaml.StreamEndEvent):
                raise self._wrong(after, "a second document ('---'); one is enough")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{self.name}:{mark.line + 1}" if mark else self.name
            if error.context in ("while scanning an alias", "while scanning an anchor"):
                raise BadConfig(f"{where}: {NO_ALIASES}") from error
            raise BadConfig(f"{where}: not valid YAML ({' '.join((error.problem or str(error)).split())})") from error
        except yaml.YAMLError as error:
            raise BadConfig(f"{self.name}: not valid YAML ({' '.join(str(error).split())})") from error
        return File(self.name, values, self.lines)

    def _checked(self, events: Any) -> Iterator[Any]:
        import yaml

        for event in events:
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise self._wrong(event, NO_ALIASES)
            if getattr(event, "tag", None) is not None:
                raise self._wrong(event, f"tags like {shown(event.tag)} are not used here")
            yield event

    def _wrong(self, event: Any, why: str) -> BadConfig:
        return BadConfig(f"{self.name}:{event.start_mark.line + 1}: {why}")

    def _value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Any:
        import yaml

        self.lines[path] = event.start_mark.line + 1
        if depth > DEEPEST:
            raise self._wrong(event, f"nested more than {DEEPEST} deep")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            found: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                found.append(self._value(event, events, f"{path}[{len(found)}]", depth + 1))
            return found
        return self._scalar(event)

    def _mapping(self, events: Iterator[Any], path: str, depth: int) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._wrong(event, "a name must be text")
            key = event.value
            below = f"{path}.{key}" if path else key
            if key in found:
                raise self._wrong(event, f"{shown(below)} is there twice, first on line {self.lines[below]}")
            line = event.start_mark.line + 1
            found[key] = self._value(next(events), events, below, depth + 1)
            self.lines[below] = line
        return found

    @staticmethod
    def _scalar(event: Any) -> Any:
        text = event.value
        if not event.implicit[0]:  # quoted
            return text
        if _NOTHING.fullmatch(text):
            return None
        if _YES.fullmatch(text) or _NO.fullmatch(text):
            return bool(_YES.fullmatch(text))
        if _WHOLE.fullmatch(text):
            return int(text)
        return float(text) if _FRACTION.fullmatch(text) else text
