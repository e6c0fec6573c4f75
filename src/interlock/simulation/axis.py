"""A time axis: which instants get a line, and what is written there, as the clocks of a zone show them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

MINUTES = (1, 5, 15, 30, 60, 180, 360, 720)
"""between two lines within a day"""
DAYS = (1, 2, 7, 14, 28, 56)
DAY = 86400.0


class Tick(msgspec.Struct, frozen=True):
    at: float
    text: str
    is_day: bool
    """whether a day begins here"""


def ticks(start: float, until: float, zone: tzinfo, most: int) -> list[Tick]:
    """The lines of the finest axis that has at most so many."""
    span = until - start
    for minutes in MINUTES:
        if span / (minutes * 60) <= most:
            return list(_within(start, until, zone, 1, minutes))
    days = next((days for days in DAYS if span / (days * DAY) <= most), DAYS[-1])
    return list(_within(start, until, zone, days, 24 * 60))


def _within(start: float, until: float, zone: tzinfo, days: int, minutes: int) -> Iterator[Tick]:
    day = datetime.fromtimestamp(start, zone).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    last = start - 1
    while (first := _instant(day, zone)) <= until:
        for passed in range(0, 24 * 60, minutes):
            wall = day + timedelta(minutes=passed)
            at = first if passed == 0 else _instant(wall, zone)
            # A time that the clock jumps over is no line of its own.
            if last < at <= until and at >= start and _shows(at, zone, wall):
                yield Tick(at, f"{wall:%H:%M}" if passed else day_text(day), passed == 0)
                last = at
        day += timedelta(days=days)


def _instant(wall: datetime, zone: tzinfo) -> float:
    return wall.replace(tzinfo=zone).astimezone(UTC).timestamp()


def _shows(at: float, zone: tzinfo, wall: datetime) -> bool:
    return wall.hour == wall.minute == 0 or datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall


def day_text(day: datetime) -> str:
    return f"{day:%a} {day.day} {day:%b}"
