"""Reading the fields of a document: each as what it should be, or as a fault that says where and why."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.config.documents import Document
from interlock.config.faults import Faults
from interlock.config.setting_types import Place, Size, Whole, did_you_mean
from interlock.model.duration import seconds
from interlock.model.error import BadDuration, BadValue, MissingField, shown

T = TypeVar("T", bound=msgspec.Struct)

MEMORY = Size(1, 2**50)
MOST = 1_000_000_000
"""of anything that is counted"""
NO_VALUE = "None is not a value; leave it out for the default"


class Fields:
    """The fields of one document. What is wrong goes to the faults, and reading goes on."""

    def __init__(self, document: Document, faults: Faults, optional: Sequence[str] = ()) -> None:
        """Those that are `optional` may be null, which is as good as leaving them out."""
        self.document = document
        self.faults = faults
        self.before = len(faults)
        """how many faults there were in other documents"""
        self.given = {
            name: value for name, value in document.values.items() if value is not None or name not in optional
        }

    @property
    def sound(self) -> bool:
        """Whether nothing was wrong so far."""
        return len(self.faults) == self.before

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def wrong(self, path: str, text: str) -> None:
        self.faults.add(self.document.spot(path), f"{path}: {text}")

    def refuse(self, path: str, error: BadValue | BadDuration) -> None:
        """What was said of a value by one who does not know where it stands."""
        self.faults.add(self.document.spot(path), path + str(error).removeprefix(error.field))

    def missing(self, path: str) -> None:
        self.faults.add(self.document.spot(path), str(MissingField(path)))

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def written(self, path: str, value: Any) -> str | None:
        """A text, or the text that a number or a truth value was written as; None if it is neither."""
        return value if isinstance(value, str) else self.document.texts.get(path)

    def text(self, path: str, value: Any) -> str | None:
        text = self.written(path, value)
        if text is None:
            self.wrong(path, f"{shown(value)} is not a text")
        return text

    def texts(self, path: str, value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, list):
            self.wrong(path, f"{shown(value)} is not a list of texts")
            return None
        found = [self.text(f"{path}[{number}]", one) for number, one in enumerate(value)]
        return None if None in found else tuple(one for one in found if one is not None)

    def size(self, path: str, value: Any) -> int | None:
        try:
            return MEMORY.check(value, Place(path))
        except BadValue as error:
            self.refuse(path, error)
            return None

    def count(self, path: str, value: Any, least: int = 1) -> int | None:
        try:
            return Whole(least, MOST).check(value, Place(path))
        except BadValue as error:
            self.refuse(path, error)
            return None

    def count_or_none(self, path: str, value: Any) -> int | None:
        return self.count(path, value, 0)

    def truth(self, path: str, value: Any) -> bool | None:
        if isinstance(value, bool):
            return value
        self.wrong(path, f"{shown(value)} is not true or false")
        return None

    def span(self, path: str, value: Any) -> float | None:
        try:
            return seconds(value, path)
        except BadDuration as error:
            self.refuse(path, error)
            return None

    def path(self, path: str, text: str) -> str | None:
        """In a file, paths begin at its folder; what comes from elsewhere must say all of it."""
        if not self.document.file and not os.path.isabs(text):
            self.wrong(path, f"{shown(text)} is not an absolute path")
            return None
        return os.path.normpath(os.path.join(self.document.folder, text))

    def mapping(self, path: str, value: Any, known: Sequence[str]) -> dict[str, Any] | None:
        """Those of its fields that exist."""
        if not isinstance(value, dict):
            self.wrong(path, f"{shown(value)} is not a mapping of {', '.join(known)}")
            return None
        for name in value:
            if name not in known:
                spot = self.document.spot(f"{path}.{name}")
                self.faults.add(spot, f"{path}: {shown(name)} is not a field of it{did_you_mean(name, known)}")
        return {name: one for name, one in value.items() if name in known}

    def each(
        self, path: str, given: Mapping[str, Any], kind: type[msgspec.Struct], read: Mapping[str, str]
    ) -> dict[str, Any]:
        """The fields of a mapping as `kind` takes them, without those that are wrong; `read` has the name of the method
        that reads a field, if it is not taken as it is."""
        optional = {field.name for field in msgspec.structs.fields(kind) if field.default is None}
        found: dict[str, Any] = {}
        for name, value in given.items():
            where = f"{path}.{name}"
            if value is None:
                if name not in optional:
                    self.wrong(where, NO_VALUE)
                continue
            value = getattr(self, read[name])(where, value) if name in read else value
            if value is not None:
                found[name] = value
        return found

    def part(self, name: str, kind: type[T], read: Mapping[str, str], stand_ins: Mapping[str, Any] = {}) -> T | None:
        """What is made of a field that is a mapping, with its own checks; None if there is a fault in it."""
        before = len(self.faults)
        given = self.mapping(name, self.given[name], kind.__struct_fields__)
        if given is None:
            return None
        return self.made(kind, self.each(name, given, kind, read), before, f"{name}.{{}}".format, stand_ins)

    def made(
        self,
        kind: type[T],
        values: Mapping[str, Any],
        before: int,
        place: Callable[[str], str],
        stand_ins: Mapping[str, Any] = {},
    ) -> T | None:
        """A `kind` with these fields, or None and every fault that its own checks find, one after the other.

        `place` tells where a field stands. `stand_ins` take the place of what is wrong and cannot be left out. If there
        are more faults than `before`, what is wrong with fields together is not told: those that are missing may be
        the reason.
        """
        rest = dict(values)
        told: set[str] = set()
        while True:
            try:
                made = kind(**rest)
            except (BadValue, BadDuration) as error:
                name = error.field.rpartition(".")[2]
                if name not in rest or name in told:
                    if len(self.faults) == before:
                        self.refuse(error.field, error)
                    return None
                told.add(name)
                self.refuse(place(name), error)
                del rest[name]
                if name in stand_ins:
                    rest[name] = stand_ins[name]
            else:
                return made if len(self.faults) == before else None
