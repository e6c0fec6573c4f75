"""Time zones of printed times: which one applies, its name, its clock changes. None stands for the local zone."""

import os
import time
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from math import ceil
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from interlock.cli.shared.options import option
from interlock.error import BadValue
from interlock.fields.duration import span
from interlock.model.schedule.schedule import Schedule
from interlock.model.schedule.zone import zone_of

DAY = 86400
ZONE_HELP = "Time zone of the printed times. Default: the one that all schedules share, else local."
ZoneOption = Annotated[str | None, option("ZONE", ZONE_HELP, "--tz")]


class ClockChange(NamedTuple):
    """An instant at which the clocks of a zone go forward or back."""

    at: float
    before: datetime  # time that the clocks would have shown
    after: datetime  # time that they show instead

    @property
    def text(self) -> str:
        shift = (self.after.replace(tzinfo=None) - self.before.replace(tzinfo=None)).total_seconds()
        return f"clocks go {'forward' if shift > 0 else 'back'} {span(abs(shift))}"

    def __str__(self) -> str:
        return f"{self.before:%a %Y-%m-%d %H:%M} → {self.after:%H:%M}  {self.text}"


def named_zone(tz: str) -> tzinfo:
    try:
        zone_of(tz)
    except BadValue:
        raise BadValue("--tz", tz, "a time zone like Europe/Paris or UTC") from None
    return ZoneInfo(tz)


def zone_for(tz: str | None, schedules: Iterable[Schedule | None]) -> tzinfo | None:
    """Return the one zone to print times in: the named one, else the one that all schedules share, else the local one.
    An interval has no zone."""
    if tz is None:
        found = {one.zone for one in schedules if one is not None and not (one.cron is None and one.tz is None)}
        tz = found.pop() if len(found) == 1 else None
    return None if tz is None else named_zone(tz)


def zone_name(zone: tzinfo | None) -> str:
    if zone is not None:
        return str(zone)
    place = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime")
    name = place.rpartition("zoneinfo/")[2]
    return time.tzname[0] if name.startswith("/") else name


def wall(at: float, zone: tzinfo | None) -> datetime:
    """Return the wall-clock time of the zone at an instant."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


def clock_changes(start: float, until: float, zone: tzinfo | None) -> list[ClockChange]:
    """Return the changes after `start`, up to `until`."""
    found: list[ClockChange] = []
    early = int(start)
    while early < until:
        late = min(early + DAY, ceil(until))
        old = wall(early, zone).utcoffset()
        if wall(late, zone).utcoffset() != old:
            at = bisect_left(range(early, late), True, key=lambda second: wall(second, zone).utcoffset() != old) + early
            found.append(ClockChange(at, wall(at - 1, zone) + timedelta(seconds=1), wall(at, zone)))
        early = late
    return found
