"""An engine that runs on virtual time while the test does, and its store."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.engine.bench import Bench, SlowStore, on_virtual_time

B = TypeVar("B", bound=Bench)


def keep_running(request: pytest.FixtureRequest, made: B) -> B:
    async def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await made.start()
        await body()
        await made.stop()

    request.node.run_test = lambda body: on_virtual_time(lambda: run(body))
    return made


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def bench(request: pytest.FixtureRequest, store: SlowStore) -> Bench:
    return keep_running(request, Bench(store))
