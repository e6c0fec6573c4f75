"""`interlock sessions`, `stop`, `stopall`, `reset` and `session`: what they say, draw and refuse."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.asking import ask, printed, refused, rows
from tests.cli.terminal import Terminal, in_a_terminal
from tests.helpers.http import Http
from tests.helpers.server import Server

KEY = "chat/ü: 1"
QUIET = {"debounce": "0s"}


@pytest.fixture
def http(server: Server) -> Http:
    return server.local


@pytest.fixture
def paused(server: Server, http: Http) -> Iterator[list[str]]:
    """Two runs of a session that is paused."""
    assert ask(server, "session", "pause", KEY).stdout.startswith("true\tchat/ü: 1\tdefault\t0\t0\t\tqueue\t")
    yield [http.submit("echo", {"value": one}, session=KEY, session_options=QUIET) for one in range(2)]
    ask(server, "stopall", KEY)
    ask(server, "session", "resume", KEY)


def test_sessions_as_rows_as_json_and_as_a_table(server: Server, paused: list[str]) -> None:
    (row,) = rows(server, "sessions")
    assert row[:4] + row[5:] == [
        KEY, "default", "0", "2", "queue", "1", "0.0", "10", "old", "", "1", "paused", "0", "", "", "",
    ]  # fmt: skip
    assert float(row[4]) >= 0.0
    (found,) = printed(server, "sessions", "--json")["sessions"]
    assert (found["key"], found["waiting"], found["paused"], found["usage"]) == (KEY, 2, True, None)
    drawn = Terminal.plain(in_a_terminal(server.folder, "sessions")).splitlines()
    assert drawn[0].split() == ["session", "tenant", "active", "waiting", "oldest", "wait", "status"]
    assert [one for one in drawn if one.startswith(KEY) and "2/10" in one]
    assert rows(server, "sessions", "--tenant", "nobody") == []


def test_keys_are_whole_at_80_columns_and_stay_on_their_row(server: Server, http: Http) -> None:
    long = "chat:5f0c9d1e-7a3b-4c58-9f12-"
    keys = [long + "aaa", long + "bbb", "line\none\ttab\x1b[2J"]
    runs = [http.submit("echo", session=key, delay="1h") for key in keys]
    drawn = in_a_terminal(server.folder, "sessions", size=(80, 24)).splitlines()
    assert [row.split()[0] for row in drawn[1:]] == [long + "aaa", long + "bbb", r"line\none\ttab\x1b[2J"]
    assert all(len(row.split()) == 5 for row in drawn[1:])
    assert not [row for row in drawn if "…" in row]
    alone = in_a_terminal(server.folder, "sessions", keys[2], size=(80, 24)).splitlines()
    facts = {name.rstrip(): value for name, _, value in (row.rstrip().rpartition(" ") for row in alone)}
    assert facts["session"] == r"line\none\ttab\x1b[2J"
    assert (facts["mode"], facts["debounce"], facts["generation"]) == ("queue", "800ms", "0")
    assert [row[0] for row in rows(server, "sessions")][2] == r"line\none\ttab\x1b[2J"
    for run_id in runs:
        http.post(f"/api/v1/runs/{run_id}/cancel")


def test_the_list_says_that_there_is_more(server: Server, http: Http, paused: list[str]) -> None:
    other = http.submit("echo", session="zzz", delay="1h")
    ended = ask(server, "sessions", "--limit", "1")
    assert ended.stdout.count("\n") == 1
    assert ended.stderr == "the first 1; for more, use --limit\n"
    http.post(f"/api/v1/runs/{other}/cancel")


@pytest.mark.behaviour("SES-5", "SES-7", "SES-10")
def test_a_paused_session_without_runs_is_found_by_its_key(server: Server, http: Http) -> None:
    idle: dict[str, Any] = printed(server, "sessions", "idle", "--json")
    assert (idle["active"], idle["paused"], idle["generation"]) == (0, False, 0)
    assert rows(server, "session", "pause", "idle")[0][0] == "true"
    assert rows(server, "session", "pause", "idle")[0][0] == "false"
    assert rows(server, "reset", "idle")[0][0] == "true"
    assert rows(server, "stop", "idle")[0][0] == "false"
    stopped = json.loads(ask(server, "stopall", "idle", "--json").stdout)
    assert stopped["acted"] is False
    (row,) = rows(server, "sessions", "idle")
    assert row[12:15] == ["paused", "1", stopped["session"]["cutoff"]]
    assert "idle" not in [one[0] for one in rows(server, "sessions")]
    assert in_a_terminal(server.folder, "session", "resume", "idle").strip() == "idle goes on"
    assert in_a_terminal(server.folder, "stop", "idle").strip() == "idle has no active run to stop"


@pytest.mark.behaviour("SES-5", "SES-7")
@pytest.mark.parametrize(("action", "reason"), [("stopall", "stopped"), ("reset", "lane_cleared")])
def test_waiting_runs_are_cancelled(server: Server, http: Http, paused: list[str], action: str, reason: str) -> None:
    assert printed(server, action, KEY, "--json")["acted"] is True
    for run_id in paused:
        ended = http.ended(run_id)
        assert (ended["state"], ended["reason"]) == ("cancelled", reason)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stop", ""), "session: '' is not a text of 1 to 512 bytes"),
        (("reset", "é" * 257), "is not a text of 1 to 512 bytes"),
        (("session", "puase", "x"), "action: 'puase' is not one of stop, stopall, reset, pause, resume; did you mean"),
        (("stop", "x", "--tenant", "a b"), "tenant: 'a b' is not"),
        (("sessions", "--limit", "0"), "--limit: '0' is not a whole number from 1"),
        (("sessions", "x", "--tenant", "é"), "tenant: 'é' is not"),
    ],
)
def test_a_wrong_command_is_refused(server: Server, arguments: tuple[str, ...], says: str) -> None:
    refused(server, *arguments, exit_code=2, says=says, code="bad_value")
