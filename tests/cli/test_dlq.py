"""`interlock dlq`: list, show, replay, edit and drop dead letters."""

from collections.abc import Iterator

import pytest

from tests.cli.asking import ask, drawn, printed, refused, rows
from tests.cli.conftest import served
from tests.helpers.dead import POISON, bury
from tests.helpers.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(store=bury) as server:
        yield server


@pytest.mark.behaviour("REC-4")
def test_letters_as_rows_as_json_and_as_a_table(server: Server) -> None:
    found = rows(server, "dlq", "list")
    assert [[row[0], *row[2:]] for row in found] == [
        [POISON, "poison", "", "", "", "w-1", "bad"],
        ["blue-one", "safety_denied", "echo", "blue", "", "", "boom"],
        ["red-two", "orphaned", "add", "red", "", "", "boom"],
        ["red-one", "failed", "add", "red", "", "", "boom"],
        ["gone-run", "failed", "gone", "red", "", "", "boom"],
    ]
    assert [row[0] for row in rows(server, "dlq", "list", "--job", "add", "--since", "1h", "--not-replayed")] == [
        "red-two",
        "red-one",
    ]
    assert rows(server, "dlq", "list", "--before", "1h") == []
    counts = {"failed": 2, "orphaned": 1, "poison": 1, "safety_denied": 1}
    assert printed(server, "dlq", "list", "--json")["counts"] == counts
    lines = drawn(server, "dlq", "list")
    assert lines[0].split() == ["letter", "age", "code", "job", "error"]
    assert lines[-1].strip() == "2 failed, 1 orphaned, 1 poison, 1 safety_denied"
    says = "--code: 'fialed' is not one of failed, "
    refused(server, "dlq", "list", "--code", "fialed", exit_code=2, says=says, code="bad_value")


def test_a_letter_is_shown_with_its_run(server: Server) -> None:
    shown = "\n".join(drawn(server, "dlq", "show", "red-one", size=(100, 40)))
    assert "code    failed" in shown
    assert "boom" in shown
    assert "pst" not in shown
    assert rows(server, "dlq", "show", "red-o")[0][0] == "red-one"
    assert printed(server, "dlq", "show", POISON, "--json")["raw"] == "wQ=="
    assert "b'\\xc1'" in "\n".join(drawn(server, "dlq", "show", POISON, size=(100, 40)))
    says = "dead letter: 'nothing' does not exist"
    refused(server, "dlq", "show", "nothing", exit_code=3, says=says, code="unknown_letter")


@pytest.mark.behaviour("REC-4")
def test_letters_are_replayed_edited_and_dropped(server: Server) -> None:
    ((new, old),) = rows(server, "dlq", "replay", "red-two")
    assert (old, printed(server, "show", new, "--wait", "--json")["run"]["result"]) == ("red-two", 3)
    edited = ask(server, "dlq", "edit", "red-two", "-p", "left=7").stdout.strip()
    assert printed(server, "show", edited, "--wait", "--json")["run"]["result"] == 8
    assert rows(server, "dlq", "list", "--replayed")[0][5] == edited
    ((_, done, asked, how),) = rows(server, "dlq", "replay", "--job", "echo", "--yes")
    assert (done, asked, how) == ("1", "0", "finished")
    assert ask(server, "dlq", "replay", "--job", "echo", "--tenant", "red").stderr == "no dead letter to replay\n"
    assert rows(server, "dlq", "drop", "--replayed", "--yes") == [["2"]]
    assert rows(server, "dlq", "drop", POISON, "red-one") == [["2"]]
    assert printed(server, "dlq", "drop", "--code", "failed", "--yes", "--json") == {"dropped": 1}
    assert rows(server, "dlq", "list") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("replay",), "name the letters to replay, or choose them with options like --job or --all; not both"),
        (("drop", "x", "--all"), "name the letters to drop, or choose them with options like --job or --all; not both"),
        (("edit", "x"), "give the arguments to change with -p or --payload"),
    ],
)
def test_wrong_usage(server: Server, arguments: tuple[str, ...], says: str) -> None:
    refused(server, "dlq", *arguments, exit_code=2, says=says, code="usage")
