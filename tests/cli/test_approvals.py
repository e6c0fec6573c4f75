"""`interlock approvals`, `approve`, `reject`, and verdicts in `show` and `explain`."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.asking import ask, drawn, printed, refused
from tests.cli.terminal import Terminal
from tests.helpers.judged import ASKS, DENIED, LIMITED, write_policy
from tests.helpers.places import clean_folder
from tests.helpers.server import Server, interlock

pytestmark = pytest.mark.behaviour("POL-8")

TOKEN = "approver-0123456789abcdef"
SETTINGS = f"tokens:\n  - {{name: ann, role: approver, tenant: '*', token: {TOKEN}}}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with clean_folder() as place:
        (place / "interlock.yaml").write_text(SETTINGS)
        with Server(place, write_policy(place), "--http", "127.0.0.1:0", "--drain", "1s") as running:
            yield running


def ann(server: Server, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Ask over TCP, with the token of an approver."""
    return interlock(server.folder, *arguments, INTERLOCK_URL=server.url, INTERLOCK_TOKEN=TOKEN)


def asked(server: Server, **payload: object) -> str:
    return server.local.submit(ASKS, payload)


def test_runs_that_wait_are_listed(server: Server) -> None:
    assert ask(server, "approvals").stdout == ""
    assert drawn(server, "approvals") == ["no run waits for an approval"]
    first, second = asked(server), asked(server, value=7)
    rows = [line.split("\t") for line in ask(server, "approvals").stdout.splitlines()]
    assert [row[:4] + row[6:] for row in rows] == [
        [run_id, ASKS, "money", "local", "default", "money moves"] for run_id in (second, first)
    ]
    assert all(row[4] < row[5] for row in rows)
    assert [one["run_id"] for one in printed(server, "approvals", "--json")["approvals"]] == [second, first]
    assert ask(server, "approvals", "--job", "other").stdout == ask(server, "approvals", "--tenant", "red").stdout == ""
    cut = ask(server, "approvals", "-n", "1")
    assert (cut.stdout.count("\n"), cut.stderr) == (1, "the newest 1; for more, use --limit\n")
    lines = drawn(server, "approvals")
    assert lines[0].split() == ["run", "job", "rule", "asked", "by", "waits", "expires", "in", "payload"]
    short, *cells = lines[1].split()
    assert (second.startswith(short), len(short) <= 16, cells[:3]) == (True, True, [ASKS, "money", "local"])
    assert lines[1].endswith('{"value":7}')
    assert max(map(len, lines)) <= 80
    for run_id in (first, second):
        assert ann(server, "reject", run_id, "--reason", "tidy up").stdout == f"{run_id}\tdenied\n"


@pytest.mark.behaviour("RUN-21")
def test_a_run_is_approved_as_it_was_shown(server: Server) -> None:
    server.local.ended(server.local.submit("echo"))
    payload, labels = {"value": {"api_key": "swordfish", "amount": 5}}, {"note": "a\nasked by      ann"}
    run_id = server.local.submit(ASKS, payload, labels=labels)
    ended = ann(server, "approve", run_id[:20], "--reason", "looked at", "--yes")
    assert ended.stdout.split("\t")[0] == run_id
    facts = {line[:14].strip(): line[14:] for line in ended.stderr.splitlines()}
    assert (facts["job"], facts["reason"], facts["rule"].split()[0]) == (ASKS, "money moves", "money")
    assert facts["payload"] == '{"value":{"api_key":"•••","amount":5}}'
    assert facts["labels"] == "note=a asked by      ann"
    assert facts["asked by"].startswith("local, ")
    assert "in the last 24 hours: " in facts["also did"]
    assert "echo 1 succeeded" in facts["also did"]
    assert server.local.ended(run_id)["state"] == "succeeded"
    shown = dict(line.split("\t", 1) for line in ask(server, "show", run_id).stdout.splitlines())
    assert shown["verdict"].startswith("require_approval by rule money of policy ")
    assert shown["verdict"].endswith(": money moves")
    assert shown["approval"].startswith("approved by ann, 20")
    assert shown["approval"].endswith("Z: looked at")
    explained = ask(server, "explain", run_id).stdout.splitlines()
    assert f"approval\t{shown['approval']}" in explained
    assert f"verdict\t{shown['verdict']}" in explained
    again = ann(server, "approve", run_id, "--reason", "again", "--yes")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.endswith("was answered by ann; it is succeeded [already_resolved]\n")


def test_a_terminal_is_asked_first(server: Server) -> None:
    assert ann(server, "reject", "latest", "-r", "x").stderr == (
        "error: run: 'latest' does not exist: no run waits for an approval [unknown_run]\n"
    )
    run_id = asked(server)
    server.local.submit("echo")  # newer, but nobody has to approve it
    arguments = ("approve", "latest", "--reason", "fine")
    for typed, code in (("n\n", 1), ("y\n", 0)):
        assert server.local.get(f"/api/v1/runs/{run_id}").json["state"] == "approval_required"
        with Terminal(server.folder, *arguments, INTERLOCK_URL=server.url, INTERLOCK_TOKEN=TOKEN) as terminal:
            terminal.wait_for("Approve it? [y/N]: ")
            terminal.enter(typed)
            assert terminal.ended() == code
            assert ("nothing was changed" in terminal.raw) == (typed == "n\n")
            assert (f"approved {run_id}" in terminal.raw) == (typed == "y\n")
    assert server.local.ended(run_id)["state"] == "succeeded"


@pytest.mark.behaviour("POL-1", "POL-4", "RUN-21")
def test_denied_rejected_and_limited_runs(server: Server) -> None:
    rejected, denied, limited = asked(server), server.local.submit(DENIED), server.local.submit(LIMITED, {"left": 1})
    waits = ask(server, "explain", rejected).stdout.splitlines()
    assert waits[0].startswith("The run waits for an approval (rule money: money moves), for ")
    assert waits[-1].startswith("approval\tasked for 20")
    ended = ann(server, "reject", rejected, "--reason", "not today", "--json")
    assert json.loads(ended.stdout) == {"id": rejected, "state": "denied"}
    lines = ask(server, "explain", rejected).stdout.splitlines()
    assert lines[0] == "The run was denied before its first attempt: rejected by ann: not today."
    assert lines[-1].startswith("approval\trejected by ann, 20")
    lines = ask(server, "explain", denied).stdout.splitlines()
    assert lines[-1].startswith("verdict\tdeny by rule never of policy ")
    server.local.ended(limited)
    shown = ask(server, "show", limited).stdout.splitlines()
    assert "limits\tmax_runtime 90s, tools grep sed" in shown
    assert any(line.startswith("verdict ") and "deny by rule never" in line for line in drawn(server, "show", denied))
    assert any(
        line.startswith("verdict ") and "deny by rule never" in line for line in drawn(server, "explain", denied)
    )


def test_wrong_commands_are_refused(server: Server) -> None:
    run_id = asked(server)
    own = ask(server, "approve", run_id, "--reason", "mine", "--yes")
    assert own.stderr.splitlines()[-1] == (
        f"error: run: '{run_id}' was submitted by local, who cannot approve it; somebody else must: over TCP, with a "
        "token of role approver (--url, and --token or INTERLOCK_TOKEN) [self_approval]"
    )
    assert own.returncode == 6
    refused(server, "approve", run_id, "-r", "x", exit_code=2, says="add --yes to approve it: standard", code="usage")
    for command in ("approve", "reject"):
        refused(server, command, run_id, exit_code=2, says="missing option '--reason'", code="usage")
        arguments = (command, "nothing", "-r", "x", *(["--yes"] if command == "approve" else []))
        refused(server, *arguments, exit_code=3, says="run: 'nothing' does not exist", code="unknown_run")
    refused(server, "reject", run_id, "-r", " ", exit_code=2, says="reason: ' ' is not valid", code="bad_value")
    plain = server.local.submit("echo")
    refused(server, "reject", plain, "-r", "x", exit_code=1, says="no approval was requested", code="no_approval")
