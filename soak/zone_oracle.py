"""When a cron expression is to fire around a change of the clock, found by looking at every minute.

It shares nothing with the code that it judges: no parser, no arithmetic of wall-clock times, and of zones only what
the clock shows at an instant. So it is slow, and as plain as the rule itself.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = 60
LEAD = 4 * 3600
"""seconds that are looked at before a span: what is shown for the second time within it was first shown there"""
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class Change(NamedTuple):
    """A change of the clock: its instant, and the seconds ahead of UTC before and after it."""

    instant: int
    before: int
    after: int


def offset(zone: ZoneInfo, instant: int) -> int:
    ahead = datetime.fromtimestamp(instant, zone).utcoffset()
    assert ahead is not None
    return round(ahead.total_seconds())


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> Iterator[Change]:
    """All of them in these years. Two that undo each other within half a day would not be seen; there are none."""
    step = 12 * 3600
    early = round(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = round(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    while early < end:
        late = early + step
        before, after = offset(zone, early), offset(zone, late)
        if before != after:
            low, high = early, late
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
            yield Change(high, before, offset(zone, high))
        early = late


class _Values(NamedTuple):
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    need_both: bool


class Clock(NamedTuple):
    """Pairs of an instant, a whole minute, and a time of the clock."""

    shown: list[tuple[int, datetime]]  # what it shows then
    reached: list[tuple[int, datetime]]
    """what it then shows for the first time, and each minute that it then has jumped over"""


def clock(zone: ZoneInfo, start: int, end: int) -> Clock:
    """From `LEAD` before the start up to the end."""
    shown = [
        (instant, datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0))
        for instant in range((start - LEAD) // MINUTE * MINUTE, end + 1, MINUTE)
    ]
    reached = []
    latest = shown[0][1]
    for instant, wall in shown:
        while latest < wall:
            latest += timedelta(minutes=1)
            reached.append((instant, latest))
    return Clock(shown, reached)


def fires(expression: str, clock: Clock, start: int) -> list[int]:
    """The instants later than the start at which the expression is to fire: one of a pace whenever the clock shows a
    time that fits, any other once for each such time."""
    minute, hour = expression.split()[:2]
    is_paced = minute.startswith("*") or hour.startswith("*")
    values = _read(expression)
    times = clock.shown if is_paced else clock.reached
    return sorted({instant for instant, wall in times if instant > start and _fits(values, wall)})


def _fits(values: _Values, wall: datetime) -> bool:
    if wall.minute not in values.minutes or wall.hour not in values.hours or wall.month not in values.months:
        return False
    by_day, by_weekday = wall.day in values.days, wall.isoweekday() in values.weekdays
    return (by_day and by_weekday) if values.need_both else (by_day or by_weekday)


@lru_cache(1000)
def _read(expression: str) -> _Values:
    minutes, hours, days, months, weekdays = (
        {value for value in range(first, last + 1) if any(_has(term, first, last, value) for term in field.split(","))}
        for field, (first, last) in zip(expression.split(), _RANGES, strict=True)
    )
    _, _, day, _, weekday = expression.split()
    if 0 in weekdays:
        weekdays.add(7)
    return _Values(minutes, hours, days, months, weekdays, day.startswith("*") or weekday.startswith("*"))


def _has(term: str, first: int, last: int, value: int) -> bool:
    body, _, step = term.partition("/")
    low, _, high = body.partition("-")
    if body == "*":
        low, high = str(first), str(last)
    elif not high:
        high = str(last) if step else low
    return int(low) <= value <= int(high) and (value - int(low)) % int(step or 1) == 0
