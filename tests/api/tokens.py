"""Who may come in to the server that asks for tokens."""

from typing import NamedTuple

from tests.helpers.http import Http
from tests.helpers.server import Server


class Token(NamedTuple):
    role: str
    tenant: str
    text: str


TOKENS = {
    "boss": Token("admin", "*", "boss-4f1c0a7e9d2b"),
    "chief": Token("admin", "red", "chief-8b6d3e5f7a10"),
    "clerk": Token("operator", "red", "clerk-0a9b8c7d6e5f"),
    "guest": Token("viewer", "red", "guest-1122334455667"),
    "judge": Token("approver", "red", "judge-7766554433221"),
    "porter": Token("operator", "default", "porter-5566778899aa"),
    "watchman": Token("viewer", "*", "watchman-3344556677"),
    "stranger": Token("operator", "blue", "stranger-99aabbccdd"),
}


def as_(server: Server, name: str) -> Http:
    """Ask with the token of that name."""
    return server.http.with_token(TOKENS[name].text)
