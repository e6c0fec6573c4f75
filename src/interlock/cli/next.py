"""`interlock next`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from interlock.model.schedule import Schedule

MOST = 100


@takes(*FINDING)
def command(
    flags: Flags,
    what: Annotated[
        str,
        typer.Argument(
            metavar='JOB|"EXPRESSION"',
            help="A job; or, without a server, a schedule: '0 2 * * *', 'every 10m', 'every 1h after 5m'.",
        ),
    ],
    tz: Annotated[
        str | None,
        typer.Option("--tz", metavar="ZONE", help="The time zone of the expression, and of the times that are shown."),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="NUMBER", help="How many times.")] = 5,
    json: JsonOption = False,
) -> None:
    """Print when a job fires next, or when a schedule would.

    Piped: a time on each line, in UTC."""
    import time

    from interlock.cli.server import client_of
    from interlock.model.error import BadValue

    if not 1 <= count <= MOST:
        raise BadValue("--count", count, f"a number from 1 to {MOST}")
    zone = None if tz is None else _zone(tz)
    now = time.time()
    if " " in what.strip():
        times = _times_of(schedule_of(what, tz), count, now)
    else:
        with client_of(flags) as client:
            times = client.next_times(what, count)
    _print(times, now, zone, json)


def _zone(tz: str) -> "ZoneInfo":
    from zoneinfo import ZoneInfo

    from interlock.model.error import BadValue
    from interlock.model.zone import zone_of

    try:
        zone_of(tz)
    except BadValue:
        raise BadValue("--tz", tz, "a time zone like Europe/Paris or UTC") from None
    return ZoneInfo(tz)


def schedule_of(text: str, tz: str | None) -> "Schedule":
    """A schedule as it is written on one line, and as `interlock jobs` shows it."""
    from interlock.model.error import BadValue
    from interlock.model.schedule import Schedule

    words = text.split()
    match words:
        case ["every", span] | ["every", span, "after", "0s"]:
            given: dict[str, Any] = {"every": span}
        case ["every", span, "after", wait]:
            given = {"every": span, "wait": wait}
        case ["at", *rest] if rest:
            return Schedule(at=" ".join(rest), tz=tz)  # type: ignore[arg-type] # as people write it
        case ["every", *_]:
            raise BadValue("schedule", text, "of the form 'every 10m' or 'every 1h after 5m'")
        case ["cron", *rest]:
            return Schedule(cron=" ".join(rest), tz=tz)
        case _:
            return Schedule(cron=" ".join(words), tz=tz)
    if tz is not None:
        raise BadValue("--tz", tz, "for an interval, which is the same everywhere")
    return Schedule(**given)


def _times_of(schedule: "Schedule", count: int, now: float) -> list[float]:
    from interlock.core.fire_times import first_time, following

    found: list[float] = []
    at = first_time(schedule, now)
    while at is not None and len(found) < count:
        found.append(at)
        at = following(schedule, now, at)
    return found


def _print(times: list[float], now: float, zone: "ZoneInfo | None", json: bool) -> None:
    import sys
    from datetime import datetime

    from interlock.cli.format import ago, exact
    from interlock.cli.output import say
    from interlock.cli.tables import out, print_json

    if json:
        print_json({"times": times})
        return
    for at in times:
        if not sys.stdout.isatty():
            out(exact(at))
        else:
            out(f"{datetime.fromtimestamp(at).astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}  {ago(at, now)}")
    if not times and sys.stdout.isatty():
        say("it does not fire")
