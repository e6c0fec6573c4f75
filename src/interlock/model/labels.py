"""Labels: names with texts, of runs, jobs and workers."""

from collections.abc import Mapping
from typing import Any

from interlock.error import BadValue, NotHere, Repeated, TooMany
from interlock.fields.field_types import NAME, WORD, FieldPath, Kind, Schema, Word

BYPASSED = "safety_bypassed"  # label of a run that started without a verdict; nobody else may set it
SAGA_LABELS = ("saga_compensation", "is_compensation", "saga_workflow_id")  # of a run that undoes a step
MOST_LABELS, LONGEST_LABEL = 16, 256
_TEXT = Word(rf"[\s\S]{{0,{LONGEST_LABEL}}}", f"a text of up to {LONGEST_LABEL} characters")


class Labels(Kind):
    """A mapping of names to texts; in a variable, NAME=TEXT separated by commas."""

    metavar = "NAME=TEXT"

    def __init__(self, most: int = MOST_LABELS) -> None:
        self.most = most

    def check(self, value: Any, place: FieldPath) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise BadValue(str(place), value, "a mapping of names to texts")
        if len(value) > self.most:
            raise TooMany(str(place), len(value), self.most)
        for name in value:
            WORD.check(name, place)
            if name == BYPASSED:
                raise NotHere(str(place), name, "as a label of yours", "the scheduler alone sets it")
        return {name: _TEXT.check(text, place.at(name)) for name, text in value.items()}

    def read(self, text: str, place: FieldPath) -> dict[str, str]:
        return self.read_each([label.strip() for label in text.split(",")] if text.strip() else [], place)

    def read_each(self, texts: list[str], place: FieldPath) -> dict[str, str]:
        found: dict[str, str] = {}
        for label in texts:
            name, separator, text = label.partition("=")
            if not separator:
                raise BadValue(str(place), label, "of the form NAME=TEXT")
            if name in found:
                raise Repeated(str(place), name)
            found[name] = text
        return self.check(found, place)

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{NAME}$"},
            "additionalProperties": _TEXT.schema(),
            "maxProperties": self.most,
        }

    def show(self, value: Mapping[str, str]) -> str:
        return ", ".join(f"{name}={text}" for name, text in value.items())


LABELS = Labels()
