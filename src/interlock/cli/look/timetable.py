"""`interlock timetable`."""

import sys
from typing import Annotated

from msgspec.structs import replace

from interlock.cli.draw.chart import LEAST_WIDTH, chart
from interlock.cli.draw.format import counted, exact
from interlock.cli.draw.tables import console, out, print_json
from interlock.cli.draw.zones import ZoneOption, zone_for
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.server import client_of
from interlock.error import BadValue
from interlock.error_lines import say
from interlock.fields.duration import seconds
from interlock.model.job_info import Timetable

MOST = 1000  # rows of a chart, and jobs in an answer of the server
MOST_FIRES = 50_000
PIPED = 1000  # default number of piped fires
AROUND = 6  # lines of the screen around the rows of the chart


@takes(*FINDING)
def command(
    flags: Flags,
    ahead: Annotated[str, option("DURATION", "How far ahead to look, up to 31d.", "--for")] = "24h",
    limit: Annotated[
        int | None,
        option(
            "NUMBER",
            f"Most lines to print: jobs in a chart, by default as many as fit the screen; fires when piped or in "
            f"JSON, by default {PIPED:,}.",
        ),
    ] = None,
    width: Annotated[int | None, option("NUMBER", "Draw a chart of this many characters, even when piped.")] = None,
    tz: ZoneOption = None,
    json: JsonOption = False,
) -> None:
    """Draw the fires of the next hours: a row for each job, time from left to right.

    Piped: time and job of each fire, separated by a tab, the earliest first."""
    length = seconds(ahead, "--for")
    is_chart = not json and (width is not None or sys.stdout.isatty())
    most = MOST if is_chart else MOST_FIRES
    if not 1 <= length <= 31 * 86400:
        raise BadValue("--for", ahead, "a duration from 1s to 31d")
    if width is not None and width < LEAST_WIDTH:
        raise BadValue("--width", width, f"{LEAST_WIDTH} or more")
    if limit is not None and not 1 <= limit <= most:
        raise BadValue("--limit", limit, f"a number from 1 to {most:,}")
    rows = limit or max(5, console().height - AROUND)
    with client_of(flags) as client:
        found = client.timetable(length, rows if is_chart else MOST)
        schedules = [client.job(job.job_id).schedule for job in found.jobs] if is_chart and tz is None else []
    zone = zone_for(tz, schedules)
    if not is_chart:
        print_fires(found, limit or PIPED, json)
    elif not found.jobs:
        out(f"nothing fires within {ahead}")
    else:
        for line in chart(found, width or console().width, zone):
            out(line.rstrip())
        if found.left_out:
            out(f"{counted(found.left_out, 'more job')} left out; for more, use --limit")


def print_fires(found: Timetable, limit: int, json: bool) -> None:
    """Print the earliest fires, and the number left out on standard error."""
    fires = sorted((at, job.job_id) for job in found.jobs for at in job.times)
    is_cut = found.left_out > 0 or any(job.more for job in found.jobs)
    left_out = len(fires) - limit
    if json:
        kept: dict[str, list[float]] = {}
        for at, job_id in fires[:limit]:
            kept.setdefault(job_id, []).append(at)
        jobs = [
            replace(job, times=kept[job.job_id], more=job.more or len(kept[job.job_id]) < len(job.times))
            for job in found.jobs
            if job.job_id in kept
        ]
        print_json(replace(found, jobs=jobs, left_out=found.left_out + len(found.jobs) - len(jobs)))
    else:
        for at, job_id in fires[:limit]:
            out(f"{exact(at)}\t{job_id}")
    if left_out > 0 or is_cut:
        count = counted(left_out, "fire") if left_out > 0 else "fires"
        say(f"{'at least ' * (is_cut and left_out > 0)}{count} left out; for more, use --limit or a shorter --for")
