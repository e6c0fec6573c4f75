"""A time axis: its marks, at round times of a zone's clocks."""

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from interlock.cli.draw.zones import DAY, wall

MINUTES = (1, 5, 15, 30, 60, 180, 240, 360, 720)  # possible distances of two marks within a day
DAYS = (1, 2, 7, 14, 28, 56)


class Tick(NamedTuple):
    at: float
    wall: datetime
    is_day: bool  # whether a day begins at this mark

    @property
    def text(self) -> str:
        return day_text(self.wall) if self.is_day else f"{self.wall:%H:%M}"


def ticks(start: float, until: float, zone: tzinfo | None, most: int) -> list[Tick]:
    """Return the marks of the finest axis that has at most `most` of them."""
    length = until - start
    minutes = next((minute for minute in MINUTES if length / (minute * 60) <= most), 24 * 60)
    days = 1 if minutes < 24 * 60 else next((day for day in DAYS if length / (day * DAY) <= most), DAYS[-1])
    return list(_ticks(start, until, zone, days, minutes))


def _ticks(start: float, until: float, zone: tzinfo | None, days: int, minutes: int) -> Iterator[Tick]:
    day = wall(start, zone).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    last = start - 1
    while day.replace(tzinfo=zone).timestamp() <= until:
        for passed in range(0, 24 * 60, minutes):
            shown = day + timedelta(minutes=passed)
            at = shown.replace(tzinfo=zone).timestamp()
            # A time that the clocks jump over has no mark, unless a day begins there.
            is_shown = passed == 0 or wall(at, zone).replace(tzinfo=None) == shown
            if is_shown and start <= at <= until and at > last:
                yield Tick(at, shown, passed == 0)
                last = at
        day += timedelta(days=days)


def day_text(day: datetime) -> str:
    return f"{day:%a} {day.day} {day:%b}"
