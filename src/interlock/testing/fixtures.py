"""Fixtures for pytest: `pytest_plugins = ["interlock.testing.fixtures"]` in your conftest.py."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from interlock.testing.virtual_scheduler import VirtualScheduler


@pytest.fixture
def interlock_app() -> Any:
    """Return the app for `scheduler`: define this fixture in your conftest.py."""
    pytest.fail("define a fixture interlock_app, which returns your interlock.App, in conftest.py", pytrace=False)


@pytest.fixture
def scheduler(interlock_app: Any) -> "Iterator[VirtualScheduler]":
    """Run a scheduler in memory on virtual time, with the jobs of `interlock_app`."""
    from interlock.testing.virtual_scheduler import VirtualScheduler

    with VirtualScheduler(interlock_app) as found:
        yield found
