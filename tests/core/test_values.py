"""What comes from people: durations, definitions and payloads, and the errors they are refused with."""

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import error as e
from interlock.fields import payload
from interlock.fields.duration import brief, seconds, span
from interlock.model.job import Job, Retry


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("800ms", 0.8),
        ("10s", 10.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1.5s", 1.5),
        (" 10s ", 10.0),
        ("0s", 0.0),
        (3, 3.0),
        (0.25, 0.25),
        (0, 0.0),
        (timedelta(minutes=1, milliseconds=5), 60.005),
    ],
)
def test_durations_are_read(text: Any, number: float) -> None:
    assert seconds(text, "wait") == pytest.approx(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0s"), (9e-05, "0s"), (0.1068, "0.107s"), (3.4912, "3.49s"), (999.4, "999s"), (3740.0, "3740s")],
)
def test_a_duration_is_shown_at_a_glance(number: float, text: str) -> None:
    assert brief(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "<1ms"), (0.0004, "<1ms"), (0.0006, "1ms"), (0.099, "99ms"), (61.0, "1m 1s")]
)
def test_a_duration_is_shown_to_people(number: float, text: str) -> None:
    assert span(number) == text


@pytest.mark.parametrize(
    "value",
    [
        "", "10", "s", "ms", "-5s", "5 s", "10S", "1w", "1h30m", "1.s", ".5s", "1e3s", "ten", "10s\nx", "9" * 400 + "s",
        -1, -0.001, float("nan"), float("inf"), float("-inf"), True, False, None, [], {}, b"10s", 1j,
        timedelta(seconds=-1),
    ],
)  # fmt: skip
def test_a_bad_duration_names_field_and_value(value: Any) -> None:
    with pytest.raises(e.BadDuration) as caught:
        seconds(value, "retry.initial_delay")
    assert caught.value.code == "bad_duration"
    assert caught.value.field == "retry.initial_delay"
    assert str(caught.value).startswith("retry.initial_delay: ")
    assert e.shown(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text() | st.floats() | st.integers() | st.timedeltas())
def test_a_duration_is_read_or_refused_and_nothing_else(value: Any) -> None:
    try:
        number = seconds(value, "wait")
    except e.BadDuration:
        return
    assert 0 <= number < float("inf")


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"max_retries": -1}, "retry.max_retries", "bad_value"),
        ({"max_retries": 1.5}, "retry.max_retries", "bad_value"),
        ({"max_retries": "3"}, "retry.max_retries", "bad_value"),
        ({"max_retries": True}, "retry.max_retries", "bad_value"),
        ({"multiplier": 0.5}, "retry.multiplier", "bad_value"),
        ({"multiplier": 1001}, "retry.multiplier", "bad_value"),
        ({"multiplier": "2"}, "retry.multiplier", "bad_value"),
        ({"multiplier": float("nan")}, "retry.multiplier", "bad_value"),
        ({"jitter": -0.1}, "retry.jitter", "bad_value"),
        ({"jitter": 1.1}, "retry.jitter", "bad_value"),
        ({"jitter": True}, "retry.jitter", "bad_value"),
        ({"jitter": float("nan")}, "retry.jitter", "bad_value"),
        ({"initial_delay": "soon"}, "retry.initial_delay", "bad_duration"),
        ({"initial_delay": -1}, "retry.initial_delay", "bad_duration"),
        ({"max_delay": "1 hour"}, "retry.max_delay", "bad_duration"),
        ({"max_delay": float("inf")}, "retry.max_delay", "bad_duration"),
    ],
)
def test_a_bad_retry_names_field_and_value(fields: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(e.InterlockError) as caught:
        Retry(**fields)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"{field}: {next(iter(fields.values()))!r} is not ")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": "with space"}, "id"),
        ({"id": "-dash"}, "id"),
        ({"id": "a:b"}, "id"),
        ({"id": "new\nline"}, "id"),
        ({"id": "ok\n"}, "id"),
        ({"id": "ü"}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"id": "work", "lane": ""}, "lane"),
        ({"id": "work", "lane": "a/b"}, "lane"),
        ({"id": "work", "lane": "x" * 65}, "lane"),
        ({"id": "work", "max_crashes": -1}, "max_crashes"),
        ({"id": "work", "max_crashes": True}, "max_crashes"),
        ({"id": "work", "deadline": 0}, "deadline"),
        ({"id": "work", "max_runtime": 0.0}, "max_runtime"),
    ],
)
def test_a_bad_job_names_field_and_value(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(e.BadValue) as caught:
        Job(**fields)
    assert caught.value.code == "bad_value"
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert "\n" not in str(caught.value)


def test_the_longest_names_are_taken() -> None:
    assert Job(id="x" * 128, lane="y" * 64)
    assert Job(id="_a.b-c", lane="0")


class Opaque:
    def __repr__(self) -> str:
        raise RuntimeError("no picture of me")


class Plain:
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Plain, "payload"),
        ({"a": {1, 2}}, "payload.a"),
        ({"a": [1, {"b": b"bytes"}]}, "payload.a[1].b"),
        ({"a": Opaque()}, "payload.a"),
        ({1: "a"}, "payload"),
        ({None: "a"}, "payload"),
        ([float("nan")], "payload[0]"),
        ([0, float("inf")], "payload[1]"),
        ({"a": -float("inf")}, "payload.a"),
        ({"a": 2**64}, "payload.a"),
        ({"a": -(2**63) - 1}, "payload.a"),
        ({"a": "\ud800"}, "payload.a"),
        ({"\udfff": 1}, "payload"),
        ((1, 2, 1j), "payload[2]"),
        ({"a key": object}, "payload.a key"),
        ({"line\nbreak": object}, "payload…"),
        ([{"x" * 200: object}], "payload…"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(e.NotJson) as caught:
        payload.encode(value, "payload")
    assert caught.value.code == "not_json"
    assert str(caught.value).startswith(f"{place}: ")
    assert "\n" not in str(caught.value)
    str(caught.value).encode(errors="backslashreplace")


def test_what_contains_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = 1
    for _ in range(201):
        deep = {"a": deep}
    for value in (loop, deep):
        with pytest.raises(e.NotJson, match="nested deeper than 200"):
            payload.encode(value, "payload")
    assert payload.encode(deep["a"], "payload")


def test_a_payload_may_have_exactly_one_mebibyte() -> None:
    limit = 1024 * 1024
    assert limit == payload.LIMIT
    assert len(payload.encode("x" * (limit - 2), "payload")) == limit
    with pytest.raises(e.PayloadTooLarge) as caught:
        payload.encode("x" * (limit - 1), "payload of 'work'")
    assert caught.value.code == "payload_too_large"
    assert str(caught.value).startswith("payload of 'work': 1,048,577 bytes")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_comes_back_as_it_was(value: Any) -> None:
    data = payload.encode(value, "payload")
    assert payload.decode(data) == value
    assert payload.decode(payload.canonical(data)) == value


@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert payload.canonical(payload.encode(value, "a")) == payload.canonical(payload.encode(backwards, "b"))


def every_error(root: type[e.InterlockError]) -> list[type[e.InterlockError]]:
    return [root, *(below for kind in root.__subclasses__() for below in every_error(kind))]


def test_every_error_has_a_code_of_its_own() -> None:
    own = [kind for kind in every_error(e.InterlockError) if kind.__module__.startswith("interlock.error")]
    codes = [kind.code for kind in own if "code" in vars(kind)]
    assert len(set(codes)) == len(codes) > 20
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_an_error_told_by_a_peer_is_the_same_error_here() -> None:
    told = e.StoreUnavailable("disk full")
    heard = e.rebuild(told.code, str(told))
    assert type(heard) is e.StoreUnavailable
    assert str(heard) == str(told)
    unknown = e.rebuild("from_the_future", "something new")
    assert type(unknown) is e.InterlockError
    assert str(unknown) == "something new (from_the_future)"


def test_values_in_messages_are_whole_or_left_out_and_on_one_line() -> None:
    assert e.shown("a") == "'a'"
    assert e.shown("x" * 78) == f"'{'x' * 78}'"
    assert e.shown("x" * 79) == "<str, too long to show>"
    assert e.shown(Opaque()) == "<Opaque>"
    assert "\n" not in e.shown("a\nb")
