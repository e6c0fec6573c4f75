"""`interlock workers`: what it shows, how it draws, what it does and refuses."""

import json
import shlex
import signal
from collections.abc import Iterator

import pytest

from tests.cli.asking import ask, printed
from tests.cli.conftest import served
from tests.cli.terminal import BACK, Terminal, in_a_terminal
from tests.docs.blocks import of_language
from tests.helpers.processes import wait_until
from tests.helpers.server import Command, Server

pytestmark = pytest.mark.behaviour("ROU-10")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with served("--drain", "1s", "--workers", "2", "--slots", "3") as server:
        wait_until(lambda: len(server.local.get("/api/v1/workers").json["workers"]) == 2, "both have joined")
        yield server


def ids(server: Server) -> list[str]:
    return [one["id"] for one in server.local.get("/api/v1/workers").json["workers"]]


def are_open(server: Server) -> bool:
    """Whether both take runs; a busy machine makes them overloaded."""
    return {row[3] for row in rows(server)} <= {"ready", "overloaded"}


def rows(server: Server, *arguments: str) -> list[list[str]]:
    ended = ask(server, "workers", *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [line.split("\t") for line in ended.stdout.splitlines()]


def test_workers_as_rows_as_json_and_as_a_table(own: Server) -> None:
    found = rows(own)
    assert [row[:3] + row[4:6] for row in found] == [[one, "default", "", "0", "3"] for one in ids(own)]
    assert are_open(own)
    assert all(len(row) == 14 for row in found)
    assert rows(own, "--pool", "gpu") == []
    assert [one["id"] for one in printed(own, "workers", "--json")["workers"]] == ids(own)
    title, *drawn = Terminal.plain(in_a_terminal(own.folder, "workers", size=(80, 24))).splitlines()
    assert title.split()[:4] == ["worker", "pool", "state", "runs"]
    assert "offers" not in title
    assert [line.split()[1:4:2] for line in drawn] == [["default", "0/3"]] * 2
    assert all(one in line for one, line in zip(ids(own), drawn, strict=True))
    assert "no workers" in in_a_terminal(own.folder, "workers", "--pool", "gpu")


def test_workers_are_drained_and_resumed_by_name_or_beginning(own: Server) -> None:
    first, second = ids(own)
    assert [row[3] for row in rows(own, "drain", "w1", second)] == ["draining", "draining"]
    assert [one["drained"] for one in printed(own, "workers", "resume", first[:-1], "--json")["workers"]] == [False]
    shown = in_a_terminal(own.folder, "workers", "resume", "w2")
    assert shown.strip() == f"{second} gets runs again"
    assert are_open(own)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("drian", "w1"), 2, "action: 'drian' is not one of drain, resume, remove; did you mean 'drain'?"),
        (("drain",), 2, "name the workers to drain; 'interlock workers' lists them"),
        (("drain", "w"), 2, "worker: 'w' is ambiguous: it begins w1-"),
        (("drain", "x9"), 3, "worker: 'x9' does not exist"),
        (("drain", ""), 3, "worker: '' does not exist"),
        (("drain", "w1", "--pool", "gpu"), 2, "--pool and --watch cannot be combined with drain"),
        (("drain", "w1", "--watch"), 2, "--pool and --watch cannot be combined with drain"),
        (("--pool", "a b"), 2, "pool: 'a b' is not"),
    ],
)
def test_a_wrong_command_is_refused(own: Server, arguments: tuple[str, ...], code: int, says: str) -> None:
    ended = ask(own, "workers", *arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(f"error: {says}")
    assert are_open(own)


def test_one_unknown_worker_does_not_keep_the_others(own: Server) -> None:
    ended = ask(own, "workers", "drain", "x9", "w1")
    assert (ended.returncode, ended.stdout.split("\t")[3]) == (3, "draining")
    rows(own, "resume", "w1")
    assert are_open(own)


def test_a_live_table(own: Server) -> None:
    with Terminal(own.folder, "workers", "--watch", size=(80, 24)) as terminal:
        terminal.wait_for_screen("w1-", "w2-")
        rows(own, "drain", "w1")
        terminal.wait_for_screen("draining")
        rows(own, "resume", "w1")
        terminal.resize_everywhere()
        screen = terminal.wait_for_screen("w1-", "w2-")
        assert [line.split()[0][:3] for line in screen if line] == ["wor", "w1-", "w2-"]
        terminal.terminate()
        assert terminal.ended() == 128 + signal.SIGTERM
        assert BACK in terminal.raw


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_watching_through_a_pipe(own: Server, form: list[str]) -> None:
    command = Command(own.folder, "interlock.cli", "workers", "--watch", *form, name=f"piped{len(form)}")
    command.begin()
    try:
        wait_until(lambda: "w2-" in command.said, "they are shown")
        rows(own, "drain", "w2")
        wait_until(lambda: "draining" in command.said, "the drain is shown")
        rows(own, "resume", "w2")
    finally:
        code = command.stop()
    lines = command.said.splitlines()
    assert (code, "\x1b" in command.said) == (130, False)
    if form:
        assert [one["id"] for one in json.loads(lines[0])["workers"]] == ids(own)
    else:
        assert [line.split("\t")[0] for line in lines[:2]] == ids(own)
        assert {line.split("\t")[0] for line in lines if "draining" in line} == {ids(own)[1]}


def test_a_worker_is_removed_and_another_takes_its_place(own: Server) -> None:
    first, second = ids(own)
    shown = in_a_terminal(own.folder, "workers", "remove", "w1")
    assert shown.strip().startswith(f"{first} has no runs and leaves; if 'interlock up' has started it, another one")
    wait_until(lambda: len(found := ids(own)) == 2 and first not in found, "another one has joined")
    assert second in ids(own)


def test_the_commands_of_the_document(own: Server) -> None:
    first, second = ids(own)
    block = next(one for one in of_language("docs/workers.md", "sh") if "interlock workers drain" in one.text)
    for line in block.text.splitlines():
        words = [word for word in shlex.split(line, comments=True) if word != "--watch"]
        ended = ask(own, *words[1:])
        assert (ended.returncode, ended.stderr) == (0, ""), line
    wait_until(lambda: len(found := ids(own)) == 2 and second not in found, "another one has joined")
    assert first in ids(own)
    assert are_open(own)
