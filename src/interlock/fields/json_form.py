"""JSON as HTTP and `--json` show it: times are RFC 3339 in UTC with milliseconds, `2026-01-31T02:00:00.250Z`.

In Python a time is a number of seconds since 1970. A field of the type `Time` changes its form on the way out and on
the way in; both ways are worked out once for each type.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

Time = Annotated[float, Meta(extra={"time": True}, extra_json_schema={"format": "date-time"})]

T = TypeVar("T")
Change = Callable[[Any], Any]
_encode = msgspec.json.Encoder().encode


def rfc3339(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def _seconds(text: object) -> object:
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else text


def shape_of(kind: type) -> Meta:
    """Return the mark of a mapping with the fields of a struct, so that times in it change their form too."""
    return Meta(extra={"shape": kind})


def encode(value: Any) -> bytes:
    """A value that an interface shows, as JSON."""
    return _encode(_shown(value))


def _shown(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        change = _change(type(value), rfc3339, are_structs=True)
        return value if change is None else change(value)
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return {name: _shown(one) for name, one in value.items()} if isinstance(value, dict) else value


def decode(data: bytes | str, kind: type[T]) -> T:
    """Read what `encode` wrote."""
    change: Change | None = _change(kind, _seconds, are_structs=False)  # type: ignore[arg-type] # a class can be hashed
    if change is None:
        return msgspec.json.decode(data, type=kind)
    try:
        return msgspec.convert(change(msgspec.json.decode(data)), kind)
    except (ValueError, TypeError) as error:
        raise msgspec.ValidationError(str(error)) from error


@cache
def _change(kind: Any, of_time: Change, are_structs: bool) -> Change | None:
    from msgspec.inspect import type_info

    return _change_of(type_info(kind), of_time, are_structs, ())


def _change_of(info: Any, of_time: Change, are_structs: bool, above: tuple[type, ...]) -> Change | None:
    """Return the function that changes every time in a value by `of_time`; None if the value has none. Structs in the
    value are structs, or mappings as in JSON."""
    import msgspec.inspect as types  # only here: it takes a while, and programs that only submit have no use for it

    match info:
        case types.Metadata():
            if info.extra == {"time": True}:
                return of_time
            if info.extra is not None and "shape" in info.extra:
                return _change(info.extra["shape"], of_time, are_structs=False)
            return _change_of(info.type, of_time, are_structs, above)
        case types.UnionType():
            found = [one for kind in info.types if (one := _change_of(kind, of_time, are_structs, above)) is not None]
            return (lambda value: None if value is None else found[0](value)) if found else None
        case types.ListType() | types.VarTupleType():
            change = _change_of(info.item_type, of_time, are_structs, above)
            return None if change is None else lambda value: [change(one) for one in value]
        case types.StructType() if info.cls in above:
            # A branch of a tree changes like its top.
            return lambda value: _change(info.cls, of_time, are_structs)(value)  # type: ignore[misc] # a tree has one
        case types.StructType():
            above = (*above, info.cls)
            fields = [(field, _change_of(field.type, of_time, are_structs, above)) for field in info.fields]
            if all(change is None for _, change in fields):
                return None
            return _of_struct(info.cls, fields) if are_structs else _of_mapping(fields)
    return None


def _of_struct(kind: Any, fields: list[tuple[Any, Change | None]]) -> Change:
    plain = [(one.encode_name, one.name, change) for one, change in fields]
    omitted = {one.encode_name: one.default for one, _ in fields} if kind.__struct_config__.omit_defaults else {}

    def change(value: Any) -> dict[str, Any]:
        found = {
            shown: getattr(value, name) if change is None else change(getattr(value, name))
            for shown, name, change in plain
        }
        if omitted:
            return {name: one for name, one in found.items() if one != omitted[name]}
        return found

    return change


def _of_mapping(fields: list[tuple[Any, Change | None]]) -> Change:
    timed = [(one.encode_name, change) for one, change in fields if change is not None]

    def change(value: Any) -> Any:
        if not value or not isinstance(value, dict):
            return value
        return value | {name: inner(value[name]) for name, inner in timed if value.get(name) is not None}

    return change
