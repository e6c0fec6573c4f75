"""Values of arguments and results: from Python to JSON, and back to an annotation.

msgspec carries most types. This adds paths and pydantic models, and refuses annotations that JSON cannot carry.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time
from pathlib import PurePath
from typing import Any, Generic, TypeVar

import msgspec
import msgspec.inspect as types

from interlock.error import NotJson
from interlock.fields.secret import Secret, as_json, from_json

T = TypeVar("T")
Hook = Callable[[Any], Any]

_CLOCK = (datetime, time)
_JSON = (
    types.AnyType, types.NoneType, types.BoolType, types.IntType, types.FloatType, types.StrType, types.LiteralType,
    types.ListType, types.VarTupleType, types.TupleType, types.DictType, types.UnionType,
)  # fmt: skip
_KEYS = (
    types.AnyType, types.StrType, types.IntType, types.FloatType, types.BytesType, types.DateType, types.TimeDeltaType,
    types.UUIDType, types.DecimalType, types.EnumType, types.LiteralType,
)  # fmt: skip
_REMEDY = "use a dataclass, a msgspec.Struct, an attrs class or a pydantic model"


# ── to JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: Any, where: str, secrets: bool = True) -> Any:
    """Return a value in the types of JSON; raise `NotJson` if it has none."""
    try:
        hook = _plain_one if secrets else _plain_open
        return _with_texts(msgspec.to_builtins(value, builtin_types=_CLOCK, str_keys=True, enc_hook=hook))
    except RecursionError:
        raise NotJson(where, "this value", "nested too deep") from None
    except NotJson as error:
        raise NotJson(where, error.what, error.why) from None  # the cause may quote a secret
    except (TypeError, ValueError, OverflowError) as error:
        raise NotJson(where, f"a {type(value).__name__}", " ".join(str(error).split())) from None


def _plain_one(value: Any) -> Any:
    """Convert a value that msgspec does not know into one that it knows."""
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, _CLOCK):
        return _text(value)
    for kind in (str, int, float):  # subclasses, such as numpy's float64
        if isinstance(value, kind):
            return kind(value)
    if type(value) is Secret:
        return as_json(value)
    raise NotJson("", f"a {type(value).__name__}")


def _plain_open(value: Any) -> Any:
    if type(value) is Secret:
        raise NotJson("", "a Secret", "results are shown: return only what others may see")
    return _plain_one(value)


def _with_texts(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: _with_texts(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_with_texts(item) for item in value]
    return _text(value) if isinstance(value, _CLOCK) else value


def _text(value: datetime | time) -> str:
    """Return a time as text. JSON has offsets of whole minutes, and msgspec would round others."""
    offset = value.utcoffset()
    if offset is not None and (offset.microseconds or offset.seconds % 60):
        if isinstance(value, time):
            raise NotJson("", "a time with an offset of seconds")
        value = value.astimezone(UTC)
    return value.isoformat()


# ── from JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────


def read_one(kind: type, value: Any) -> Any:
    """Read a value of a type that msgspec does not know; a decoder calls this."""
    if issubclass(kind, PurePath):
        if type(value) is not str:
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return kind(value)
    if _is_model(kind):
        return _read_model(kind, value)
    if kind is not Secret or type(value) is Secret:
        return value
    if type(value) is str:
        return Secret(value)
    if type(value) is dict and type(read := from_json(value)) is Secret:
        return read
    raise ValueError("a secret is a text")


def _read_model(kind: Any, value: Any) -> Any:
    try:
        # As JSON, because a strict model takes a text for a date only there.
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        found = error.errors(include_url=False, include_context=False, include_input=False)  # never quote a value
        raise ValueError("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)) from None


def _is_model(kind: type) -> bool:
    """Return whether this is a model of pydantic, which is used where the program has it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


class ResultType(Generic[T]):
    """The return annotation of a job."""

    def __init__(self, annotation: Any) -> None:
        """Raise `ValueError` if JSON cannot carry it."""
        check_annotation(annotation)
        if any(isinstance(part, types.CustomType) and part.cls is Secret for part in parts_of(annotation)):
            raise ValueError("Secret: results are shown; return only what others may see")
        self._annotation = annotation
        self._decoder = msgspec.json.Decoder(annotation, dec_hook=read_one)

    def check(self, data: bytes) -> None:
        """Raise an error if a result does not fit."""
        self._decoder.decode(data)

    def read(self, value: Any) -> T:
        """Convert a JSON value to the annotation; raise an error if it does not fit."""
        found: T = msgspec.convert(value, self._annotation, dec_hook=read_one, str_keys=True)
        return found


# ── annotations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_annotation(annotation: Any) -> None:
    """Raise `ValueError` if JSON cannot carry every value of this type and back."""
    try:
        msgspec.json.Decoder(annotation)
        parts = list(parts_of(annotation))
    except Exception as error:
        raise ValueError(" ".join(str(error).split()).replace("`", "")) from error
    for part in parts:
        if isinstance(part, types.CustomType):
            _check_custom(part.cls)
        elif isinstance(part, types.DataclassType):
            if private := [field.name for field in part.fields if field.name.startswith("_")]:
                raise ValueError(f"{part.cls.__qualname__}: its field {private[0]!r} is private and would be lost")
        elif isinstance(part, types.DictType):
            keys = part.key_type.types if isinstance(part.key_type, types.UnionType) else (part.key_type,)
            if not all(isinstance(key, _KEYS) for key in keys):
                raise ValueError("JSON cannot carry the keys of this dict; use texts, numbers, dates, enums or UUIDs")


def _check_custom(kind: Any) -> None:
    if kind is object or kind is Secret or issubclass(kind, PurePath):
        return
    if not _is_model(kind):
        raise ValueError(f"JSON cannot carry {kind.__module__}.{kind.__qualname__}; {_REMEDY}")
    try:
        schema = msgspec.json.encode(kind.model_json_schema())
    except Exception as error:
        raise ValueError(f"JSON cannot carry {kind.__qualname__}: {' '.join(str(error).split())}") from error
    if b'"writeOnly":true' in schema:
        raise ValueError(
            f"{kind.__qualname__}: pydantic masks its secrets; pass them as separate interlock.Secret arguments"
        )
    forms = {kind.model_config.get(name, "utf8") for name in ("ser_json_bytes", "val_json_bytes")}
    if b'"format":"binary"' in schema or len(forms) > 1:
        raise ValueError(
            f"{kind.__qualname__}: its bytes must be text; set ser_json_bytes and val_json_bytes to base64"
        )


def is_json(annotation: Any) -> bool:
    """Return whether the annotation expects only the types of JSON, or anything. Values of other types then come back
    changed."""
    return all(
        isinstance(part, _JSON)
        and not (isinstance(part, types.DictType) and not isinstance(part.key_type, (types.StrType, types.AnyType)))
        for part in parts_of(annotation)
    )


def parts_of(annotation: Any) -> Iterator[types.Type]:
    """Yield a type and all its parts."""
    rest: list[Any] = [types.type_info(annotation)]
    seen: set[int] = set()
    while rest:
        part = rest.pop()
        if isinstance(part, tuple):
            rest.extend(part)
        elif isinstance(part, types.Field):
            rest.append(part.type)
        elif isinstance(part, types.Type) and id(part) not in seen:
            seen.add(id(part))
            yield part
            rest.extend(getattr(part, name) for name in part.__struct_fields__)
