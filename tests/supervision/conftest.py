"""Event loops for tests of real processes, and the stage of all others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tests.supervision.stage import Stage

Run = Callable[[Coroutine[Any, Any, None]], None]
each_loop = pytest.mark.usefixtures("run")
"""an async test with this mark runs on each event loop"""
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(main, 60))

    request.node.run_test = lambda body: run_it(body())
    return run_it


@pytest.fixture
def stage() -> Stage:
    return Stage()
