"""Bad values of lanes, rates, priorities and sessions on the command line: each is named, and nothing happens."""

import pytest

from tests.cli.asking import ask, refused
from tests.helpers.server import Server

OPTION = ("submit", "echo", "--session", "s", "--session-option")


@pytest.mark.behaviour("LAN-1", "LAN-5", "LAN-8", "SES-3")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*OPTION, "cap=0"), "--session-option cap: '0'"),
        ((*OPTION, "mode=later"), "--session-option mode: 'later'"),
        ((*OPTION, "drop=all"), "--session-option drop: 'all'"),
        ((*OPTION, "debounce=-1s"), "--session-option debounce: '-1s'"),
        ((*OPTION, "rate=0/s"), "--session-option rate: '0/s'"),
        (("submit", "echo", "--session", ""), "session: ''"),
        (("submit", "echo", "--session", "é" * 257), "512 bytes"),
        (("submit", "echo", "--priority", "high"), "priority: 'high'"),
        (("lane", "create", "new", "--limit", "0"), "--limit: '0'"),
        (("lane", "create", "new", "--limit", "-1"), "--limit: '-1'"),
        (("lane", "create", "new", "--limit", "many"), "--limit: 'many'"),
        (("lane", "create", "new", "--limit", "1", "--rate", "0/s"), "rate: '0/s'"),
        (("lane", "set", "main", "--limit", "0"), "--limit: '0'"),
        (("lane", "set", "main", "--rate", "0/s"), "rate: '0/s'"),
        (("lane", "set", "main", "--rate", "0.0001/d"), "rate: '0.0001/d'"),
    ],
)
def test_a_bad_value_is_refused_and_named(server: Server, arguments: tuple[str, ...], says: str) -> None:
    before = ask(server, "lanes", "--json").stdout, ask(server, "runs", "--json").stdout
    code = "bad_duration" if "debounce" in says else "bad_value"
    refused(server, *arguments, exit_code=2, says=says, code=code)
    assert (ask(server, "lanes", "--json").stdout, ask(server, "runs", "--json").stdout) == before
