"""The timetable as a chart of characters: a row a job, time from left to right, the more fires the taller."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime

from interlock.model.job_info import JobTimes, Timetable

LEAST_WIDTH = 40
STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
"""seconds that may lie between two marks of the axis"""
DAY = 86400
ROOM = 8
"""characters from one mark to the next, at least"""
FROM = (1, 2, 4, 8, 16)
MARKS = "·▂▄▆█"
"""for so many fires in one column, or more"""
FURTHER = "…"
"""where a job fires on, and its times are not told"""


def chart(timetable: Timetable, width: int) -> Iterator[str]:
    """Lines of no more than `width` characters, or `LEAST_WIDTH` if that is more."""
    width = max(LEAST_WIDTH, width)
    names = max([len("job"), *(len(one.job_id) for one in timetable.jobs)])
    counts = [_count(one) for one in timetable.jobs]
    last = max([len("fires"), *(len(one) for one in counts)])
    names = min(names, width // 3)
    room = width - names - last - 4
    yield f"{'job':{names}}  {_axis(timetable, room)}  {'fires':>{last}}"
    for one, count in zip(timetable.jobs, counts, strict=True):
        yield f"{_cut(one.job_id, names):{names}}  {_row(one, timetable, room)}  {count:>{last}}"
    yield _legend(timetable, room)
    if any(one.more for one in timetable.jobs):
        yield f"{FURTHER} fires on, more often than is told"


def _axis(timetable: Timetable, room: int) -> str:
    cells = [" "] * room
    free = 0
    for at, text in _ticks(timetable, room):
        place = _column(at, timetable, room)
        if place >= free and place + len(text) <= room:
            cells[place : place + len(text)] = text
            free = place + len(text) + 1
    return "".join(cells)


def _ticks(timetable: Timetable, room: int) -> Iterator[tuple[float, str]]:
    """Round times where the reader is, far enough from each other."""
    span = timetable.until - timetable.now
    step = next((one for one in STEPS if one / span * room >= ROOM), STEPS[-1])
    here = datetime.fromtimestamp(timetable.now).astimezone()
    offset = here.utcoffset()
    shift = 0.0 if offset is None else offset.total_seconds()
    at = ((timetable.now + shift) // step + 1) * step - shift
    while at < timetable.until:
        there = datetime.fromtimestamp(at).astimezone()
        is_day = step >= DAY or (there.hour, there.minute) == (0, 0)
        yield at, f"╷{there:%a %d}" if is_day else f"╷{there:%H:%M}"
        at += step


def _row(job: JobTimes, timetable: Timetable, room: int) -> str:
    fires = [0] * room
    for at in job.times:
        fires[_column(at, timetable, room)] += 1
    cells = [MARKS[bisect_right(FROM, count) - 1] if count else " " for count in fires]
    if job.more:
        behind = _column(job.times[-1], timetable, room) + 1 if job.times else 0
        cells[behind:] = FURTHER * (room - behind)
    return "".join(cells)


def _column(at: float, timetable: Timetable, room: int) -> int:
    share = (at - timetable.now) / (timetable.until - timetable.now)
    return min(room - 1, max(0, int(share * room)))


def _count(job: JobTimes) -> str:
    return f"{len(job.times):,}{'+' if job.more else ''}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _legend(timetable: Timetable, room: int) -> str:
    from interlock.cli.format import span

    a_column = span((timetable.until - timetable.now) / room)
    counts = " ".join(f"{mark}{count}" for mark, count in zip(MARKS, FROM, strict=True))
    return f"{a_column} a column: {counts}+"
