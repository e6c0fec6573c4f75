"""Timers of the worker's host on uvloop, where one that ends at once is no timer."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interlock import runtime
from interlock.ports.clock import SystemClock
from interlock.wire import message as m
from interlock.worker import reports
from interlock.worker.held import HeldAttempt, StopSteps
from tests.helpers.places import until
from tests.helpers.played import dispatch
from tests.process.test_drain_limit import Deaf


def run_test(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    runtime.run(body())


def held(folder: Path, name: str, grace: float = 10.0) -> HeldAttempt:
    return HeldAttempt(replace(dispatch(name, "count", folder), grace=grace), 0.0)


@pytest.mark.behaviour("LIV-1")
async def test_starts_are_reported_by_a_host_that_stood_still_between_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timer ends at once. Whatever it raised would end the executor process with everything in it."""
    monkeypatch.setattr(reports, "SHORT_WAIT", 0.0)
    sent: list[m.Message] = []
    waiting = reports.Reports(SystemClock(), sent.extend)
    waiting.started(held(folder, "one"))
    waiting.started(held(folder, "two"))
    await until(lambda: len(sent) == 2, "both are reported")


@pytest.mark.behaviour("RUN-11")
async def test_an_attempt_without_grace_can_be_hurried(folder: Path) -> None:
    executor, one = Deaf(), held(folder, "one", grace=0.0)
    steps = StopSteps(executor)
    steps.press(one)
    steps.hurry([one], 0.0)
    await until(lambda: [step for _, step in executor.steps] == ["ask", "TERM", "KILL"], "it gets TERM, then KILL")


@pytest.mark.behaviour("RUN-7")
@pytest.mark.parametrize("begun", [False, True])
async def test_what_is_given_back_says_whether_it_began_though_its_start_was_not_sent(
    folder: Path, begun: bool
) -> None:
    sent: list[m.Message] = []
    waiting, attempt = reports.Reports(SystemClock(), sent.extend), held(folder, "one")
    attempt.begun, attempt.outcome = begun, m.Returned("one", 1, "its worker stopped")
    waiting.started(attempt)
    waiting.ended(attempt, hurries=True)
    assert sent == [m.Returned("one", 1, "its worker stopped", begun=begun)]
