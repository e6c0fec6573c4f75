"""`interlock cancel`: named runs, runs by filter, and being asked first."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from interlock import Client
from interlock.interface.run_view import BulkInfo
from interlock.model.bulk import RunAction
from tests.cli.asking import ask, detail, printed, refused
from tests.cli.terminal import Terminal, in_a_terminal
from tests.client.faulty import Faulty, Reply, answer, problem
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, interlock


def waiting(server: Server, *options: str) -> str:
    """A run that is due tomorrow."""
    return ask(server, "submit", "echo", "--delay", "1d", *options).stdout.strip()


@pytest.mark.behaviour("RUN-10")
def test_runs_by_name(server: Server) -> None:
    one, two = waiting(server), waiting(server)
    ended = ask(server, "cancel", one, two, "--reason", "not needed")
    assert (ended.stdout, ended.stderr, ended.returncode) == (f"{one}\tcancelled\n{two}\tcancelled\n", "", 0)
    assert detail(server, one)["reason"] == "not needed"
    assert ask(server, "cancel", one).stdout == f"{one}\tcancelled\n"
    three = waiting(server)
    assert printed(server, "cancel", "latest", "--json") == {"runs": [{"id": three, "state": "cancelled"}]}


AGENT = """
import time
import interlock as il

with il.Client() as client:
    for number in range(2):
        client.submit("echo", {"value": number}, delay="1d")
while True:
    time.sleep(3600)
"""


@pytest.mark.behaviour("RUN-26")
def test_a_program_with_all_runs_that_it_has_made(server: Server) -> None:
    env = {"INTERLOCK_URL": f"unix:{server.http_socket}"}
    with Client(f"unix:{server.http_socket}") as client:
        client.put_job("agent", {"run": {"process": [sys.executable, "-c", AGENT]}, "env": env})
        agent = client.submit("agent", tenant="acme")
        wait_until(lambda: len(list(client.runs(parent=agent.id))) == 2, "it has made two runs", 60)
        two, one = client.runs(root=agent.id, live=True)
        for made in (one, two):
            assert (made.parent, made.root, made.tenant) == (agent.id, agent.id, "acme")
            assert (made.created_by, made.facets["behind"]) == (f"run {agent.id}", ["local"])
        tree = printed(server, "runs", "--tree", "--root", agent.id, "--json")["runs"]
        assert [(branch["depth"], branch["run"]["id"]) for branch in tree] == [(0, agent.id), (1, one.id), (1, two.id)]
        piped = ask(server, "runs", "--tree", "--root", agent.id).stdout.splitlines()
        assert [line.split("\t")[:3] for line in piped] == [
            ["0", agent.id, "agent"], ["1", one.id, "echo"], ["1", two.id, "echo"]
        ]  # fmt: skip
        shown = Terminal.plain(in_a_terminal(server.folder, "runs", "--tree", "--root", agent.id[:16], size=(80, 24)))
        assert max(map(len, shown.splitlines())) <= 80
        leads = [line.split()[:2] for line in shown.splitlines()[1:] if line.strip()]
        assert [lead for lead, _ in leads[1:]] == ["├─", "└─"]
        assert [one.id.startswith(leads[1][1]), two.id.startswith(leads[2][1]), leads[0][1]] == [True, True, "agent"]
        assert ask(server, "cancel", agent.id, "--cascade").stdout == f"{agent.id}\trunning\n"
        assert agent.wait(60) == "cancelled"
        wait_until(lambda: not list(client.runs(root=agent.id, live=True)), "those that it made are cancelled too")
        assert {run.state for run in client.runs(root=agent.id)} == {"cancelled"}
        assert client.cancel(agent.id, cascade=True) == "cancelled"
    for option in ("--cascade", "--compensate"):
        refused(server, "cancel", "--all", option, exit_code=2, says=option, code="usage")
    refused(server, "runs", "--tree", "--watch", exit_code=2, says="--tree", code="usage")


def test_the_others_are_cancelled_though_one_is_not_there(server: Server) -> None:
    one, two = waiting(server), waiting(server)
    ended = ask(server, "cancel", one, "nothing", two)
    assert ended.stdout == f"{one}\tcancelled\n{two}\tcancelled\n"
    assert (ended.stderr, ended.returncode) == ("error: run: 'nothing' does not exist [unknown_run]\n", 3)


def test_what_was_cancelled_before_a_failure_is_told(folder: Path) -> None:
    lookup = Reply(answer({"runs": [], "next": None}))
    done, refusal = Reply(answer({"id": "a", "state": "cancelled"})), Reply(problem("forbidden", "not this one", 403))
    with Faulty(lookup, done, lookup, refusal) as faulty:
        ended = interlock(folder, "cancel", "a", "b", "--json", "--url", faulty.url)
    assert json.loads(ended.stdout) == {"runs": [{"id": "a", "state": "cancelled"}]}
    assert (json.loads(ended.stderr)["error"]["code"], ended.returncode) == ("forbidden", 6)


@pytest.mark.behaviour("RUN-25")
def test_runs_by_filter(server: Server) -> None:
    chosen = [waiting(server, "--session", "chosen") for _ in range(3)]
    other = waiting(server, "--session", "other")
    refused(
        server, "cancel", "--session", "chosen",
        exit_code=2, says="3 runs", code="usage",
    )  # fmt: skip
    assert {detail(server, one)["state"] for one in chosen} == {"prerun"}
    ended = ask(server, "cancel", "--session", "chosen", "--job", "echo", "--yes", "--reason", "not needed")
    request, *counts = ended.stdout.rstrip("\n").split("\t")
    assert (counts, ended.stderr, ended.returncode) == (["3", "0", "finished"], "", 0)
    assert {(detail(server, one)["state"], detail(server, one)["reason"]) for one in chosen} == {
        ("cancelled", "not needed")
    }
    assert detail(server, other)["state"] == "prerun"
    again = ask(server, "cancel", "--session", "chosen")
    assert (again.stdout, again.stderr, again.returncode) == ("", "no run to cancel\n", 0)
    looked = printed(server, "cancel", "--request", request, "--json")
    assert (looked["id"], looked["job"], looked["session"], looked["done"]) == (request, "echo", "chosen", 3)
    assert printed(server, "cancel", "--session", "chosen", "--yes", "--json")["done"] == 0
    says = "bulk request: 'nothing' does not exist"
    refused(server, "cancel", "--request", "nothing", exit_code=3, says=says, code="unknown_bulk")
    says = "state: 'failed' is not allowed to cancel; runs in it have ended"
    refused(server, "cancel", "--state", "failed", "--yes", exit_code=2, says=says, code="bad_value")


UNDER_WAY = BulkInfo(
    id="b1", action=RunAction.CANCEL, state=[], job="work", tenant=None, session=None, lane=None, since=None,
    until=None, letters=None, reason="cancelled", actor="local", created_at=1.0, ended_at=None, done=4000, asked=1,
    left=496_000,
)  # fmt: skip
FINISHED = msgspec.structs.replace(UNDER_WAY, ended_at=2.0, done=499_999, left=0)


def told(bulk: BulkInfo, status: int = 200) -> Reply:
    return Reply(answer(msgspec.to_builtins(bulk), status))


@pytest.mark.behaviour("RUN-25")
def test_progress_is_shown_while_a_person_waits(folder: Path) -> None:
    with Faulty(told(UNDER_WAY, 202), told(UNDER_WAY), told(UNDER_WAY), told(FINISHED)) as faulty:
        shown = in_a_terminal(folder, "cancel", "--job", "work", "--yes", "--url", faulty.url)
    assert "cancelled 4,000 runs, asked 1 run to stop, 496,000 runs left to look at" in shown
    assert shown.endswith("cancelled 499,999 runs, asked 1 run to stop\n")


@pytest.mark.behaviour("RUN-25")
def test_who_does_not_wait_is_told_how_to_look(folder: Path) -> None:
    with Faulty(told(UNDER_WAY, 202), told(UNDER_WAY)) as faulty:
        ended = interlock(folder, "cancel", "--job", "work", "--yes", "--no-wait", "--url", faulty.url)
    assert (ended.stdout, ended.returncode) == ("b1\t4000\t1\tunder way\n", 0)
    with Faulty(told(UNDER_WAY, 202), *[told(UNDER_WAY)] * 1000) as faulty:
        with Terminal(folder, "cancel", "--job", "work", "--yes", "--url", faulty.url) as terminal:
            terminal.wait_for("496,000 runs left")
            terminal.enter("\x03")
            assert terminal.ended() == 130
            assert "the server carries on; to follow it: interlock cancel --request b1" in terminal.text
            assert "Traceback" not in terminal.text


@pytest.mark.parametrize(
    ("answer", "state", "code"), [("y\n", "cancelled", 0), ("n\n", "prerun", 1), ("\x03", "prerun", 130)]
)
def test_a_person_is_asked(server: Server, answer: str, state: str, code: int) -> None:
    run_id = waiting(server, "--session", f"asked-{code}")
    with Terminal(server.folder, "cancel", "--session", f"asked-{code}") as terminal:
        terminal.wait_for("Cancel 1 run? [y/N]:")
        terminal.enter(answer)
        assert terminal.ended() == code
        assert "Traceback" not in terminal.text
    assert detail(server, run_id)["state"] == state


def test_everything(server: Server) -> None:
    waiting(server)
    assert ask(server, "cancel", "--all", "--yes").returncode == 0
    assert ask(server, "runs", "--live").stdout == ""


@pytest.mark.behaviour("RUN-25")
@pytest.mark.parametrize("action", [one for one in RunAction if one is not RunAction.RETRY])
@pytest.mark.parametrize(
    "chosen",
    [
        ["--job", "echo.thread"],
        ["--session", "chosen"],
        ["--tenant", "chosen"],
        ["--lane", "team"],
        ["--state", "prerun", "--session", "chosen"],
        ["--since", "1h", "--session", "chosen"],
    ],
)
def test_every_action_takes_every_filter(server: Server, action: RunAction, chosen: list[str]) -> None:
    options = ["--delay", "1d", "--session", "chosen", "--tenant", "chosen", "--lane", "team"]
    run_id = ask(server, "submit", "echo.thread", *options).stdout.strip()
    other = waiting(server)
    if action is RunAction.RELEASE:
        ask(server, "hold", run_id)
    assert ask(server, "runs", "--live", *chosen).stdout.split("\t")[0] == run_id
    ended = ask(server, action, *chosen, "--yes")
    assert (ended.stdout.split("\t")[1:], ended.returncode) == (["1", "0", "finished\n"], 0)
    assert printed(server, "show", run_id, "--json")["history"][-1]["actor"] != ""
    assert detail(server, other)["facets"] == {}
    ask(server, "cancel", run_id, other)


@pytest.mark.parametrize("arguments", [[], ["some-run", "--job", "echo"], ["some-run", "--all"], ["--yes"]])
def test_one_way_or_the_other(server: Server, arguments: list[str]) -> None:
    says = "name the runs to cancel, or choose them with options like --job or --all; not both"
    refused(server, "cancel", *arguments, exit_code=2, says=says, code="usage")


@pytest.mark.behaviour("RUN-24", "RUN-25")
def test_hold_and_release(server: Server) -> None:
    """Everywhere: on the command line, over HTTP, from Python, for one run and by filter."""
    run_id = waiting(server)
    assert ask(server, "hold", run_id).stdout == f"{run_id}\tprerun\n"
    assert set(detail(server, run_id)["facets"]["hold"]) == {"by", "at"}
    with Client(f"unix:{server.http_socket}") as client:
        assert client.release(run_id) == client.handle(run_id).hold() == "prerun"
        client.handle(run_id).release()
        assert client.get(run_id).facets == {}
    assert server.local.post(f"/api/v1/runs/{run_id}/hold", None).json == {"id": run_id, "state": "prerun"}
    released = ask(server, "release", "--state", "prerun", "--yes")
    assert released.stdout.split("\t")[1:] == ["1", "0", "finished\n"]
    ask(server, "cancel", run_id)
