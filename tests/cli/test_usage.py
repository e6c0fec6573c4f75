"""The frame of the command line: help, version, completion, wrong options, pipes, Ctrl-C; and `interlock config`."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.main import COMMANDS
from interlock.config.schema import json_schema
from tests.cli.terminal import in_a_terminal
from tests.helpers.processes import wait_until
from tests.helpers.server import ROOT, Server, environment, interlock
from tools.cli_reference import document

SECRET = "a-secret-of-some-length"


def test_help_lists_every_command_in_a_panel(folder: Path) -> None:
    alone = interlock(folder)
    assert alone.returncode == 0
    assert alone.stdout == interlock(folder, "--help").stdout
    for name, panel in COMMANDS.items():
        assert re.search(rf"^│ {name.split()[0]} ", alone.stdout, re.M)
        assert f"─ {panel} ─" in alone.stdout
    # What each prints when it is piped is for its own help: here it would hide what there is.
    assert "Piped" not in alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(folder: Path, command: str) -> None:
    ended = interlock(folder, *command.split(), "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"Usage: interlock {command} [OPTIONS]" in ended.stdout


def test_the_version(folder: Path) -> None:
    ended = interlock(folder, "--version")
    assert (ended.returncode, ended.stdout) == (0, "interlock 0.1.0\n")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["ups"], "did you mean 'up'?"),
        (["zzz"], "'zzz'"),
        (["policy"], "missing command"),
        (["policy", "tset"], "did you mean 'test'?"),
        (["up", "--slot", "3"], "did you mean '--slots'?"),
        (["up", "--port", "80"], "'--port' is not an option; did you mean '--http'?"),
        (["--verson"], "did you mean '--version'?"),
        (["up", "--slots"], "'--slots'"),
        (["config", "extra"], "(extra)"),
        (["bench", "--runs", "many"], "'--runs'"),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, arguments: list[str], names: str) -> None:
    ended = interlock(folder, *arguments)
    assert ended.stderr.startswith("error: ")
    assert names in ended.stderr
    assert ended.stderr.endswith(" [usage]\n")
    assert (ended.stderr.count("\n"), ended.stdout, ended.returncode) == (1, "", 2)


def test_an_error_in_json(folder: Path) -> None:
    ended = interlock(folder, "config", "--json", "--slots", "none")
    error = json.loads(ended.stderr)["error"]
    assert error == {"code": "bad_value", "message": "--slots: 'none' is not a whole number from 1 to 100,000"}
    assert (ended.stdout, ended.returncode) == ("", 2)


def test_a_worker_needs_a_scheduler_and_no_app(folder: Path) -> None:
    assert interlock(folder, "worker").stderr.endswith(" [not_running]\n")


def test_the_app_may_come_from_the_file(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("app: nowhere:app\n")
    assert "cannot load 'nowhere:app'" in interlock(folder, "up").stderr
    assert "cannot load 'elsewhere:app'" in interlock(folder, "up", INTERLOCK_APP="elsewhere:app").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(folder: Path, shell: str) -> None:
    shown = interlock(folder, "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (shown.returncode, "_INTERLOCK_COMPLETE" in shown.stdout) == (0, True)


def test_completion_of_commands(folder: Path) -> None:
    asked = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": "interlock w", "COMP_CWORD": "1"}
    assert interlock(folder, **asked).stdout.split() == [
        "worker",
        "worker-token",
        "workflow",
        "whoami",
        "workers",
        "workflows",
    ]


def completed(folder: Path, words: str, shell: str = "bash", **extra: str) -> list[str]:
    place = str(len(words.split(" ")) - 1)
    asked = {"_INTERLOCK_COMPLETE": f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": place}
    ended = interlock(folder, **asked, **extra)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_completion_knows_jobs_runs_states_and_services(folder: Path) -> None:
    (folder / "web.yaml").write_text('kind: Service\nid: web\nrun: {process: [sleep, "600"]}\n')
    with Server(folder, "web.yaml", "--http", "local", "--drain", "0s") as server:
        wait_until(lambda: interlock(folder, "service", "start", "web").returncode == 0, "the service is up")
        run_id = interlock(folder, "submit", "echo", "--delay", "1d").stdout.strip()
        for command in ("submit", "trigger", "runs --job", "cancel --job", "jobs", "pause", "next", "backfill"):
            assert completed(folder, f"interlock {command} echo.t") == ["echo.thread"]
        for command in ("show", "logs", "cancel", "hold", "release"):
            assert run_id in completed(folder, f"interlock {command} {run_id[:6]}")
        assert completed(folder, "interlock logs w") == ["web"]
        assert completed(folder, "interlock service stop w") == ["web"]
        assert completed(folder, "interlock service st") == ["start", "stop"]
        assert completed(folder, "interlock runs --state ret") == ["retrying"]
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        assert completed(elsewhere, f"interlock show --db {server.database} {run_id[:6]}") == [run_id]
        assert completed(elsewhere, "interlock submit echo.t") == []


def test_completion_without_a_server_is_silent(folder: Path) -> None:
    assert completed(folder, "interlock show ") == []
    assert completed(folder, "interlock submit ", INTERLOCK_URL="nonsense") == []
    (folder / "interlock.yaml").write_text("nonsense: 1\n")
    assert completed(folder, "interlock logs ") == []


def test_colours_are_for_terminals_that_want_them(folder: Path) -> None:
    colour = re.compile(r"\x1b\[([0-9]+;)*3[0-7](;[0-9]+)*m")
    assert colour.search(in_a_terminal(folder, "--help"))
    assert not colour.search(in_a_terminal(folder, "--help", NO_COLOR="1"))
    piped = interlock(folder, "config").stdout
    assert "\x1b" not in piped
    assert piped.splitlines()[0] == "app\t\tdefault"


def test_a_terminal_that_cannot_show_everything(folder: Path) -> None:
    ended = interlock(folder, "config", "--db", "äöü.db", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "database\t\\xe4\\xf6\\xfc.db\tflag --db" in ended.stdout


@pytest.mark.parametrize("arguments", [["config"], ["config", "--schema"], ["--help"], ["--version"]])
def test_a_reader_that_goes_away(folder: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "interlock.cli", *arguments],
            cwd=folder, env=environment(), stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert (ended.stderr, ended.returncode) == (b"", 141)


def test_output_that_cannot_be_written_is_one_line(folder: Path) -> None:
    for arguments in (["config"], ["--help"], ["config", "--json"]):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "interlock.cli", *arguments],
                cwd=folder, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
            )  # fmt: skip
        assert "the system refused: No space left on device" in ended.stderr
        assert (ended.stderr.count("\n"), ended.returncode) == (1, 1)


def test_no_output_at_all(folder: Path) -> None:
    for arguments in ("config", "config --json", "--help"):
        ended = subprocess.run(
            ["sh", "-c", f"{sys.executable} -m interlock.cli {arguments} >&-"],
            cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (ended.stderr, ended.returncode) == ("", 0)


def test_ctrl_c_while_modules_load_is_no_traceback(folder: Path) -> None:
    """The module waits until it is interrupted, as a slow disk might make it."""
    (folder / "typer").mkdir()
    (folder / "typer" / "__init__.py").write_text("import signal\nprint('loading', flush=True)\nsignal.pause()\n")
    with subprocess.Popen(
        [sys.executable, "-m", "interlock.cli", "config"],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


def test_settings_and_where_they_came_from(folder: Path) -> None:
    (folder / "interlock.yaml").write_text(f"""\
slots: 7
max_body: 1MiB
tokens:
  - {{name: ci, role: operator, token: {SECRET}}}
""")
    arguments = ("config", "--workers", "3", "--token", SECRET)
    ended = interlock(folder, *arguments, INTERLOCK_DRAIN="1m", INTERLOCK_LANE_GPU="2")
    rows = dict(line.split("\t", 1) for line in ended.stdout.splitlines())
    assert rows["slots"] == "7\tinterlock.yaml:1"
    assert rows["max_body"] == "1MiB\tinterlock.yaml:2"
    assert rows["tokens"] == "ci (operator of default)\tinterlock.yaml:3"
    assert rows["workers"] == "3\tflag --workers"
    assert rows["drain"] == "1m\tINTERLOCK_DRAIN"
    assert rows["lanes.gpu"] == "2\tINTERLOCK_LANE_GPU"
    assert rows["token"] == "********\tflag --token"
    assert rows["heartbeat"] == "10s\tdefault"
    assert SECRET not in ended.stdout
    settings = json.loads(interlock(folder, *arguments, "--json").stdout)["settings"]
    assert settings["slots"] == {"value": 7, "source": "interlock.yaml:1"}
    assert settings["tokens"]["value"] == [{"name": "ci", "role": "operator", "tenant": "default"}]
    assert settings["token"] == {"value": "********", "source": "flag --token"}


def test_a_fault_of_the_settings_file(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("slots: 7\nwokers: 1\n")
    for command in ("config", "up", "worker"):
        ended = interlock(folder, command)
        assert (
            ended.stderr == "error: interlock.yaml:2: 'wokers' is not a setting; did you mean 'workers'? [bad_config]\n"
        )
        assert ended.returncode == 2


def test_the_published_schema_is_current(folder: Path) -> None:
    printed = interlock(folder, "config", "--schema").stdout
    assert json.loads(printed) == json_schema()
    assert (ROOT / "docs" / "interlock.schema.json").read_text() == printed, "interlock config --schema, and commit it"


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"slots": 5, "http": "off", "drain": "5s", "max_body": "32MiB", "lanes": {"gpu": 2}}, True),
        ({"drain": 5, "heartbeat": 0.5, "max_body": 2048, "app": None}, True),
        ({"tokens": [{"name": "a", "role": "admin", "env": "X"}], "hosts": ["a"]}, True),
        ({"tokens": [{"name": "a", "role": "admin", "env": "X", "token": SECRET}]}, False),
        ({"tokens": [{"name": "a", "role": "boss", "env": "X"}]}, False),
        ({"slots": 0}, False),
        ({"slot": 5}, False),
        ({"drain": "soon"}, False),
        ({"max_body": "much"}, False),
        ({"lanes": {"gpu": 0}}, False),
        ({}, True),
        ({"http": "[::1]:65535"}, True),
        ({"http": "host:0"}, True),
        ({"http": "host:65536"}, False),
        ({"http": "::1:80"}, False),
    ],
)
def test_the_schema_tells_right_from_wrong(document: object, fits: bool) -> None:
    import jsonschema_rs

    assert jsonschema_rs.Draft202012Validator(json_schema()).is_valid(document) is fits


def test_the_command_line_reference_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    assert written == document(), "run: python -m tools.cli_reference"
