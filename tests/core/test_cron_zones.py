"""Cron where clocks are changed: against an oracle that looks at every minute, and against what a calendar says."""

import io
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from interlock.model.schedule.cron import Cron
from soak.zone_oracle import Change, changes, clock, fires
from soak.zones import MARGIN, expressions, fault, groups, judge_zone, main

pytestmark = pytest.mark.behaviour("TIM-7")


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def times(expression: str, tz: str, start: str, count: int) -> list[str]:
    """The next times, as the clock there shows them."""
    cron, found = Cron(expression, tz), [instant(start)]
    for _ in range(count):
        found.append(cron.after(found[-1]))
    return [datetime.fromtimestamp(time, ZoneInfo(tz)).strftime("%m-%d %H:%M%z") for time in found[1:]]


@pytest.mark.parametrize(
    ("tz", "first_year", "last_year", "at_least"),
    [
        ("Africa/Cairo", 2023, 2024, 4),
        ("Africa/Casablanca", 2025, 2026, 4),
        ("America/New_York", 2025, 2025, 2),
        ("America/Nuuk", 2023, 2024, 2),
        ("America/St_Johns", 2010, 2011, 4),
        ("America/St_Johns", 2030, 2030, 2),
        ("Antarctica/Casey", 2020, 2023, 3),
        ("Antarctica/Troll", 2026, 2026, 2),
        ("Asia/Beirut", 2026, 2026, 2),
        ("Asia/Gaza", 2026, 2026, 2),
        ("Australia/Lord_Howe", 2026, 2026, 2),
        ("Europe/Dublin", 2026, 2026, 2),
        ("Europe/Paris", 2037, 2037, 2),
        ("Pacific/Apia", 2011, 2011, 3),
        ("Pacific/Chatham", 2026, 2026, 2),
    ],
)
def test_around_every_change_it_fires_when_the_oracle_says(
    tz: str, first_year: int, last_year: int, at_least: int
) -> None:
    result = judge_zone(tz, first_year, last_year)
    assert result.faults == []
    assert result.changes >= at_least  # how many there are is for the time-zone database to say
    assert result.questions > 500 * result.changes


def test_the_oracle_finds_what_is_wrong() -> None:
    change = next(changes(ZoneInfo("Europe/Paris"), 2027, 2027))
    assert change == Change(int(instant("2027-03-28T01:00:00Z")), 3600, 7200)
    start, end = change.instant - MARGIN, change.instant + MARGIN
    expected = fires("30 2 * * *", clock(ZoneInfo("Europe/Paris"), start, end), start)
    assert fault(Cron("30 2 * * *", "Europe/Paris"), start, expected, end) is None
    # A clock that has no summer is right up to the change, and then an hour late.
    wrong = Cron("30 2 * * *", "Africa/Algiers")
    assert fault(wrong, start, expected, end) is None
    assert fault(wrong, expected[0], expected, end) == (
        "30 2 * * * after 2027-03-27 01:30:00+00:00 fires at 2027-03-28 01:30:00+00:00, "
        "and should at 2027-03-28 01:00:00+00:00"
    )
    assert fault(Cron("30 2 * * *", "UTC"), expected[-1], expected, end) == (
        "30 2 * * * after 2027-03-29 00:30:00+00:00 fires at 2027-03-29 02:30:00+00:00, "
        "and should not before 2027-03-29 03:00:00+00:00"
    )


def test_expressions_lie_on_the_edges_of_the_change() -> None:
    change = next(changes(ZoneInfo("Australia/Lord_Howe"), 2026, 2026))
    asked = expressions(change)
    for minute, hour in ((29, 1), (30, 1), (31, 1), (44, 1), (45, 1), (46, 1), (59, 1), (0, 2), (1, 2)):
        assert f"{minute} {hour} * * *" in asked


def test_zones_with_the_same_clock_are_judged_once() -> None:
    assert list(groups(["Europe/Vaduz", "Asia/Tokyo", "Europe/Zurich", "Asia/Seoul", "Europe/London"])) == [
        ["Asia/Seoul", "Asia/Tokyo"],
        ["Europe/London"],
        ["Europe/Vaduz", "Europe/Zurich"],
    ]


def test_the_long_test_says_what_it_did() -> None:
    output = io.StringIO()
    assert main(["Asia/Gaza", "Asia/Hebron", "Asia/Tokyo", "--processes", "1", "--last-year", "2021"], output) == 0
    told = output.getvalue()
    assert told.startswith("3 zones with 2 different clocks, 2020 to 2021: 4 changes, ")
    assert told.endswith(" 0 wrong answers\n")


@pytest.mark.parametrize(
    ("expression", "tz", "start", "expected"),
    [
        # jumped over: as the jump ends, once
        ("30 2 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 03:00+0200", "03-29 02:30+0200"]),
        ("0 2 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 03:00+0200", "03-29 02:00+0200"]),
        ("59 1 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 01:59+0100", "03-29 01:59+0200"]),
        ("15,45 2 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 03:00+0200", "03-29 02:15+0200"]),
        ("0,30 2,3 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 03:00+0200", "03-28 03:30+0200"]),
        ("30 2 28 3 *", "Europe/Paris", "2027-03-27T12:00Z", ["03-28 03:00+0200", "03-28 02:30+0200"]),
        ("0 0 * * *", "Asia/Beirut", "2027-03-27T12:00Z", ["03-28 01:00+0300", "03-29 00:00+0300"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", ["10-04 02:30+1100", "10-05 02:15+1100"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00Z",
            ["12-29 12:00-1000", "12-31 00:00+1400", "12-31 12:00+1400"],
        ),
        ("0,30 12-14 30 12 *", "Pacific/Apia", "2011-12-29T12:00Z", ["12-31 00:00+1400", "12-30 12:00+1400"]),
        # comes twice: the first time
        ("30 2 * * *", "Europe/Paris", "2027-10-30T12:00Z", ["10-31 02:30+0200", "11-01 02:30+0100"]),
        ("30 2 * * *", "Europe/Paris", "2027-10-31T01:00Z", ["11-01 02:30+0100"]),
        ("0 1,2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", ["02-15 01:00+0100", "02-15 02:00+0100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z", ["04-05 01:45+1100", "04-06 01:45+1030"]),
        ("0 0 * * *", "America/St_Johns", "2010-11-06T12:00Z", ["11-07 00:00-0230", "11-08 00:00-0330"]),
        # a pace: whenever the clock shows it
        ("*/30 * * * *", "Europe/Paris", "2027-03-28T00:30Z", ["03-28 03:00+0200", "03-28 03:30+0200"]),
        (
            "30 * * * *",
            "Europe/Paris",
            "2027-10-31T00:00Z",
            ["10-31 02:30+0200", "10-31 02:30+0100", "10-31 03:30+0100"],
        ),
        ("*/20 2 * * *", "Europe/Paris", "2027-10-31T00:30Z", ["10-31 02:40+0200", "10-31 02:00+0100"]),
        ("*/20 2 * * *", "Europe/Paris", "2027-03-27T12:00Z", ["03-29 02:00+0200"]),
        ("0 */6 * * *", "Pacific/Apia", "2011-12-30T09:00Z", ["12-31 00:00+1400", "12-31 06:00+1400"]),
    ],
)
def test_a_change_of_the_clock(expression: str, tz: str, start: str, expected: list[str]) -> None:
    assert times(expression, tz, start, len(expected)) == expected


@pytest.mark.parametrize("seconds_before", [1.0, 0.5, 1e-6, 2.0**-22])
def test_just_before_the_end_of_the_jump_it_is_still_to_come(seconds_before: float) -> None:
    cron, end = Cron("30 2 * * *", "Europe/Paris"), instant("2027-03-28T01:00:00Z")
    assert cron.after(end - seconds_before) == end
    assert cron.after(end) == instant("2027-03-29T00:30:00Z")


def test_a_clock_that_is_ahead_by_odd_seconds() -> None:
    # Monrovia was 44 minutes and 30 seconds behind until 7 January 1972, and went on at 00:44:30.
    assert times("0 12 * * *", "Africa/Monrovia", "1972-01-05T12:44:30Z", 2) == [
        "01-06 12:00-004430",
        "01-07 12:00+0000",
    ]
    assert times("20 0 * * *", "Africa/Monrovia", "1972-01-06T12:00:00Z", 1) == ["01-07 00:44+0000"]
    assert Cron("20 0 * * *", "Africa/Monrovia").after(instant("1972-01-06T12:00Z")) == instant("1972-01-07T00:44:30Z")


def test_times_in_the_far_future_follow_the_last_rule() -> None:
    assert times("30 2 * * *", "Europe/Paris", "2400-03-25T12:00Z", 2) == ["03-26 03:00+0200", "03-27 02:30+0200"]
    assert datetime.fromtimestamp(Cron("0 0 29 2 *", "Europe/Paris").after(instant("2396-03-01T00:00Z")), UTC) == (
        datetime(2400, 2, 28, 23, tzinfo=UTC)
    )
