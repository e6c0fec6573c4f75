"""The fire times of a schedule, computed from the schedule and its anchor."""

from collections import deque
from math import floor

from interlock.model.schedule.cron import NeverAgain, cron_of
from interlock.model.schedule.schedule import Schedule


def first_time(schedule: Schedule, now: float) -> float | None:
    """Return the first fire time of a schedule declared now."""
    if schedule.cron is not None:
        return following(schedule, now, now)
    return schedule.at if schedule.at is not None else now + schedule.wait


def following(schedule: Schedule, anchor: float, after: float) -> float | None:
    """Return the first fire time later than `after`, or None."""
    if schedule.every is not None:
        first, every = anchor + schedule.wait, schedule.every
        # Count from the anchor each time, so that no error adds up; the loops correct a rounded division.
        count = floor((after - first) / every) + 1
        while first + (count - 1) * every > after:
            count -= 1
        while first + count * every <= after:
            count += 1
        return first + count * every
    if schedule.cron is not None:
        try:
            return cron_of(schedule.cron, schedule.zone).after(after)
        except NeverAgain:
            return None
    only = schedule.at if schedule.at is not None else anchor + schedule.wait
    return only if only > after else None


def times_between(schedule: Schedule, anchor: float, start: float, end: float, most: int) -> list[float]:
    """Return the fire times from `start` up to but not including `end`, in order; `most + 1` if there are more."""
    found: list[float] = []
    at = following(schedule, anchor, start - 1e-6)
    while at is not None and at < end and len(found) <= most:
        found.append(at)
        at = following(schedule, anchor, at)
    return found


def newest_between(schedule: Schedule, anchor: float, start: float, end: float, most: int) -> list[float]:
    """Return the newest `most` fire times from `start` up to and including `end`, in order."""
    if most <= 0 or start > end:
        return []
    # Most schedules fire far less often than this maximum: look back farther until there are enough.
    span = (schedule.every or 60.0) * (most + 1)
    while True:
        begin = max(start, end - span)
        found: deque[float] = deque(maxlen=most)
        at = following(schedule, anchor, begin - 1e-6)
        while at is not None and at <= end:
            found.append(at)
            at = following(schedule, anchor, at)
        if begin == start or len(found) == most:
            return list(found)
        span *= 8
