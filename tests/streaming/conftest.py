"""A folder for each test, and one server with jobs that stream."""

from collections.abc import Iterator

import pytest

from tests.helpers.places import clean_folder, folder
from tests.helpers.server import Server

__all__ = ["folder"]

APP = "tests.helpers.streaming_jobs:app"


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with clean_folder() as place, Server(place, "--drain", "1s", "--http", "local", target=APP) as running:
        yield running
