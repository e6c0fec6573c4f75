"""`interlock timetable`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.model.job_info import Timetable

MOST_NAMED = 5


@takes(*FINDING)
def command(
    flags: Flags,
    ahead: Annotated[str, typer.Option("--for", metavar="DURATION", help="How far ahead to look.")] = "24h",
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many jobs at the most.")] = 50,
    width: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Draw a chart so many characters wide, wherever it goes.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Draw what fires in the next hours: a row a job, time from left to right.

    Piped: time and job of each fire, with a tab between them."""
    import sys

    from interlock.cli.chart import LEAST_WIDTH, chart
    from interlock.cli.server import client_of
    from interlock.cli.tables import console, out, print_json
    from interlock.model.duration import seconds
    from interlock.model.error import BadValue

    length = seconds(ahead, "--for")
    if not 1 <= length <= 31 * 86400:
        raise BadValue("--for", ahead, "a duration from 1s to 31d")
    if width is not None and width < LEAST_WIDTH:
        raise BadValue("--width", width, f"{LEAST_WIDTH} or more")
    if not 1 <= limit <= 1000:
        raise BadValue("--limit", limit, "a number from 1 to 1,000")
    with client_of(flags) as client:
        found = client.timetable(length, limit)
    if json:
        print_json(found)
    elif width is None and not sys.stdout.isatty():
        print_plain(found)
    elif not found.jobs:
        out(f"nothing fires within {ahead}")
    else:
        for line in chart(found, width or console().width):
            out(line.rstrip())
        if found.left_out:
            out(f"{found.left_out:,} more jobs fire; for more: --limit")


def print_plain(found: "Timetable") -> None:
    from interlock.cli.format import exact
    from interlock.cli.output import say
    from interlock.cli.tables import out

    for at, job in sorted((at, one.job_id) for one in found.jobs for at in one.times):
        out(f"{exact(at)}\t{job}")
    if more := [one.job_id for one in found.jobs if one.more]:
        others = f" and {len(more) - MOST_NAMED:,} other jobs" if len(more) > MOST_NAMED else ""
        say(f"fires on, more often than is told: {', '.join(more[:MOST_NAMED])}{others}")
