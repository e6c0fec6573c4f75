"""Kinds of values that a field may hold. Each checks a value, reads text, shows itself and gives its JSON Schema."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec

from interlock.error import BadValue, InterlockError
from interlock.fields.duration import seconds

Schema = dict[str, Any]
MOST = 1_000_000_000  # largest count of anything
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
JOB_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
NAME_RULE = "a name of letters, digits, '_', '-' and '.', up to {} long"


class Source(Protocol):
    """A document that fields are read from. It collects faults, so that a person can mend all of them at once."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Numbers and truth values as they are written, by path."""

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""

    def path(self, path: str, text: str) -> str:
        """Return a path that the document names relative to its own folder."""


class FieldPath(msgspec.Struct, frozen=True):
    """Where a value stands, as a message names it: a flag, a variable, a field, or a line of a file."""

    name: str
    file: str = ""
    lines: Mapping[str, int] = {}  # the line of each field in the file
    document: Source | None = None

    def at(self, key: str | int) -> "FieldPath":
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if self.name else key
        return FieldPath(self.name + step, self.file, self.lines, self.document)

    def source(self) -> str:
        return f"{self.file}:{self.lines[self.name]}" if self.file else self.name

    def text(self, value: object) -> object:
        """Return a number or truth value of a document as the text it was written as, any other value unchanged."""
        if self.document is None or not isinstance(value, (bool, int, float)):
            return value
        return self.document.texts.get(self.name) or json.dumps(value)

    def __str__(self) -> str:
        return f"{self.source()}: {self.name}" if self.file else self.name


class NotAccepted(Exception):
    """The document has recorded every fault of this value."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name."""
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Kind(ABC):
    """One kind of value."""

    metavar: str = "TEXT"  # placeholder for the value in help texts

    @abstractmethod
    def check(self, value: Any, place: FieldPath) -> Any:
        """Return the value as the program uses it; raise `BadValue` or `BadDuration`, or `NotAccepted`."""

    def read(self, text: str, place: FieldPath) -> Any:
        """Do the same with the text of a flag or a variable."""
        return self.check(text, place)

    def read_each(self, texts: list[str], place: FieldPath) -> Any:
        """Do the same with the texts of a flag that may be repeated."""
        return self.check(texts, place)

    @abstractmethod
    def schema(self) -> Schema: ...

    def show(self, value: Any) -> str:
        """Return the value as a person would write it."""
        return str(value)


def check_all(items: Iterable[tuple[FieldPath, Kind, Any]]) -> list[Any]:
    """Check several values. In a document, record every fault, then raise `NotAccepted`; elsewhere raise the first."""
    found: list[Any] = []
    refused = False
    for place, kind, value in items:
        try:
            found.append(kind.check(value, place))
        except NotAccepted:
            refused = True
        except InterlockError as error:
            if place.document is None:
                raise
            place.document.refuse(getattr(error, "field", str(place)), str(error))
            refused = True
    if refused:
        raise NotAccepted
    return found


class Text(Kind):
    """Text that matches a pattern. In a document a number or a truth value is the text it is written as."""

    def __init__(
        self,
        pattern: str = ".+",
        expected: str = "text of one line",
        metavar: str = "TEXT",
        hidden: bool = False,
        accepts: Callable[[str], object] | None = None,
    ) -> None:
        """`accepts` is a check beyond the pattern."""
        self.pattern, self.expected, self.metavar = re.compile(pattern), expected, metavar
        self.accepts = accepts
        self.hidden = hidden  # no message shows the value: a mistyped secret is still a secret

    def check(self, value: Any, place: FieldPath) -> str:
        text = place.text(value)
        if isinstance(text, str) and self.pattern.fullmatch(text) and (self.accepts is None or self.accepts(text)):
            return text
        raise BadValue(str(place), "…" if self.hidden else value, self.expected)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(?:{self.pattern.pattern})$"}


class Word(Text):
    """Text of a document, which may be written as a number or a truth value."""

    def schema(self) -> Schema:
        text = super().schema()
        fitting = [kind for kind, sample in (("number", "1.5"), ("boolean", "true")) if self.pattern.fullmatch(sample)]
        return {"anyOf": [text, {"type": fitting}]} if fitting else text


WORD = Word(NAME, NAME_RULE.format(64))  # a name of a lane, a pool, a label
JOB_WORD = Word(JOB_NAME, NAME_RULE.format(128))  # a name of a job, a topic, a rule


class Optional(Kind):
    """Another kind, or nothing."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.metavar = kind.metavar

    def check(self, value: Any, place: FieldPath) -> Any:
        return None if value is None else self.kind.check(value, place)

    def read(self, text: str, place: FieldPath) -> Any:
        return self.kind.read(text, place)

    def schema(self) -> Schema:
        return {"anyOf": [self.kind.schema(), {"type": "null"}]}

    def show(self, value: Any) -> str:
        return "" if value is None else self.kind.show(value)


class Choice(Kind):
    """One of some words; `make` turns the word into what the program uses."""

    def __init__(self, *names: str, make: Callable[[str], Any] = str) -> None:
        self.names, self.make = names, make
        self.metavar = "|".join(names)

    def check(self, value: Any, place: FieldPath) -> Any:
        if not isinstance(value, str) or value not in self.names:
            hint = did_you_mean(value, map(str, self.names)) if isinstance(value, str) else ""
            raise BadValue(str(place), value, f"one of {', '.join(self.names)}{hint}")
        return self.make(value)

    def schema(self) -> Schema:
        return {"enum": list(self.names)}


class Truth(Kind):
    """Yes or no; a flag without a value."""

    metavar = ""

    WORDS: Mapping[str, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

    def check(self, value: Any, place: FieldPath) -> bool:
        if not isinstance(value, bool):
            raise BadValue(str(place), value, "true or false")
        return value

    def read(self, text: str, place: FieldPath) -> bool:
        found = self.WORDS.get(text.strip().lower())
        if found is None:
            raise BadValue(str(place), text, "true or false")
        return found

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def show(self, value: bool) -> str:
        return "true" if value else "false"


class Number(Kind):
    metavar = "NUMBER"

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    def check(self, value: Any, place: FieldPath) -> Any:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise BadValue(str(place), value, f"a number from {self.least} to {self.most}")
        return value

    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.least, "maximum": self.most}


class Whole(Kind):
    """A whole number."""

    metavar = "NUMBER"

    def __init__(self, least: int, most: int = MOST) -> None:
        self.least, self.most = least, most
        self.expected = f"a whole number from {least:,} to {most:,}"

    def check(self, value: Any, place: FieldPath) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise BadValue(str(place), value, self.expected)
        return value

    def read(self, text: str, place: FieldPath) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else None
        if number is None or not self.least <= number <= self.most:
            raise BadValue(str(place), text, self.expected)
        return number

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Span(Kind):
    """A duration; in the program it is seconds."""

    metavar = "DURATION"

    def __init__(self, least: str = "0s", most: str = "1000000d", positive: bool = False) -> None:
        self.least, self.most, self.positive = least, most, positive
        self._least, self._most = seconds(least, "least"), seconds(most, "most")

    def check(self, value: Any, place: FieldPath) -> float:
        if type(value) is float and self._least <= value <= self._most and (value or not self.positive):
            return value  # as it comes from the store, where there may be very many
        number = seconds(value, str(place))
        if not self._least <= number <= self._most:
            raise BadValue(str(place), value, f"a duration from {self.least} to {self.most}")
        if self.positive and number == 0:
            raise BadValue(str(place), value, "longer than zero")
        return number

    def schema(self) -> Schema:
        number = {"exclusiveMinimum": 0} if self.positive else {"minimum": self._least}
        return {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"},
                {"type": "number", **number, "maximum": self._most},
            ]
        }

    def show(self, value: float) -> str:
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if value >= size and value % size == 0:
                return f"{value / size:g}{unit}"
        return f"{value * 1000:g}ms" if 0 < value < 1 else f"{value:g}s"


POSITIVE_SPAN = Span(positive=True)


class Rate(Kind):
    """A number of starts in a unit of time; a number alone, as in the program, is starts a second."""

    metavar = "N/s"

    UNITS: Mapping[str, float] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    FORM = re.compile(r"(?![0.]+ ?/)([0-9]{1,9}(?:\.[0-9]{1,9})?) ?/ ?([smhd])")
    LEAST = 1 / (366 * UNITS["d"])  # one in a year of any length; a later next start might be no date any more

    def check(self, value: Any, place: FieldPath) -> float:
        found = value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
        if isinstance(value, str) and (match := self.FORM.fullmatch(value)):
            found = float(match[1]) / self.UNITS[match[2]]
        if not self.LEAST <= found <= MOST:
            raise BadValue(str(place), value, "a rate of at least one a year; use 10/s, 5/m, 100/h or 1000/d")
        return float(found)

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": f"^(?:{self.FORM.pattern})$"}
        return {"anyOf": [text, {"type": "number", "minimum": self.LEAST, "maximum": MOST}]}

    def show(self, value: float) -> str:
        unit = next((unit for unit, size in self.UNITS.items() if value * size >= 1), "d")
        return f"{value * self.UNITS[unit]:.9f}".rstrip("0").rstrip(".") + f"/{unit}"


class Size(Kind):
    """A number of bytes."""

    metavar = "SIZE"

    UNITS: Mapping[str, int] = {
        "": 1,
        "B": 1,
        **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
        **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    }
    FORM = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?) ?((?:[kMGT]|[KMGT]i)?B|)")

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def check(self, value: Any, place: FieldPath) -> int:
        number = value
        if isinstance(value, str) and (match := self.FORM.fullmatch(value)):
            unit = self.UNITS[match[2]]
            number = int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
        if not isinstance(number, int) or isinstance(number, bool) or not self.least <= number <= self.most:
            limits = f"from {self.show(self.least)} to {self.show(self.most)}"
            raise BadValue(str(place), value, f"a number of bytes like 512KiB or 32MiB, {limits}")
        return number

    def schema(self) -> Schema:
        return {
            "anyOf": [
                {"type": "integer", "minimum": self.least, "maximum": self.most},
                {"type": "string", "pattern": f"^{self.FORM.pattern}$"},
            ]
        }

    def show(self, value: int) -> str:
        for power, letter in reversed(list(enumerate("KMGT", 1))):
            if value and value % 1024**power == 0:
                return f"{value // 1024**power}{letter}iB"
        return f"{value}B" if value else "0"


class Texts(Kind):
    """A list of texts; in a variable commas separate them."""

    def __init__(
        self, each: Text, least: int = 0, expected: str = "a list", make: Callable[[Any], Any] = list, most: int = MOST
    ) -> None:
        self.each, self.least, self.expected, self.make, self.most = each, least, expected, make, most

    def check(self, value: Any, place: FieldPath) -> Any:
        if not isinstance(value, (list, tuple)) or not self.least <= len(value) <= self.most:
            raise BadValue(str(place), value, self.expected)
        return self.make(check_all((place.at(number), self.each, one) for number, one in enumerate(value)))

    def read(self, text: str, place: FieldPath) -> list[str]:
        return [self.each.check(one.strip(), place) for one in text.split(",")] if text.strip() else []

    def schema(self) -> Schema:
        least, most = {"minItems": self.least}, {"maxItems": self.most}
        limits = (least if self.least else {}) | (most if self.most < MOST else {})
        return {"type": "array", "items": self.each.schema()} | limits

    def show(self, value: list[str]) -> str:
        return ", ".join(value)


class Table(Kind):
    """A mapping of names to values of one kind."""

    def __init__(
        self, each: Kind, expected: str = "a mapping of names", name: Text | None = None, metavar: str = "TEXT"
    ) -> None:
        self.each, self.expected, self.name, self.metavar = each, expected, name, metavar

    def check(self, value: Any, place: FieldPath) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise BadValue(str(place), value, self.expected)
        if self.name is not None:
            for name in value:
                self.name.check(name, place)
        found = check_all((place.at(name), self.each, item) for name, item in value.items())
        return dict(zip(value, found, strict=True))

    def schema(self) -> Schema:
        names = {} if self.name is None else {"propertyNames": {"pattern": self.name.schema()["pattern"]}}
        return {"type": "object", **names, "additionalProperties": self.each.schema()}

    def show(self, value: dict[str, Any]) -> str:
        return ", ".join(f"{name} {self.each.show(item)}" for name, item in value.items())


class Command(Texts):
    """A program and its arguments."""

    def __init__(self, least: int = 1) -> None:
        each = Word(r"[^\x00]*", "text without a NUL character")
        super().__init__(each, least, "a list of program and arguments", tuple)

    def check(self, value: Any, place: FieldPath) -> tuple[str, ...]:
        found: tuple[str, ...] = super().check(value, place)
        if found and not found[0]:
            raise BadValue(str(place), found[0], "the name of a program")
        return found
