"""The clock of a time zone: what it shows at an instant, and when it shows a time; both in whole seconds since 1970."""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from interlock.error import BadValue

_NO_PLACES = ("right", "posix", "posixrules", "localtime")
"""what lies beside the zones: other readings of them, and what this machine happens to be set to"""


class Zone:
    __slots__ = ("_info", "_start")

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        self._start = datetime(1970, 1, 1, tzinfo=info)

    def offset(self, instant: int) -> int:
        """Return how far the clock is ahead of UTC."""
        return _seconds(datetime.fromtimestamp(instant, self._info).utcoffset())

    def offset_now_and_again(self, instant: int) -> tuple[int, int]:
        """Return the offset, and the one when the clock shows the same time again; both are equal if it does not."""
        shown = datetime.fromtimestamp(instant, self._info)
        return _seconds(shown.utcoffset()), _seconds(shown.replace(fold=1).utcoffset())

    def offsets(self, wall: int) -> tuple[int, int]:
        """Return the offsets at which the clock shows this time. The first is greater where the time comes twice, and
        smaller where the clock jumps over it; otherwise both are equal."""
        shown = self._start + timedelta(seconds=wall)
        return _seconds(shown.utcoffset()), _seconds(shown.replace(fold=1).utcoffset())

    def first_instant(self, wall: int) -> int:
        """Return when the clock first shows this time; if it jumps over it, when the jump ends."""
        early, late = self.offsets(wall)
        return wall - early if early >= late else self.change_between(wall - late, wall - early)

    def change_between(self, before: int, after: int) -> int:
        """Return the first instant after `before` at which the offset has changed; it has by `after`."""
        old = self.offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset(middle) == old:
                before = middle
            else:
                after = middle
        return after


def _seconds(ahead: timedelta | None) -> int:
    assert ahead is not None  # a zone always knows
    return ahead.days * 86400 + ahead.seconds


def zone_of(tz: object) -> Zone:
    """Return the zone; raise `BadValue` if it does not exist."""
    if isinstance(tz, str) and tz and tz.partition("/")[0] not in _NO_PLACES:
        try:
            return _zone_of(tz)
        except (OSError, ValueError, KeyError):
            pass
    raise BadValue("schedule.tz", tz, "a time zone like Europe/Paris or UTC")


@lru_cache(1000)
def _zone_of(tz: str) -> Zone:
    return Zone(ZoneInfo(tz))
