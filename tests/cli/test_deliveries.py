"""`interlock deliveries`, `redeliver`, and the deliveries and violations in `show`."""

from collections.abc import Iterator

import pytest

from tests.cli.asking import ask, drawn, printed, refused, rows
from tests.cli.conftest import served
from tests.helpers.owed import DELIVERED, FAILED, OTHER, PENDING, URL, owe
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("CON-7")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(store=owe) as server:
        yield server


def test_deliveries_as_rows_and_as_json(server: Server) -> None:
    found = rows(server, "deliveries")
    assert [row[:7] + row[8:9] + row[11:] for row in found] == [
        [PENDING, "pending", "run.failed", "echo", "red-run", "red", URL, "7", "500", "answered 500"],
        [FAILED, "failed", "run.failed", "echo", "red-run", "red", URL, "3", "503", "answered 503"],
        [DELIVERED, "delivered", "run.failed", "echo", "red-run", "red", URL, "3", "200", ""],
        [OTHER, "pending", "run.failed", "echo", "blue-run", "blue", URL, "7", "", ""],
    ]
    assert [bool(row[9]) for row in found] == [True, False, False, True]
    assert [row[0] for row in rows(server, "deliveries", "--run", "red", "--state", "failed")] == [FAILED], (
        "by a beginning"
    )
    cut = ask(server, "deliveries", "-n", "1")
    assert (cut.stdout.count("\n"), cut.stderr) == (1, "the newest 1; for more, use --limit\n")


def test_a_table_fits_80_columns_and_a_wide_one_has_the_runs(server: Server) -> None:
    lines = drawn(server, "deliveries")
    assert lines[0].split() == ["delivery", "age", "event", "job", "target", "what"]
    assert lines[1].startswith("0aaaaaaa  ")
    assert f"  failed  echo  {URL[7:]}  pending: answered 500" in lines[1]
    assert "  failed: answered 503" in lines[2]
    assert max(map(len, lines)) <= 80
    wide = drawn(server, "deliveries", size=(150, 24))
    assert wide[0].split() == ["delivery", "age", "event", "job", "run", "target", "what"]
    assert "  red-run   127.0.0.1:1/in  pending: answered 500, try 8 in " in wide[1]
    assert wide[2].endswith("failed: answered 503, 3 tries")
    assert wide[3].endswith("delivered: 200, 3 tries")
    assert drawn(server, "deliveries", "--job", "none") == ["no webhooks are owed or were sent"]


def test_one_delivery_is_shown_with_its_whole_answer(server: Server) -> None:
    lines = drawn(server, "deliveries", DELIVERED[:8])
    facts = dict(line.split(maxsplit=1) for line in lines if not line.startswith(" "))
    assert (facts["delivery"], facts["target"], facts["status"]) == (DELIVERED, URL, "200")
    assert facts["answer"] == r"thanks\x1b[2J"
    assert lines[-1].strip() == "again"
    assert printed(server, "deliveries", DELIVERED, "--json")["answer"] == "thanks\x1b[2J\nagain"
    assert rows(server, "deliveries", DELIVERED)[0][0] == DELIVERED


def test_a_run_is_shown_with_its_violations_and_deliveries(server: Server) -> None:
    found = [row for row in rows(server, "show", "red-run") if row[0] in ("violation", "delivery", "constraints")]
    assert found[0] == ["constraints", "checked 2, violated 1"]
    assert (found[1][1], found[1][3]) == ("require_previous_success", "the previous run failed")
    assert [row[1:3] for row in found[2:]] == [[DELIVERED, "delivered"], [FAILED, "failed"], [PENDING, "pending"]]
    lines = drawn(server, "show", "red-run", size=(100, 24))
    assert lines[lines.index("violations") + 1].endswith("require_previous_success the previous run failed")
    place = lines.index("deliveries")
    assert lines[place + 2].endswith(f"run.failed → {URL}  failed: answered 503, 3 tries")
    assert [one["id"] for one in printed(server, "show", "red-run", "--json")["deliveries"]] == [
        DELIVERED, FAILED, PENDING,
    ]  # fmt: skip
    run_id = server.local.submit("echo")
    server.local.ended(run_id)
    assert not {"violations", "deliveries"} & set(drawn(server, "show", run_id))


def test_deliveries_are_repeated(server: Server) -> None:
    again = rows(server, "redeliver", OTHER[:8], DELIVERED)
    assert [(row[0], row[1], row[8]) for row in again] == [(OTHER, "pending", "7"), (DELIVERED, "pending", "0")]
    assert drawn(server, "redeliver", OTHER, size=(120, 24)) == [f"{OTHER} goes to {URL} again"]
    ended = ask(server, "redeliver", "unknown-id", OTHER)
    assert (ended.returncode, ended.stdout.split("\t")[0]) == (3, OTHER)
    assert "delivery: 'unknown-id' does not exist [unknown_delivery]" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("deliveries", "--state", "deliverd"),
            "--state: 'deliverd' is not one of pending, delivered, failed; did you",
        ),
        (("deliveries", "0aaa"), "delivery: '0aaa' is not an id, or at least its first 8 characters"),
        (("redeliver", "0aaa"), "delivery: '0aaa' is not an id"),
    ],
)
def test_a_wrong_command_is_refused(server: Server, arguments: tuple[str, ...], says: str) -> None:
    refused(server, *arguments, exit_code=2, says=says, code="bad_value")
