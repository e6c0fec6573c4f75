"""The timetable as a chart of characters: a row for each job, time from left to right, taller marks for more fires."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from math import ceil

from msgspec.structs import replace

from interlock.cli.draw.axis import ticks
from interlock.cli.draw.format import span
from interlock.cli.draw.zones import DAY, ClockChange, clock_changes, wall, zone_name
from interlock.model.job_info import JobTimes, Timetable

LEAST_WIDTH = 40
SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, DAY, 2 * DAY)
"""possible seconds of a column"""
ROOM = 8  # least number of characters from one mark of the axis to the next
LEVELS = {1: "·", 2: "▂", 4: "▄", 8: "▆", 16: "█"}  # least number of fires in a column → its mark
FURTHER = "…"  # mark of the part of a row whose fire times are unknown
CHANGE = "┆"  # mark of a clock change


def chart(timetable: Timetable, width: int, zone: tzinfo | None = None) -> Iterator[str]:
    """Yield lines of at most `width` characters, or of `LEAST_WIDTH` if that is more."""
    width = max(LEAST_WIDTH, width)
    counts = [f"{len(one.times):,}{'+' if one.more else ''}" for one in timetable.jobs]
    last = max(len(text) for text in ("fires", *counts))
    names = min(width // 3, max(len(text) for text in ("job", *(one.job_id for one in timetable.jobs))))
    room = width - names - last - 4
    seconds, start, room = _columns(timetable, zone, room)
    timetable = replace(timetable, now=start, until=start + seconds * room)
    changes = clock_changes(timetable.now, timetable.until, zone)
    yield f"{'job':{names}}  {_axis(timetable, room, zone, changes)}  {'fires':>{last}}"
    for job, count in zip(timetable.jobs, counts, strict=True):
        name = job.job_id if len(job.job_id) <= names else f"{job.job_id[: names - 1]}…"
        yield f"{name:{names}}  {_row(job, timetable, room, changes)}  {count:>{last}}"
    legend = " ".join(f"{mark}{count}" for count, mark in LEVELS.items())
    notes = [f"{span(seconds)} a column: {legend}+", f"times in {zone_name(zone)}"]
    notes += [f"{CHANGE} {change}" for change in changes]
    if any(one.more for one in timetable.jobs):
        notes.append(f"{FURTHER} further fires, not listed")
    yield from (note[:width] for note in notes)


def _columns(timetable: Timetable, zone: tzinfo | None, room: int) -> tuple[int, float, int]:
    """Return the seconds of a column, the start of the first and the number of columns: round ones, as many as fit."""
    midnight = wall(timetable.now, zone).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    for seconds in SPANS:
        start = timetable.now - (timetable.now - midnight) % seconds
        if (count := ceil((timetable.until - start) / seconds)) <= room:
            break
    return seconds, start, count


def _axis(timetable: Timetable, room: int, zone: tzinfo | None, changes: Sequence[ClockChange]) -> str:
    cells = [" "] * room
    for change in changes:
        cells[_column(change.at, timetable, room)] = CHANGE
    for tick in ticks(timetable.now, timetable.until, zone, room // ROOM):
        place = _column(tick.at, timetable, room)
        text = f"{tick.wall:%a %d}" if tick.is_day else f"{tick.wall:%H:%M}"
        end = place + 1 + len(text)
        # A text needs room, and a space on both sides.
        if end <= room and not "".join(cells[max(0, place - 1) : place] + cells[place + 1 : end + 1]).strip():
            cells[place:end] = ("╷" if cells[place] == " " else CHANGE) + text
    return "".join(cells)


def _row(job: JobTimes, timetable: Timetable, room: int, changes: Sequence[ClockChange]) -> str:
    cells, fires = [" "] * room, [0] * room
    for change in changes:
        cells[_column(change.at, timetable, room)] = CHANGE
    for at in job.times:
        fires[_column(at, timetable, room)] += 1
    least = list(LEVELS)
    for place, count in enumerate(fires):
        if count:
            cells[place] = LEVELS[least[bisect_right(least, count) - 1]]
    if job.more:
        behind = _column(job.times[-1], timetable, room) + 1 if job.times else 0
        cells[behind:] = FURTHER * (room - behind)
    return "".join(cells)


def _column(at: float, timetable: Timetable, room: int) -> int:
    share = (at - timetable.now) / (timetable.until - timetable.now)
    return min(room - 1, max(0, int(share * room)))
