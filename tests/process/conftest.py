"""One server for the tests that need nothing special of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import clean_folder, folder
from tests.helpers.server import Server

__all__ = ["folder", "server"]


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with clean_folder() as place, Server(Path(place), "--drain", "1s") as running:
        yield running
