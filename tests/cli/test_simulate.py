"""`interlock simulate`: forecasts as lines, JSON, tables and a picture; and options that it refuses."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from interlock.cli.check.forecast_plan import ASSUMED, ForecastQuestion, forecast_of, question_of
from interlock.cli.check.simulate import MOST_NOTABLE, drawing
from interlock.cli.draw.tables import console
from interlock.cli.group import run
from interlock.cli.main import COMMANDS
from interlock.cli.shared.output import WrongUsage
from interlock.config import resolve
from interlock.error import BadConfig, BadDuration, BadValue, StoreUnavailable
from interlock.model.schedule.schedule import instant
from interlock.simulation.forecast_model import Forecast, Notable, TooManyRuns
from tests.cli.terminal import in_a_terminal
from tests.helpers.places import clean_folder
from tests.helpers.server import interlock
from tests.simulation import remembered

JOBS = """\
kind: Job
id: backup
lane: narrow
schedule: {cron: 30 2 * * *, tz: Europe/Paris}
run: {process: ["true"]}
---
kind: Job
id: report
lane: narrow
schedule: {cron: 30 2 * * *, tz: Europe/Paris}
run: {process: ["true"]}
---
kind: Job
id: tick
schedule: {every: 1h}
run: {process: ["true"]}
---
kind: Job
id: by.hand
run: {process: ["true"]}
---
kind: Service
id: web
run: {process: [sleep, "1000"]}
"""
SPAN = ("--from", "2026-03-28T00:00", "--for", "2d", "--tz", "Europe/Paris", "--lane", "narrow=1")
LENGTHS = ("--duration", "backup=10m", "--duration", "5m")
DAY = 86400


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with clean_folder() as folder:
        (folder / "jobs.yaml").write_text(JOBS)
        yield folder


def test_lines_for_programs(place: Path) -> None:
    ended = interlock(place, "simulate", "jobs.yaml", *SPAN, *LENGTHS, "--runs")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.split("\t") for line in ended.stdout.splitlines()]
    assert lines[0] == [
        "notable", "report", "waited", "2", "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z",
        "2 of 2 for a slot of lane narrow, at most 10m",
    ]  # fmt: skip
    jobs = {line[1]: line[2:] for line in lines if line[0] == "job"}
    assert jobs["backup"] == [
        "cron 30 2 * * * Europe/Paris", "narrow", "600", "given", "2", "0", "0", "0", "0", "1", "1200",
    ]  # fmt: skip
    assert jobs["report"][2:6] == ["300", "given for all others", "2", "2"]
    assert jobs["tick"][4] == "48"
    assert list(jobs) == ["backup", "report", "tick"]
    assert ["lane", "narrow", "1", "1", "2026-03-28T01:30:00.000Z", "1800"] in lines
    runs = [line[2:7] for line in lines if line[:2] == ["run", "report"]]
    # The second night has no 02:30.
    assert runs[1] == [
        "2026-03-29T01:00:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-29T01:10:00.000Z",
        "2026-03-29T01:15:00.000Z", "succeeded",
    ]  # fmt: skip
    assert sum(line[0] == "run" for line in lines) == 52
    # Nothing was run, and nothing is left.
    assert [path.name for path in place.iterdir()] == ["jobs.yaml"]


def test_json_and_a_picture(place: Path, tmp_path: Path) -> None:
    drawing = tmp_path / "plan.svg"
    ended = interlock(place, "simulate", "jobs.yaml", *SPAN, "--svg", str(drawing), "--json")
    assert (ended.returncode, ended.stderr) == (0, f"drawn: {drawing}\n")
    found = json.loads(ended.stdout)
    assert list(found) == ["start", "until", "jobs", "lanes", "notable"]
    assert (found["start"], found["until"]) == ("2026-03-27T23:00:00.000Z", "2026-03-29T23:00:00.000Z")
    times = [one[name] for one in found["notable"] for name in ("first_at", "last_at")]
    times += [one["most_at"] for one in found["lanes"]]
    assert times
    assert all(re.fullmatch(r"2026-03-2\dT..:..:..\....Z", one) for one in times)
    assert found["jobs"][0]["length"] == {"seconds": 1.0, "source": "assumed"}
    drawn = ElementTree.fromstring(drawing.read_text())
    texts = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"backup", "report", "tick", "Sun 29 Mar"} <= set(texts)
    assert "What would run from Sat 28 Mar 2026 00:00 to Mon 30 Mar 2026 01:00 (Europe/Paris)" in texts


def test_in_a_terminal(place: Path) -> None:
    text = in_a_terminal(place, "simulate", "jobs.yaml", *SPAN, *LENGTHS, "--runs", COLUMNS="160", NO_COLOR="1")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert "52 runs of 3 jobs from 2026-03-28 00:00:00 to 2026-03-30 01:00:00 Europe/Paris" in text
    tables = text.split("\n\n")[1:]
    assert re.search(r"report +waited +2026-03-28 02:30:00 +2026-03-29 03:00:00 +2 of 2 for a slot of", tables[0])
    assert re.search(r"report +cron 30 2 .* 5m +given for all others +2 +2 +10m", tables[1])
    assert re.search(r"narrow +1 +1 +2026-03-28 02:30:00 +30m", tables[2])
    assert "waited for lane" in tables[3]


def test_a_terminal_is_not_flooded() -> None:
    one = Notable(job_id="tick", what="missed", count=1, first_at=0.0, last_at=0.0, text="1 of 1")
    found = Forecast(start=0.0, until=DAY, jobs=[], lanes=[], notable=[one] * (MOST_NOTABLE + 7), runs=[])
    screen = console()
    with screen.capture() as captured:
        screen.print(drawing(found, ZoneInfo("UTC"), False))
    assert (captured.get().count("1 of 1"), captured.get().count("7 more")) == (MOST_NOTABLE, 1)


def test_the_jobs_of_an_app(tmp_path: Path) -> None:
    (tmp_path / "nightly.py").write_text(
        "import interlock as il\napp = il.App()\n"
        "@app.job('clean', schedule=il.every('30m'))\ndef clean(): ...\n@app.job('other')\ndef other(): ...\n"
    )
    ended = interlock(tmp_path, "simulate", "-A", "nightly:app", "--from", "2026-03-28T00:00", "--for", "1h")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "job\tclean\tevery 30m\tcron\t1\tassumed\t2\t0\t0\t0\t0\t1\t2"


def test_where_each_figure_comes_from(place: Path, tmp_path: Path) -> None:
    past = [remembered.ended(1, "backup", 700.0), remembered.ended(2, "tick", 30.0)]
    remembered.remember(tmp_path / "past.db", *past)
    files = {"files": [str(place / "jobs.yaml")]}
    named = {"database": str(tmp_path / "past.db")}
    found = forecast_of(resolve({**files, **named}, None, {}), asked(durations=["tick=2m", "5s"]))
    assert {job.id: (job.length.seconds, job.length.source) for job in found.jobs} == {
        "backup": (700.0, "median of 1 run in past.db"),
        "report": (5.0, "given for all others"),
        "tick": (120.0, "given"),
    }
    by_variable = {"INTERLOCK_DATABASE": str(tmp_path / "past.db")}
    found = forecast_of(resolve(files, None, by_variable), asked())
    assert [job.length.seconds for job in found.jobs] == [700.0, 1.0, 30.0]
    # A server that is set up and was never started remembers nothing, and that is no mistake.
    by_variable = {"INTERLOCK_DATABASE": str(tmp_path / "later.db")}
    found = forecast_of(resolve(files, None, by_variable), asked(failing=["tick"]))
    assert [job.length.seconds for job in found.jobs] == [1.0, 1.0, 1.0]
    assert found.jobs[2].states == {"failed": 1}


def test_a_mistake_is_one_line(place: Path) -> None:
    ended = interlock(place, "simulate", "jobs.yaml", "--duration", "bakup=5m")
    assert (ended.stdout, ended.returncode) == ("", 2)
    assert re.fullmatch(r"error: --duration: 'bakup' .*'backup'.* \[bad_value\]\n", ended.stderr)


def test_where_no_picture_can_be_is_said_before_anything_is_worked_out(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # From there, for a long path is not shown.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "closed.svg").touch(mode=0o444)
    trouble = {
        "gone/x.svg": "No such file or directory",
        "file/x.svg": "Not a directory",
        ".": "Is a directory",
    }
    if os.geteuid() != 0:  # who may write anywhere
        trouble["closed.svg"] = "Permission denied"
    for name, why in trouble.items():
        # Were it worked out first, that the job is unknown would be said.
        code = run(COMMANDS, ["simulate", str(place / "jobs.yaml"), "--svg", name, "--fail", "nobody"])
        printed, said = capsys.readouterr()
        assert (code, printed, said.count("\n")) == (2, "", 1)
        assert said.startswith(f"error: --svg: {name!r} ")
        assert said.endswith(f"({why}) [bad_value]\n")
    assert not (tmp_path / "gone").exists()
    assert run(COMMANDS, ["simulate", str(place / "jobs.yaml"), "--svg", "/dev/full", "--for", "1h"]) == 2
    assert re.match(r"error: --svg: '/dev/full' .*\(No space", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"span": "0s"}, BadDuration, "--for: '0s' "),
        ({"span": "367d"}, BadDuration, "--for: '367d' "),
        ({"span": "week"}, BadDuration, "--for: 'week' is not a duration;"),
        ({"begin": "tomorrow"}, BadValue, "--from: 'tomorrow' "),
        ({"begin": ""}, BadValue, "--from: '' "),
        ({"tz": "Paris"}, BadValue, "--tz: 'Paris' "),
        ({"tz": "../UTC"}, BadValue, "--tz: '../UTC' "),
        ({"durations": ["backup=soon"]}, BadDuration, "--duration backup: 'soon' is not a duration;"),
        ({"durations": ["soon"]}, BadDuration, "--duration: 'soon' is not a duration;"),
        ({"durations": ["-5m"]}, BadDuration, "--duration: '-5m' is not a duration;"),
        ({"durations": ["=5m"]}, BadValue, "--duration: '' "),
        ({"durations": ["5m", "6m"]}, BadValue, "--duration: 'all other jobs' given twice"),
        ({"durations": ["backup=5m", "backup=6m"]}, BadValue, "--duration: 'backup' given twice"),
        ({"durations": ["by.hand=5m"]}, BadValue, "--duration: 'by.hand' "),
        ({"failing": ["ticks"]}, BadValue, "--fail: 'ticks' "),
    ],
)
def test_what_cannot_be_asked(place: Path, options: dict[str, object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match="^" + re.escape(says)):
        forecast_of(resolve({"files": [str(place / "jobs.yaml")]}, None, {}), asked(**options))


def asked(**options: object) -> ForecastQuestion:
    given: dict[str, object] = {"begin": None, "span": "1h", "tz": "UTC", "durations": [], "failing": []}
    return question_of(**(given | options))  # type: ignore[arg-type] # wrong ones too


def test_files_without_schedules(tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    file.write_text("kind: Job\nid: by.hand\nrun: {process: [a]}\n")
    with pytest.raises(BadConfig, match=r"none.yaml: "):
        forecast_of(resolve({"files": [str(file)]}, None, {}), asked())
    with pytest.raises(WrongUsage, match=r"^PATH: "):
        forecast_of(resolve({}, None, {}), asked())


def test_too_much_names_the_job(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("kind: Job\nid: tick\nschedule: {every: 1s}\nrun: {process: [a]}\n")
    with pytest.raises(TooManyRuns, match=r"2,000,000.*'tick'"):
        forecast_of(resolve({"files": [str(file)]}, None, {}), asked(span="366d"))


def test_a_database_that_is_not_there(place: Path, tmp_path: Path) -> None:
    given = {"files": [str(place / "jobs.yaml")], "database": str(tmp_path / "gone.db")}
    with pytest.raises(StoreUnavailable, match=r"gone.db: No such file or directory"):
        forecast_of(resolve(given, None, {}), asked())
    assert list(tmp_path.iterdir()) == []


def test_times_are_of_the_zone_unless_they_say_otherwise() -> None:
    assert asked(begin="2026-07-01T00:00", tz="Europe/Paris").start == instant("2026-06-30T22:00Z", "")
    assert asked(begin="2026-07-01T00:00Z", tz="Europe/Paris").start == instant("2026-07-01T00:00Z", "")
    found = asked(span="90m")
    assert (found.until - found.start, found.start % 1) == (5400, 0)
    assert ASSUMED.seconds == 1.0
