"""Secrets: how they travel, who gets them, and where they must not be seen."""

import copy
import json
import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.engine.catalog import Catalog, create
from interlock.error import BadPayload, InterlockError, NotJson, PayloadTooLarge
from interlock.fields import payload
from interlock.fields.secret import MASK, SECRET_NAMES, Secret, has_secret, mask, matcher
from interlock.model.job import Job
from interlock.wire.message import Dispatch
from interlock.wire.request import Submit
from interlock.wiring.catalog import entries_of
from interlock.worker.context import Context
from interlock.worker.definition import Definition

VALUE = "hunter2-öß\"'\\/&+ x"
"""needs escaping in every way there is"""


NOBODY = Context(Dispatch("r", 1, "job", 1, b"{}", None, False, 1.0, None), lambda message: None)


class Colour(Enum):
    RED = "red"


@dataclass
class Login:
    user: str
    password: Secret
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Optional:
    level: int = 0


@dataclass
class Loud:
    text: str

    def __post_init__(self) -> None:
        raise ValueError(f"Cannot\nuse {self.text!r}")


def define(handler: Callable[..., Any]) -> Definition:
    return Definition(Job(id="job"), handler)


def given_to(handler: Callable[..., Any], data: bytes) -> dict[str, Any]:
    definition = define(handler)
    definition.check(data)
    return definition.arguments(data, NOBODY)


# ── the value ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_is_shown_to_nobody_who_does_not_ask(caplog: pytest.LogCaptureFixture) -> None:
    secret = il.Secret("hunter2")
    logging.getLogger("test").warning("%s %r %s", secret, secret, {"password": secret})
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>10}", f"{secret!r}", f"{[secret]}", caplog.text]
    assert all(MASK in text and "hunter2" not in text for text in shown)
    assert secret.reveal() == "hunter2"
    assert f"{secret:>5}" == "  •••"


def test_secrets_compare_by_value_and_with_secrets_only() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret("\ud800ä") == Secret("\ud800ä")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert copy.deepcopy({"x": Secret("a")}) == {"x": Secret("a")}
    assert copy.copy(Secret("a")) == Secret("a")


def test_a_secret_is_not_pickled_and_is_a_text() -> None:
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps({"x": Secret("hunter2")})
    with pytest.raises(InterlockError, match="a Secret is a text, not a int") as caught:
        Secret(123456)  # type: ignore[arg-type] # that is the point
    assert "123456" not in str(caught.value)


# ── to a handler ────────────────────────────────────────────────────────────────────────────────────────────────────


def takes(password: Secret) -> None: ...


def may_take(password: Secret | None = None, count: int = 1) -> None: ...


def takes_many(keys: list[Secret], by_name: dict[str, Secret]) -> None: ...


def takes_login(login: Login) -> None: ...


def takes_anything(value: Any) -> None: ...


def takes_headers(headers: dict[str, Any], items: list[Any] = []) -> None: ...  # noqa: B006 - never changed


def takes_the_rest(**rest: Any) -> None: ...


def takes_text(password: str) -> None: ...


def takes_texts(words: list[str]) -> None: ...


def takes_mapping(words: dict[str, str]) -> None: ...


def takes_options(options: Optional) -> None: ...


@pytest.mark.parametrize(
    ("handler", "data", "arguments"),
    [
        (takes, b'{"password": "abc"}', {"password": Secret("abc")}),
        (takes, b'{"password": {"$secret": "abc"}}', {"password": Secret("abc")}),
        (takes, rb'{"password": {"\u0024secret": "abc"}}', {"password": Secret("abc")}),
        (may_take, b"{}", {}),
        (may_take, b'{"password": null}', {"password": None}),
        (may_take, b'{"password": {"$secret": "abc"}, "count": 2}', {"password": Secret("abc"), "count": 2}),
        (
            takes_many,
            b'{"keys": ["a", {"$secret": "b"}], "by_name": {"x": "c", "y": {"$secret": "d"}}}',
            {"keys": [Secret("a"), Secret("b")], "by_name": {"x": Secret("c"), "y": Secret("d")}},
        ),
        (
            takes_login,
            b'{"login": {"user": "u", "password": "p", "options": {"again": {"$secret": "q"}}}}',
            {"login": Login("u", Secret("p"), {"again": Secret("q")})},
        ),
        (takes_anything, b'{"value": {"$secret": "abc"}}', {"value": Secret("abc")}),
        (takes_anything, rb'{"value": ["$secret", {"$secret": "\u00e4"}]}', {"value": ["$secret", Secret("ä")]}),
        (takes_headers, b'{"headers": {"a": {"b": [{"$secret": "abc"}]}}, "items": [{"$secret": "d"}]}',
         {"headers": {"a": {"b": [Secret("abc")]}}, "items": [Secret("d")]}),
        (takes_the_rest, b'{"a": {"$secret": "abc"}, "b": 1}', {"a": Secret("abc"), "b": 1}),
        (takes_text, b'{"password": "abc"}', {"password": "abc"}),
    ],
)  # fmt: skip
def test_a_handler_gets_secrets_where_they_are_marked_or_annotated(
    handler: Callable[..., Any], data: bytes, arguments: dict[str, Any]
) -> None:
    assert given_to(handler, data) == arguments


@pytest.mark.parametrize(
    ("handler", "data", "says"),
    [
        (takes_text, b'{"password": {"$secret": "abc"}}', "'password': it is a secret; annotate it as interlock"),
        (takes_texts, b'{"words": ["x", {"$secret": "abc"}]}', "'words[1]': it is a secret"),
        (takes_mapping, b'{"words": {"a": {"$secret": "abc"}}}', "'words[...]': it is a secret"),
        (takes_mapping, b'{"words": {"$secret": "abc"}}', "'words': it is a secret"),
        (takes_options, b'{"options": {"$secret": "abc"}}', "'options': it is a secret"),
        (takes, b'{"password": 12345}', "argument 'password': a secret is a text"),
        (takes, b'{"password": null}', "argument 'password': a secret is a text"),
        (takes, b'{"password": {"$secret": 12345}}', '\'password\': a secret is {"$secret": "text"} and nothing else'),
        (takes_anything, b'{"value": [{"$secret": "abc", "more": 1}]}', "argument 'value[0]': a secret is {"),
        (takes_the_rest, b'{"$secret": "abc"}', "Expected object, got Secret"),
        (takes_anything, b'{"value": ' + b"[" * 300 + b'{"$secret": "x"}' + b"]" * 300 + b"}", "nested deeper than"),
    ],
)
def test_a_secret_where_none_is_taken_is_refused_and_not_quoted(
    handler: Callable[..., Any], data: bytes, says: str
) -> None:
    with pytest.raises(BadPayload) as caught:
        define(handler).check(data)
    assert says in str(caught.value)
    assert "abc" not in str(caught.value)
    assert "12345" not in str(caught.value)


def test_a_definition_says_which_arguments_are_secrets() -> None:
    def handler(ctx: il.Context, user: str, password: Secret, login: Login, key: Secret | None = None) -> None: ...

    assert define(handler).job.secrets == ("password", "login", "key")
    assert define(takes_many).job.secrets == ("keys", "by_name")
    assert define(takes_text).job.secrets == ()
    assert define(takes).job.version != define(takes_text).job.version


class Renamed(msgspec.Struct, rename={"key": "Key"}):
    key: Secret
    plain: str


def takes_all(
    keys: list[Secret | None],
    several: set[Secret],
    login: Login,
    renamed: Renamed,
    by_number: dict[int, tuple[Secret, str]],
    user: str,
    key: Secret | None = None,
    other: Secret | None = None,
    **rest: Any,
) -> None: ...


def test_what_a_handler_takes_as_a_secret_is_kept_as_one_however_it_was_given() -> None:
    given = {
        "keys": ["a", {"$secret": "b"}, None],
        "several": ["a", "b", "a"],
        "login": {"user": "a", "password": "a", "options": {"a": ["a", {"$secret": "b"}]}, "unknown": "a"},
        "renamed": {"Key": "a", "plain": "a"},
        "by_number": {"1": ["a", "a"]},
        "user": "a",
        "key": None,
        "more": {"user": "a", "number": 1.0},
    }
    data = json.dumps(given).encode()
    definition = define(takes_all)
    definition.check(data)
    marked = definition.mark(data)
    secret = {"$secret": "a"}
    assert json.loads(marked) == given | {
        "keys": [secret, {"$secret": "b"}, None],
        "several": [secret, {"$secret": "b"}, secret],
        "login": {"user": "a", "password": secret, "options": {"a": ["a", {"$secret": "b"}]}, "unknown": "a"},
        "renamed": {"Key": secret, "plain": "a"},
        "by_number": {"1": [secret, "a"]},
    }
    assert given_to(takes_all, marked) == given_to(takes_all, data)
    assert definition.mark(marked) == marked


def test_a_submit_is_kept_with_the_marks_of_its_secrets() -> None:
    definitions = {"job": define(takes), "plain": Definition(Job(id="plain"), takes_text)}
    catalog = Catalog(entries_of(definitions, SECRET_NAMES))
    plain = il.run("plain", {"password": "x"})
    submit = Submit(1, [plain, il.run("job", {"password": "hunter2"}, session="s")])
    create(submit, "a", catalog, {})
    assert submit.runs == [plain, il.run("job", {"password": Secret("hunter2")}, session="s")]
    most = payload.LIMIT - len(b'{"password":""}')
    with pytest.raises(PayloadTooLarge, match="secrets marked"):
        create(Submit(1, [il.run("job", {"password": "x" * most})]), "a", catalog, {})


def test_a_secret_that_is_taken_as_a_text_by_now_is_refused_with_a_reason() -> None:
    data = define(takes).mark(b'{"password": "hunter2"}')
    with pytest.raises(BadPayload, match="'password': it is a secret") as caught:
        define(takes_text).arguments(data, NOBODY)
    assert "hunter2" not in str(caught.value)


# ── from a program ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_secret_travels_marked_and_arrives_as_it_was(text: str) -> None:
    data = il.run("job", {"value": [Secret(text)], "more": (1, Secret(text))}).payload
    assert json.loads(data) == {"value": [{"$secret": text}], "more": [1, {"$secret": text}]}
    assert given_to(takes_the_rest, data) == {"value": [Secret(text)], "more": [1, Secret(text)]}


def test_a_result_has_no_place_for_a_secret() -> None:
    with pytest.raises(NotJson, match="result: a Secret is not JSON") as caught:
        payload.encode_result({"token": [Secret("hunter2")]})
    assert "hunter2" not in str(caught.value)
    assert payload.encode_result({"a": 1}) == b'{"a":1}'


class Opaque:
    def __repr__(self) -> str:
        return "Opaque(hunter2)"


@pytest.mark.parametrize(
    "value",
    [b"hunter2", {"hunter2"}, Opaque(), "hunter2\ud800", {b"hunter2": 1}, int("8" * 30), Secret("hunter2\ud800")],
)
def test_what_is_not_json_is_named_and_not_quoted(value: Any) -> None:
    with pytest.raises(NotJson) as caught:
        payload.encode({"password": [value]}, "payload")
    assert str(caught.value).startswith("payload.password[0]: ")
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
    assert "8888" not in str(caught.value)


@pytest.mark.parametrize("kind", [Colour, Literal["red"], dict[Colour, int], Loud])
def test_a_refused_payload_is_not_quoted(kind: Any) -> None:
    def handler(password: kind, other: str = "") -> None: ...

    value = {"text": VALUE} if kind is Loud else {VALUE: 1} if kind == dict[Colour, int] else VALUE
    with pytest.raises(BadPayload) as caught:
        define(handler).check(json.dumps({"password": value, "other": "plain"}).encode())
    text = str(caught.value).lower()
    assert "hunter2" not in text
    assert "\n" not in text
    assert "password" in text


def test_the_apps_own_complaint_is_told_with_secrets_left_out() -> None:
    def handler(value: Loud) -> None: ...

    with pytest.raises(BadPayload, match=r"argument 'value': cannot use 'visible'"):
        define(handler).check(b'{"value": {"text": "visible"}}')
    with pytest.raises(BadPayload, match=r"argument 'value': cannot use '•••'"):
        define(handler).check(b'{"value": {"text": "visible"}}', ("text",))


# ── shown as a payload ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-5")
def test_a_payload_is_shown_without_its_secrets() -> None:
    value = {
        "user": "reader",
        "pin": 12345678,
        "PASSWORD": "a",
        "dbPassword": 5,
        "max_tokens": 4096,
        "token": [1, 2.5],
        "settings": {"x-api_key": ["a", {"b": "c"}], "deep": [{"Authorization": "Bearer x", "plain": [1, None]}]},
        "marked": [{"$secret": "abc"}, {"$secret": 5, "more": 1}],
        "apiKey": None,
        "has_secret": True,
        "secret": Secret("x"),
        "value": Secret("y"),
    }
    before = copy.deepcopy(value)
    assert mask(value, ("pin",), SECRET_NAMES) == {
        "user": "reader",
        "pin": MASK,
        "PASSWORD": MASK,
        "dbPassword": 5,
        "max_tokens": 4096,
        "token": [1, 2.5],
        "settings": {"x-api_key": [MASK, MASK], "deep": [{"Authorization": MASK, "plain": [1, None]}]},
        "marked": [MASK, MASK],
        "apiKey": None,
        "has_secret": True,
        "secret": MASK,
        "value": MASK,
    }
    assert value == before


def test_masking_takes_any_value_and_any_words() -> None:
    assert mask([1, {"$secret": "x"}]) == [1, MASK]
    assert mask({"$secret": "x"}) == MASK
    assert mask("plain") == "plain"
    assert mask({"pin": "1", "password": "2"}, (), ("pin",)) == {"pin": MASK, "password": "2"}
    assert mask({"user": 1, "nested": {"user": 2}}, ("user",), ()) == {"user": MASK, "nested": {"user": 2}}
    assert mask({"a": {"$secret": "x"}}, (), ()) == {"a": MASK}
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert MASK in str(mask(deep))


@pytest.mark.behaviour("SEC-5")
@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *[(name, True) for name in ("api_key", "DB_PASSWORD", "accessToken", "token", "TOKEN", "x-api-key", "APIKey")],
        *[
            (name, True)
            for name in ("apikey", "db.password", "Authorization", "credentials", "password2", "PGPASSWORD")
        ],
        *[
            (name, True)
            for name in ("AWS_SECRET_ACCESS_KEY", "SECRET_KEY", "client secret", "$secret", "x" * 99 + "Token")
        ],
        *[(name, False) for name in ("max_tokens", "token_count", "password_policy", "tokens", "tokenizer", "monkey")],
        *[(name, False) for name in ("secretary", "api_key_id", "key", "", "_", "ПАРОЛЬ", "has_passwords_left")],
    ],
)
def test_a_name_is_that_of_a_secret_if_it_ends_in_one_of_the_words(name: str, is_one: bool) -> None:
    assert matcher(SECRET_NAMES)(name) is is_one


def test_the_words_may_be_others() -> None:
    is_secret = matcher(("pin", "clientKey"))
    assert [one for one in ("pin", "card_pin", "pins", "client_key", "key", "token") if is_secret(one)] == [
        "pin",
        "card_pin",
        "client_key",
    ]


SAFE = st.sampled_from(["a", "user", "token_count", "passwordless", "value"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "hunter2", MASK]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            SAFE | st.sampled_from(["password", "apiKey", "API_KEY", "$secret", "X-Token"]), below, max_size=3
        )
    ),
    max_leaves=6,
)


@pytest.mark.behaviour("SEC-5", "POL-2")
@given(ANY, st.sets(SAFE, max_size=1))
def test_a_payload_has_a_secret_exactly_if_something_in_it_is_masked(value: Any, names: set[str]) -> None:
    data, shown = msgspec.json.encode(value), mask(value, names)
    assert has_secret(data, names) == (MASK in str(shown))
    assert has_secret(msgspec.json.encode(shown), names) == has_secret(data, names)
    assert has_secret(msgspec.json.encode(shown)) == has_secret(data, names)
