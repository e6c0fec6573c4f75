"""A folder for each test, and the proof that nothing outlives it; one server for the tests that only ask it."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.places import clean_folder, folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

__all__ = ["folder"]


def serving(place: Path, *options: str) -> Server:
    """A server with its HTTP, in the folder where commands look for it."""
    server = Server(place, "--http", "local", *options)
    server.start()
    wait_until(lambda: answers(server.http_socket), "HTTP is served")
    if "0" not in options:
        wait_until(lambda: server.local.get("/readyz").status == 200, "its workers have joined")
    return server


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def served(
    *options: str, store: Callable[[Path], object] | None = None, files: Callable[[Path], object] | None = None
) -> Iterator[Server]:
    """One in a folder of its own. `store` fills its database, `files` writes the documents that it loads."""
    with clean_folder() as place:
        if store is not None:
            store(place / "interlock.db")
        server = serving(place, *([] if files is None else [str(files(place))]), *options)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as server:
        yield server
