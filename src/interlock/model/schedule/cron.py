"""Cron expressions in a time zone: the next time after an instant, whatever the clocks do.

Wall-clock times are found as if there were no zone at all, and then put onto the line of instants. An expression that
names its minutes and hours stands for times of the day: one that the clock jumps over fires as the jump ends, one that
comes twice fires the first time. One with a `*` at the start of its minutes or hours stands for a pace: it fires
whenever the clock shows a time that fits, so that elapsed time decides where the clock jumps.
"""

import math
from functools import lru_cache
from typing import Any

from interlock.error import BadUse, BadValue, shown
from interlock.model.schedule.cron_fields import Days, lowest, read_fields, split_fields
from interlock.model.schedule.zone import Zone, zone_of

_DAY = 86400
_EPOCH = 719_163  # 1 January 1970, as `date` counts days
_END = 253_402_300_800  # the instant at which the year 10,000 begins, which `date` does not know
_ANY_DAY = ["*", "*", "*"]


class NeverAgain(Exception):
    """The expression has no later time."""


class Cron:
    """One parsed expression in one zone, shared by all jobs that have it. Times within are whole seconds: no time that
    fits, and no change of a clock, lies between two of them."""

    __slots__ = ("_days", "_hours", "_is_paced", "_last", "_minutes", "_start", "_zone", "expression", "tz")

    def __init__(self, expression: str, tz: str) -> None:
        if not isinstance(expression, str):
            raise BadValue("schedule.cron", expression, "a cron expression like '0 2 * * *' or '@daily'")
        self.expression = expression
        self.tz = tz
        self._zone: Zone | None = zone_of(tz) if tz not in ("UTC", "Etc/UTC") else None
        self._minutes, self._hours, days, months, weekdays = read_fields(expression)
        minute, hour, day, month, weekday = split_fields(expression)
        self._is_paced = minute.startswith("*") or hour.startswith("*")
        self._start = lowest(self._hours) * 3600 + lowest(self._minutes) * 60
        self._days: Days | None = None
        if [day, month, weekday] != _ANY_DAY:
            self._days = Days(days, months, weekdays, day.startswith("*") or weekday.startswith("*"))
            if self._days.first_from(_EPOCH) is None:
                raise BadUse("schedule.cron", f"{shown(expression)} never fires: there is no such day", expression)
        self._last = (math.nan, math.nan)

    def after(self, instant: float) -> float:
        """Return the first fire time after an instant, in seconds since 1970; raise `NeverAgain` after the last."""
        # Many jobs that share an expression ask for the same, and perhaps in several threads: question and answer are
        # kept as one value.
        asked, answer = self._last
        if instant != asked:
            answer = self._after(instant)
            self._last = (instant, answer)
        return answer

    def _after(self, instant: float) -> float:
        try:
            now = math.floor(instant)
            if self._zone is None:
                found = self._next_wall(now)
            elif self._is_paced:
                found = self._paced(now, self._zone)
            else:
                found = self._fixed(now, self._zone)
        except (OverflowError, ValueError):
            found = _END
        if found >= _END:
            raise NeverAgain(f"{self.expression} has no time after {instant}")
        return float(found)

    def _fixed(self, now: int, zone: Zone) -> int:
        wall = now + zone.offset(now)
        while True:
            wall = self._next_wall(wall)
            found = zone.first_instant(wall)
            if found > now:
                return found

    def _paced(self, now: int, zone: Zone) -> int:
        offset, late = zone.offset_now_and_again(now)
        wall = now + offset
        if offset > late:
            # The clock will be put back, before or after the next time that fits.
            turn = zone.change_between(now, now + offset - late)
            found = self._next_wall(wall) - offset
            if found < turn:
                return found
            now, wall = turn - 1, turn - 1 + late
        while True:
            wall = self._next_wall(wall)
            early, late = zone.offsets(wall)
            if early < late:
                continue  # the clock never shows it
            found = wall - early
            if found <= now:
                found = wall - late
            if found > now:
                return found

    def _next_wall(self, wall: int) -> int:
        """Return the next time that fits on a clock that never changes, in seconds since it showed 1970."""
        day, second = divmod(wall, _DAY)
        hour, minute = divmod(second // 60, 60)
        if self._day_from(day) == day:
            minutes = self._minutes >> minute + 1
            if minutes and self._hours >> hour & 1:
                return day * _DAY + hour * 3600 + (minute + 1 + lowest(minutes)) * 60
            hours = self._hours >> hour + 1
            if hours:
                return day * _DAY + (hour + 1 + lowest(hours)) * 3600 + lowest(self._minutes) * 60
        return self._day_from(day + 1) * _DAY + self._start

    def _day_from(self, day: int) -> int:
        if self._days is None:
            return day
        found = self._days.first_from(day + _EPOCH)
        if found is None:
            raise ValueError(day)
        return found - _EPOCH


_cron_of = lru_cache(100_000)(Cron)


def cron_of(expression: Any, tz: str) -> Cron:
    """Return the parsed expression; raise `BadValue` if it or the zone is wrong."""
    try:
        return _cron_of(expression, tz)
    except TypeError:  # one of them cannot even be looked up
        return Cron(expression, tz)
