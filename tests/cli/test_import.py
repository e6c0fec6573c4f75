"""`interlock import`: where it reads and writes, and what it refuses."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from interlock.cli.group import run
from interlock.cli.main import COMMANDS

CRONTAB = "0 2 * * * backup\n@reboot agent\n"


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


Import = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Import:
    """Run the command in this process, which is quicker than one of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Europe/Paris")
    (tmp_path / "cron.txt").write_text(CRONTAB)

    def call(*arguments: str, name: str = "import", given: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        return Ended(run(COMMANDS, [name, *arguments]), *capsys.readouterr())

    return call


def test_to_standard_output(command: Import) -> None:
    ended = command("crontab", "cron.txt")
    assert (ended.code, ended.stderr) == (0, "1 of 2 jobs carried over: see the comments\n")
    assert "\nschedule: {cron: 0 2 * * *, tz: Europe/Paris}\n" in ended.stdout
    assert ended.stdout.startswith("# Written by 'interlock import crontab cron.txt'.")
    assert command("crontab", "-", given=CRONTAB.encode()).stdout.count("\nkind: Job\n") == 1
    assert "tz: Asia/Tokyo" in command("crontab", "cron.txt", "--tz", "Asia/Tokyo").stdout


@pytest.mark.parametrize(("output", "file"), [("jobs.yaml", "jobs.yaml"), ("jobs", "jobs/cron.yaml")])
def test_to_a_file_that_can_be_checked(command: Import, output: str, file: str) -> None:
    Path("jobs").mkdir()
    assert command("crontab", "cron.txt", "--output", output).stderr.startswith(f"written: {file}\n")
    ended = command(file, name="check")
    assert (ended.code, ended.stdout.split("\t")[0]) == (0, "backup")
    text = Path(file).read_text()
    assert Path(file).stat().st_mode & 0o777 == 0o600
    again = command("crontab", "cron.txt", "-o", output)
    assert (again.code, again.stdout, Path(file).read_text()) == (2, "", text)
    assert again.stderr.startswith("error: --output: ")


def test_a_crontab_of_the_system(command: Import) -> None:
    assert "shell: command" in command("crontab", "-", "--system", given=b"0 2 * * * root command\n").stdout
    assert "shell: root command" in command("crontab", "-", given=b"0 2 * * * root command\n").stdout


@pytest.mark.parametrize(
    ("arguments", "given", "field", "code"),
    [
        (["cron", "cron.txt"], b"", "KIND", "bad_value"),
        (["crontab", "nowhere"], b"", "nowhere", "bad_config"),
        (["crontab", "."], b"", ".", "bad_config"),
        (["crontab", "-"], b"", "FILE", "bad_value"),
        (["crontab", "-"], b"\xff\xfe", "FILE", "bad_value"),
        (["celery-beat", "-"], b"x = 1", "FILE", "bad_value"),
        (["celery-beat", "-"], b"x = ", "FILE", "bad_value"),
        (["apscheduler", "-"], b"x = 1", "FILE", "bad_value"),
        (["systemd", "-"], b"[Service]", "FILE", "bad_value"),
        (["systemd", "-", "--system"], b"", "--system", "usage"),
        (["crontab", "cron.txt", "--tz", "Mars"], b"", "--tz", "bad_value"),
        (["crontab", "cron.txt", "--output", "nowhere/jobs.yaml"], b"", "--output", "bad_value"),
        (["crontab", "cron.txt", "--output", "nowhere/"], b"", "--output", "bad_value"),
    ],
)
def test_what_is_refused(command: Import, arguments: list[str], given: bytes, field: str, code: str) -> None:
    ended = command(*arguments, given=given)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: {field}: ")
    assert ended.stderr.endswith(f" [{code}]\n")
