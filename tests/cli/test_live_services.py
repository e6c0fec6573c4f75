"""The commands about services against a server that keeps some up."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.asking import ask, printed
from tests.cli.conftest import served
from tests.cli.terminal import Terminal
from tests.helpers.processes import wait_until
from tests.helpers.server import Command, Server
from tests.helpers.services import declare


@pytest.fixture(scope="module")
def kept() -> Iterator[Server]:
    with served("--workers", "1", "--drain", "1s", files=declare) as server:
        wait_until(lambda: status_of(server, "broken") == "pending", "the services have been started")
        yield server


def status_of(server: Server, name: str) -> str | None:
    answer = server.local.get(f"/api/v1/services/{name}")
    return answer.json["status"] if answer.status == 200 else None


def test_a_group_that_is_restarted_starts_what_somebody_has_stopped(kept: Server) -> None:
    ask(kept, "service", "stop", "talk")
    assert printed(kept, "service", "start", "shop", "--json")["children"][0]["status"] == "stopped"
    assert printed(kept, "service", "restart", "shop", "--json")["children"][0]["status"] == "running"


@pytest.mark.behaviour("SUP-9")
def test_a_tree_that_stays_current(kept: Server) -> None:
    with Terminal(kept.folder, "tree", "--follow", size=(80, 24)) as terminal:
        terminal.wait_for_screen("talk", "pending")
        ask(kept, "service", "stop", "talk")
        terminal.wait_for_screen("stopped")
        terminal.resize_everywhere()
        ask(kept, "service", "start", "talk")
        terminal.enter("\x03")
        assert terminal.ended() == 130
        assert "Traceback" not in terminal.text


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_tree_followed_through_a_pipe(kept: Server, form: list[str]) -> None:
    command = Command(kept.folder, "interlock.cli", "tree", "-f", *form, name=f"tree{len(form)}")
    command.begin()
    try:
        wait_until(lambda: "services/steady" in command.said, "it is shown as it is")
        before = len(command.said.splitlines())
        ask(kept, "service", "stop", "steady")
        wait_until(lambda: "stopped" in command.said, "what changes is shown")
        ask(kept, "service", "start", "steady")
    finally:
        code = command.stop()
    assert code == 130
    lines = command.said.splitlines()
    if form:
        assert all(json.loads(line)["path"] == "" for line in lines)
    else:
        # Only what has changed is told again.
        assert {line.split("\t")[0] for line in lines[before:]} == {"services/steady"}


def test_the_last_lines_of_a_run(kept: Server) -> None:
    run_id = ask(kept, "submit", "chatter", "-p", "lines=5").stdout.strip()
    ask(kept, "show", run_id, "--wait")
    whole = ask(kept, "logs", run_id).stdout.splitlines()
    assert len(whole) == 5
    for follow in ([], ["-f"]):
        assert ask(kept, "logs", run_id, "--tail", "2", *follow).stdout.splitlines() == whole[-2:]
    assert ask(kept, "logs", run_id, "--tail", "0").stdout == ""
