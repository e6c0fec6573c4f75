"""`interlock jobs`, `next`, `timetable`, `trigger`, `pause`, `resume`, `backfill` and the log of a job: what they say,
how they draw, and what they refuse."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.cli.group import run
from interlock.cli.look.next import schedule_of
from interlock.cli.look.timetable import PIPED
from interlock.cli.main import COMMANDS
from interlock.client.http.client import Client
from interlock.model.schedule.schedule import Schedule
from tests.cli.conftest import served
from tests.cli.terminal import in_a_terminal
from tests.helpers.scheduled import IDS, declare_jobs
from tests.helpers.server import Server

HOUR = 3600.0
NOW = datetime(2026, 3, 4, 11, 30).timestamp()  # noqa: DTZ001 - local, as it is drawn


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.stdout.splitlines()]


Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def timed() -> Iterator[Server]:
    with served("--drain", "1s", "--workers", "1", files=declare_jobs) as server:
        yield server


@pytest.fixture
def command(timed: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in this process, which is quicker than one of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        code = run(COMMANDS, [*arguments, "--url", f"unix:{timed.http_socket}"])
        return Ended(code, *capsys.readouterr())

    return call


def printed(command: Run, *arguments: str) -> Any:
    ended = command(*arguments, "--json")
    assert (ended.returncode, ended.stderr, ended.stdout.count("\n")) == (0, "", 1)
    return json.loads(ended.stdout)


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_as_rows(command: Run) -> None:
    rows = {row[0]: row for row in command("jobs").rows}
    assert [name for name in rows if name in IDS] == IDS
    nightly = rows["nightly"]
    assert nightly[1] == "cron 0 2 * * * Europe/Paris"
    assert nightly[2] == printed(command, "jobs", "nightly")["next_at"]
    assert nightly[3:8] == ["", "0", "", "process", "cron"]
    assert nightly[8].endswith("jobs.yaml:2")
    assert rows["manual"][1:3] == ["", ""]
    assert [one["id"] for one in printed(command, "jobs")["jobs"]] == list(rows)
    assert [row[0] for row in command("jobs", "--limit", "2").rows] == list(rows)[:2]


@pytest.mark.behaviour("LAN-6")
def test_lanes_as_rows_as_json_and_as_a_table(command: Run, timed: Server) -> None:
    assert command("lanes").rows[1] == ["subagent", "50", "0", "0", "", "", "open", ""]
    found = {one.pop("id"): one for one in printed(command, "lanes")["lanes"]}
    values = {"limit": 100, "rate": None, "burst": 1}
    counts = {"active": 0, "waiting": 0, "oldest_wait": None}
    assert found["team"] == {**values, **counts, "status": "open", "declared": values}
    title, *rows = in_a_terminal(timed.folder, "lanes", "--all").splitlines()
    assert all(one in title for one in ("lane", "limit", "active", "waiting"))
    assert [row.split()[:2] for row in rows if row.strip()] == [
        [lane, str(one["limit"])] for lane, one in found.items()
    ]
    used = in_a_terminal(timed.folder, "lanes")
    assert "idle, with default limits: " in used
    assert not [line for line in used.splitlines() if line.startswith(("team ", "subagent "))]


@pytest.mark.behaviour("LAN-2", "LAN-7", "LAN-8")
def test_a_lane_is_created_set_paused_drained_and_resumed(command: Run, timed: Server) -> None:
    def row(*arguments: str) -> list[str]:
        ended = command("lane", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.rows[0]

    assert row("create", "gpu", "--limit", "2") == ["gpu", "2", "0", "0", "", "", "open", "no"]
    assert row("create", "gpu", "--limit", "9", "--rate", "1/s")[1] == "2"
    assert row("set", "gpu", "--rate", "10/s", "--burst", "20")[5] == "10/s burst 20"
    assert row("set", "gpu", "--rate", "none")[5] == ""
    assert row("pause", "gpu")[6] == "paused"
    assert row("drain", "gpu")[6] == "draining"
    assert row("resume", "gpu")[6] == "open"
    assert row("set", "team", "--limit", "5")[-1] == "100"
    assert printed(command, "lane", "set", "team", "--limit", "100")["limit"] == 100
    assert in_a_terminal(timed.folder, "lane", "pause", "gpu").split()[-2:] == ["paused", "no"]


@pytest.mark.behaviour("LAN-1", "LAN-2", "LAN-8")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", "x"), 2, "--limit: missing"),
        (("create", "a b", "--limit", "1"), 2, "id: 'a b' is not"),
        (("create", "x", "--limit", "0"), 2, "--limit: '0' is not"),
        (("set", "main", "--limit", "-1"), 2, "--limit: '-1' is not"),
        (("set", "main", "--limit", "many"), 2, "--limit: 'many' is not"),
        (("set", "main", "--rate", "0/s"), 2, "rate: '0/s' is not"),
        (("set", "main"), 2, "set: needs --limit, --rate or --burst"),
        (("pause", "main", "--limit", "1"), 2, "--limit: cannot be combined with pause"),
        (("puase", "main"), 2, "action: 'puase' is not"),
        (("pause", "mian"), 3, "lane: 'mian' does not exist; did you mean 'main'?"),
        (("pause", ""), 3, "lane: '' does not exist"),
    ],
)
def test_a_wrong_lane_command_is_refused(command: Run, arguments: tuple[str, ...], code: int, says: str) -> None:
    ended = command("lane", *arguments)
    assert ended.returncode == code
    assert ended.stderr.startswith(f"error: {says}")


def test_one_job_as_a_line_for_each_field(command: Run, timed: Server) -> None:
    found = dict(command("jobs", "hourly").rows)
    info = printed(command, "jobs", "hourly")
    assert (found["id"], found["kind"], found["command"], found["lane"]) == ("hourly", "process", "cat", "cron")
    assert (found["source"], found["version"]) == (info["source"], info["version"])
    assert (found["max_concurrent_runs"], found["paused"], found["live"]) == ("3", "no", str(info["live"]))
    assert (found["schedule"], found["schedule.jitter"]) == ("cron 0 * * * *", "600s")
    assert (found["schedule.catch_up"], found["schedule.catch_up_window"]) == ("latest", "60s")
    assert found["next_at"] == info["next_at"]
    assert info["command"] == "cat"
    assert dict(command("jobs", "manual").rows).keys().isdisjoint({"schedule", "next_at", "schedule.catch_up"})
    drawn = in_a_terminal(timed.folder, "jobs", "hourly").splitlines()
    assert [line.split()[0] for line in drawn if not line.startswith(" ")] == list(found)
    assert len([line for line in drawn if line.startswith(" ")]) == 5, "the times after the next one"


def test_what_is_indented_stays_so(command: Run, timed: Server) -> None:
    text = "printf 'if:\\n  then  \\n\\ttab\\n'"
    with Client(f"unix:{timed.http_socket}") as client:
        client.put_job("indented", {"run": {"shell": text}})
    run_id = command("trigger", "indented").stdout.strip()
    assert command("show", run_id, "--wait").returncode == 0
    lines = ["if:", "  then  ", " " * 8 + "tab"]
    assert [row[3] for row in command("logs", run_id).rows] == lines
    assert [row[3] for row in command("show", run_id).rows if row[0] == "log"] == lines
    drawn = in_a_terminal(timed.folder, "logs", run_id, NO_COLOR="1").splitlines()
    assert [line.partition("INFO    ")[2] for line in drawn[:2]] == lines[:2]


def test_the_next_times(command: Run) -> None:
    found = printed(command, "next", "nightly", "--count", "2")["times"]
    assert [row[0] for row in command("next", "nightly", "-n", "2").rows] == found
    assert printed(command, "next", "distant")["times"] == ["2099-12-31T23:00:00.000Z"]


def test_a_schedule_needs_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def times(*arguments: str) -> list[float]:
        assert run(COMMANDS, ["next", *arguments, "--json", "--url", f"unix:{tmp_path}/nobody"]) == 0
        return [datetime.fromisoformat(at).timestamp() for at in json.loads(capsys.readouterr().out)["times"]]

    now = time.time()
    tokyo = times("0 2 * * *", "--tz", "Asia/Tokyo", "--count", "2")
    assert ([at % 86400 for at in tokyo], tokyo[0] > now) == ([17 * HOUR] * 2, True)
    every = times("every 10m", "--count", "3")
    assert [at - every[0] for at in every] == [0.0, 600.0, 1200.0]
    assert now <= every[0] <= time.time(), "it fires at once"
    assert times("every 1h after 5m")[0] >= now + 300
    assert times("at 2030-01-31T02:00:00Z") == [1896055200.0]


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(cron="*/5 8-18 * * 1-5"),
        Schedule(every=600.0),
        Schedule(every=3600.0, wait=90.0),
        Schedule(at=1896055200.0),
    ],
)
def test_a_schedule_is_read_as_it_is_shown(schedule: Schedule) -> None:
    assert schedule_of(str(schedule), None) == schedule


def test_the_timetable_as_rows(command: Run) -> None:
    rows = command("timetable", "--for", "90m", "--limit", "50000").rows
    jobs = {name for _, name in rows}
    assert {"pulse", "beat", "hourly", "gated"} <= jobs
    assert [at for at, _ in rows] == sorted(at for at, _ in rows)
    drawn = command("timetable", "--for", "90m", "--width", "90", "--limit", "100").stdout.splitlines()
    assert {line.split()[0] for line in drawn[1 : len(jobs) + 1]} == jobs
    two = command("timetable", "--for", "90m", "--width", "90", "--limit", "2").stdout.splitlines()
    assert {line.split()[0] for line in two[1:3]} < jobs
    assert two[-1].startswith(f"{len(jobs) - 2} more jobs ")
    assert max(len(line) for line in drawn) <= 90


def test_a_piped_timetable_is_bounded(command: Run) -> None:
    ended = command("timetable", "--for", "31d")
    assert len(ended.rows) == PIPED, "of 2,678,400"
    assert (ended.stderr.count("\n"), "left out" in ended.stderr, "--limit" in ended.stderr) == (1, True, True)
    assert len(command("timetable", "--for", "31d", "--limit", "3").rows) == 3
    found = command("timetable", "--for", "31d", "--limit", "3", "--json")
    assert "left out" in found.stderr
    bounded = json.loads(found.stdout)
    assert sum(len(one["times"]) for one in bounded["jobs"]) == 3
    assert any(one["more"] for one in bounded["jobs"])
    assert bounded["left_out"] > 0
    assert command("timetable", "--for", "5s", "--limit", "1000").stderr == ""


# ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-11")
@pytest.mark.behaviour("TIM-16")
def test_a_trigger_and_the_log_of_its_job(command: Run) -> None:
    run_id = command("trigger", "manual").stdout.strip()
    shown = printed(command, "show", run_id, "--wait")["run"]
    assert (shown["payload"], shown["origin"], shown["state"]) == ({"own": 3}, "trigger", "succeeded")
    given = printed(command, "trigger", "manual", "-p", "a=1", "--payload", '{"b": "two"}', "--wait")
    assert (given["payload"], given["state"]) == ({"b": "two", "a": 1}, "succeeded")
    assert command("trigger", "echo", "-p", "value=7", "--wait").stdout == "7\n"
    failed = command("trigger", "loud", "--wait", "30s")
    assert (failed.returncode, failed.stdout) == (5, "")
    assert "ended as failed" in failed.stderr
    key = [command("trigger", "manual", "--key", "k").stdout for _ in range(2)]
    assert key[0] == key[1]
    printed(command, "show", key[0].strip(), "--wait")
    log = command("runs", "--job", "manual", "--output").rows
    assert [row[0] for row in log if row[0]] == [key[0].strip(), given["id"], run_id]
    assert [row[1] for row in log if not row[0]] == ['{"own":3}', '{"b":"two","a":1}', '{"own":3}']
    assert log[0][1:3] + log[0][6:] == ["succeeded", "trigger", "0", "done"]
    assert [one["id"] for one in printed(command, "runs", "--job", "manual", "--output", "--limit", "1")["runs"]] == [
        key[0].strip()
    ]
    assert [one["origin"] for one in printed(command, "runs", "--job", "manual")["runs"]] == ["trigger"] * 3
    assert printed(command, "runs", "--job", "loud", "--output")["runs"][0]["cut"] is True


@pytest.mark.behaviour("TIM-11")
def test_every_live_run_of_a_job_is_counted(command: Run) -> None:
    """Runs that wait for their time, that execute, that were triggered or submitted: whatever has not ended."""
    command("pause", "gated")
    before = printed(command, "jobs", "gated")["live"]
    executing = command("trigger", "gated").stdout.strip()
    ahead = [command("submit", "gated", "--delay", "1h").stdout.strip() for _ in range(2)]
    assert printed(command, "jobs", "gated")["live"] == before + 3
    assert {row[0]: row[4] for row in command("jobs").rows}["gated"] == str(before + 3)
    for run_id in (executing, *ahead):
        assert command("cancel", run_id).returncode == 0
        command("show", run_id, "--wait")
    assert printed(command, "jobs", "gated")["live"] == before
    command("resume", "gated")


@pytest.mark.behaviour("TIM-10")
def test_jobs_are_paused_and_resumed(command: Run) -> None:
    ended = command("pause", "nightly", "hourly")
    assert ended.returncode == 0
    assert [(row[0], row[2], row[5]) for row in ended.rows] == [("nightly", "", "paused"), ("hourly", "", "paused")]
    resumed = printed(command, "resume", "nightly", "hourly")["jobs"]
    assert [(one["id"], one["paused"]) for one in resumed] == [("nightly", False), ("hourly", False)]
    some = command("pause", "nihgtly", "nightly")
    assert (some.returncode, [row[0] for row in some.rows]) == (3, ["nightly"]), "the others are paused all the same"
    assert "did you mean 'nightly'?" in some.stderr
    assert command("resume", "nightly").rows[0][5] == ""


@pytest.mark.behaviour("TIM-11")
def test_a_range_is_made_up_for(command: Run) -> None:
    begin = (time.time() // HOUR - 10) * HOUR
    earlier, start, end = (datetime.fromtimestamp(begin + HOUR * n, UTC).isoformat() for n in (-1, 0, 2))
    rows = command("backfill", "hourly", start, end, "--max-parallel", "2").rows
    assert [row[0] for row in rows] == ["created", "created"]
    more = command("backfill", "hourly", earlier, end, "-p", "a=1", "--wait", "30s")
    assert (more.returncode, more.stdout) == (0, "null\n"), "the result of the one that is new"
    again = printed(command, "backfill", "hourly", earlier, end)
    assert (again["created"], len(again["existing"])) == ([], 3)
    assert command("backfill", "hourly", "90s", "now").returncode == 0


# ── what cannot be asked ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "says"),
    [
        (["runs", "--job", "nihgtly", "--output"], 3, "unknown_job", "did you mean 'nightly'?"),
        (["next", "manual"], 1, "bad_schedule", "'manual' has no schedule"),
        (["next", "nightly", "--count", "0"], 2, "bad_value", "--count: 0"),
        (["next", "nightly", "--count", "101"], 2, "bad_value", "--count: 101"),
        (["next", "nightly", "--tz", "Mars/Olympus"], 2, "bad_value", "--tz: 'Mars/Olympus'"),
        (["next", "61 * * * *"], 2, "bad_value", "'61'"),
        (["next", "0 0 31 2 *"], 2, "bad_value", "'0 0 31 2 *'"),
        (["next", "* * * * * *"], 2, "bad_value", "6 fields"),
        (["next", "every day"], 2, "bad_duration", "schedule.every: 'day'"),
        (["next", "every 1m after 60s"], 2, "bad_value", "schedule.wait"),
        (["next", "every 1m and again"], 2, "bad_value", "'every 1m and again'"),
        (["next", "every 1m", "--tz", "UTC"], 2, "bad_value", "--tz: "),
        (["next", "at noon"], 2, "bad_value", "schedule.at: 'noon'"),
        (["timetable", "--for", "soon"], 2, "bad_duration", "--for: 'soon'"),
        (["timetable", "--for", "0s"], 2, "bad_value", "--for: '0s'"),
        (["timetable", "--for", "32d"], 2, "bad_value", "--for: '32d'"),
        (["timetable", "--width", "39"], 2, "bad_value", "--width: 39"),
        (["timetable", "--limit", "0"], 2, "bad_value", "--limit: 0"),
        (["trigger", "manual", "--payload", "[1]"], 2, "bad_value", "--payload"),
        (["trigger", "manual", "--deadline", "soon"], 2, "bad_value", "--deadline: 'soon'"),
        (["trigger", "manual", "--wait=soon"], 2, "bad_duration", "--wait: 'soon'"),
        (["trigger", "add", "-p", "left=x"], 2, "bad_payload", "'add'"),
        (["backfill", "hourly", "1h", "2h"], 2, "bad_value", "FROM: '1h' is not earlier than TO (2h)"),
        (["backfill", "hourly", "noon", "now"], 2, "bad_value", "FROM: 'noon'"),
        (["backfill", "hourly", "1h", "later"], 2, "bad_value", "TO: 'later'"),
        (["backfill", "hourly", "1h", "2099-01-01"], 2, "bad_value", "to: "),
        (["backfill", "hourly", "2h", "1h", "--max-parallel", "0"], 2, "bad_value", "--max-parallel: 0"),
        (["backfill", "manual", "2h", "1h"], 1, "bad_schedule", "'manual' has no schedule"),
        (["runs", "--output"], 2, "usage", "--job"),
        (["runs", "--job", "manual", "--output", "--live"], 2, "usage", "--job"),
        (["pause"], 2, "usage", "missing argument"),
    ],
)
def test_what_cannot_be_asked(command: Run, arguments: list[str], exit_code: int, code: str, says: str) -> None:
    ended = command(*arguments)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (exit_code, "", 1)
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.endswith(f" [{code}]\n")
    assert says in ended.stderr


# ── in a terminal ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "zone"),
    [
        (["nightly"], "Europe/Paris"),
        (["hourly"], "UTC"),
        (["beat"], "Asia/Tokyo"),
        (["nightly", "--tz", "America/New_York"], "America/New_York"),
        (["0 2 * * *"], "UTC"),
        (["0 2 * * *", "--tz", "Europe/Paris"], "Europe/Paris"),
    ],
)
def test_next_shows_one_zone(timed: Server, arguments: list[str], zone: str) -> None:
    """The zone asked for, else the job's own, else the local one."""
    drawn = in_a_terminal(timed.folder, "next", *arguments, TZ="Asia/Tokyo").splitlines()
    assert (drawn[0], "".join(drawn[1:]).count(zone)) == (f"times in {zone}", 0)


def test_in_a_terminal(timed: Server) -> None:
    drawn = in_a_terminal(timed.folder, "timetable", "--for", "2h", COLUMNS="70")
    assert max(len(line) for line in drawn.splitlines()) <= 70
    assert "█" in drawn
    in_a_terminal(timed.folder, "trigger", "loud", "--wait", "30s")
    log = in_a_terminal(timed.folder, "runs", "--job", "loud", "--output", NO_COLOR="1")
    assert "… cut at 16 KiB" in log
    assert "failed in" in log
