"""One server without tokens, which lets its own user in, and one that asks for tokens."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.model.access import digest_of
from tests.api.tokens import TOKENS
from tests.helpers.http import Http
from tests.helpers.places import clean_folder, folder
from tests.helpers.server import Server

__all__ = ["folder"]


@contextmanager
def sound(server: Server) -> Iterator[Server]:
    """A server that at the end has said nothing that a person would have to look into."""
    with server:
        yield server
    assert "Traceback" not in server.said, server.said
    assert "internal error" not in server.said, server.said


def guard(place: Path) -> None:
    """Write the tokens into the settings, each in one of the ways there are."""
    lines = ["tokens:"]
    for name, token in TOKENS.items():
        lines.append(f"  - {{name: {name}, role: {token.role}, tenant: '{token.tenant}', {_secret(name, token.text)}}}")
    (place / "interlock.yaml").write_text("\n".join(lines) + "\n")


def _secret(name: str, text: str) -> str:
    if name == "boss":
        return "env: BOSS_TOKEN"
    return f"token: '{text}'" if name == "clerk" else f"sha256: {digest_of(text).hex()}"


@contextmanager
def with_tokens(
    *options: str, stores: Iterable[Callable[[Path], object]] = (), files: Callable[[Path], object] | None = None
) -> Iterator[Server]:
    """A server that asks for tokens. `stores` fill its database, `files` writes the documents that it loads."""
    with clean_folder() as place:
        guard(place)
        written = () if files is None else (str(files(place)),)
        server = Server(place, *written, "--drain", "1s", "--http", "127.0.0.1:0", *options)
        server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
        for store in stores:
            store(server.database)
        with sound(server) as running:
            yield running


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with clean_folder() as place, sound(Server(place, "--drain", "1s", "--http", "127.0.0.1:0")) as running:
        yield running


@pytest.fixture(scope="package")
def guarded() -> Iterator[Server]:
    with with_tokens("--log-level", "debug") as running:
        yield running


@pytest.fixture
def http(server: Server) -> Http:
    return server.http
