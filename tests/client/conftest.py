"""One real server for the tests that need nothing special of it."""

from collections.abc import Iterator

import pytest

from tests.helpers.places import clean_folder, folder
from tests.helpers.server import Server

__all__ = ["folder", "server"]


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with clean_folder() as place, Server(place, "--http", "127.0.0.1:0", "--drain", "1s") as running:
        yield running
