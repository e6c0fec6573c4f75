"""Minutes, hours and days as sets of numbers, and the cron expression that fires when all of them match."""

from typing import NamedTuple

from interlock.importers.draft import CannotCarry
from interlock.model.schedule.cron_fields import FIELDS, FieldKind

MINUTE, HOUR, DAY, MONTH = FIELDS[:4]
WEEKDAY = FIELDS[4]._replace(last=6)  # Sunday is 0
_WEEKS = [frozenset(range(first, min(first + 7, 32))) for first in range(1, 32, 7)]


class FieldNumbers(NamedTuple):
    """The numbers of one field."""

    chosen: frozenset[int]
    paced: bool = False  # whether they came from a pace such as */5, which matters when the clocks change


def numbers_of(text: str, field: FieldKind, dash: str = "-") -> FieldNumbers:
    """Read a list of `*`, `5` and `1-5`, with steps; a range may wrap around."""
    chosen, paced = set[int](), False
    for term in text.split(","):
        body, slash, step = term.strip().partition("/")
        low, ranged, high = body.partition(dash)
        start = field.first if body == "*" else _number(low, field, term)
        end = _number(high, field, term) if ranged else field.last if slash or body == "*" else start
        every = [*range(start, end + 1)] or [*range(start, field.last + 1), *range(field.first, end + 1)]
        if slash and not (step.isdecimal() and int(step)):
            raise CannotCarry(f"{term!r} has a step that cannot be read")
        chosen.update(every[:: int(step) if slash else 1])
        paced = paced or body == "*" or (bool(slash) and (start, end) == (field.first, field.last))
    return FieldNumbers(frozenset(chosen), paced)


def _number(text: str, field: FieldKind, term: str) -> int:
    text = text.strip().upper()
    names = {name: number for number, name in enumerate(field.names, field.first)}
    number = int(text) if text.isdecimal() else names.get(text[:3], -1) if text.isalpha() else -1
    if not field.first <= number <= field.last:
        raise CannotCarry(f"{field.name} {term.strip()!r} cannot be read; use {field.expected}")
    return number


def cron_text(
    minutes: FieldNumbers,
    hours: FieldNumbers,
    days: FieldNumbers,
    months: FieldNumbers,
    weekdays: FieldNumbers,
) -> str:
    """Return an expression that fires when all fields match. In cron itself, one of the two day fields is enough."""
    day, weekday = _text(days, DAY), _text(weekdays, WEEKDAY)
    if day != "*" and weekday != "*":
        day, weekday = _both_days(days.chosen, weekdays.chosen)
    return f"{_text(minutes, MINUTE)} {_text(hours, HOUR)} {day} {_text(months, MONTH)} {weekday}"


def _both_days(days: frozenset[int], weekdays: frozenset[int]) -> tuple[str, str]:
    """Return day fields that must both match, as cron requires where either begins with a star."""
    weeks = [number for number, week in enumerate(_WEEKS, 1) if week <= days]
    if days == frozenset().union(*(_WEEKS[number - 1] for number in weeks)):
        return "*", ",".join(f"{WEEKDAY.names[weekday]}#{number}" for weekday in sorted(weekdays) for number in weeks)
    if 1 in days:
        return _list(days - {1}, "*/31"), _list(weekdays)  # `*/31` is the first day alone
    if 0 in weekdays:
        return _list(days), _list(weekdays - {0}, "*/7")  # `*/7` is Sunday alone
    raise CannotCarry("day of month and weekday must both fit; no cron expression can require that of these days")


def _text(numbers: FieldNumbers, field: FieldKind) -> str:
    every = range(field.first, field.last + 1)
    if numbers.chosen == frozenset(every):
        return "*"
    steps = [step for step in range(2, field.last + 1) if numbers.chosen == frozenset(every[::step])]
    return f"*/{steps[0]}" if numbers.paced and steps else _list(numbers.chosen)


def _list(chosen: frozenset[int], *before: str) -> str:
    """Return the numbers as a list, with ranges where three or more are consecutive."""
    terms, found = [*before], sorted(chosen)
    while found:
        length = next((n for n in range(1, len(found)) if found[n] != found[0] + n), len(found))
        length = length if length > 2 else 1
        terms.append(f"{found[0]}-{found[length - 1]}" if length > 1 else str(found[0]))
        found = found[length:]
    return ",".join(terms)
