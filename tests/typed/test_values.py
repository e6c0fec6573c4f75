"""Values of every kind come back as they were: through the encoding alone, and through a server and its workers."""

import math
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.fields.payload import encode_result
from interlock.fields.value import plain
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from tests.helpers.places import run_async
from tests.helpers.server import Server
from tests.typed import value_jobs as v

CONTEXT = Context(Dispatch("r", 1, "job", 1, b"{}", None, False, 1.0), lambda message: None)
# In UTC it must still be a time. Python never calls a time in two offsets equal to itself in one of them.
DATETIMES = st.datetimes(timezones=st.none() | st.timezones(), allow_imaginary=False).filter(
    lambda one: 2 <= one.year <= 9998 and one.utcoffset() == one.replace(fold=1 - one.fold).utcoffset()
)
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.times(timezones=st.none() | OFFSETS)
DECIMALS = st.decimals(allow_nan=False)
PATHS = st.lists(st.text("abc .-é", min_size=1), min_size=1).map(lambda parts: Path(*parts))
COLOURS = st.sampled_from(v.Colour)
POINTS = st.builds(v.Point, st.integers(-(2**63), 2**63 - 1), st.none() | DATETIMES)
ADDRESSES = st.builds(
    lambda street, *rest: v.Address(streetName=street, since=rest[0], state=rest[1], delay=rest[2]),
    st.text(),
    st.dates(),
    COLOURS | st.integers(0, 9),
    st.timedeltas(timedelta(-9999), timedelta(9999)),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda text: text != "$secret"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "datetime": DATETIMES,
    "date": st.dates(),
    "time": TIMES,
    "timedelta": st.timedeltas(),
    "bytes": st.binary(),
    "uuid": st.uuids(),
    "decimal": DECIMALS,
    "enum": COLOURS,
    "int_enum": st.sampled_from(v.Level),
    "flag": st.sampled_from([v.Rights.READ, v.Rights.WRITE, v.Rights.READ | v.Rights.WRITE]),
    "path": PATHS,
    "dataclass": st.builds(v.Shape, COLOURS, st.lists(POINTS, max_size=3)),
    "struct": st.builds(v.Order, st.uuids(), DECIMALS),
    "tagged": st.none() | st.builds(v.Paid, st.dates()) | st.builds(v.Refused, st.text()),
    "attrs": st.builds(v.Parcel, st.floats(allow_nan=False, allow_infinity=False), st.binary()),
    "pydantic": st.builds(
        lambda few, home, key: v.Customer(addresses=few, home=home, key=key),
        st.lists(ADDRESSES, max_size=3),
        PATHS,
        st.binary(),
    ),
    "named_tuple": st.builds(v.Pair, st.integers(0, 9), st.dates()),
    "typed_dict": st.builds(lambda colour, wait: v.Options(colour=colour, wait=wait), COLOURS, st.timedeltas()),
    "literal": st.sampled_from(["a", 1]),
    "union": st.none() | st.integers(0, 9) | st.dates() | st.lists(POINTS, max_size=3),
    "list": st.lists(POINTS, max_size=3),
    "models": st.dictionaries(st.text(), st.lists(st.none() | ADDRESSES, max_size=3), max_size=3),
    "set": st.sets(st.uuids(), max_size=3),
    "frozenset": st.frozensets(st.binary(), max_size=3),
    "tuple": st.lists(st.dates(), max_size=3).map(tuple),
    "by_date": st.dictionaries(st.dates(), DECIMALS, max_size=3),
    "by_number": st.dictionaries(st.integers(-(2**63), 2**63 - 1), PATHS, max_size=3),
    "by_enum": st.dictionaries(COLOURS, TIMES, max_size=3),
    "constrained": st.integers(1, 9),
    "json": JSON,
}


def test_every_kind_has_values() -> None:
    assert VALUES.keys() == v.JOBS.keys()


def same(kind: str, value: Any, came_back: tuple[str, Any]) -> None:
    """A zone with an offset of seconds comes back as UTC; every other offset stays."""
    saw, found = came_back
    assert found == value, kind
    assert saw == v.described(found)
    assert type(found) is type(value)


@pytest.mark.behaviour("EXE-6")
@pytest.mark.parametrize("kind", list(VALUES))
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_value_is_encoded_and_read_to_its_annotation(kind: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    definition = v.app.definitions[f"value.{kind}"]
    arguments = definition.arguments(v.JOBS[kind].call(value).payload, CONTEXT)
    encoded = encode_result(definition.handler(**arguments))
    assert definition.result_type is not None
    definition.result_type.check(encoded)
    same(kind, value, definition.result_type.read(msgspec.json.decode(encoded)))


@pytest.mark.behaviour("EXE-6")
@given(values=st.fixed_dictionaries(VALUES))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_values_come_back_from_a_worker(server: Server, values: dict[str, Any]) -> None:
    calls = [v.JOBS[kind].call(value) for kind, value in values.items()]

    async def body() -> list[Any]:
        async with v.app.connected(str(server.socket)):
            return [await run.result("60s") for run in await v.app.submit_many(calls)]

    with il.Client(f"unix:{server.http_socket}") as client:
        over_http = [run.result("60s") for run in client.submit_many(calls)]
    for found in (run_async(body()), over_http):
        for (kind, value), came_back in zip(values.items(), found, strict=True):
            same(kind, value, came_back)


def test_an_offset_of_seconds_is_not_rounded() -> None:
    odd = timezone(timedelta(seconds=1172))
    value = datetime(1900, 1, 1, tzinfo=odd)
    definition = v.app.definitions["value.datetime"]
    found = definition.arguments(v.JOBS["datetime"].call(value).payload, CONTEXT)["value"]
    assert (found, found.tzinfo) == (value, UTC)
    with pytest.raises(il.InterlockError, match=r"payload.value: a time with an offset of seconds is not JSON"):
        v.JOBS["time"].call(time(1, tzinfo=odd))


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Mystery:
    pass


class Fraction(Enum):
    HALF = 0.5


@dataclass
class Private:
    _hidden: int = 0


@dataclass
class Deep:
    inner: "list[Mystery]"


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


class Blob(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64")

    data: bytes


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    what: Mystery


REFUSED: list[tuple[Any, str]] = [
    (Mystery, "test_values.Mystery; use a dataclass"),
    (list[Mystery], "test_values.Mystery; use a dataclass"),
    (Deep, "test_values.Mystery; use a dataclass"),
    (complex, "builtins.complex"),
    (Callable[[], int], "Callable"),
    (Iterator[int], "Iterator"),
    (Coroutine[Any, Any, int], "Coroutine"),
    (date | str, "more than one str-like type"),
    (v.Point | v.Shape, "more than one"),
    (v.Address | int, "other than None"),
    (Fraction, "Enums must contain"),
    (Private, "its field '_hidden' is private"),
    (dict[v.Point, int], "the keys of this dict"),
    (dict[Path, int], "the keys of this dict"),
    (dict[datetime, int], "the keys of this dict"),
    (Login, "pydantic masks its secrets"),
    (Blob, "set ser_json_bytes and val_json_bytes"),
    (Open, "JSON cannot carry Open"),
]


@pytest.mark.behaviour("EXE-6")
@pytest.mark.parametrize(("kind", "says"), REFUSED)
def test_an_annotation_that_cannot_be_carried_is_refused_when_the_job_is_defined(kind: Any, says: str) -> None:
    def takes(value: Any = None) -> None: ...

    def returns() -> Any: ...

    takes.__annotations__["value"] = kind
    returns.__annotations__["return"] = kind
    for function, place in ((takes, "an argument 'value'"), (returns, "a return annotation")):
        one = il.App()
        with pytest.raises(il.InterlockError) as caught:
            one.job("one")(function)
        assert caught.value.code == "bad_handler"
        assert f"{function.__qualname__} has {place} that cannot be carried: " in str(caught.value)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
        assert one.definitions == {}


def test_a_secret_cannot_be_returned() -> None:
    def returns() -> list[il.Secret]:
        return []

    with pytest.raises(il.InterlockError, match="results are shown"):
        il.App().job("one")(returns)


@pytest.mark.parametrize(
    ("kind", "value", "code", "says"),
    [
        ("json", {"a": date(2026, 1, 2)}, "not_json", "payload.value.a: a date"),
        ("json", {1: 2}, "not_json", "a key must be a string"),
        ("date", Mystery(), "not_json", "payload.value: a Mystery"),
        ("list", [v.Point(0), Mystery()], "not_json", "payload.value: a Mystery"),
        ("attrs", v.Parcel(math.nan), "not_json", "payload.value.weight: nan"),
        ("path", Path("\udc80"), "not_json", "lone surrogate"),
        ("date", "tomorrow", "bad_payload", "argument 'value'"),
        ("constrained", 0, "bad_payload", "argument 'value': expected int >= 1"),
        ("path", 5, "bad_payload", "argument 'value': expected str, got int"),
        ("pydantic", {"addresses": [], "home": 5}, "bad_payload", "argument 'value': home: "),
        ("enum", "green", "bad_payload", "argument 'value': not an allowed value"),
    ],
)
def test_a_value_that_cannot_be_carried_is_refused_at_submit(kind: str, value: Any, code: str, says: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        v.JOBS[kind].call(value)
    assert caught.value.code == code
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_endless_value_is_refused() -> None:
    class Chain(msgspec.Struct):
        rest: "Chain | None" = None

    endless = Chain()
    endless.rest = endless
    with pytest.raises(il.InterlockError, match="nested too deep"):
        plain(endless, "payload.value")


def test_a_job_may_have_typed_values_as_its_payload() -> None:
    one = il.App()
    one.job("one", payload={"value": v.Point(1, datetime(2026, 1, 2, tzinfo=UTC))})(v.echo(v.Point))
    assert one.definitions["one"].job.payload == {"value": {"x": 1, "at": "2026-01-02T00:00:00+00:00"}}


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("EXE-6")
def test_a_result_that_does_not_fit_is_kept_and_warned_of(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        run = client.submit(v.misfit.call())
        with pytest.raises(il.BadResult) as caught:
            run.result("30s")
        assert (caught.value.code, caught.value.run_id, caught.value.value) == ("bad_result", run.id, "tomorrow")
        assert client.result(run.id) == "tomorrow"
        assert run.state() is il.State.SUCCEEDED
        [line] = run.logs()
        assert line.level == "warning"
        assert "misfit" in line.text


def test_a_result_that_cannot_be_encoded_fails_the_run_for_good(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        run = client.submit(v.opaque.call())
        with pytest.raises(il.RunEnded, match="result: a object is not JSON"):
            run.result("30s")
        assert run.state() is il.State.FAILED


def test_results_without_an_annotation_are_json() -> None:
    result = {1: [date(2026, 1, 2), v.Point(1), {v.Level.HIGH}, Path("a"), Text("b")]}
    assert msgspec.json.decode(encode_result(result)) == {"1": ["2026-01-02", {"x": 1, "at": None}, [9], "a", "b"]}


class Text(str):
    pass


@pytest.mark.parametrize(
    "result", [il.Secret("s"), [v.Point(1), il.Secret("s")], {"a": date(2026, 1, 2), "b": il.Secret("s")}]
)
def test_a_secret_in_a_result_is_refused(result: object) -> None:
    with pytest.raises(il.InterlockError, match="a Secret is not JSON"):
        encode_result(result)
