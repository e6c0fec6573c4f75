"""`interlock submit`: what goes in, what is printed, what the exit code says."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.asking import ask, detail, printed, refused
from tests.cli.terminal import Terminal
from tests.helpers.http import seconds_of
from tests.helpers.server import Server, environment, interlock


def test_the_id_alone_is_printed(server: Server) -> None:
    ended = ask(server, "submit", "echo", "-p", "value=5")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert detail(server, ended.stdout.rstrip("\n"))["payload"] == {"value": 5}
    assert set(printed(server, "submit", "echo", "--json")) == {"id"}


@pytest.mark.parametrize("wait", [["--wait"], ["--wait=30s"], ["--wait", "30s"]])
def test_the_result_is_printed(server: Server, wait: list[str]) -> None:
    assert printed(server, "submit", "add", "-p", "left=1", *wait, "-p", "right=2") == 3


def test_waiting_in_json_prints_the_whole_run(server: Server) -> None:
    run = printed(server, "submit", "echo", "-p", "value=[1]", "--wait", "--json")
    assert (run["state"], run["result"], run["payload"]) == ("succeeded", [1], {"value": [1]})


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        (["--payload", '{"value": {"a": [1, null]}}'], {"value": {"a": [1, None]}}),
        (["--payload", "@arguments.json"], {"value": "from a file"}),
        (["--payload", '{"value": 1}', "-p", "value=2"], {"value": 2}),
        (["-p", "value=text"], {"value": "text"}),
        (["-p", "value=true"], {"value": True}),
        (["-p", 'value="5"'], {"value": "5"}),
        (["-p", "value=a=b"], {"value": "a=b"}),
        (["-p", "value="], {"value": ""}),
        ([], {}),
    ],
)
def test_where_the_payload_comes_from(server: Server, given: list[str], payload: object) -> None:
    (server.folder / "arguments.json").write_text('{"value": "from a file"}')
    assert printed(server, "submit", "echo", *given, "--wait", "--json")["payload"] == payload


def piped(server: Server, text: str, *arguments: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "interlock.cli", *arguments],
        cwd=server.folder, env=environment(), input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_the_payload_from_standard_input(server: Server) -> None:
    assert piped(server, '{"value": 7}', "submit", "echo", "--payload", "-", "--wait") == ["7"]


@pytest.mark.parametrize("text", ['[{"value": 1}, {"value": 2}]', '{"value": 1}\n\n{"value": 2}\n'])
def test_many(server: Server, text: str) -> None:
    assert piped(server, text, "submit", "echo", "--many", "--payload", "-", "--wait") == ["1", "2"]
    first, second = piped(server, text, "submit", "echo", "--many", "--payload", "-", "-p", "value=3")
    assert [detail(server, one)["payload"] for one in (first, second)] == [{"value": 3}, {"value": 3}]


def test_more_than_one_batch(server: Server) -> None:
    text = "\n".join(f'{{"value": {number}}}' for number in range(1001))
    ids = piped(server, text, "submit", "echo", "--many", "--payload", "-", "--key", "batches", "--delay", "1d")
    assert len(set(ids)) == 1001
    again = piped(server, text, "submit", "echo", "--many", "--payload", "-", "--key", "batches", "--delay", "1d")
    assert again == ids
    assert detail(server, ids[1000])["idempotency_key"] == "batches/1000"


def test_a_reader_that_goes_away_stops_no_batch(server: Server) -> None:
    text = "\n".join('{"value": 1}' for _ in range(2001))
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ("submit", "echo", "--many", "--payload", "-", "--delay", "1d", "--session", "unread")
    with open(writer, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "interlock.cli", *arguments], cwd=server.folder, env=environment(),
            input=text.encode(), stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert (ended.stderr, ended.returncode) == (b"", 141)
    assert ask(server, "runs", "--session", "unread", "--limit", "3000").stdout.count("\n") == 2001


def test_the_batches_before_a_failure_are_told(server: Server) -> None:
    lines = ['{"value": 1}'] * 1000 + ['{"unknown": 1}']
    (server.folder / "lines").write_text("\n".join(lines))
    ended = ask(server, "submit", "echo", "--many", "--payload", "@lines", "--delay", "1d")
    assert ended.stdout.count("\n") == 1000
    assert ended.stderr.endswith(" [bad_payload]\n")
    assert ended.returncode == 2
    for wait in ([], ["--wait"]):
        ended = ask(server, "submit", "echo", "--many", "--payload", "@lines", "--delay", "1d", "--json", *wait)
        assert len(set(json.loads(ended.stdout)["ids"])) == 1000
        assert json.loads(ended.stderr)["error"]["code"] == "bad_payload"


def test_what_is_wrong_with_a_payload_is_said_without_it(server: Server) -> None:
    for given in (["--payload", '[{"password":"hunter2"}]'], ["-p", "hunter2"]):
        assert "hunter2" not in ask(server, "submit", "echo", *given).stderr


def test_everything_a_run_may_be_given(server: Server) -> None:
    before = time.time()
    options = ["--lane", "team", "--session", "s1", "--tenant", "acme", "--delay", "1h", "--deadline", "2h"]
    run = detail(server, ask(server, "submit", "echo", *options).stdout.strip())
    assert (run["lane"], run["session"], run["tenant"], run["state"]) == ("team", "s1", "acme", "prerun")
    due = seconds_of(run["due_at"])
    assert before + 3600 - 0.001 <= due <= time.time() + 3600
    assert seconds_of(run["deadline_at"]) - due == pytest.approx(7200, abs=5)
    labelled = ask(server, "submit", "echo", "--label", "team=red", "--label", "at=home").stdout.strip()
    assert detail(server, labelled)["facets"] == {"labels": {"team": "red", "at": "home"}}
    assert "labels\tteam red, at home\n" in ask(server, "show", labelled).stdout
    flags = ["--session", "s", "--session-option", "mode=interrupt", "--session-option", "debounce=2s"]
    chat = ask(server, "submit", "echo", *flags, "--stamp", "2026-01-31T12:00:00Z").stdout.strip()
    given = {"options": {"mode": "interrupt", "debounce": 2.0}, "stamp": "2026-01-31T12:00:00.000Z"}
    assert detail(server, chat)["facets"]["session"].items() >= given.items()
    assert (
        "session\toptions mode interrupt, debounce 2s, stamp 2026-01-31T12:00:00.000Z"
        in ask(server, "show", chat).stdout
    )
    urgent = ask(server, "submit", "echo", "--priority", "critical").stdout.strip()
    assert "priority\tcritical\n" in ask(server, "show", urgent).stdout
    times = ["--at", "2100-01-31T18:00:00+01:00", "--deadline", "2100-02-01T00:00Z"]
    run = detail(server, ask(server, "submit", "echo", *times).stdout.strip())
    assert (run["due_at"], run["deadline_at"]) == ("2100-01-31T17:00:00.000Z", "2100-02-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says", "code"),
    [
        (["ecko"], 3, "'ecko' is not defined; did you mean 'echo'?", "unknown_job"),
        (["add", "-p", "right=1"], 2, "'left' is missing", "bad_payload"),
        (["fail", "-p", "text=1"], 2, "for a text, write -p 'text=\"…\"'", "bad_payload"),
        (["echo", "-p", "value"], 2, "-p: '…' is not of the form KEY=VALUE", "bad_value"),
        (["echo", "--payload", "{"], 2, "--payload: not valid JSON", "bad_json"),
        (["echo", "--payload", "[" * 5000], 2, "--payload: not valid JSON", "bad_json"),
        (["echo", "--payload", "[1]"], 2, "--payload: '…' is not a JSON object", "bad_value"),
        (["echo", "--payload", "@nothing"], 2, "'@nothing' is not a file that can be read (No such file", "bad_value"),
        (["echo", "--many"], 2, "--many needs --payload", "usage"),
        (["echo", "--many", "--payload", "[]"], 2, "--payload: is empty; give", "bad_value"),
        (["echo", "--many", "--payload", '{"value":1}\n{'], 2, "--payload line 2: not valid JSON", "bad_json"),
        (["echo", "--many", "--payload", "[{},5]"], 2, "--payload[1]: '…' is not a JSON object", "bad_value"),
        (["echo", "--label", "team"], 2, "--label: 'team'", "bad_value"),
        (["echo", "--label", "team=a", "--label", "team=b"], 2, "--label: 'team' given twice", "bad_value"),
        (["echo", "--label", "two words=a"], 2, "labels", "bad_value"),
        *(
            (["echo", "--session", "s", "--session-option", one], 2, f"--session-option {says}", code)
            for one, says, code in (
                ("cap=0", "cap: '0' is not", "bad_value"),
                ("mode=stop", "mode: 'stop' is not", "bad_value"),
                ("drop=all", "drop: 'all' is not", "bad_value"),
                ("debounce=-1s", "debounce: '-1s' is not", "bad_duration"),
                ("max_concurrent=0", "max_concurrent: '0' is not", "bad_value"),
                ("rate=0/s", "rate: '0/s' is not", "bad_value"),
            )
        ),
        (["echo", "--session", "s", "--session-option", "moode=x"], 2, "did you mean 'mode'?", "bad_value"),
        (["echo", "--session-option", "cap=3"], 2, "session_options: given without session", "bad_value"),
        (["echo", "--session", ""], 2, "session: ''", "bad_value"),
        (["echo", "--priority", "high"], 2, "priority: 'high'", "bad_value"),
        (["echo", "--session", "x" * 513], 2, "session: <str, too long to show>", "bad_value"),
        (["echo", "--delay", "soon"], 2, "--delay: 'soon'", "bad_duration"),
        (["echo", "--at", "tomorrow"], 2, "--at: 'tomorrow' is not a time like", "bad_value"),
        (
            ["echo", "--deadline", "now"],
            2,
            "--deadline: 'now' is not a duration like 30s or 1h, nor a time like",
            "bad_value",
        ),
        (["echo", "--wait=long"], 2, "--wait: 'long'", "bad_duration"),
        (["echo", "--wait", "30"], 2, "--wait: '30' is not a duration;", "bad_duration"),
        (["fail", "--wait"], 5, "ended as failed: RuntimeError: boom", "run_not_succeeded"),
        (["echo", "--delay", "1h", "--wait=10ms"], 7, "has not ended within 0.01s", "wait_timeout"),
        ([], 2, "missing argument 'JOB'", "usage"),
    ],
)
def test_what_goes_wrong(server: Server, arguments: list[str], exit_code: int, says: str, code: str) -> None:
    refused(server, "submit", *arguments, exit_code=exit_code, says=says, code=code)


def test_ctrl_c_while_waiting_leaves_the_run_alone(server: Server) -> None:
    arguments = ("submit", "echo", "--delay", "1d", "--wait", "--session", "left")
    with Terminal(server.folder, *arguments) as terminal:
        terminal.wait_for("waiting for ")
        terminal.enter("\x03")
        assert terminal.ended() == 130
        assert "Traceback" not in terminal.text
    assert ask(server, "runs", "--session", "left").stdout.split("\t")[2] == "prerun"


def test_many_of_which_one_fails(server: Server) -> None:
    ended = ask(server, "submit", "flaky", "--many", "--payload", '[{"failures":99},{"failures":0}]', "--wait")
    assert (ended.stdout, ended.returncode) == ("1\n", 5)
    assert ended.stderr.endswith("[run_not_succeeded]\n")


@pytest.mark.parametrize("command", [["submit", "echo"], ["runs"], ["show", "x"], ["logs", "x"], ["cancel", "x"]])
def test_no_server(folder: Path, command: list[str]) -> None:
    ended = interlock(folder, *command)
    assert f"unix:{folder / 'interlock.db.http'} (database interlock.db, default)" in ended.stderr
    assert (ended.stderr.count("\n"), ended.stdout, ended.returncode) == (1, "", 4)


def test_a_server_that_is_not_found_is_looked_for(server: Server, folder: Path) -> None:
    """The error says where was looked and by which setting, and names the servers that run elsewhere."""
    other = f"unix:{server.http_socket}"
    found = {
        "default": interlock(folder, "runs"),
        "flag --db": interlock(folder, "runs", "--db", "other.db"),
        "INTERLOCK_SOCKET": interlock(folder, "runs", INTERLOCK_SOCKET="nobody.sock"),
        "interlock.yaml:1": interlock(with_settings(folder, "database: third.db\n"), "runs"),
    }
    looked = ("interlock.db.http", "other.db.http", "nobody.http", "third.db.http")
    for (source, ended), name in zip(found.items(), looked, strict=True):
        assert f"unix:{folder / name} (" in ended.stderr
        assert f", {source})" in ended.stderr
        assert (ended.returncode, ended.stderr.endswith(" [not_running]\n")) == (4, True)
        # Five at the most: other tests have servers too.
        assert str(other) in ended.stderr.partition("--url: ")[2] or ended.stderr.count("unix:") == 6
    absent = interlock(folder, "runs", INTERLOCK_URL="http://127.0.0.1:1")
    assert "http://127.0.0.1:1 (INTERLOCK_URL)" in absent.stderr


def with_settings(folder: Path, text: str) -> Path:
    (folder / "interlock.yaml").write_text(text)
    return folder


def test_a_server_without_http_is_recognized(folder: Path) -> None:
    with Server(folder) as server:
        ended = interlock(folder, "runs")
    assert f"{server.socket} does not serve HTTP" in ended.stderr
    assert (ended.returncode, ended.stderr.endswith(" [not_running]\n")) == (4, True)


def test_the_server_is_found_by_settings(server: Server, folder: Path) -> None:
    url = f"unix:{server.http_socket}"
    assert interlock(folder, "runs", "--url", url, "--limit", "1").returncode == 0
    assert interlock(folder, "runs", "--limit", "1", INTERLOCK_URL=url).returncode == 0
    assert interlock(folder, "runs", "--limit", "1", INTERLOCK_SOCKET=str(server.socket)).returncode == 0
    assert interlock(folder, "runs", "--limit", "1", "--db", str(server.database)).returncode == 0
    elsewhere = {"INTERLOCK_URL": f"unix:{folder}/nobody.http"}
    assert interlock(folder, "runs", "--limit", "1", **elsewhere).returncode == 4
    assert interlock(folder, "runs", "--limit", "1", "--socket", str(server.socket), **elsewhere).returncode == 0
    (folder / "interlock.yaml").write_text(f"database: {server.database}\n")
    assert interlock(folder, "runs", "--limit", "1").returncode == 0
    assert interlock(folder, "runs", "--limit", "1", INTERLOCK_DATABASE="other.db").returncode == 4
