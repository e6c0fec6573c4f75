"""`interlock runs`, `show` and `logs`: piped, in JSON, in a terminal, and live."""

import json
import re
import signal
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from interlock.cli.draw.picture import Picture, drawing, facts
from interlock.cli.draw.picture import lines_of as show_lines
from interlock.cli.look.explain import drawing as explain_drawing
from interlock.cli.look.explain import lines_of as explain_lines
from interlock.model.explanation import Explanation
from interlock.model.facets import Note
from interlock.model.state import State
from tests.cli.asking import ask, detail, printed, refused
from tests.cli.conftest import serving
from tests.cli.terminal import BACK, Terminal, in_a_terminal
from tests.client.faulty import DETAIL
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Command, Server, interlock


def submitted(server: Server, job: str, *options: str) -> str:
    ended = ask(server, "submit", job, *options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def held(server: Server, name: str, job: str = "hold", *options: str) -> str:
    """A run that goes on until it is told to."""
    run_id = submitted(server, job, "-p", f"folder={server.folder}", "-p", f"name={name}", *options)
    wait_until(lambda: detail(server, run_id)["state"] == "running", "it runs")
    return run_id


def rows(server: Server, *options: str) -> list[list[str]]:
    ended = ask(server, "runs", *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [line.split("\t") for line in ended.stdout.splitlines()]


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_piped_rows_are_complete(server: Server) -> None:
    ask(server, "submit", "fail", "--session", "piped", "--wait")
    ((run_id, job, state, attempt, created, started, ended, tenant, lane, session, why),) = rows(
        server, "--session", "piped"
    )
    found = detail(server, run_id)
    assert (job, state, attempt, tenant, lane, session) == ("fail", "failed", "1", "default", "main", "piped")
    assert why == "RuntimeError: boom"
    assert created <= started <= ended
    assert created.endswith("Z")
    assert found["id"] == run_id


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--state", "runing"], "--state: 'runing' is not a state; did you mean 'running'?"),
        (["--since", "30"], "--since: '30' is not a duration like 30s or 1h, nor a time like"),
        (["--limit", "0"], "--limit: 0 is not 1 or more"),
    ],
)
def test_filters_that_are_none(server: Server, options: list[str], says: str) -> None:
    refused(server, "runs", *options, exit_code=2, says=says, code="bad_value")


def test_a_table_that_fits(server: Server) -> None:
    run_id = submitted(server, "fail", "--session", "table", "--delay", "1d")
    for width in (60, 80, 200):
        drawn = in_a_terminal(server.folder, "runs", "--session", "table", COLUMNS=str(width), NO_COLOR="1")
        plain = Terminal.plain(drawn)
        short = plain.splitlines()[1].split()[0]
        assert (run_id.startswith(short), len(short) <= 16) == (True, True)
        assert printed(server, "show", short, "--json")["run"]["id"] == run_id
        assert max(len(line) for line in plain.splitlines()) <= width
    narrow = Terminal.plain(in_a_terminal(server.folder, "runs", "--session", "table", COLUMNS="40", NO_COLOR="1"))
    assert " prerun " in narrow
    assert max(len(line) for line in narrow.splitlines()) <= 40
    assert "the run has logged nothing" in in_a_terminal(server.folder, "logs", run_id)
    nothing = in_a_terminal(server.folder, "runs", "--session", "none")
    assert "no runs" in nothing


def test_a_table_that_leaves_some_out_says_so(server: Server) -> None:
    for _ in range(3):
        submitted(server, "echo", "--session", "more", "--delay", "1d")
    assert "the newest 2" in in_a_terminal(server.folder, "runs", "--session", "more", "--limit", "2")
    assert "the newest" not in in_a_terminal(server.folder, "runs", "--session", "more", "--limit", "3")


def test_a_live_table(server: Server) -> None:
    with Terminal(server.folder, "runs", "--watch", "--session", "watched") as terminal:
        terminal.wait_for("no runs")
        run_id = held(server, "watched", "hold", "--session", "watched")
        terminal.wait_for(run_id[:8], "running")
        tell_to_go(server.folder, "watched")
        terminal.wait_for("succeeded")
        terminal.enter("\x03")
        assert terminal.ended() == 130
        assert "Traceback" not in terminal.text


def test_a_live_table_leaves_nothing_behind(server: Server) -> None:
    for _ in range(3):
        submitted(server, "echo", "--session", "resized", "--delay", "1d")
    with Terminal(server.folder, "runs", "--watch", "--session", "resized", size=(80, 24)) as terminal:
        terminal.wait_for_screen("prerun")
        terminal.resize_everywhere()
        screen = terminal.wait_for_screen("prerun")
        assert next(line.split()[0] for line in screen if line) == "run"
        assert sum("prerun" in line for line in screen) == sum(map(bool, screen)) - 1 == 3
        terminal.terminate()
        assert terminal.ended() == 128 + signal.SIGTERM
        assert BACK in terminal.raw


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_watching_through_a_pipe(server: Server, form: list[str]) -> None:
    name = f"piped{len(form)}"
    command = Command(server.folder, "interlock.cli", "runs", "--watch", "--session", name, *form, name=name)
    command.begin()
    try:
        run_id = held(server, name, "hold", "--session", name)
        wait_until(lambda: "running" in command.said, "it is told to run")
        tell_to_go(server.folder, name)
        wait_until(lambda: "succeeded" in command.said, "it is told to have ended")
    finally:
        code = command.stop()
    assert code == 130
    assert "\x1b" not in command.said
    lines = command.said.splitlines()
    if form:
        assert {json.loads(line)["id"] for line in lines} == {run_id}
    else:
        assert {line.split("\t")[0] for line in lines} == {run_id}


def test_watching_more_than_are_listed(server: Server) -> None:
    """Every run is told of to its end, however many there are and however few are listed at first."""
    command = Command(
        server.folder, "interlock.cli", "runs", "--watch", "--session", "flood", "--limit", "2", "--state", "succeeded",
        name="flood",
    )  # fmt: skip
    command.begin()
    try:

        def told() -> bool:
            submitted(server, "echo", "--session", "flood", "--wait")
            return command.said != ""

        wait_until(told, "it listens")
        payloads = json.dumps([{"value": number} for number in range(200)])
        room = ("--session-option", "debounce=0s", "--session-option", "cap=200")
        many = submitted(server, "echo", "--many", "--payload", payloads, "--session", "flood", *room).split()
        submitted(server, "echo", "--session", "another", "--wait")
        wait_until(lambda: all(run_id in command.said for run_id in many), "each is told of")
    finally:
        command.stop()
    rows = [line.split("\t") for line in command.said.splitlines()]
    assert {(row[2], row[9]) for row in rows} == {("succeeded", "flood")}
    assert len({row[0] for row in rows}) == len(rows)


# ── show ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_as_plain_text(server: Server) -> None:
    ask(server, "submit", "flaky", "-p", "failures=1", "--wait")
    ended = ask(server, "show", "latest")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.split("\t") for line in ended.stdout.splitlines()]
    facts = {line[0]: line[1] for line in lines if len(line) == 2}
    assert facts["state"] == "succeeded"
    for name in ("created", "started", "ended"):
        assert re.fullmatch(r"[-0-9]+T[0-9:.]+Z", facts[name])
    assert facts["attempts"] == "2 (1 failed)"
    assert facts["payload"] == '{"failures":1}'
    assert facts["result"] == "2"
    states = [line for line in lines if line[0] == "state" and len(line) > 2]
    assert [line[1] for line in states][:4] == ["pending", "scheduled", "dispatched", "running"]
    assert "retrying" in [line[1] for line in states if float(line[3] or 0) > 0.01]
    assert states[-1][1:] == ["succeeded", states[-1][2], "", "2", "done"]
    assert ask(server, "show", "-").stdout.splitlines()[0] == f"run\t{facts['run']}"


def test_each_facet_of_a_run_is_a_fact_under_its_name() -> None:
    run = msgspec.structs.replace(DETAIL, facets={"hold": {"by": "ann", "at": 5.5}, "later": {"count": 3}})
    found = dict(facts(run, str))
    assert (found["hold"], found["later"]) == ("by ann, at 5.5", "count 3")


@pytest.mark.behaviour("RUN-3")
def test_notes_are_lines_of_their_own_kind() -> None:
    run = msgspec.structs.replace(DETAIL, facets={"notes": [{"at": 5.5, "text": "try 2\tof 50"}]})
    picture = Picture(run, [], [], [])
    line = "note\t1970-01-01T00:00:05.500Z\ttry 2 of 50"
    assert [one for one in show_lines(picture) if one.startswith("note")] == [line]
    explanation = Explanation(
        run_id="r1", state=State.SCHEDULED, sentence="", reasons=[], notes=(Note(5.5, "try 2\tof 50"),)
    )
    assert list(explain_lines(explanation))[-1] == line
    for drawn in (drawing(picture), explain_drawing(explanation, 6.0)):
        with (console := Console(width=100)).capture() as capture:
            console.print(drawn)
        assert "try 2 of 50" in capture.get()


@pytest.mark.behaviour("RUN-26")
@pytest.mark.parametrize(
    ("parent", "root", "shown"),
    [
        (None, None, {"behind": "ada, ben"}),
        ("p1", "p1", {"parent": "p1", "behind": "ada, ben"}),
        ("p1", "p0", {"parent": "p1", "root": "p0", "behind": "ada, ben"}),
    ],
)
def test_a_run_made_by_a_run_names_parent_and_root(parent: str | None, root: str | None, shown: dict[str, str]) -> None:
    run = msgspec.structs.replace(DETAIL, parent=parent, root=root, facets={"behind": ["ada", "ben"]})
    found = dict(facts(run, str))
    assert {name: found[name] for name in ("parent", "root", "behind") if name in found} == shown
    with (console := Console(width=100)).capture() as capture:
        console.print(drawing(Picture(run, [], [], [])))
    drawn = [line.split(maxsplit=1) for line in capture.get().splitlines()]
    assert all([name, text] in [[one.rstrip() for one in line] for line in drawn] for name, text in shown.items())


def test_a_run_in_json(server: Server) -> None:
    run = json.loads(ask(server, "submit", "fail", "--wait", "--json").stdout)
    shown = printed(server, "show", run["id"], "--json")
    assert shown["run"]["error"].splitlines()[-1] == "RuntimeError: boom"
    assert [entry["after"] for entry in shown["history"]][-1] == "failed"
    assert shown["logs"] == []


def test_a_run_in_a_terminal(server: Server) -> None:
    run = json.loads(ask(server, "submit", "fail", "--wait", "--json").stdout)
    drawn = Terminal.plain(in_a_terminal(server.folder, "show", run["id"], COLUMNS="90"))
    for word in (run["id"], "timeline", "█", "RuntimeError: boom", "terminating", "ms"):
        assert word in drawn
    assert max(len(line) for line in drawn.splitlines()) <= 90


@pytest.mark.behaviour("RUN-20")
def test_a_run_is_followed(server: Server) -> None:
    run_id = held(server, "followed", "progress")
    with Terminal(server.folder, "show", "--follow", run_id, size=(80, 24)) as terminal:
        terminal.wait_for_screen("42% under way", "a line", "running")
        terminal.resize_everywhere()
        tell_to_go(server.folder, "followed")
        assert terminal.ended() == 0
        stays = Terminal.plain(terminal.raw.rpartition(BACK)[2])
        assert "succeeded" in stays
        assert "result" in stays


def test_following_through_a_pipe_waits_for_the_end(server: Server) -> None:
    run_id = held(server, "waited")
    command = Command(server.folder, "interlock.cli", "show", "-f", run_id, name="waited-show")
    command.begin()
    tell_to_go(server.folder, "waited")
    assert command.ended() == 0
    assert "state\tsucceeded\n" in command.said
    assert "\x1b" not in command.said


def test_waiting_for_a_run(server: Server) -> None:
    run_id = submitted(server, "fail")
    ended = ask(server, "show", run_id, "--wait")
    assert "state\tfailed\n" in ended.stdout
    assert ended.stderr.endswith("RuntimeError: boom [run_not_succeeded]\n")
    assert ended.returncode == 5
    later = submitted(server, "echo", "--delay", "1d")
    ended = ask(server, "show", later, "--wait=10ms")
    assert "state\tprerun\n" in ended.stdout
    assert (ended.returncode, ended.stderr.endswith("[wait_timeout]\n")) == (7, True)


@pytest.mark.parametrize(
    "command", [["show"], ["show", "-f"], ["show", "--wait"], ["logs"], ["logs", "-f"], ["cancel"]]
)
@pytest.mark.parametrize("run_id", ["nothing", "a/b", "..", "ö"])
def test_a_run_that_is_none(server: Server, command: list[str], run_id: str) -> None:
    refused(server, *command, run_id, exit_code=3, says="does not exist", code="unknown_run")


def test_a_run_by_the_beginning_of_its_id(server: Server) -> None:
    one, two = submitted(server, "echo", "--delay", "1d"), submitted(server, "echo", "--delay", "1d")
    shared = one[: next(place for place in range(len(one)) if one[place] != two[place])]
    listed = [run["id"] for run in server.local.get(f"/api/v1/runs?id_prefix={shared}").json["runs"]]
    # The server is shared: runs of other tests may begin alike.
    assert listed[:2] == [two, one]
    assert all(run.startswith(shared) for run in listed)
    beginning = next(
        one[:size] for size in range(len(one)) if [run for run in listed if run.startswith(one[:size])] == [one]
    )
    assert printed(server, "show", beginning, "--json")["run"]["id"] == one
    assert ask(server, "logs", beginning).returncode == 0
    assert ask(server, "cancel", beginning).stdout == f"{one}\tcancelled\n"
    for command in ("show", "logs", "cancel", "hold", "release", "retry"):
        refused(server, command, shared, exit_code=2, says=one, code="bad_value")
        refused(server, command, shared, exit_code=2, says=two, code="bad_value")
    assert detail(server, two)["state"] == "prerun"


def test_the_latest_of_none(folder: Path) -> None:
    server = serving(folder)
    try:
        for command in ("show", "logs"):
            refused(server, command, "latest", exit_code=3, says="'latest' does not exist", code="unknown_run")
    finally:
        server.stop()


def test_what_others_write_does_not_steer_the_terminal(server: Server) -> None:
    evil = "\x1b]0;title\x07\x1b[2Jgone\x9b31m"
    run_id = submitted(server, "echo", "--delay", "1d", "--session", evil)
    ask(server, "cancel", run_id, "--reason", evil)
    for command in (["runs", "--session", evil], ["show", run_id], ["cancel", run_id, "x\x1b[2J"]):
        for text in (in_a_terminal(server.folder, *command, NO_COLOR="1"), ask(server, *command).stdout):
            assert [mark for mark in ("\x1b]", "\x1b[2J", "\x07", "\x9b") if mark in text] == []
            assert "\\x1b[2Jgone" in text or command[0] == "cancel"


def test_a_result_does_not_steer_the_terminal(server: Server) -> None:
    given = ("submit", "echo", "--payload", '{"value": "\x9b31m\x7f"}', "--wait")
    assert json.loads(ask(server, *given).stdout) == "\x9b31m\x7f"
    for command in (given, ["show", "-"], ["show", "-", "--json"], ["submit", "fail", "-p", "text=\x9b31m", "--wait"]):
        for text in (in_a_terminal(server.folder, *command, NO_COLOR="1"), ask(server, *command).stdout):
            assert "\x9b" not in text
            assert "\x7f" not in text


# ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def chatty(server: Server, name: str) -> tuple[Path, str]:
    """A run that says two lines, waits, and says two more; twice, because its first attempt fails."""
    place = server.folder / name
    place.mkdir()
    run_id = submitted(server, "chatty", "-p", f"folder={place}", "-p", "lines=2")
    wait_until(lambda: lines_of(place / "logged") == ["1"], "it has said two lines")
    return place, run_id


WHOLE = [f"attempt {attempt} {what} {number}" for attempt in (1, 2) for what in ("line", "more") for number in (0, 1)]


@pytest.mark.behaviour("RUN-20")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_log_lines_as_they_come(server: Server, form: list[str]) -> None:
    place, run_id = chatty(server, f"chatty{len(form)}")
    command = Command(server.folder, "interlock.cli", "logs", "-f", run_id, *form, name=f"chatty{len(form)}")
    command.begin()
    wait_until(lambda: "attempt 1 line 1" in command.said, "what was said before is shown")
    tell_to_go(place, "attempt-1")
    wait_until(lambda: "attempt 2 line 1" in command.said, "what is said now is shown while it runs")
    tell_to_go(place, "attempt-2")
    assert command.ended() == 0
    lines = command.said.splitlines()
    texts = [json.loads(line)["text"] if form else line.split("\t")[3] for line in lines]
    assert texts == WHOLE
    assert ask(server, "logs", run_id, *form).stdout == command.said


def test_log_lines_in_a_terminal(server: Server) -> None:
    run_id = held(server, "coloured", "progress")
    tell_to_go(server.folder, "coloured")
    ask(server, "show", run_id, "--wait")
    drawn = in_a_terminal(server.folder, "logs", run_id)
    assert "\x1b[33mWARNING" in drawn
    assert "a line" in drawn
    assert interlock(server.folder, "logs", run_id).stdout.split("\t")[1:] == ["1", "warning", "a line\n"]
