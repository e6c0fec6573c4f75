"""Drawings of jobs, fire times and the timetable."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from interlock.cli.draw.chart import LEAST_WIDTH, chart
from interlock.cli.draw.format import counted, when
from interlock.cli.draw.tables import console
from interlock.cli.draw.zones import zone_name
from interlock.cli.look.jobs import JOBS as LISTING
from interlock.cli.look.jobs import job_facts
from interlock.cli.look.next import lines_of as next_lines
from interlock.cli.look.next import schedule_of
from interlock.cli.look.timetable import print_fires
from interlock.error import InterlockError
from interlock.model.job_info import JobInfo, JobTimes, LastRun, Timetable
from interlock.model.schedule.schedule import Schedule, instant
from interlock.model.state import State

HOUR = 3600.0
NOW = datetime(2026, 3, 4, 11, 30).timestamp()  # noqa: DTZ001 - local, as it is drawn


def job(job_id: str, **more: Any) -> JobInfo:
    plain: dict[str, Any] = {
        "source": "a.yaml:1", "kind": "process", "command": "true", "lane": "main", "version": "v", "topic": "a",
        "max_concurrent_runs": 1, "schedule": None, "schedule_text": None, "paused": False, "next_at": None, "live": 0,
    }  # fmt: skip
    return JobInfo(id=job_id, **plain | more)


SOON = job(
    "soon",
    capabilities=("network", "files"),
    risk_tags=("money",),
    requires=("gpu",),
    schedule=Schedule(every=60.0),
    schedule_text="every 1m",
    next_at=NOW + 45,
    live=2,
    last_run=LastRun(id="soon:1", state=State.FAILED, reason="it failed", scheduled_at=NOW - 90, ended_at=NOW - 60),
)
JOBS = [SOON, job("held", schedule_text="cron 0 2 * * 1-5 Europe/Paris", paused=True), job("manual")]


@pytest.mark.parametrize("width", [40, 60, 100])
def test_jobs_as_a_table(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = console()
    with screen.capture() as captured:
        screen.print(LISTING.table(JOBS, NOW))
    lines = captured.get().splitlines()
    assert max(len(line) for line in lines) <= width
    assert [line.split()[0] for line in lines] == ["job", "soon", "held", "manual"]
    assert "paused" in lines[2]
    if width == 100:
        assert lines[1].split() == ["soon", "every", "1m", "11:30:45", "in", "45s", "failed", "1m", "ago", "2"]


def test_a_job_in_facts() -> None:
    found = job_facts(SOON, lambda at: f"{at - NOW:+g}", [NOW + 105, NOW + 165])
    assert [name.partition(".")[0] for name, _ in found if name in JobInfo.__struct_fields__] == [
        name for name in JobInfo.__struct_fields__ if name not in ("schedule_text", "other_code", "guards", "labels")
    ]
    assert ("capabilities", "network, files") in found
    guarded = job("a", guards={"constraints": {"max_concurrent_runs": 2}})
    assert ("constraints", '{"max_concurrent_runs": 2}') in job_facts(guarded, str)
    assert ("other_code", "w1-7-x, w2-8-x") in job_facts(job("a", other_code=["w1-7-x", "w2-8-x"]), str)
    place = found.index(("next_at", "+45"))
    assert found[place - 1 : place + 4] == [
        ("paused", "no"), ("next_at", "+45"), ("", "+105"), ("", "+165"), ("live", "2"),
    ]  # fmt: skip
    assert found[-5:] == [
        ("last_run", "soon:1"), ("last_run.state", "failed"), ("last_run.reason", "it failed"),
        ("last_run.scheduled_at", "-90"), ("last_run.ended_at", "-60"),
    ]  # fmt: skip
    kept = job("a", schedule=Schedule(at=5.0, keep=True), schedule_text="at", paused=True)
    assert {("schedule.keep", "yes"), ("paused", "yes")} <= set(job_facts(kept, str))


def test_when_something_is() -> None:
    """The day is left out, named or written out, as far as it is needed."""
    assert when(NOW + 60, NOW) == "11:31"
    assert when(NOW + 61, NOW) == "11:31:01"
    assert when(NOW + 86400, NOW) == "Thu 11:30"
    assert when(NOW + 7 * 86400, NOW) == "2026-03-11 11:30"
    assert when(NOW - 86400, NOW) == "2026-03-03 11:30"


def test_what_a_name_says_does_not_steer_the_terminal() -> None:
    evil = job("x", schedule_text="\x1b[2Jevery", source="\x1b]0;t\x07", live=1)
    assert "\x1b" not in LISTING.line(evil)
    assert not [value for _, value in job_facts(evil, str) if "\x1b" in value]


def timetable(hours: float, **jobs: list[float]) -> Timetable:
    rows = [JobTimes(job_id=name, times=[NOW + at for at in times], more=False) for name, times in jobs.items()]
    return Timetable(now=NOW, until=NOW + hours * HOUR, jobs=rows, left_out=0)


def test_the_chart() -> None:
    found = timetable(6, minutely=[60.0 * n for n in range(360)], some=[1800.0, 1801.0, 5 * HOUR], last=[6 * HOUR - 1])
    lines = list(chart(found, 77))
    axis, minutely, some, last, legend, zone = lines
    start = minutely.index("▆")
    room = 36
    assert (axis[:5], minutely[:8], start) == ("job  ", "minutely", 10)
    assert set(minutely[start : start + room]) == {"▆"}, "ten in each column"
    assert (some.index("▂"), some.index("·")) == (start + 3, start + 30)
    assert last[start + room - 1] == "·"
    assert [axis.index(text) for text in ("╷12:00", "╷15:00")] == [start + 3, start + 21]
    assert "18:00" not in axis
    assert [line.split()[-1] for line in (minutely, some, last)] == ["360", "3", "1"]
    assert legend.startswith("10m a column: ·1 ▂2 ▄4 ▆8 █16+")
    assert zone == f"times in {zone_name(None)}"


@pytest.mark.parametrize("width", [1, 40, 41, 80, 200])
@pytest.mark.parametrize("hours", [0.01, 1, 24, 744])
def test_the_chart_fits(width: int, hours: float) -> None:
    long = "a" * 128
    found = timetable(hours, **{long: [0.0, hours * HOUR - 0.001], "b": [hours * HOUR / 2]})
    lines = list(chart(found, width))
    assert len({len(line) for line in lines[:3]}) == 1
    assert max(len(line) for line in lines) <= max(40, width)
    assert "…" in lines[1]


@pytest.mark.parametrize(
    ("hours", "width", "says"), [(1, 80, "1m"), (1, 40, "5m"), (24, 80, "30m"), (24, 160, "10m"), (744, 80, "12h")]
)
def test_columns_are_round_and_begin_at_a_round_time(hours: float, width: int, says: str) -> None:
    rows = [JobTimes(job_id="a", times=[NOW + 100.0], more=False)]
    found = Timetable(now=NOW + 100.0, until=NOW + 100.0 + hours * HOUR, jobs=rows, left_out=0)
    lines = list(chart(found, width))
    assert lines[-2].startswith(f"{says} a column: ")
    assert max(map(len, lines)) <= width


def test_a_day_is_named_on_the_axis() -> None:
    axis = next(chart(timetable(24, a=[0.0]), 120))
    assert "╷Thu 05" in axis


def test_a_chart_says_where_it_does_not_know_more() -> None:
    rows = [
        JobTimes(job_id="a", times=[NOW, NOW + 1800], more=True),
        JobTimes(job_id="b", times=[], more=True),
        JobTimes(job_id="c", times=[NOW + HOUR - 1], more=True),
        JobTimes(job_id="d", times=[NOW], more=False),
    ]
    _, a, b, c, d, _, _, says = chart(Timetable(now=NOW, until=NOW + HOUR, jobs=rows, left_out=0), 72)
    room = 60
    drawn = [line[5 : 5 + room] for line in (a, b, c, d)]
    assert drawn[0] == "·" + " " * 29 + "·" + "…" * 29, "up to the end"
    assert drawn[1] == "…" * room
    assert (drawn[2].strip(), drawn[3].strip()) == ("·", "·")
    assert [line.split()[-1] for line in (a, b, c, d)] == ["2+", "0+", "1+", "1"]
    assert (says[0], len(says) <= LEAST_WIDTH) == ("…", True)


@pytest.mark.behaviour("TIM-7")
@pytest.mark.parametrize(("day", "hours", "shift"), [("2026-03-29", 2, "forward 1h"), ("2026-10-25", 3, "back 1h")])
def test_a_chart_marks_a_clock_change(day: str, hours: int, shift: str) -> None:
    start = instant(f"{day}T00:00", "", "Europe/Paris")
    rows = [JobTimes(job_id="a", times=[start, start + 12 * HOUR], more=False)]
    found = Timetable(now=start, until=start + 24 * HOUR, jobs=rows, left_out=0)
    lines = list(chart(found, 72, ZoneInfo("Europe/Paris")))
    assert lines[0].index("┆") == lines[1].index("┆") == 5 + 2 * hours, "half an hour a column"
    assert lines[-2] == "times in Europe/Paris"
    assert lines[-1].startswith(f"┆ Sun {day} ")
    assert lines[-1].endswith(f"clocks go {shift}")


@pytest.mark.behaviour("TIM-7")
def test_the_next_times_name_their_zone_and_mark_a_clock_change() -> None:
    paris, start = ZoneInfo("Europe/Paris"), instant("2027-03-27T12:00", "", "Europe/Paris")
    times = [instant(f"2027-03-{day}T03:00", "", "Europe/Paris") for day in (28, 29)]
    assert next_lines(times, start, paris) == [
        "times in Europe/Paris",
        "Sun 2027-03-28 02:00 → 03:00  clocks go forward 1h",
        "Sun 2027-03-28 03:00:00  in 14h",
        "Mon 2027-03-29 03:00:00  in 1d 14h",
    ]
    assert next_lines([], start, paris) == ["it does not fire"]
    autumn = [instant(f"2027-{month}-15T00:00", "", "Europe/Paris") for month in ("10", "11")]
    assert "Sun 2027-10-31 03:00 → 02:00  clocks go back 1h" in next_lines(autumn, autumn[0] - 60, paris)


def test_local_zones_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, name in ((":Europe/Paris", "Europe/Paris"), ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo")):
        monkeypatch.setenv("TZ", given)
        assert zone_name(None) == name
    assert zone_name(ZoneInfo("UTC")) == "UTC"


def test_counts_have_their_nouns() -> None:
    assert [counted(number, "run") for number in (0, 1, 2, 1000)] == ["0 runs", "1 run", "2 runs", "1,000 runs"]


@pytest.mark.parametrize(
    ("limit", "says"), [(1, "at least 2 fires left out;"), (2, "at least 1 fire left out;"), (3, "fires left out;")]
)
def test_rows_say_what_is_left_out(limit: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [JobTimes(job_id=f"a{number}", times=[NOW + number], more=number == 0) for number in range(3)]
    print_fires(Timetable(now=NOW, until=NOW + HOUR, jobs=rows, left_out=0), limit, json=False)
    found = capsys.readouterr()
    assert (found.out.count("\n"), found.err.startswith(says)) == (limit, True)


@pytest.mark.parametrize("text", ["every", "every  ", "cron * *", "at"])
def test_no_schedule_at_all(text: str) -> None:
    with pytest.raises(InterlockError):
        schedule_of(text, None)
