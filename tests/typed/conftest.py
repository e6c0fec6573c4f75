"""One server with the jobs of these tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import clean_folder
from tests.helpers.server import Server


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with (
        clean_folder() as place,
        Server(Path(place), "--drain", "1s", "--http", "local", target="tests.typed.value_jobs:app") as running,
    ):
        yield running
