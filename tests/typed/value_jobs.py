"""Jobs that return their argument, one for each kind of value, beside those of the sample project."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic

import interlock as il
from tests.typed.sample.jobs import app

__all__ = ["app"]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 9


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Point:
    x: int
    at: datetime | None = None


@dataclass
class Shape:
    colour: Colour
    points: list[Point] = field(default_factory=list)


class Order(msgspec.Struct, frozen=True):
    number: UUID
    price: Decimal


class Paid(msgspec.Struct, tag=True):
    on: date


class Refused(msgspec.Struct, tag=True):
    why: str


@attrs.frozen
class Parcel:
    weight: float
    content: bytes = b""


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    street: str = pydantic.Field(alias="streetName")
    since: date
    state: Colour | int
    delay: timedelta


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    addresses: list[Address]
    home: Path
    key: bytes = b""


class Pair(NamedTuple):
    left: int
    right: date


class Options(TypedDict):
    colour: Colour
    wait: timedelta


KINDS: dict[str, Any] = {
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "bytes": bytes,
    "uuid": UUID,
    "decimal": Decimal,
    "enum": Colour,
    "int_enum": Level,
    "flag": Rights,
    "path": Path,
    "dataclass": Shape,
    "struct": Order,
    "tagged": Paid | Refused | None,
    "attrs": Parcel,
    "pydantic": Customer,
    "named_tuple": Pair,
    "typed_dict": Options,
    "literal": Literal["a", 1],
    "union": int | date | list[Point] | None,
    "list": list[Point],
    "models": dict[str, list[Address | None]],
    "set": set[UUID],
    "frozenset": frozenset[bytes],
    "tuple": tuple[date, ...],
    "by_date": dict[date, Decimal],
    "by_number": dict[int, Path],
    "by_enum": dict[Colour, time],
    "constrained": Annotated[int, msgspec.Meta(ge=1)],
    "json": Any,
}


def described(value: Any) -> str:
    """Return a text that differs for values of different types, at any depth."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} {sorted(map(described, value))}"
    if type(value) is dict:
        return f"dict {sorted((described(key), described(item)) for key, item in value.items())}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__} {list(map(described, value))}"
    if isinstance(value, datetime):
        # The zone comes back as its offset.
        return f"datetime {value.replace(tzinfo=None)!r} {value.utcoffset()!r}"
    return f"{type(value).__qualname__} {value!r}"


def echo(kind: Any) -> Callable[..., Any]:
    """Return a function that returns its argument, and what it saw."""

    def give_back(value: Any) -> Any:
        return described(value), value

    give_back.__annotations__ = {"value": kind, "return": tuple[str, kind]}
    return give_back


JOBS: dict[str, il.JobFunction[[Any], tuple[str, Any]]] = {
    name: app.job(f"value.{name}")(echo(kind)) for name, kind in KINDS.items()
}


@app.job("misfit")
def misfit() -> date:
    return "tomorrow"  # type: ignore[return-value]


@app.job("opaque")
def opaque() -> Any:
    return {"what": object()}
