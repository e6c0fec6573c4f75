"""One server full of work and one browser, shared by every test of the dashboard."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.browser import Window, chromium, missing
from tests.dashboard.office import fill, office
from tests.helpers.places import clean_folder
from tests.helpers.server import Server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if reason := missing():
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; .ci/run installs it")
        pytest.skip(reason)
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def full() -> Iterator[Server]:
    """A server in every situation that needs a person. Tests leave it as it is, or add to it."""
    with clean_folder() as place, office(place) as server:
        fill(server.http)
        yield server


@pytest.fixture
def window(browser: Any, full: Server) -> Iterator[Window]:
    with Window(browser, full.url) as opened:
        yield opened
