"""Cron expressions as values: what is read, what is refused, and that the next time is right, later and cheap."""

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from interlock.error import BadValue
from interlock.model.schedule.cron import Cron, NeverAgain, cron_of
from interlock.model.schedule.schedule import Schedule

pytestmark = pytest.mark.behaviour("TIM-1")

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
ZONES = ["UTC", "Europe/Paris", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu"]
SIZES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))

instants = st.floats(0, 4e9, allow_nan=False)


@st.composite
def fields(draw: st.DrawFn, first: int, last: int) -> str:
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        low, high = sorted((draw(st.integers(first, last)), draw(st.integers(first, last))))
        body = draw(st.sampled_from(["*", f"{low}", f"{low}-{high}" if low < high else f"{low}"]))
        terms.append(body + draw(st.sampled_from(["", "", f"/{draw(st.integers(1, last + 5))}"])))
    return ",".join(terms)


expressions = st.tuples(*(fields(first, last) for first, last in SIZES)).map(" ".join)


def cron_or_none(expression: str, tz: str) -> Cron | None:
    """None if it never fires; that it is refused for anything else is a failure."""
    try:
        return Cron(expression, tz)
    except BadValue as refused:
        if "never fires" in str(refused):
            return None
        raise


def after(expression: str, start: datetime = START, tz: str = "UTC") -> str:
    return datetime.fromtimestamp(Cron(expression, tz).after(start.timestamp()), UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", "2026-01-01 00:01"),
        ("0 2 * * *", "2026-01-01 02:00"),
        ("0 0 * * *", "2026-01-02 00:00"),
        ("  0   2\t* * *\n", "2026-01-01 02:00"),
        ("05 02 * * *", "2026-01-01 02:05"),
        ("*/25 * * * *", "2026-01-01 00:25"),
        ("50/5 * * * *", "2026-01-01 00:50"),
        ("10-12,40-50/7 * * * *", "2026-01-01 00:10"),
        ("5-5/2 * * * *", "2026-01-01 00:05"),
        ("*/90 * * * *", "2026-01-01 01:00"),
        ("0 0 31 * *", "2026-01-31 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 1 JUN *", "2026-06-01 00:00"),
        ("0 0 1 jan-mar *", "2026-02-01 00:00"),
        ("0 0 * * mon", "2026-01-05 00:00"),
        ("0 0 * * Mon-Wed", "2026-01-05 00:00"),
        ("0 0 * * 0", "2026-01-04 00:00"),
        ("0 0 * * 7", "2026-01-04 00:00"),
        ("0 0 * * SUN", "2026-01-04 00:00"),
        ("0 0 * * 6-7", "2026-01-03 00:00"),
        ("0 0 * * */7", "2026-01-04 00:00"),
        # beyond what every cron has
        ("0 0 L * *", "2026-01-31 00:00"),
        ("0 0 L 2 *", "2026-02-28 00:00"),
        ("0 0 LW * *", "2026-01-30 00:00"),
        ("0 0 l,15 * *", "2026-01-15 00:00"),
        ("0 0 * * 5L", "2026-01-30 00:00"),
        ("0 0 * * 6L", "2026-01-31 00:00"),
        ("0 0 * * MONL", "2026-01-26 00:00"),
        ("0 0 * * MON#2", "2026-01-12 00:00"),
        ("0 0 * * 0#5", "2026-03-29 00:00"),
        ("0 0 * 2 MON#5", "2044-02-29 00:00"),
    ],
)
def test_what_an_expression_means(expression: str, expected: str) -> None:
    assert after(expression) == expected


@pytest.mark.behaviour("TIM-8")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 13 * 1", "2026-01-05 00:00"),  # a Monday, or the 13th
        ("0 0 3 * 1", "2026-01-03 00:00"),
        ("0 0 30 2 1", "2026-02-02 00:00"),  # only the Mondays are left
        ("0 0 13 * *", "2026-01-13 00:00"),
        ("0 0 * * 1", "2026-01-05 00:00"),
        ("0 0 */2 * 1", "2026-01-05 00:00"),  # with a star in front, both must fit
        ("0 0 13 * */5", "2026-02-13 00:00"),
        ("0 0 29 2 */7", "2032-02-29 00:00"),
    ],
)
def test_day_of_month_and_day_of_week(expression: str, expected: str) -> None:
    assert after(expression) == expected


@pytest.mark.behaviour("TIM-8")
@pytest.mark.parametrize(
    "expression",
    ["0 0 31 2 *", "0 0 30 2 *", "0 0 30,31 FEB *", "* * 31 4,6,9,11 *", "0 0 */31 * MON#2", "0 0 31 2 */2"],
)
def test_what_can_never_fire_is_refused(expression: str) -> None:
    with pytest.raises(BadValue) as refused:
        Cron(expression, "UTC")
    assert str(refused.value) == f"schedule.cron: {expression!r} never fires: there is no such day"
    assert (refused.value.field, refused.value.value) == ("schedule.cron", expression)


@pytest.mark.behaviour("TIM-8")
@pytest.mark.parametrize(
    ("expression", "trouble"),
    [
        ("61 * * * *", "minute '61'"),
        ("* * * * 8", "day of week '8'"),
        ("0 24 * * *", "hour '24'"),
        ("0 0 0 * *", "day of month '0'"),
        ("0 0 1 13 *", "month '13'"),
        ("0 0 * 0 *", "month '0'"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_takes(expression: str, trouble: str) -> None:
    with pytest.raises(BadValue) as refused:
        Cron(expression, "UTC")
    assert (refused.value.field, refused.value.value) == ("schedule.cron", expression)
    assert trouble in str(refused.value)


@pytest.mark.parametrize(
    "minute",
    [
        "-1", "60", "*/0", "5-1", "1,,2", ",", "1,", "/5", "*/", "1-", "-", "*-5", "*5", "**", "1-2-3", "1/2/3", "?",
        "L", "5L", "1#2", "MON", "JAN", "1.5", "1e1", "0x5", "+5", "٣", "１", "²", "x", "*/x", "9" * 500, "\x00", "é",
    ],
)  # fmt: skip
def test_minutes_that_are_none(minute: str) -> None:
    with pytest.raises(BadValue, match=r"its minute .* cannot be read|too long to show"):
        Cron(f"{minute} * * * *", "UTC")


@pytest.mark.parametrize(
    ("field", "part"),
    [
        (2, "LL"), (2, "L-1"), (2, "L/2"), (2, "W"), (2, "15W"), (2, "32"), (2, "JAN"),
        (3, "JANUARY"), (3, "MON"), (3, "JA"), (3, "DEC-JAN"), (3, "L"),
        (4, "MON#0"), (4, "MON#6"), (4, "MON#"), (4, "#1"), (4, "L"), (4, "8L"), (4, "1#1#1"), (4, "FRI-SUN"),
        (4, "JAN"), (4, "ſun"), (4, "MONDAY"), (4, "1L/2"),
    ],
)  # fmt: skip
def test_days_and_months_that_are_none(field: int, part: str) -> None:
    parts = ["*"] * 5
    parts[field] = part
    with pytest.raises(BadValue) as refused:
        Cron(" ".join(parts), "UTC")
    name = {2: "day of month", 3: "month", 4: "day of week"}[field]
    assert f"its {name} {part!r} cannot be read" in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("", "0 fields"),
        ("@dayly", "one of @hourly"),
        ("@reboot", "one of @hourly"),
        ("* * * *", "4 fields"),
        ("0 0 2 * * *", "6 fields"),
        ("* " * 400, "400"),
    ],
)
def test_an_expression_has_five_fields(expression: str, count: str) -> None:
    with pytest.raises(BadValue) as refused:
        Cron(expression, "UTC")
    assert (refused.value.field, refused.value.value) == ("schedule.cron", expression)
    assert count in str(refused.value)


def test_an_endless_expression_is_not_even_read() -> None:
    with pytest.raises(BadValue) as refused:
        Cron("0," * 1_000_000 + "0 * * * *", "UTC")
    assert str(refused.value) == (
        "schedule.cron: <str, too long to show> is not a cron expression of at most 1,000 characters"
    )
    every_value = [",".join(map(str, range(first, last + 1))) for first, last in SIZES]
    assert after(" ".join(every_value)) == "2026-01-01 00:01"


@given(
    st.text(max_size=40)
    | st.text("0123456789*/-,#LWJANMOabc ", max_size=40)
    | st.lists(st.text("0*/-,1L#", max_size=4), min_size=5, max_size=5).map(" ".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        cron = Cron(text, "UTC")
    except BadValue as error:
        refused = (error.field, error.value)
    else:
        assert cron.after(0.0) > 0.0
        return
    assert refused == ("schedule.cron", text)


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
@pytest.mark.parametrize("tz", ["UTC", "Europe/Paris", "Australia/Lord_Howe"])
def test_a_nickname_fires_as_its_five_fields_do(nickname: str, expression: str, tz: str) -> None:
    named, plain = Cron(nickname, tz), Cron(expression, tz)
    at = 1_700_000_000.0
    for _ in range(400):
        assert named.after(at) == plain.after(at)
        at = plain.after(at)
    # The cursor of a job stays where it is when one is written for the other.
    assert Schedule(cron=f" {nickname} ", tz=tz).identity == Schedule(cron=expression, tz=tz).identity
    assert Schedule(cron=nickname).warnings == []


@pytest.mark.parametrize("expression", [None, 5, True, [], {}, b"* * * * *", math.nan])
def test_what_is_no_text_is_refused(expression: Any) -> None:
    for make in (Cron, cron_of):
        with pytest.raises(BadValue, match=r"schedule\.cron: .* is not a cron expression like '0 2 \* \* \*'"):
            make(expression, "UTC")


@pytest.mark.parametrize(
    "tz",
    [
        "", " ", "../etc/passwd", "/etc/localtime", "Europe", "Europe/", "Europe/Atlantis", "Europe/../Europe/Paris",
        "UTC\0", "\0", "x" * 10_000, "a/" * 5000, "\ud800", "zone.tab", "tzdata.zi", "localtime", "right/Europe/Paris",
        "posixrules", ".", "..", "~", "utc ", "+01:00", "Europe/Paris\n", None, 5, True, [], {}, b"UTC",
    ],
)  # fmt: skip
def test_what_is_no_zone_is_refused(tz: Any) -> None:
    for make in (Cron, cron_of):
        with pytest.raises(BadValue) as refused:
            make("0 2 * * *", tz)
        assert str(refused.value).startswith("schedule.tz: ")
        assert str(refused.value).endswith(" is not a time zone like Europe/Paris or UTC")
        assert refused.value.value == tz


@pytest.mark.behaviour("TIM-6", "TIM-7")
@given(expressions, st.sampled_from(ZONES), instants, st.floats(0, 1e7))
def test_the_next_time_is_later_and_there_is_none_between(
    expression: str, tz: str, instant: float, further: float
) -> None:
    cron = cron_or_none(expression, tz)
    if cron is None:
        return
    found = cron.after(instant)
    assert found > instant
    assert found == int(found)
    # nothing between: whoever asks from there is told the same, up to the last moment
    assert cron.after(math.nextafter(found, 0)) == found
    assert cron.after((instant + found) / 2) == found or (instant + found) / 2 == found
    assert cron.after(instant + further) >= found
    assert cron.after(found) > found


@given(
    expressions,
    st.sampled_from(ZONES),
    st.lists(instants, min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=12),
)
def test_what_was_asked_before_changes_no_answer(
    expression: str, tz: str, asked: list[float], order: list[int]
) -> None:
    shared = cron_or_none(expression, tz)
    if shared is None:
        return
    right = [Cron(expression, tz).after(instant) for instant in asked]
    for place in order:
        place %= len(asked)
        assert shared.after(asked[place]) == right[place]


def test_threads_share_an_expression() -> None:
    shared, pace = cron_of("*/5 * * * *", "UTC"), sys.getswitchinterval()
    assert cron_of("*/5 * * * *", "UTC") is shared

    def ask(thread: int) -> list[float]:
        return [shared.after(300.0 * (thread + step % 2)) for step in range(5000)]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(ask, range(0, 8, 2)))
    finally:
        sys.setswitchinterval(pace)
    for thread, answers in zip(range(0, 8, 2), told, strict=True):
        assert answers == [300.0 * (thread + step % 2 + 1) for step in range(5000)]


@pytest.mark.behaviour("TIM-8")
@given(expressions, st.integers(0, 4_000_000_000))
def test_in_utc_it_is_what_another_reader_of_cron_says(expression: str, instant: int) -> None:
    try:
        other = CronSim(expression, datetime.fromtimestamp(instant, UTC))
        expected = [next(other).timestamp() for _ in range(3)]
    except (CronSimError, StopIteration):
        assert cron_or_none(expression, "UTC") is None
        return
    cron, found = Cron(expression, "UTC"), [float(instant)]
    for _ in expected:
        found.append(cron.after(found[-1]))
    assert found[1:] == expected


@pytest.mark.behaviour("TIM-7")
@pytest.mark.parametrize("tz", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["*/15 * * * *", "30 * * * *", "0 4 * * *", "15 12 1 * *", "0 5 * * MON"])
def test_in_zones_it_agrees_with_another_reader_where_the_rules_are_the_same(expression: str, tz: str) -> None:
    """Which is for each pace, and for times of the day that no clock jumps over."""
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(tz))
    other, cron, found = CronSim(expression, start), Cron(expression, tz), start.timestamp()
    for _ in range(300):
        found = cron.after(found)
        assert found == next(other).timestamp()


@pytest.mark.behaviour("TIM-8")
@pytest.mark.parametrize(
    "expression",
    [
        "0 0 29 2 *", "0 0 29 2 */7", "0 0 29 2 1", "0 0 * 2 MON#5", "0 0 30 2 1", "0 0 31 2 *", "0 0 */31 * MON#2",
        "0 0 31 2 */2", "59 23 31 12 *", "0 0 L 2 */7", "0-59 0-23 1-31 1-12 0-7", ",".join(["*/1"] * 100) + " * * * *",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tz", ["UTC", "Pacific/Apia"])
def test_no_expression_takes_long(expression: str, tz: str) -> None:
    def once() -> float:
        begun = time.process_time()
        with suppress(BadValue):
            Cron(expression, tz).after(START.timestamp())
        return time.process_time() - begun

    assert min(once() for _ in range(3)) < 0.02


@pytest.mark.behaviour("TIM-7")
def test_a_day_that_is_lost_or_an_hour_that_comes_twice_does_not_take_long() -> None:
    begun = time.process_time()
    for expression in ("0-59 0-23 * * *", "*/1 0-23 30 12 *"):
        Cron(expression, "Pacific/Apia").after(datetime(2011, 12, 30, 9, 59, 59, tzinfo=UTC).timestamp())
    Cron("0-59 0-23 * * *", "Europe/Paris").after(datetime(2026, 10, 25, 1, 0, tzinfo=UTC).timestamp())
    assert time.process_time() - begun < 0.1


@pytest.mark.parametrize("instant", [math.inf, -math.inf, math.nan, 1e300, 253_402_300_799.0])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Paris"])
def test_where_the_calendar_ends_there_is_no_next_time(instant: float, tz: str) -> None:
    for expression in ("0 2 * * *", "*/5 * * * *", "0 0 29 2 *"):
        with pytest.raises(NeverAgain):
            Cron(expression, tz).after(instant)
