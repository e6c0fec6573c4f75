"""Fields, each declared once on its struct: `Annotated[type, doc("…"), kind]`.

From this come the checks of the struct itself, the reader of documents and bodies, their JSON Schema and the reference.
The kind follows from the type where none is given. A field without a description is not settable from outside.
"""

import inspect
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta

from interlock.error import BadUse, BadValue, InterlockError, MissingField, TooMany
from interlock.fields import field_types as kinds

DEFINITION = "#/$defs/{}"
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: kinds.Kind
    description: str = ""
    default: Any = UNSET
    extras: tuple[Any, ...] = ()  # whatever else the annotation holds

    def schema(self) -> kinds.Schema:
        found = {"description": self.description, **self.kind.schema()} if self.description else self.kind.schema()
        if isinstance(self.default, (str, int, float)) and self.default != "":
            text = self.kind.show(self.default)
            is_json = isinstance(self.default, (str, int)) or text == str(self.default)
            found["default"] = self.default if is_json else text
        return found


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A struct that puts its fields into their proper form as it is made, or raises `BadValue` or `BadDuration`."""

    where: ClassVar[str] = ""  # path of the struct in a document
    one_of: ClassVar[tuple[str, ...]] = ()  # fields that exclude each other; exactly one must be given

    def __post_init__(self) -> None:
        for name, kind, default, place in _checks(type(self)):
            value = getattr(self, name)
            if value is not default:
                found = kind.check(value, place)
                if found is not value:
                    self.put(name, found)
        if self.one_of:
            check_one_of(self.where, self.one_of, {name: getattr(self, name) for name in self.one_of})
        self.check()

    def check(self) -> None:
        """Check rules that concern several fields."""

    def put(self, name: str, value: object) -> None:
        msgspec.structs.force_setattr(self, name, value)


def refuse_others(struct: Checked, kind: str, known: tuple[str, ...], word: str, always: tuple[str, ...]) -> None:
    """Refuse the fields, other than those that every kind has, that structs of this kind do not have."""
    for name, field in fields_of(type(struct)).items():
        if name not in (*always, *known) and getattr(struct, name) != field.default:
            raise BadUse(name, f"is not {word} of {kind}, which has {', '.join(known) or 'none'}")


def copy_fields(kind: type[S], source: object, /, **own: Any) -> S:
    """Make a struct from `own` and the fields of `source`; raise if neither has one, even one with a default."""
    return kind(**own, **{name: getattr(source, name) for name in kind.__struct_fields__ if name not in own})


def check_one_of(where: str, names: tuple[str, ...], given: Mapping[str, Any]) -> None:
    chosen = [name for name in names if given.get(name) is not None and given[name] is not False]
    if names and len(chosen) != 1:
        rule = f"{' and '.join(chosen)} are given together" if chosen else "is empty"
        raise BadUse(where, f"{rule}; give exactly one of {', '.join(names)}")


class Nested(kinds.Kind):
    """A struct: in a document a mapping of its fields, or a text that stands for one of them. With `only` some fields
    it stays a mapping."""

    def __init__(self, struct: type[Checked], text_for: str = "", only: tuple[str, ...] = ()) -> None:
        self.struct, self.text_for, self.only = struct, text_for, only

    @property
    def fields(self) -> dict[str, Field]:
        found = settable(self.struct)
        return {name: found[name] for name in self.only} if self.only else found

    def check(self, value: Any, place: kinds.FieldPath) -> Any:
        if isinstance(value, self.struct) or (self.only and place.document is None):
            return value
        if self.text_for and isinstance(value, str):
            value = {self.text_for: value}
        elif place.document is None:
            raise BadValue(str(place), value, f"a {self.struct.__name__}")
        found = value if place.document is None else read_fields(self.fields, value, place, self.struct.one_of)
        return found if self.only else self._made(found, place)

    def _made(self, fields: dict[str, Any], place: kinds.FieldPath) -> Checked:
        try:
            return self.struct(**fields)
        except InterlockError as error:
            field = getattr(error, "field", None)
            if field is None or self.struct.where:
                raise
            # The struct stands in several places, and does not know in which.
            raise BadUse(str(place.at(field)), str(error).removeprefix(f"{field}: ")) from error

    def schema(self) -> kinds.Schema:
        found: kinds.Schema = {"$ref": DEFINITION.format(self.struct.__name__)}
        return {"anyOf": [{"type": "string"}, found]} if self.text_for else found


class Several(kinds.Kind):
    """A struct, or a list of them."""

    def __init__(self, each: Nested, most: int = 16) -> None:
        self.each, self.most = each, most

    def check(self, value: Any, place: kinds.FieldPath) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            return (self.each.check(value, place),)
        if len(value) > self.most:
            raise TooMany(str(place), len(value), self.most)
        return tuple(kinds.check_all((place.at(number), self.each, one) for number, one in enumerate(value)))

    def schema(self) -> kinds.Schema:
        one = self.each.schema()
        return {"anyOf": [*one.get("anyOf", [one]), {"type": "array", "items": one, "maxItems": self.most}]}


class Some(Nested):
    """Any of the fields of a struct: a mapping of those given, checked."""

    def check(self, value: Any, place: kinds.FieldPath) -> dict[str, Any]:
        if place.document is not None:
            return read_fields(self.fields, value, place)
        if not isinstance(value, Mapping):
            raise BadValue(str(place), value, f"a mapping of {', '.join(self.fields)}")
        found = {name: self.known(name, place).kind.check(one, place.at(name)) for name, one in value.items()}
        return {name: one for name, one in found.items() if one is not None}

    def known(self, name: str, place: kinds.FieldPath) -> Field:
        """Return the field with this name."""
        if name not in self.fields:
            rule = f"one of {', '.join(self.fields)}{kinds.did_you_mean(str(name), self.fields)}"
            raise BadValue(str(place), name, rule)
        return self.fields[name]

    def show(self, value: dict[str, Any]) -> str:
        return ", ".join(f"{name} {self.fields[name].kind.show(one)}" for name, one in value.items())


def read_fields(
    fields: Mapping[str, Field], given: Any, place: kinds.FieldPath, one_of: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Read a mapping of a document; raise `NotAccepted` once every fault in it is recorded. Null leaves out an
    optional field."""
    document = place.document
    assert document is not None
    if not isinstance(given, dict):
        raise BadValue(str(place), given, f"a mapping of {', '.join(fields)}")
    faults = {
        str(place.at(name)): f"{place.at(name)}: unknown field{kinds.did_you_mean(name, fields)}"
        for name in given
        if name not in fields
    }
    missing = [name for name, field in fields.items() if field.default is UNSET and given.get(name) is None]
    faults |= {str(place.at(name)): str(MissingField(str(place.at(name)))) for name in missing}
    if not faults:
        try:
            check_one_of(str(place), one_of, given)
        except BadValue as error:
            faults[str(place)] = str(error)
    for path, message in faults.items():
        document.refuse(path, message)
    known = {
        name: given[name]
        for name, field in fields.items()
        if name in given and name not in missing and not (given[name] is None and field.default is None)
    }
    found = kinds.check_all((place.at(name), fields[name].kind, value) for name, value in known.items())
    if faults:
        raise kinds.NotAccepted
    return dict(zip(known, found, strict=True))


@cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """Return the fields whose kind is known."""
    hints: dict[str, Any] = {}
    for base in reversed(struct.__mro__):
        hints |= inspect.get_annotations(base) if issubclass(base, msgspec.Struct) else {}
    names = struct.__struct_fields__
    given = [UNSET if one is NODEFAULT else one for one in struct.__struct_defaults__]
    defaults = [UNSET] * (len(names) - len(given)) + given
    found: dict[str, Field] = {}
    for name, default in zip(names, defaults, strict=True):
        extras = get_args(hints[name])[1:] if get_origin(hints[name]) is Annotated else ()
        kind = _kind_of(hints[name])
        if kind is not None:
            description = next((extra.description or "" for extra in extras if isinstance(extra, Meta)), "")
            found[name] = Field(name=name, kind=kind, description=description, default=default, extras=extras)
    return found


@cache
def settable(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """Return the fields that a document may set: those with a description."""
    return {name: field for name, field in fields_of(struct).items() if field.description}


@cache
def _checks(struct: type[Checked]) -> list[tuple[str, kinds.Kind, Any, kinds.FieldPath]]:
    prefix = f"{struct.where}." if struct.where else ""
    return [(one.name, one.kind, one.default, kinds.FieldPath(prefix + one.name)) for one in fields_of(struct).values()]


def _kind_of(hint: Any) -> kinds.Kind | None:
    if get_origin(hint) is Annotated:
        base, *extras = get_args(hint)
        kind = next((extra for extra in extras if isinstance(extra, kinds.Kind)), None)
        return _kind_of(base) if kind is None else kinds.Optional(kind) if NoneType in get_args(base) else kind
    if get_origin(hint) in (Union, UnionType):
        below = [_kind_of(arg) for arg in get_args(hint) if arg is not NoneType]
        return kinds.Optional(below[0]) if len(below) == 1 and below[0] is not None else None
    if not isinstance(hint, type):
        return None
    if hint is bool:
        return kinds.Truth()
    if issubclass(hint, StrEnum):
        return kinds.Choice(*hint, make=hint)
    return Nested(hint) if issubclass(hint, Checked) else None


def object_schema(fields: Iterable[Field], one_of: tuple[str, ...] = ()) -> kinds.Schema:
    fields = list(fields)
    found: kinds.Schema = {"type": "object", "properties": {field.name: field.schema() for field in fields}}
    required = [field.name for field in fields if field.default is UNSET]
    found |= {"required": required} if required else {}
    if one_of:
        given: kinds.Schema = {"not": {"enum": [None, False]}}
        found["oneOf"] = [{"required": [name], "properties": {name: given}} for name in one_of]
    return found | {"additionalProperties": False}


def definitions(fields: Iterable[Field]) -> dict[str, kinds.Schema]:
    """Return the schema of every struct below these fields, by its name."""
    found: dict[str, kinds.Schema] = {}
    for field in fields:
        kind = field.kind.kind if isinstance(field.kind, kinds.Optional) else field.kind
        kind = kind.each if isinstance(kind, Several | kinds.Table) else kind
        if isinstance(kind, Nested):
            below = kind.fields.values()
            schema = object_schema(below, kind.struct.one_of)
            summary = inspect.cleandoc(kind.struct.__doc__ or "").partition("\n\n")[0]
            found[kind.struct.__name__] = {"description": " ".join(summary.split()), **schema}
            found |= definitions(below)
    return found


def doc(meaning: str, **limits: Any) -> Meta:
    return Meta(description=meaning, **limits)
