"""Variables of a process, as a field."""

from collections.abc import Mapping
from typing import Any

from interlock.error import BadValue, without_value
from interlock.fields.field_types import FieldPath, Kind, NotAccepted, Optional, Schema, Word, check_all


class Environment(Kind):
    """Variables of a process; no message shows a value, which may be a secret."""

    def check(self, value: Any, place: FieldPath) -> dict[str, str | None]:
        if not isinstance(value, Mapping):
            raise BadValue(str(place), "…", "a mapping of names to texts")
        found = check_all((place, _Variable(name), text) for name, text in value.items())
        return dict(zip(value, found, strict=True))

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": Optional(_Variable.TEXT).schema()}


class _Variable(Kind):
    TEXT = Word(r"[^\x00]*", "text, or null to take the variable away", hidden=True)

    def __init__(self, name: object) -> None:
        self.name = name

    def check(self, value: Any, place: FieldPath) -> str | None:
        name = self.name
        if isinstance(name, str) and name and "=" not in name and "\0" not in name:
            return None if value is None else self.TEXT.check(value, place.at(name))
        error = BadValue(str(place), without_value(name), "the name of a variable")
        if place.document is None:
            raise error
        place.document.refuse(f"{place}.{name}", str(error))
        raise NotAccepted

    def schema(self) -> Schema:
        return self.TEXT.schema()
