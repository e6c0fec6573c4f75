"""Print messages of every kind as they are encoded today: `python -m tools.frames > tests/core/frames/VERSION.json`.

Later versions must still read them (`tests/core/test_older_frames.py`)."""

import json
import sys
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import inspect

from interlock.error import InterlockError
from interlock.wire.frames import MESSAGES

VARIANTS = 3  # of each kind: other types where there are several
DEEPEST = 6
WORDS = {"function": "jobs:work"}


def main() -> None:
    found = {
        kind.__name__: {"fields": kind.__struct_fields__, "samples": sorted(set(_encoded(kind)))} for kind in MESSAGES
    }
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _encoded(kind: type[msgspec.Struct]) -> list[str]:
    values = [_sample(inspect.type_info(kind), variant, 0) for variant in range(VARIANTS)]
    return [msgspec.msgpack.encode(msgspec.convert(value, kind)).hex() for value in values]


PLAIN: dict[type, Any] = {
    inspect.BoolType: True, inspect.IntType: 3, inspect.FloatType: 1.5, inspect.BytesType: b'"x"',
    inspect.RawType: b'"x"', inspect.StrType: "x", inspect.AnyType: 1,
}  # fmt: skip


def _sample(kind: inspect.Type, variant: int, depth: int) -> Any:
    match kind:
        case inspect.Metadata():
            return _sample(kind.type, variant, depth)
        case inspect.UnionType():
            types = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            is_deep = len(types) < len(kind.types) and depth > DEEPEST
            return None if is_deep else _sample(types[variant % len(types)], variant, depth)
        case inspect.StructType():
            return _sample_struct(kind, variant, depth)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return [] if depth > DEEPEST else [_sample(kind.item_type, variant, depth + 1)]
        case inspect.TupleType():
            return [_sample(one, variant, depth + 1) for one in kind.item_types]
        case inspect.DictType():
            return {_sample(kind.key_type, variant, depth): _sample(kind.value_type, variant, depth + 1)}
        case inspect.EnumType():
            return list(kind.cls)[variant % len(kind.cls)].value
        case inspect.LiteralType():
            return kind.values[variant % len(kind.values)]
    return PLAIN[type(kind)]


def _sample_struct(kind: inspect.StructType, variant: int, depth: int) -> Any:
    given: dict[str, Any] = {}
    for field in kind.fields:
        value = _marked(_sample(field.type, variant, depth + 1), field.name, len(given))
        if kind.array_like or field.required:
            given[field.encode_name] = value
            continue
        # One whose check refuses the value, alone or beside others, is left out.
        with suppress(msgspec.ValidationError, InterlockError, ValueError):
            tried = given | {field.encode_name: value}
            if not any(other.required and other.encode_name not in tried for other in kind.fields):
                msgspec.convert(_tagged(kind, tried), kind.cls)
            given = tried
    return _tagged(kind, given)


def _marked(value: Any, name: str, place: int) -> Any:
    """Return another value for each field, so that two that change places are noticed."""
    if type(value) is str and value == "x":
        return WORDS.get(name, name)
    return value + place if type(value) in (int, float) else value


def _tagged(kind: inspect.StructType, given: dict[str, Any]) -> Any:
    if kind.array_like:
        return [*([] if kind.tag is None else [kind.tag]), *given.values()]
    return given | ({} if kind.tag is None else {kind.tag_field: kind.tag})


if __name__ == "__main__":
    main()
