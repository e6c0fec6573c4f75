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


def encode(value: Any) -> bytes:
    """A value that an interface shows, as JSON."""
    return _encode(_shown(value))


def _shown(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        change = _change(type(value), outward=True)
        return value if change is None else change(value)
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return {name: _shown(one) for name, one in value.items()} if isinstance(value, dict) else value


def decode(data: bytes | str, kind: type[T]) -> T:
    """Read what `encode` wrote."""
    change: Change | None = _change(kind, outward=False)  # type: ignore[arg-type] # a class can be hashed
    if change is None:
        return msgspec.json.decode(data, type=kind)
    try:
        return msgspec.convert(change(msgspec.json.decode(data)), kind)
    except (ValueError, TypeError) as error:
        raise msgspec.ValidationError(str(error)) from error


@cache
def _change(kind: Any, outward: bool) -> Change | None:
    from msgspec.inspect import type_info

    return _change_of(type_info(kind), outward, ())


def _change_of(info: Any, outward: bool, above: tuple[type, ...]) -> Change | None:
    """Return the function that changes the form of every time in a value; None if the value has none."""
    import msgspec.inspect as types  # only here: it takes a while, and programs that only submit have no use for it

    match info:
        case types.Metadata():
            if info.extra == {"time": True}:
                return rfc3339 if outward else _seconds
            return _change_of(info.type, outward, above)
        case types.UnionType():
            found = [change for one in info.types if (change := _change_of(one, outward, above)) is not None]
            return (lambda value: None if value is None else found[0](value)) if found else None
        case types.ListType():
            change = _change_of(info.item_type, outward, above)
            return None if change is None else lambda value: [change(one) for one in value]
        case types.StructType() if info.cls in above:
            # A branch of a tree changes like its top.
            return lambda value: _change(info.cls, outward)(value)  # type: ignore[misc] # a tree with times has one
        case types.StructType():
            above = (*above, info.cls)
            fields = [(one, _change_of(one.type, outward, above)) for one in info.fields]
            if all(change is None for _, change in fields):
                return None
            return _outward(info.cls, fields) if outward else _inward(fields)
    return None


def _outward(kind: Any, fields: list[tuple[Any, Change | None]]) -> Change:
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


def _inward(fields: list[tuple[Any, Change | None]]) -> Change:
    timed = [(one.encode_name, change) for one, change in fields if change is not None]

    def change(value: Any) -> Any:
        for name, inner in timed if isinstance(value, dict) else ():
            if value.get(name) is not None:
                value[name] = inner(value[name])
        return value

    return change
