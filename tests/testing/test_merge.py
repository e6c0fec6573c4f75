"""Merge functions: checked when the job is defined, called with every payload, refused if they return no payload."""

from functools import partial
from typing import Any

import pytest

import interlock as il
from interlock import testing
from interlock.error import BadHandler, BadValue


def join(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": "+".join(one["text"] for one in payloads)}


def first(payloads: list[dict[str, Any]], place: int) -> dict[str, Any]:
    return payloads[place]


class First:
    def __call__(self, payloads: list[dict[str, Any]]) -> dict[str, Any]:
        return payloads[0]


def made(merge: Any) -> il.App:
    app = il.App()

    @app.job("chat", merge=merge)
    def chat(ctx: il.Context, text: str) -> tuple[str, int]:
        return text, len(ctx.payloads)

    return app


@pytest.mark.parametrize("merge", [None, join, partial(first, place=0), First(), lambda payloads: payloads[-1]])
def test_the_arguments_are_those_of_the_merged_payload(merge: Any) -> None:
    assert made(merge).test("chat", {"text": "a"}).result == ["a", 1]


def test_arguments_come_from_all_payloads_or_the_last() -> None:
    payloads = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    for merge, text in ((None, "c"), (join, "a+b+c"), (First(), "a")):
        context = testing.context(payloads=payloads)
        assert made(merge).definitions["chat"].arguments_of(context) == {"ctx": context, "text": text}


@pytest.mark.behaviour("SES-4")
def test_runs_of_a_session_become_one_on_virtual_time() -> None:
    with testing.scheduler(made(join)) as scheduler:
        first, second = (scheduler.submit("chat", {"text": text}, session="s") for text in "ab")
        assert first.result() == ["a+b", 2]
        with pytest.raises(il.RunDebounced) as caught:
            second.result()
    assert caught.value.into == first.id


@pytest.mark.parametrize(
    ("merge", "problem"),
    [
        (lambda payloads: payloads, "merge returned a list; return a dict of arguments"),
        (lambda payloads: None, "merge returned a NoneType; return a dict of arguments"),
        (lambda payloads: {}, "argument 'text' is missing"),
        (lambda payloads: {"text": {1}}, "merge.text: a set is not JSON"),
        (lambda payloads: payloads[7], "IndexError: list index out of range"),
    ],
)
def test_a_merge_that_makes_no_payload_fails_the_attempt(merge: Any, problem: str) -> None:
    run = made(merge).test("chat", {"text": "a"})
    assert run.state is il.State.FAILED
    assert problem in str(run.info.error)


async def later(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    return payloads[0]


@pytest.mark.parametrize("merge", ["join", 7, later, first, lambda: None, lambda *, payloads: {}])
def test_a_merge_is_a_plain_function_of_one_argument(merge: Any) -> None:
    with pytest.raises(BadHandler) as caught:
        made(merge)
    assert "job 'chat': merge " in str(caught.value)


def test_another_merge_is_another_version_of_the_code() -> None:
    codes = {made(merge).definitions["chat"].job.code for merge in (None, join, First(), join)}
    assert len(codes) == 3


def test_the_context_of_a_test_has_the_payloads_it_is_given() -> None:
    assert testing.context().payloads == [{}]
    context = testing.context(payloads=[{"password": il.Secret("hunter2")}, {"token": "swordfish"}])
    assert context.payloads == [{"password": il.Secret("hunter2")}, {"token": "swordfish"}]
    context.log("hunter2 and swordfish")
    assert [line.text for line in context.lines] == ["••• and •••"]


@pytest.mark.parametrize("payloads", [[], [{}, 7], "text", 7, None])
def test_payloads_of_a_context_are_mappings(payloads: Any) -> None:
    with pytest.raises(BadValue) as caught:
        testing.context(payloads=payloads)
    assert caught.value.field == "payloads"
