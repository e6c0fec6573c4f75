"""`interlock next`."""

import time
from datetime import tzinfo
from math import inf
from typing import Annotated, Any

from interlock.cli.draw.format import ago, exact
from interlock.cli.draw.tables import present
from interlock.cli.draw.zones import ZoneOption, clock_changes, wall, zone_for, zone_name
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import client_of
from interlock.core.timetable.table import first_time, times_between
from interlock.error import BadUse, BadValue
from interlock.model.job_info import FireTimes
from interlock.model.schedule.schedule import Schedule

MOST = 100


@takes(*FINDING)
def command(
    flags: Flags,
    what: Annotated[
        str,
        argument(
            'JOB|"EXPRESSION"',
            "A job, or a schedule such as '0 2 * * *', 'every 10m' or 'every 1h after 5m', which needs no server.",
            completion.jobs,
        ),
    ],
    tz: ZoneOption = None,
    count: Annotated[int, option("NUMBER", "Number of fire times to print.", "--count", "-n")] = 5,
    json: JsonOption = False,
) -> None:
    """Print the next fire times of a job or a schedule, in one time zone.

    Piped: one time a line, in UTC."""
    if not 1 <= count <= MOST:
        raise BadValue("--count", count, f"a number from 1 to {MOST}")
    now = time.time()
    if " " in what.strip() or what.startswith("@"):
        schedule = schedule_of(what, tz)
        times = times_between(schedule, now, first_time(schedule, now) or now, inf, count)[:count]
        zone = zone_for(tz, [schedule])
    else:
        with client_of(flags) as client:
            times = client.next_times(what, count)
            zone = zone_for(tz, [client.job(what).schedule] if tz is None else [])
    found = FireTimes(times=times)
    present(json, lambda: found, lambda: map(exact, times), lambda: "\n".join(lines_of(times, now, zone)))


def schedule_of(text: str, tz: str | None) -> Schedule:
    """Read a schedule as `interlock jobs` prints it."""
    words = text.split()
    match words:
        case ["every", span] | ["every", span, "after", "0s"]:
            given: dict[str, Any] = {"every": span}
        case ["every", span, "after", wait]:
            given = {"every": span, "wait": wait}
        case ["every", *_]:
            raise BadValue("schedule", text, "of the form 'every 10m' or 'every 1h after 5m'")
        case ["at", _, *_]:
            given = {"at": " ".join(words[1:]), "tz": tz}
        case _:
            given = {"cron": " ".join(words[words[0] == "cron" :]), "tz": tz}
    if tz is not None and "every" in given:
        raise BadUse("--tz", "cannot be combined with an interval, which is the same in every zone")
    return Schedule(**given)


def lines_of(times: list[float], now: float, zone: tzinfo | None) -> list[str]:
    """Return a line with the zone, then one for each time, and one for a clock change before it."""
    if not times:
        return ["it does not fire"]
    lines, previous = [f"times in {zone_name(zone)}"], now
    for at in times:
        lines += [str(change) for change in clock_changes(previous, at, zone)[-1:]]
        lines.append(f"{wall(at, zone):%a %Y-%m-%d %H:%M:%S}  {ago(at, now)}")
        previous = at
    return lines
