"""What a setting's value may be: how it reads as text and in the settings file, its limits, its JSON Schema."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from interlock.model.duration import seconds
from interlock.model.error import BadDuration, BadValue
from interlock.model.job import NAME

Schema = dict[str, Any]


class Place(msgspec.Struct, frozen=True):
    """Where a value stands, as a message names it: a flag, a variable, a field, or a line of a file."""

    name: str
    file: str = ""
    lines: Mapping[str, int] = {}
    """the line of each field in the file"""

    def at(self, key: str | int) -> "Place":
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        return Place(self.name + step, self.file, self.lines)

    def source(self) -> str:
        return f"{self.file}:{self.lines[self.name]}" if self.file else self.name

    def __str__(self) -> str:
        return f"{self.source()}: {self.name}" if self.file else self.name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that does not exist."""
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Kind(ABC):
    """One kind of value."""

    metavar: str = "TEXT"
    """what stands for the value in the help"""

    @abstractmethod
    def check(self, value: object, place: Place) -> Any:
        """The value as the program uses it, from what the file or a program gives; raises if it cannot be one."""

    def read(self, text: str, place: Place) -> Any:
        """The same from the text of a flag or a variable."""
        return self.check(text, place)

    @abstractmethod
    def schema(self) -> Schema: ...

    def show(self, value: Any) -> str:
        """As a person would write it."""
        return str(value)


class Text(Kind):
    def __init__(
        self, pattern: str = ".+", expected: str = "text of one line", metavar: str = "TEXT", hidden: bool = False
    ) -> None:
        self.pattern, self.expected, self.metavar = re.compile(pattern), expected, metavar
        self.hidden = hidden
        """a secret with a typing mistake is a secret all the same: no message shows it"""

    def check(self, value: object, place: Place) -> str:
        if not isinstance(value, str) or not self.pattern.fullmatch(value):
            raise BadValue(str(place), "…" if self.hidden else value, self.expected)
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(?:{self.pattern.pattern})$"}


class Optional(Kind):
    """Another kind, or nothing."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.metavar = kind.metavar

    def check(self, value: object, place: Place) -> Any:
        return None if value is None else self.kind.check(value, place)

    def read(self, text: str, place: Place) -> Any:
        return self.kind.read(text, place)

    def schema(self) -> Schema:
        return {"anyOf": [self.kind.schema(), {"type": "null"}]}

    def show(self, value: Any) -> str:
        return "" if value is None else self.kind.show(value)


class Choice(Kind):
    def __init__(self, *names: str) -> None:
        self.names = names
        self.metavar = "|".join(names)

    def check(self, value: object, place: Place) -> str:
        if not isinstance(value, str) or value not in self.names:
            raise BadValue(str(place), value, f"one of {', '.join(self.names)}")
        return value

    def schema(self) -> Schema:
        return {"enum": list(self.names)}


class Truth(Kind):
    """Yes or no; a flag without a value."""

    metavar = ""

    WORDS: Mapping[str, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

    def check(self, value: object, place: Place) -> bool:
        if not isinstance(value, bool):
            raise BadValue(str(place), value, "true or false")
        return value

    def read(self, text: str, place: Place) -> bool:
        found = self.WORDS.get(text.strip().lower())
        if found is None:
            raise BadValue(str(place), text, "true or false")
        return found

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def show(self, value: bool) -> str:
        return "true" if value else "false"


class Whole(Kind):
    """A whole number."""

    metavar = "NUMBER"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.expected = f"a whole number from {least:,} to {most:,}"

    def check(self, value: object, place: Place) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise BadValue(str(place), value, self.expected)
        return value

    def read(self, text: str, place: Place) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else None
        if number is None or not self.least <= number <= self.most:
            raise BadValue(str(place), text, self.expected)
        return number

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Span(Kind):
    """A duration; in the program it is seconds."""

    metavar = "DURATION"

    def __init__(self, least: str, most: str) -> None:
        self.least, self.most = least, most

    def check(self, value: object, place: Place) -> float:
        if not isinstance(value, (str, int, float)):
            raise BadDuration(str(place), value)
        number = seconds(value, str(place))
        if not seconds(self.least, "least") <= number <= seconds(self.most, "most"):
            raise BadValue(str(place), value, f"a duration from {self.least} to {self.most}")
        return number

    def schema(self) -> Schema:
        return {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"},
                {"type": "number", "minimum": seconds(self.least, "least"), "maximum": seconds(self.most, "most")},
            ]
        }

    def show(self, value: float) -> str:
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if value >= size and value % size == 0:
                return f"{value / size:g}{unit}"
        return f"{value * 1000:g}ms" if 0 < value < 1 else f"{value:g}s"


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

    def check(self, value: object, place: Place) -> int:
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
    """A list of texts; in a variable they are separated by commas."""

    def __init__(self, each: Text) -> None:
        self.each = each

    def check(self, value: object, place: Place) -> list[str]:
        if not isinstance(value, list):
            raise BadValue(str(place), value, "a list")
        return [self.each.check(one, place.at(number)) for number, one in enumerate(value)]

    def read(self, text: str, place: Place) -> list[str]:
        return [self.each.check(one.strip(), place) for one in text.split(",")] if text.strip() else []

    def schema(self) -> Schema:
        return {"type": "array", "items": self.each.schema()}

    def show(self, value: list[str]) -> str:
        return ", ".join(value)


class Lanes(Kind):
    """Names of lanes and their limits."""

    metavar = "NAME=LIMIT"

    LIMIT = Whole(1, 999_999_999)

    def check(self, value: object, place: Place) -> dict[str, int]:
        if not isinstance(value, dict):
            raise BadValue(str(place), value, "a mapping of lanes to their limits")
        return {self.name(name, place): self.LIMIT.check(limit, place.at(name)) for name, limit in value.items()}

    @staticmethod
    def name(name: object, place: Place) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadValue(str(place), name, "a lane's name")
        return name

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{NAME.pattern}$"},
            "additionalProperties": self.LIMIT.schema(),
        }

    def show(self, value: dict[str, int]) -> str:
        return ", ".join(f"{name} {limit}" for name, limit in value.items())


class Address(Kind):
    """`host:port`, `local` for the Unix socket alone, or `off`."""

    metavar = "HOST:PORT"

    EXPECTED = "'host:port' with a port from 0 to 65,535, 'local' or 'off'"

    def check(self, value: object, place: Place) -> str:
        if isinstance(value, str) and (value in ("off", "local") or self.parts(value) is not None):
            return value
        raise BadValue(str(place), value, self.EXPECTED)

    @staticmethod
    def parts(text: str) -> tuple[str, int] | None:
        host, separator, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        valid = bool(host) and (bracketed or ":" not in host) and not any(letter in host for letter in "[]/@ \t\n")
        if not separator or not valid or not port.isascii() or not port.isdigit() or len(port) > 5:
            return None
        return (host, int(port)) if int(port) <= 65535 else None

    def schema(self) -> Schema:
        host = r"(\[[^\[\]/@\s]+\]|[^:\[\]/@\s]+)"
        port = "([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
        return {"type": "string", "pattern": f"^(off|local|{host}:{port})$"}
