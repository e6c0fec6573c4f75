"""The values of a result with their places in the raw bytes, so that one can be replaced and all else stays as it is:
spaces, order, repeated keys, long numbers. A list instead of recursion: depth costs memory, not stack."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

from interlock.policy.scan.detector import NAME_END, VALUE_END

MOST_VALUES = 500_000
DEEPEST_SHOWN = 20  # steps of a path
LONGEST_STEP = 60

# Both are linear: no part of either can match the same text in two ways. Commas and colons say nothing that the order
# of values does not.
_TOKEN = re.compile(
    rb'("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*(:?)|(-?[0-9][0-9.eE+-]*)|([\[{])|([\]}])'
    rb"|(true|false|null|NaN|-?Infinity)|([^ \t\r\n,])",
    re.S,
)
_KEY, _NUMBER, _OPENING, _CLOSING, _WORD = 2, 3, 4, 5, 6  # the last group that matched
_ESCAPE = re.compile(rb'\\(?:u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|["\\/bfnrt])')
_SHORT = {b"\\n": b"\n", b'\\"': b'"', b"\\\\": b"\\", b"\\t": b"\t", b"\\/": b"/", b"\\r": b"\r"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class TooManyValues(Exception):
    """The document has more values than a scan keeps."""


class Value(msgspec.Struct):
    """A text, number or key of the document."""

    start: int  # in the raw bytes
    end: int
    text: bytes  # decoded
    inside: int  # index of the array or object
    step: int  # index of its key among all values, or its index in an array
    is_key: bool


class _JsonContainer(msgspec.Struct):
    inside: int
    step: int
    is_array: bool
    step_now: int = 0  # in an array the index of the next value, in an object the key of the present one


class ScannedDocument:
    """The values of a result, and their text joined for detectors. Text that is not JSON is one value."""

    def __init__(self, raw: bytes, values: list[Value], containers: list[_JsonContainer] | None = None) -> None:
        self.raw, self.values, self._containers = raw, values, containers or []
        self.is_json = containers is not None
        self.joined, self._starts = raw, [0]

    def join(self, parts: list[bytes], starts: list[int]) -> "ScannedDocument":
        self.joined, self._starts = b"".join(parts), starts
        return self

    def at(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Return the index of the value that holds a stretch of the joined text, with start and end in that value."""
        index = bisect_right(self._starts, start) - 1
        offset = self._starts[index]
        return None if end - offset > len(self.values[index].text) else (index, start - offset, end - offset)

    def path(self, index: int, names: Mapping[int, bytes]) -> str:
        """Return the place of a value, with some of the keys replaced."""
        if not self.is_json:
            return ""
        value = self.values[index]
        inside, step, steps = value.inside, value.step, list[str]()
        while inside >= 0 and len(steps) < DEEPEST_SHOWN:
            container = self._containers[inside]
            if container.is_array:
                steps.append(f"[{step}]")
            else:
                name = names.get(step, self.values[step].text).decode(errors="replace")
                name = name if len(name) <= LONGEST_STEP else f"{len(name)} characters"
                steps.append(f".{name}" if _PLAIN.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]")
            inside, step = container.inside, container.step
        return ("$" if inside < 0 else "$…") + "".join(reversed(steps))

    def replace(self, texts: Mapping[int, bytes]) -> bytes:
        """Return the document with other texts as some of its values. A key stays unique in its object."""
        if not self.is_json:
            return texts.get(0, self.raw)
        taken: dict[int, set[bytes]] = {}
        owners = {self.values[index].inside for index in texts if self.values[index].is_key}
        for index, value in enumerate(self.values):
            if value.is_key and value.inside in owners and index not in texts:
                taken.setdefault(value.inside, set()).add(value.text)
        parts, end = list[bytes](), 0
        for index in sorted(texts):
            value, text = self.values[index], texts[index]
            if value.is_key:
                text = _unique(text, taken.setdefault(value.inside, set()))
            literal = json.dumps(text.decode("utf-8", "surrogatepass"), ensure_ascii=not _is_utf8(text))
            parts += self.raw[end : value.start], literal.encode()
            end = value.end
        return b"".join([*parts, self.raw[end:]])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False  # half of a surrogate pair, which JSON can hold as an escape
    return True


def _unique(key: bytes, taken: set[bytes]) -> bytes:
    found, number = key, len(taken)
    while found in taken:
        number += 1
        found = b"%b (%d)" % (key, number)
    taken.add(found)
    return found


def unescaped(raw: bytes) -> bytes:
    """Resolve the escapes of every text at once, for the prefilter."""
    return _ESCAPE.sub(lambda match: _SHORT.get(match[0]) or _decoded(b'"%b"' % match[0]), raw)


def _decoded(literal: bytes) -> bytes:
    text: str = json.loads(literal, strict=False)
    return text.encode("utf-8", "surrogatepass")


def plain_text(raw: bytes) -> ScannedDocument:
    text = raw.decode(errors="replace").encode()
    return ScannedDocument(text, [Value(0, len(text), text, -1, 0, False)])


def read(raw: bytes) -> ScannedDocument:
    """Return the values of a JSON document, or any other text as one value."""
    try:
        # Numbers of any length are JSON, and control characters in texts are common.
        json.loads(raw.decode(), strict=False, parse_int=len, parse_float=len)
    except RecursionError:
        pass
    except ValueError:
        return plain_text(raw)
    try:
        return _read(raw)
    except ValueError:
        return plain_text(raw)


def _read(raw: bytes) -> ScannedDocument:
    values, containers, joined, starts = list[Value](), list[_JsonContainer](), list[bytes](), list[int]()
    here: _JsonContainer | None = None
    inside, length = -1, 0
    for match in _TOKEN.finditer(raw):
        which = match.lastindex
        if which == _CLOSING:
            if here is None:
                raise ValueError("closed more often than opened")
            inside = here.inside
            here = containers[inside] if inside >= 0 else None
            continue
        is_key = which == _KEY and match[_KEY] == b":"
        if here is None:
            step = 0
        elif is_key:
            step = here.step_now = len(values)
        else:
            step = here.step_now
            here.step_now += here.is_array
        if which in (_KEY, _NUMBER):
            token = match[1] or match[_NUMBER]
            text = token if which == _NUMBER else _decoded(token) if b"\\" in token else token[1:-1]
            start = match.start()
            values.append(Value(start, start + len(token), text, inside, step, is_key))
            starts.append(length)
            joined += text, NAME_END if is_key else VALUE_END
            length += len(text) + 1
        elif which in (_OPENING, _WORD):
            joined.append(VALUE_END)
            length += 1
        else:
            raise ValueError("not JSON")
        if which == _OPENING:
            here = _JsonContainer(inside, step, match[_OPENING] == b"[")
            inside = len(containers)
            containers.append(here)
        if len(values) + len(containers) > MOST_VALUES:
            raise TooManyValues
    return ScannedDocument(raw, values, containers).join(joined, starts)


def replaced(text: bytes, spans: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Replace stretches of a text. Those that overlap are replaced together, by the text for the first."""
    parts, end = list[bytes](), 0
    for start, stop, other in sorted(spans):
        if start >= end:
            parts += text[end:start], other
        end = max(end, stop)
    return b"".join([*parts, text[end:]])
