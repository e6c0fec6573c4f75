"""Redaction: what is written about an attempt has no secret of it."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.error import InterlockError
from interlock.fields import payload
from interlock.fields.secret import MASK, SECRET_NAMES, Secret, matcher
from interlock.wire.message import Checkpoint, Dispatch, LogMessage, Message, Progress
from interlock.worker.context import Context
from interlock.worker.redaction import MOST, Redaction, texts_of

VALUE = "hunter2-öß\"'\\/&+ x"
"""needs escaping in every way there is"""
LONG = "".join(f"{number:03d}-" for number in range(75)) + "end"
"""303 characters, and no part of it is there twice"""


def context_of(
    data: bytes, secrets: tuple[str, ...] = (), names: tuple[str, ...] = SECRET_NAMES, checkpoint: bytes | None = None
) -> tuple[Context, list[Message]]:
    sent: list[Message] = []
    dispatch = Dispatch("r", 1, "job", 1, data, None, False, 1.0, checkpoint)
    return Context(dispatch, sent.append, secrets, matcher(names)), sent


# ── in texts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "written",
    [
        VALUE, repr(VALUE), ascii(VALUE), repr({"a": [VALUE]}), repr(VALUE.encode()), json.dumps({"a": VALUE}),
        json.dumps(VALUE, ensure_ascii=False), quote(VALUE), quote(VALUE, safe=""), quote_plus(VALUE),
        payload.encode({"a": VALUE}, "x").decode(), f"a{VALUE}b{VALUE}",
    ],
)  # fmt: skip
def test_a_secret_is_left_out_however_it_is_written(written: str) -> None:
    hidden = Redaction([VALUE])(f"before {written} after")
    assert "hunter2" not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert MASK in hidden


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4), st.text(), st.text())
def test_no_secret_survives_in_any_text(secret: str, before: str, after: str) -> None:
    redaction = Redaction([secret])
    for text in (f"{before}{secret}{after}", repr([secret]), json.dumps([secret])):
        hidden = redaction(text)
        assert MASK in hidden
        assert secret in MASK or secret not in hidden.replace(MASK, "\0")


def test_of_two_secrets_the_longer_is_left_out_whole() -> None:
    assert Redaction(["hunter", "hunter2-long", "unter2"])("x hunter2-long y hunter z") == "x ••• y ••• z"


@pytest.mark.parametrize("written", [LONG, f"ü{LONG}", f"'{LONG}"])
@pytest.mark.parametrize("length", [16, 17, 50, 302])
def test_the_beginning_of_a_secret_is_left_out_too(written: str, length: int) -> None:
    redaction = Redaction([written, LONG[:20] + "another"])
    for form in (written, ascii(written)[1:-1], quote(written)):
        assert redaction(f"got {form[:length]}… and {form[:length]}") == "got •••… and •••"
    assert redaction(f"got {written[:15]}") == f"got {written[:15]}"
    assert redaction(LONG[:20] + "ano") == MASK
    assert redaction(LONG[:20] + "another one") == f"{MASK} one"


def test_a_key_of_several_lines_is_left_out_line_by_line_too() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"
    redaction = Redaction([key])
    assert redaction(f"got {key.strip()}!") == "got •••!"
    assert "MIIE" not in redaction("\n".join(f"  | {line}" for line in key.splitlines()))


def test_what_is_too_short_or_too_much_to_look_for() -> None:
    is_secret = matcher(SECRET_NAMES)
    assert Redaction(["abc"])("abc abcd") == "abc abcd"
    assert Redaction(["abcd"])("abc abcd") == "abc •••"
    value = {"max_tokens": 4096, "token": 123456, "secret": True, "password": None, "pin": 654321, "short": 12345}
    assert texts_of(value, ("pin", "short"), is_secret) == {"654321"}
    assert Redaction(f"secret {number}" for number in range(MOST + 1))("harmless") == MASK
    assert Redaction(f"secret {number}" for number in range(MOST))("harmless") == "harmless"


def test_the_secrets_of_a_payload_are_found_at_any_depth() -> None:
    deep: Any = {"$secret": "deepest"}
    for _ in range(5000):
        deep = [deep]
    value = {"a": deep, "credentials": {"name": "reader", "more": ["member"]}, "login": {"x": "inside"}, "b": "plain"}
    assert texts_of(value, ("login",), matcher(SECRET_NAMES)) == {"deepest", "reader", "member", "inside"}


def test_a_key_below_the_name_of_a_secret_is_one_but_for_a_plain_word() -> None:
    keys = {
        "sk-live-1": 1,
        "sk_live_2": {"a b c d": 1},
        "private_key": 1,
        "2024": 1,
        "20240101": 1,
        "$secret": "marked",
    }
    found = texts_of({"token": [keys], "others": {"sk-live-3": 1}}, (), matcher(SECRET_NAMES))
    assert found == {"sk-live-1", "sk_live_2", "a b c d", "20240101", "marked"}


# ── in an attempt ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-20")
def test_what_an_attempt_says_is_without_its_secrets() -> None:
    data = json.dumps({"a": {"$secret": VALUE}, "api_key": "key-123", "pin": "annotated", "b": "plain"}).encode()
    context, sent = context_of(data, ("pin",))
    context.log(f"{VALUE} key-123 annotated plain", level="key-123")
    context.progress(5, "key-123 of plain")
    line, progress = sent
    assert isinstance(line, LogMessage)
    assert isinstance(progress, Progress)
    assert line.text == "••• ••• ••• plain"
    assert line.level == "•••"
    assert progress.text == "••• of plain"


def test_a_secret_is_left_out_before_a_line_is_cut() -> None:
    context, sent = context_of(b'{"password": "hunter2hunter2"}')
    context.log("x" * 8185 + "hunter2hunter2")
    context.progress(1, "x" * 8185 + "hunter2hunter2")
    assert all("hunter" not in one.text for one in sent if isinstance(one, (LogMessage, Progress)))
    assert len(sent) == 2


@pytest.mark.parametrize(
    "blunder",
    [
        lambda context, secret: context.progress(secret),
        lambda context, secret: context.checkpoint({secret: object()}),
        lambda context, secret: context.checkpoint({f"a\n{secret}": object()}),
        lambda context, secret: context.checkpoint([{f"{'x' * 190}{secret}": object()}]),
        lambda context, secret: il.run("job", tenant=f"\ud800{secret}"),
        lambda context, secret: il.run("job", delay=["x" * 60, secret]),  # type: ignore[arg-type]
        lambda context, secret: il.run("job", {secret: {"a": object()}}),
    ],
)
@pytest.mark.parametrize("secret", [LONG, LONG[:15], "two words\tand more"])
def test_our_own_messages_do_not_cut_a_secret_so_that_it_is_not_known(
    blunder: Callable[[Context, str], object], secret: str
) -> None:
    context, _ = context_of(json.dumps({"password": secret}).encode())
    with pytest.raises(InterlockError) as caught:
        blunder(context, secret)
    text = context.redact(str(caught.value))
    assert not any(secret[:length] in text for length in range(4, len(secret) + 1))
    assert "\n" not in text


def test_the_names_of_secrets_are_a_setting() -> None:
    context, sent = context_of(b'{"password": "hunter2", "pin": "987654"}', (), ("pin",))
    context.log("hunter2 987654")
    assert isinstance(sent[0], LogMessage)
    assert sent[0].text == "hunter2 •••"


def test_a_secret_in_a_checkpoint_comes_back_as_one_and_is_not_logged() -> None:
    context, sent = context_of(b"{}")
    context.checkpoint({"session": Secret("first-value")})
    context.checkpoint({"session": Secret(VALUE), "page": 3})
    context.log(f"{VALUE} first-value")
    kept, line = sent[1:]
    assert isinstance(kept, Checkpoint)
    assert isinstance(line, LogMessage)
    assert line.text == "••• •••"
    assert context.last_checkpoint == {"session": Secret(VALUE), "page": 3}
    later, said = context_of(b"{}", checkpoint=kept.value)
    later.log(VALUE)
    assert isinstance(said[0], LogMessage)
    assert said[0].text == MASK
    assert later.last_checkpoint == {"session": Secret(VALUE), "page": 3}


def test_a_checkpoint_that_could_not_come_back_is_refused_when_it_is_made() -> None:
    context, sent = context_of(b"{}")
    context.checkpoint({"page": 1})
    with pytest.raises(InterlockError, match="and nothing else"):
        context.checkpoint({"$secret": 5})
    assert context.last_checkpoint == {"page": 1}
    assert len(sent) == 1
