"""`interlock check`: check files without a server, and report every fault."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from interlock.cli.group import run
from interlock.cli.main import COMMANDS
from interlock.config.schema import documents_schema
from tests.cli.terminal import in_a_terminal
from tests.helpers.server import interlock


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Check = Callable[..., Ended]

GOOD = """\
kind: Job
id: nightly
schedule: {cron: 0 2 * * *, tz: Europe/Paris}
run: {process: [dump]}
---
kind: Job
id: reminder
schedule: {at: "2096-10-02T07:06:40Z"}
run: {shell: echo}
---
kind: Job
id: by-hand
run: {shell: echo}
---
kind: Service
id: web
run: {process: [web]}
"""
WARNED = "kind: Job\nid: odd\nschedule: {cron: '0 2 * * *', wait: 5s}\nrun: {shell: x}\n"
WARNING = "odd.yaml:3: schedule.wait: "
APP = """\
import interlock as il

print("this is imported")
app = il.App()

@app.job("tick", schedule=il.every("60s", wait="10s"))
def tick() -> None: ...

@app.job("past", schedule=il.at("2020-01-01"))
def past() -> None: ...
"""


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Run the command in this process, which is quicker than one of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        code = run(COMMANDS, ["check", *arguments])
        return Ended(code, *capsys.readouterr())

    return call


@pytest.mark.behaviour("TIM-12")
def test_sound_files_show_the_next_fire_time_of_each_job(check: Check) -> None:
    Path("all.yaml").write_text(GOOD)
    ended = check("all.yaml")
    assert (ended.returncode, ended.stderr) == (0, "fine: 3 jobs, 1 service, 0 groups and 0 lanes\n")
    nightly, reminder, by_hand = [line.split("\t") for line in ended.stdout.splitlines()]
    assert (nightly[:2], nightly[3]) == (["nightly", "cron 0 2 * * * Europe/Paris"], "all.yaml:2")
    assert re.fullmatch(r"20..-..-..T0[01]:00:00\.000Z", nightly[2])
    assert reminder == ["reminder", "at 2096-10-02 07:06:40Z", "2096-10-02T07:06:40.000Z", "all.yaml:7"]
    assert by_hand == ["by-hand", "", "", "all.yaml:12"]


def test_in_json(check: Check) -> None:
    Path("all.yaml").write_text(GOOD)
    found = json.loads(check("all.yaml", "--json").stdout)
    assert (found["ok"], found["faults"], found["warnings"]) == (True, [], [])
    assert found["jobs"][1] == {
        "id": "reminder",
        "schedule": "at 2096-10-02 07:06:40Z",
        "next_at": "2096-10-02T07:06:40.000Z",
        "source": "all.yaml:7",
    }
    Path("bad.yaml").write_text("kind: Job\nid: a\n")
    ended = check("all.yaml", "bad.yaml", "--json")
    assert (ended.returncode, ended.stderr) == (2, "")
    fault = "bad.yaml:1: run: missing, but required"
    assert json.loads(ended.stdout) == {"ok": False, "faults": [fault], "warnings": [], "jobs": []}


@pytest.mark.behaviour("TIM-12")
def test_every_fault_is_reported_however_many(check: Check) -> None:
    Path("bad.yaml").write_text("---\n".join(["kind: Job\nid: a b\nrun: {shell: x}\n"] * 300))
    ended = check("bad.yaml")
    first, *rest = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, first) == (2, "", "error: 300 faults in 1 file [bad_config]")
    assert len(rest) == 300
    assert rest[-1].startswith("  bad.yaml:1198: id: 'a b' ")


@pytest.mark.behaviour("TIM-3")
def test_a_warning_is_said_and_in_strict_mode_a_fault(check: Check) -> None:
    Path("odd.yaml").write_text(WARNED)
    ended = check("odd.yaml")
    warning, fine = ended.stderr.splitlines()
    assert (ended.returncode, fine) == (0, "fine: 1 job, 0 services, 0 groups and 0 lanes")
    assert warning.startswith(f"warning: {WARNING}")
    (found,) = json.loads(check("odd.yaml", "--json").stdout)["warnings"]
    assert f"warning: {found}" == warning
    assert check("odd.yaml", "--strict") == (2, "", f"error: {found} [bad_config]\n")
    Path("interlock.yaml").write_text("strict: true\nfiles: [odd.yaml]\n")
    assert check() == (2, "", f"error: {found} [bad_config]\n")


def test_a_time_that_has_passed_is_a_fault(check: Check) -> None:
    Path("past.yaml").write_text("kind: Job\nid: a\nschedule:\n  at: 2020-01-31 12:00\nrun: {shell: x}\n")
    ended = check("past.yaml")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: past.yaml:4: schedule.at: '2020-01-31 12:00' ")
    assert ended.stderr.endswith(" [bad_config]\n")


def test_a_folder_with_nothing_to_read_is_a_warning(check: Check) -> None:
    Path("jobs/deep").mkdir(parents=True)
    Path("jobs/deep/a.yaml").write_text(GOOD)
    Path("jobs/.b.yaml").write_text(GOOD)
    ended = check("jobs")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("warning: jobs: ")
    ended = check("jobs", "--strict")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"error: jobs: .* \[bad_config\]\n", ended.stderr)
    Path("empty").mkdir()
    (warning,) = json.loads(check("empty", "jobs/deep", "--json").stdout)["warnings"]
    assert warning.startswith("empty: ")


def test_nothing_to_check_is_wrong_usage(check: Check) -> None:
    ended = check()
    assert ended.returncode == 2
    assert re.fullmatch(r"error: PATH: .* \[usage\]\n", ended.stderr)


def test_the_schema_is_for_editors(check: Check) -> None:
    ended = check("--schema")
    assert (ended.returncode, json.loads(ended.stdout)) == (0, documents_schema())


@pytest.mark.behaviour("TIM-12")
def test_together_with_an_app(folder: Path) -> None:
    (folder / "jobs.py").write_text(APP)
    (folder / "a.yaml").write_text("kind: Job\nid: tick\nrun: {shell: x}\n")
    ended = interlock(folder, "check", "-A", "jobs:app", "a.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    summary, twice, past = ended.stderr.splitlines()[-3:]
    assert summary == "error: 2 faults in 2 files [bad_config]"
    assert (twice.startswith("  a.yaml:2: id: 'tick' "), "jobs.tick" in twice) == (True, True)
    assert (past.startswith("  jobs.past: "), "schedule.at: " in past) == (True, True)


@pytest.mark.parametrize(
    ("files", "options", "zone", "hour"),
    [
        (["one.yaml"], [], "Europe/Paris", "02:00"),
        (["one.yaml", "two.yaml"], [], "Europe/Paris", "02:00"),
        (["one.yaml", "two.yaml", "third.yaml"], [], "Asia/Tokyo", None),
        (["one.yaml", "two.yaml"], ["--tz", "Europe/Paris"], "Europe/Paris", "02:00"),
    ],
)
def test_a_terminal_shows_one_zone_and_names_it(
    folder: Path, files: list[str], options: list[str], zone: str, hour: str | None
) -> None:
    """The zone asked for, else the one that all schedules with a zone share, else the local one."""
    (folder / "one.yaml").write_text(GOOD.partition("---")[0])
    (folder / "two.yaml").write_text(GOOD.split("---\n")[1])
    other = "kind: Job\nid: other\nrun: {shell: x}\nschedule: {cron: 0 3 * * *, tz: America/New_York}\n"
    (folder / "third.yaml").write_text(other)
    drawn = in_a_terminal(folder, "check", *files, *options, TZ="Asia/Tokyo", COLUMNS="120").splitlines()
    assert (drawn[0].count(f"next ({zone})"), "".join(drawn).count(zone)) == (1, 1 + (zone == "Europe/Paris"))
    assert "cron 0 2 * * * Europe/Paris" in drawn[1]
    assert hour is None or f" {hour} (in " in drawn[1]
    assert drawn[-1].startswith("fine: ")


def test_an_unknown_zone_is_refused(check: Check) -> None:
    Path("all.yaml").write_text(GOOD)
    assert "--tz: 'Mars/Olympus'" in check("all.yaml", "--tz", "Mars/Olympus").stderr


def test_files_are_checked_without_the_secrets_of_production(check: Check) -> None:
    Path("hooks.yaml").write_text(
        "kind: Job\nid: paid\nrun: {shell: x}\n"
        "on_failure: {action: webhook, url_env: PRODUCTION_URL, secret_env: PRODUCTION_SECRET}\n"
    )
    ended = check("hooks.yaml")
    assert ended.returncode == 2
    assert "environment variable 'PRODUCTION_URL' is not set" in ended.stderr
    ended = check("hooks.yaml", "--without-env")
    assert (ended.returncode, ended.stderr.splitlines()[-1][:6]) == (0, "fine: ")
