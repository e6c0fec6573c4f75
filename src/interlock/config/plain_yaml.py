"""Read YAML that people write: plain values, each with its line. Every fault is one line that names its place."""

import os
import re
import stat
from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.error import BadConfig, shown, without_value

SETTINGS_NAME = "interlock.yaml"
LARGEST = 1_000_000
DEEPEST = 20
LONGEST_NAME = 300  # characters of a path; every value has its whole path in memory
NO_ALIASES = "anchors and aliases ('&', '*') are not supported; put a value that begins with one in quotes"

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


class YamlPart(msgspec.Struct, frozen=True):
    """One document of a file."""

    value: Any
    begins: int  # line of its '---', or of the first value in the file
    lines: dict[str, int]
    """path of a value → its line: `slots`, `lanes.main`, `tokens[0].role`; '' is the document itself"""
    texts: dict[str, str]  # path → a number or truth value as written


def read_text(path: str, name: str) -> str:
    """Return the text of a file, which messages call `name`."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadConfig(f"{name}: cannot be read (not a regular file)")
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise BadConfig(f"{name}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise BadConfig(f"{name}: cannot be read ({error})") from error
    if len(data) > LARGEST:
        raise BadConfig(f"{name}: larger than {LARGEST:,} bytes; split it into several files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadConfig(f"{name}:{line}: not UTF-8 text") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking: a pipe without a writer would block a server that reloads its files."""
    return os.open(path, flags | os.O_NONBLOCK)


def parts_of(text: str, name: str) -> Iterator[YamlPart]:
    """Yield every document up to the first fault."""
    import yaml

    try:
        events = _checked(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), name)
        next(events)  # the stream
        while not isinstance(event := next(events), yaml.StreamEndEvent):
            yield _Builder(name).build(event.start_mark.line + 1, events)
            next(events)  # the end of the document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        if error.context in ("while scanning an alias", "while scanning an anchor"):
            raise BadConfig(f"{where}: {NO_ALIASES}") from error
        raise BadConfig(f"{where}: not valid YAML ({' '.join((error.problem or str(error)).split())})") from error
    except yaml.YAMLError as error:
        raise BadConfig(f"{name}: not valid YAML ({' '.join(str(error).split())})") from error


def _checked(events: Any, name: str) -> Iterator[Any]:
    """Refuse anchors, which can make a small file huge, and tags, which make more than plain values."""
    import yaml

    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _wrong(name, event, NO_ALIASES)
        if getattr(event, "tag", None) is not None:
            raise _wrong(name, event, f"tags like {shown(event.tag)} are not supported")
        yield event


def _wrong(name: str, event: Any, why: str) -> BadConfig:
    return BadConfig(f"{name}:{event.start_mark.line + 1}: {why}")


class _Builder:
    """Turns parser events into values. Scalars follow YAML 1.2: `off`, `no` and `12:30` are text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, int] = {}
        self.texts: dict[str, str] = {}

    def build(self, begins: int, events: Iterator[Any]) -> YamlPart:
        value = self._value(next(events), events, "", 1)
        return YamlPart(value, begins, self.lines, self.texts)

    def _value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Any:
        import yaml

        self.lines[path] = event.start_mark.line + 1
        if depth > DEEPEST:
            raise _wrong(self.name, event, f"nested more than {DEEPEST} deep")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            found: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                found.append(self._value(event, events, f"{path}[{len(found)}]", depth + 1))
            return found
        value = scalar(event.value) if event.implicit[0] else event.value
        if isinstance(value, (int, float)):
            self.texts[path] = event.value
        return value

    def _mapping(self, events: Iterator[Any], path: str, depth: int) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _wrong(self.name, event, "a name must be text")
            key = event.value
            below = f"{path}.{key}" if path else key
            if key in found:
                named = shown(without_value(below))
                raise _wrong(self.name, event, f"{named} given twice, first on line {self.lines[below]}")
            if len(below) > LONGEST_NAME:
                raise _wrong(self.name, event, f"a name of more than {LONGEST_NAME} characters")
            line = event.start_mark.line + 1
            found[key] = self._value(next(events), events, below, depth + 1)
            self.lines[below] = line
        return found


def scalar(text: str) -> Any:
    """Return the value of an unquoted text."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text
