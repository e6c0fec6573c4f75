"""The picture of a forecast: where things lie, and that it is one well-formed file."""

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from interlock.cli.draw.axis import ticks
from interlock.cli.draw.gantt import GAP, MOST_ALONE, MOST_ROWS, NARROWEST, ROW, TOP, WIDTH, Scale, bars, gantt
from interlock.model.schedule.schedule import instant
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast, JobForecast, LaneForecast, Length, RunForecast

SVG = "{http://www.w3.org/2000/svg}"
UTC, PARIS = ZoneInfo("UTC"), ZoneInfo("Europe/Paris")
START = instant("2026-01-05T00:00Z", "start")
DAY = 86400.0
SCALE = Scale(START, START + DAY, 0.0, 864.0)
"""a hundred seconds a pixel"""


def run_of(
    begin: float, end: float | None, due: float | None = None, job_id: str = "job", **fields: Any
) -> RunForecast:
    due = begin if due is None else due
    given: dict[str, Any] = {
        "id": f"{job_id}:{due}", "job_id": job_id, "nominal_at": START + due, "due_at": START + due,
        "started_at": START + begin, "ended_at": None if end is None else START + end, "state": State.SUCCEEDED,
        "reason": "done", "attempts": 1, "waited": begin - due, "waited_for": "lane" if begin > due else None,
        "beside": 0,
    }  # fmt: skip
    return RunForecast(**(given | fields))


def skipped(due: float, job_id: str) -> RunForecast:
    return run_of(due, due, job_id=job_id, state=State.SKIPPED, started_at=None, reason="missed: it was")


def job_of(job_id: str = "job", **fields: Any) -> JobForecast:
    given: dict[str, Any] = {
        "id": job_id, "schedule": "every 1h", "lane": "main", "length": Length(1.0, "given"), "max_concurrent_runs": 1,
        "runs": 1, "states": {}, "missed": 0, "overlaps": 0, "most_at_once": 1, "waited": 0, "longest_wait": 0.0,
        "longest_wait_at": None, "waited_for": {}, "busy": 1.0,
    }  # fmt: skip
    return JobForecast(**(given | fields))


def picture(jobs: list[JobForecast], runs: list[RunForecast], zone: ZoneInfo = UTC) -> ElementTree.Element:
    lanes = [LaneForecast(name="main", limit=30, most=2, most_at=START, full=0.0)]
    forecast = Forecast(start=START, until=START + DAY, jobs=jobs, lanes=lanes, notable=[], runs=runs)
    return ElementTree.fromstring(gantt(forecast, zone))


def rects(drawn: ElementTree.Element, kind: str) -> list[tuple[float, float, float, float]]:
    """Those of a kind that lie in rows, not in the legend."""
    found = (
        one for one in drawn.iter(f"{SVG}rect") if one.get("class") == kind and one.find(f"{SVG}title") is not None
    )
    return [tuple(float(one.get(name, "0")) for name in ("x", "y", "width", "height")) for one in found]  # type: ignore[misc] # four of them


def texts(drawn: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in drawn.iter(f"{SVG}text")]


# ── bars ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_where_its_time_is() -> None:
    (bar,) = bars([run_of(36000, 43200)], SCALE)
    assert (bar.kind, bar.left, bar.right, bar.count) == ("run", 360.0, 432.0, 1)


def test_waiting_lies_before_it() -> None:
    wait, run = bars([run_of(36000, 43200, due=18000)], SCALE)
    assert (wait.kind, wait.left, wait.right) == ("wait", 180.0, 360.0)
    assert (run.kind, run.left) == ("run", 360.0)


def test_what_is_short_can_be_seen() -> None:
    (bar,) = bars([run_of(36000, 36001)], SCALE)
    assert bar.right - bar.left == NARROWEST


@pytest.mark.parametrize(("apart", "count"), [(200.0, 1), (240.0, 1), (260.0, 50), (1000.0, 50)])
def test_what_is_less_than_a_pixel_apart_is_one(apart: float, count: int) -> None:
    found = bars([run_of(place * apart, place * apart + 1) for place in range(50)], SCALE)
    assert (len(found), sum(bar.count for bar in found)) == (count, 50)
    assert {bar.kind for bar in found} == {"many" if count == 1 else "run"}


@pytest.mark.parametrize(("takes", "share"), [(10.0, 0.2), (50.0, 0.5), (80.0, 0.8)])
def test_several_are_as_high_as_their_share_of_the_time(takes: float, share: float) -> None:
    (bar,) = bars([run_of(place * 100, place * 100 + takes) for place in range(400)], SCALE)
    assert (bar.kind, round(bar.share, 2)) == ("many", share)


def test_back_to_back_runs_are_told_apart() -> None:
    found = bars([run_of(place * 600, place * 600 + 600) for place in range(10)], SCALE)
    assert [(bar.kind, bar.count, bar.left) for bar in found] == [("run", 1, 6.0 * place) for place in range(10)]
    assert all(after.left - before.right >= GAP for before, after in pairwise(found))
    (joined,) = bars([run_of(place * 200, place * 200 + 200) for place in range(10)], SCALE)
    assert (joined.kind, joined.count, joined.share) == ("many", 10, 1.0), "too short: another colour says so"


def test_a_long_run_is_told_apart_from_short_ones() -> None:
    found = bars([run_of(0, 100), run_of(100, 2000), run_of(2000, 2100), run_of(2100, 2200)], SCALE)
    assert [(bar.kind, bar.count) for bar in found] == [("run", 1), ("run", 1), ("many", 2)]
    assert all(after.left > before.right > before.left for before, after in pairwise(found))


def test_other_ends_are_not_hidden_among_the_others() -> None:
    runs = [run_of(place * 100, place * 100 + 50) for place in range(30)]
    runs[10] = run_of(1000, 1050, state=State.FAILED)
    assert [(bar.kind, bar.count) for bar in bars(runs, SCALE)] == [("many", 10), ("bad", 1), ("many", 19)]


def test_what_goes_on_reaches_the_edge_and_no_farther() -> None:
    (bar,) = bars([run_of(43200, None, state=State.RUNNING)], SCALE)
    assert (bar.kind, bar.right) == ("run", 864.0)
    (bar,) = bars([run_of(43200, 2 * DAY)], SCALE)
    assert bar.right == 864.0
    assert bars([run_of(DAY + 5, DAY + 10)], SCALE) == []


# ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_and_marks_lie_within_the_picture() -> None:
    jobs = [job_of("first"), job_of("second", missed=1)]
    runs = [run_of(0, DAY, job_id="first"), run_of(3600, 7200, due=0, job_id="second")]
    drawn = picture(jobs, [*runs, skipped(50000, "second")])
    (first, second), (wait,), (missed,) = rects(drawn, "run"), rects(drawn, "wait"), rects(drawn, "missed")
    (beside,) = [float(one.get("x", "0")) for one in drawn.iter(f"{SVG}text") if one.text == "1 · 1 missed"]
    assert 0 < first[0] < first[0] + first[2] < beside < WIDTH
    assert TOP < first[1] < first[1] + first[3] < TOP + ROW < second[1] < second[1] + second[3] < TOP + 2 * ROW
    assert wait[0] + wait[2] == pytest.approx(second[0], abs=0.11)
    assert TOP + ROW < missed[1] < missed[1] + missed[3] <= TOP + 2 * ROW
    assert drawn.get("height") == str(TOP + 2 * ROW + 44)


def test_runs_at_the_same_time_lie_below_each_other() -> None:
    runs = [run_of(place * 10000, place * 10000 + 19000) for place in range(6)]
    found = rects(picture([job_of(most_at_once=2)], runs), "run")
    assert len({y for _, y, _, _ in found}) == 2
    for place, (x, y, width, height) in enumerate(found):
        for other in found[place + 1 :]:
            beside = x + width <= other[0] or other[0] + other[2] <= x
            assert beside or y + height <= other[1] or other[1] + other[3] <= y


def test_many_bars_are_one_shape() -> None:
    runs = [run_of(place * 400, place * 400 + 1) for place in range(MOST_ALONE + 10)]
    drawn = picture([job_of()], runs)
    assert rects(drawn, "run") == []
    (shape,) = [one for one in drawn.iter(f"{SVG}path") if one.get("class") == "run"]
    assert len(re.findall("M", shape.get("d", ""))) == MOST_ALONE + 10


def test_names_are_text_whatever_they_hold() -> None:
    odd = job_of("a<b>&\"c'", schedule="<&>")
    drawn = picture([odd, job_of("n" * 128)], [run_of(0, 9, job_id=odd.id)])
    assert "a<b>&\"c'" in texts(drawn)
    assert "n" * 33 + "…" in texts(drawn)


def test_too_many_rows_are_counted() -> None:
    drawn = picture([job_of(f"j{number}") for number in range(MOST_ROWS + 20)], [])
    assert "20 more jobs left out" in texts(drawn)
    one = picture([job_of(f"j{number}") for number in range(MOST_ROWS + 1)], [run_of(0, 9, job_id="j0")])
    assert "1 more job left out" in texts(one)
    assert any(text.startswith("1 run of 501 jobs, ") for text in texts(one))
    assert "j499" in texts(drawn)
    assert "j500" not in texts(drawn)


def test_it_needs_nothing_else() -> None:
    forecast = Forecast(start=START, until=START + DAY, jobs=[job_of()], lanes=[], notable=[], runs=[run_of(0, 9)])
    text = gantt(forecast, UTC)
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text
    assert "prefers-color-scheme:dark" in text
    assert "<title>What would run from Mon 5 Jan 2026 00:00 to Tue 6 Jan 2026 00:00 (UTC)</title>" in text


@pytest.mark.behaviour("TIM-7")
@pytest.mark.parametrize(("day", "says"), [("2026-03-29", "clocks go forward 1h"), ("2026-10-25", "clocks go back 1h")])
def test_a_clock_change_is_marked(day: str, says: str) -> None:
    start = instant(f"{day}T00:00", "start", "Europe/Paris")
    forecast = Forecast(start=start, until=start + DAY, jobs=[job_of()], lanes=[], notable=[], runs=[])
    drawn = ElementTree.fromstring(gantt(forecast, PARIS))
    (line,) = [one for one in drawn.iter(f"{SVG}path") if one.get("class") == "change"]
    (label,) = [one for one in drawn.iter(f"{SVG}text") if one.text == says]
    assert line.get("d", "").startswith(f"M{label.get('x')} ")
    assert says not in texts(picture([job_of()], [], PARIS)), "a day without one"


# ── the axis ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("span", "most", "first", "second", "count"),
    [
        (600, 12, "Mon 5 Jan", "00:01", 11),
        (3600, 12, "Mon 5 Jan", "00:05", 13),
        (86400, 12, "Mon 5 Jan", "03:00", 9),
        (7 * 86400, 12, "Mon 5 Jan", "Tue 6 Jan", 8),
        (30 * 86400, 12, "Mon 5 Jan", "Mon 12 Jan", 5),
        (366 * 86400, 14, "Mon 5 Jan", "Mon 2 Feb", 14),
    ],
)
def test_as_many_lines_as_there_is_room_for(span: float, most: int, first: str, second: str, count: int) -> None:
    found = ticks(START, START + span, UTC, most)
    assert [tick.text for tick in found[:2]] == [first, second]
    assert len(found) == count
    assert [tick.at for tick in found] == sorted({tick.at for tick in found})


def test_days_begin_when_they_do_where_the_clocks_change() -> None:
    start = instant("2026-03-28T00:00", "start", "Europe/Paris")
    found = ticks(start, start + 3 * DAY, PARIS, 12)
    days = [(tick.at - start) / 3600 for tick in found if tick.is_day]
    assert days == [0, 24, 47, 71]
    assert [tick.text for tick in found if 24 * 3600 <= tick.at - start < 47 * 3600] == [
        "Sun 29 Mar",
        "06:00",
        "12:00",
        "18:00",
    ]
    found = ticks(start + DAY, start + 1.3 * DAY, PARIS, 12)
    assert [tick.text for tick in found][:4] == ["Sun 29 Mar", "01:00", "03:00", "04:00"]
