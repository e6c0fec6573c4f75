"""No test has a limit on speed: a busy machine must not fail it. Properties are tried with the same values each time;
`make soak` tries them with others."""

import gc
import inspect
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from tests.helpers.places import run_async
from tests.helpers.processes import hear_signals

pytest_plugins = ["tests.parallel", "tests.second_try"]
LONGEST = ("chaos", "crash", "docs", "simulation", "typed")
"""folders with the files that take longest"""
# Some tests use gRPC, as `interlock.policy_service` does, in the process that starts all others.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
hear_signals()
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=1000)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that none is left to run alone at the end."""
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test as `run_test` says, which a fixture or its module may set; else on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    found = getattr(pyfuncitem, "run_test", None) or getattr(pyfuncitem.module, "run_test", None)
    run_test: Callable[[Callable[[], Any]], object] = found or (lambda body: run_async(body()))
    run_test(lambda: pyfuncitem.obj(**given))
    return True


def pytest_collection_finish() -> None:
    """Spare every collection of garbage the thousands of tests that stay until the end."""
    gc.collect()
    gc.freeze()
