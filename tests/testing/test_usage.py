"""Estimators of usage: checked when they are declared, and called after each run of a session."""

import asyncio
from typing import Any

import pytest

import interlock as il
from interlock import testing
from interlock.error import BadHandler, BadUse


def app_with(estimator: Any) -> il.App:
    app = il.App()

    @app.job("chat", sessions={"debounce": "0s", "max_concurrent": 2})
    async def chat() -> None:
        await asyncio.sleep(10)

    app.usage(estimator)
    return app


def full(ctx: il.Context) -> tuple[int, int]:
    assert ctx.session == "a"
    return 6, 10


def silent(ctx: il.Context) -> None:
    """Report nothing."""


def wrong(ctx: il.Context) -> int:
    return 7


@pytest.mark.behaviour("SES-8")
@pytest.mark.parametrize(
    ("estimator", "seconds", "logged"),
    [
        (full, 30, ""),
        (silent, 20, ""),
        (wrong, 20, "usage: 7"),
        (lambda ctx: (1, "10"), 20, "window: '10'"),
        (lambda ctx: 1 / 0, 20, "ZeroDivisionError"),
    ],
)
def test_it_throttles_the_session_and_an_error_is_only_logged(estimator: Any, seconds: int, logged: str) -> None:
    with testing.scheduler(app_with(estimator)) as scheduler:
        begin = scheduler.now
        first = scheduler.submit("chat", session="a")
        first.wait()
        for run in [scheduler.submit("chat", session="a") for _ in range(2)]:
            run.result()
        assert round((scheduler.now - begin).total_seconds()) == seconds
        lines = first.logs()
        assert [line.level for line in lines] == ["error"] * bool(logged)
        assert all(logged in line.text for line in lines)
        scheduler.submit("chat").result()


@pytest.mark.parametrize("bad", [7, None, asyncio.sleep, lambda: (1, 2), lambda ctx, more: (1, 2)])
def test_what_cannot_estimate_is_refused(bad: Any) -> None:
    with pytest.raises(BadHandler):
        app_with(bad)


def test_an_app_has_one_estimator() -> None:
    with pytest.raises(BadUse) as caught:
        app_with(full).usage(silent)
    assert caught.value.field == "usage"
