"""Durations as people write them: `800ms`, `10s`, `5m`, `2h`, `1d`; in the code they are seconds."""

import math
import re
from datetime import timedelta

from interlock.error import BadDuration

Duration = str | float | int | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def seconds(value: Duration, field: str) -> float:
    """Return the duration in seconds; raise `BadDuration`, which names the field and the value."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        match = _FORM.fullmatch(value.strip())
        if match is None:
            raise BadDuration(field, value)
        number = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) < 1e300 else math.inf  # no float holds a larger integer
    else:
        raise BadDuration(field, value)
    if not math.isfinite(number) or number < 0:
        raise BadDuration(field, value, "a duration of zero or more")
    return number


def checked(duration: Duration | None) -> float:
    """Return a duration that the check of its struct has turned into seconds."""
    assert isinstance(duration, (int, float)), duration
    return duration


def brief(duration: float) -> str:
    """Return seconds in three digits, never with a power of ten."""
    return f"{round(duration, 3):.3g}s" if duration < 999.5 else f"{duration:.0f}s"


def span(seconds: float) -> str:
    """Return a duration in at most two units, for people."""
    seconds = max(0.0, seconds)
    if seconds < 0.0005:
        return "<1ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (rest, "s"))
    first = next(place for place, (count, _) in enumerate(units) if count)
    return " ".join(f"{count}{unit}" for count, unit in units[first : first + 2] if count)
