"""`interlock audit`: list, verify, export."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.model.audit import AuditEntry
from tests.cli.asking import ask, drawn, printed, refused, rows
from tests.cli.conftest import served
from tests.helpers.audited import audit
from tests.helpers.server import Server

_WRITTEN: list[AuditEntry] = []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    def write(database: Path) -> None:
        _WRITTEN[:] = audit(database)

    with served(store=write) as server:
        yield server


@pytest.mark.behaviour("SEC-7")
def test_entries_as_rows_and_as_json(server: Server) -> None:
    found = rows(server, "audit", "--tenant", "red")
    detail = '{"rule":"no-prod","reason":"not on Fridays"}'
    assert [row[:1] + row[2:] for row in found] == [
        ["1", "verdict", "clerk", "red", "red-run", "1", detail, _WRITTEN[0].hash],
        ["3", "rejected", r"judge\x1b[2J", "red", "red-two", "1", detail, _WRITTEN[2].hash],
    ]
    assert [row[0] for row in rows(server, "audit", "--run", "red-two")] == ["3"]
    assert [row[0] for row in rows(server, "audit", "--kind", "approved", "--actor", "judge")] == ["2"]
    assert rows(server, "audit", "--since", "1m", "--tenant", "red") == rows(server, "audit", "--job", "none") == []
    newest = rows(server, "audit", "-n", "1")
    assert len(newest) == 1
    assert int(newest[0][0]) > 3
    shown = printed(server, "audit", "--json", "--tenant", "blue")["entries"]
    assert [(one["number"], one["subject"], one["at"][-1]) for one in shown] == [(2, "blue-run", "Z")]
    lines = ask(server, "audit", "--jsonl", "--tenant", "red").stdout.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 3]


def test_a_table_fits_80_columns(server: Server) -> None:
    lines = drawn(server, "audit", "--tenant", "red")
    assert lines[0].split() == ["entry", "age", "kind", "actor", "subject", "detail"]
    assert lines[1].split()[2:5] == ["verdict", "clerk", "red-run"]
    assert "red; rule: no-prod" in lines[1]
    assert max(map(len, lines)) <= 80
    assert drawn(server, "audit", "--job", "none") == ["no entries of the audit match"]


@pytest.mark.behaviour("SEC-7")
def test_an_export_is_verified_with_and_without_a_server(server: Server) -> None:
    (head,) = rows(server, "audit", "verify")
    assert printed(server, "audit", "verify", "--json", "--head", _WRITTEN[1].hash) == {
        "head": {"number": int(head[0]), "hash": head[1]}, "faults": [],
    }  # fmt: skip
    target = server.folder / "audit.jsonl"
    assert rows(server, "audit", "export", str(target)) == []
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    assert rows(server, "audit", "verify", str(target)) == [head]
    assert ask(server, "audit", "export").stdout == ask(server, "audit", "export", "-").stdout == target.read_text()
    refused(
        server, "audit", "export", str(target), exit_code=2, says="exists already; name a new file", code="bad_value"
    )
    lines = target.read_text().splitlines()
    for changed, fault in (
        (
            [lines[0], lines[1].replace("Fridays", "Mondays"), *lines[2:]],
            "entry 2 was altered: its hash does not match",
        ),
        ([lines[0], *lines[2:]], "entry 2 is missing"),
        ([lines[1], lines[0], *lines[2:]], "entry 1 is missing, and 1 more"),
    ):
        target.write_text("\n".join(changed))
        ended = ask(server, "audit", "verify", str(target))
        assert ended.returncode == 1
        assert ended.stderr == f"error: audit: {fault} [audit_broken]\n"
    cut = ask(server, "audit", "verify", "--head", "f" * 64)
    assert (cut.returncode, cut.stderr.startswith("error: audit: no entry has the hash ffff")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["--kind", "verdikt"], "--kind: 'verdikt' is not one of", "bad_value"),
        (["--limit", "1001"], "--limit: 1001 is not a number of at most 1,000", "bad_value"),
        (["--since", "soon"], "--since: 'soon' is not", "bad_value"),
        (["verfy"], "action: 'verfy' is not one of verify, export; did you mean 'verify'?", "bad_value"),
        (["verify", "--actor", "x"], "--actor: cannot be combined with verify", "bad_value"),
        (["--head", "f"], "--head: needs verify", "bad_value"),
        (["--run", "x", "--job", "y"], "--run: cannot be combined with --job", "bad_value"),
        (["verify", "odd.jsonl"], "odd.jsonl: line 1: not an entry of the audit", "bad_value"),
        (["verify", "gone.jsonl"], "gone.jsonl: cannot be read (No such file or directory)", "bad_value"),
    ],
)
def test_bad_options_are_refused(server: Server, arguments: list[str], says: str, code: str) -> None:
    (server.folder / "odd.jsonl").write_text("slots: 4\n")
    refused(server, "audit", *arguments, exit_code=2, says=says, code=code)
