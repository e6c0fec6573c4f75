"""The five fields of a cron expression, each read into the bits of one number, and the days that three of them name."""

from calendar import monthrange
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from interlock.error import BadValue

MOST_CHARACTERS = 1000  # a list of all minutes, hours, days, months and weekdays has less than half of it
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_LAST_DAY, _LAST_WORKDAY = 32, 33  # bits of the day of month beyond its days
_LAST_OF_MONTH = 6
"""a weekday has a bit for any, then one each for the first to the fifth of a month, then one for the last"""
_DECADES = 50 * 12
"""months within which an expression fires if ever it does: a 29 February of a given weekday takes 40 years at most"""


class FieldKind(NamedTuple):
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        names = f", {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.first} to {self.last}{names}, lists, ranges and steps of them, or *"


FIELDS = (
    FieldKind("minute", 0, 59),
    FieldKind("hour", 0, 23),
    FieldKind("day of month", 1, 31),
    FieldKind("month", 1, 12, tuple(_MONTHS)),
    FieldKind("day of week", 0, 7, tuple(_WEEKDAYS)),
)
_DAY, _WEEKDAY = FIELDS[2], FIELDS[4]


def split_fields(expression: str) -> list[str]:
    """Return the text of the five fields, those of the nickname if it is one."""
    return NICKNAMES.get(expression.strip(), expression).split()


def read_fields(expression: str) -> list[int]:
    """Return the bits of each field; raise `BadValue`, which names the field and what it takes."""
    if len(expression) > MOST_CHARACTERS:
        raise BadValue("schedule.cron", expression, f"a cron expression of at most {MOST_CHARACTERS:,} characters")
    parts = split_fields(expression)
    if len(parts) != len(FIELDS):
        if expression.strip().startswith("@"):
            raise BadValue("schedule.cron", expression, f"one of {', '.join(NICKNAMES)}")
        count = f"{len(parts)} field{'s' * (len(parts) != 1)}"
        names = ", ".join(field.name for field in FIELDS)
        raise BadValue("schedule.cron", expression, f"a cron expression of 5 fields ({names}): it has {count}")
    bits = []
    for field, part in zip(FIELDS, parts, strict=True):
        try:
            bits.append(_read(field, part))
        except ValueError:
            trouble = f"its {field.name} {part!r} cannot be read; use {field.expected}"
            raise BadValue("schedule.cron", expression, f"a cron expression: {trouble}") from None
    return bits


def steps_too_far(expression: str) -> list[str]:
    """Return a warning for each step longer than its field: `*/90` does not mean every 90 minutes."""
    return [
        f"the step of {term!r} is longer than the range of the {field.name}, so only its first value fits"
        for field, part in zip(FIELDS, split_fields(expression), strict=True)
        for term in part.split(",")
        if "/" in term and int(term.partition("/")[2]) > field.last - field.first + (field is not _WEEKDAY)
    ]


@lru_cache(10_000)
def _read(field: FieldKind, text: str) -> int:
    if not text.isascii():
        raise ValueError(text)  # some letters become others in upper case
    bits = 0
    for term in text.upper().split(","):
        bits |= _read_term(field, term)
    return bits


def _read_term(field: FieldKind, term: str) -> int:
    if field is _DAY and term in ("L", "LW"):
        return 1 << (_LAST_DAY if term == "L" else _LAST_WORKDAY)
    if field is _WEEKDAY and ("#" in term or term.endswith("L")):
        return _read_place_in_month(term)
    body, slash, step = term.partition("/")
    low, dash, high = body.partition("-")
    if body == "*":
        start, end = field.first, field.last
    elif dash:
        start, end = _number(field, low), _number(field, high)
    else:
        start = _number(field, body)
        end = field.last if slash else start
    pace = _digits(step) if slash else 1
    if start > end or pace < 1:
        raise ValueError(term)
    values = range(start, end + 1, pace)
    return sum({1 << (value % 7 if field is _WEEKDAY else value) for value in values})


def _read_place_in_month(term: str) -> int:
    """`5L`, the last Friday, and `FRI#2`, the second."""
    weekday, number, week = term.partition("#")
    which = _digits(week) if number else _LAST_OF_MONTH
    if number and not 1 <= which <= 5:
        raise ValueError(term)
    return 1 << (7 * which + _number(_WEEKDAY, weekday if number else term[:-1]) % 7)


def _number(field: FieldKind, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + (field.first if field is not _WEEKDAY else 0)
    value = _digits(text)
    if not field.first <= value <= field.last:
        raise ValueError(text)
    return value


def _digits(text: str) -> int:
    if not text.isdigit():
        raise ValueError(text)
    return int(text)


class Days:
    """The days on which an expression fires."""

    __slots__ = ("_days", "_months", "_need_both", "_weekdays")

    def __init__(self, days: int, months: int, weekdays: int, need_both: bool) -> None:
        self._days = days
        self._months = months
        self._weekdays = weekdays
        self._need_both = need_both

    def first_from(self, ordinal: int) -> int | None:
        """Return the first day from this one on that fits, counted as `date` does; None if none fits for decades.
        Raise `ValueError` at the end of the calendar."""
        day = date.fromordinal(ordinal)
        year, month, number = day.year, day.month, day.day
        for _ in range(_DECADES):
            if self._months >> month & 1:
                fitting = self._fitting(year, month) >> number
                if fitting:
                    return date(year, month, number + lowest(fitting)).toordinal()
            year, month, number = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return None

    def _fitting(self, year: int, month: int) -> int:
        first, length = monthrange(year, month)
        days = self._days & (2 << length) - 2
        if self._days >> _LAST_DAY:
            days |= _last_days(self._days, first, length)
        weekdays = _weekdays_in_month(self._weekdays, first, length)
        return days & weekdays if self._need_both else days | weekdays


def _last_days(days: int, first: int, length: int) -> int:
    weekday = (first + length - 1) % 7  # as in `date`, where Monday is 0
    found = 0
    if days >> _LAST_DAY & 1:
        found |= 1 << length
    if days >> _LAST_WORKDAY & 1:
        found |= 1 << length - max(0, weekday - 4)
    return found


@lru_cache(10_000)
def _weekdays_in_month(weekdays: int, first: int, length: int) -> int:
    found = 0
    for day in range(1, length + 1):
        places = weekdays >> (first + day) % 7  # in cron Sunday is 0
        week = (day + 6) // 7
        if places & 1 or places >> 7 * week & 1 or (day + 7 > length and places >> 7 * _LAST_OF_MONTH & 1):
            found |= 1 << day
    return found


def lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1
