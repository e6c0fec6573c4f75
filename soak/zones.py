"""`python -m soak.zones`: every change of every clock there is, against an oracle.

Around each of them, expressions that lie before, on and behind its edges to the minute must fire exactly when the rule
says, whatever instant is asked about. Zones whose clocks show the same in all these years are looked at once.
"""

import argparse
import os
import random
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, TextIO
from zoneinfo import ZoneInfo, available_timezones

from interlock.model.schedule.cron import Cron
from soak.zone_oracle import Change, changes, clock, fires, offset

FIRST_YEAR, LAST_YEAR = 2020, 2037
MARGIN = 26 * 3600  # seconds before and behind a change that are looked at
RANDOM_INSTANTS = 20
MOST_FAULTS = 20
NO_PLACES = ("localtime", "posixrules")
EVERYWHERE = ("*/15 * * * *", "*/7 * * * *", "0 */2 * * *", "30 * * * *", "0 0 * * *", "59 23 * * *", "0 0 1 * *")


class Result(NamedTuple):
    changes: int
    questions: int
    faults: list[str]


def expressions(change: Change) -> list[str]:
    """Those that have something to do with this change."""
    begin, end = sorted(
        datetime.fromtimestamp(change.instant, UTC).replace(tzinfo=None) + timedelta(seconds=ahead)
        for ahead in (change.before, change.after)
    )
    middle = begin + (end - begin) / 2
    times = [time + timedelta(minutes=minutes) for time in (begin, middle, end) for minutes in (-1, 0, 1)]
    found = list(EVERYWHERE)
    found += [f"{time.minute} {time.hour} * * *" for time in times]
    found += [f"{time.minute} {time.hour} {time.day} {time.month} *" for time in (begin, middle, end)]
    for time in (begin, middle):
        found += [
            f"{time.minute} {time.hour} * * {time.isoweekday()}",
            f"*/5 {time.hour} * * *",
            f"{time.minute} */3 * * *",
            f"*/10 * {time.day} {time.month} *",
            f"0-59/20 {time.hour} * * *",
            f"{time.minute} {time.hour},{(time.hour + 1) % 24} * * *",
            f"*/40 {time.hour} 15 * {time.isoweekday() % 7}",
        ]
    return list(dict.fromkeys(found))


def judge(tz: str, change: Change) -> Result:
    """Ask for each time after the other, and from instants at random; each answer must be the oracle's."""
    zone = ZoneInfo(tz)
    start, end = change.instant - MARGIN, change.instant + MARGIN
    shown = clock(zone, start, end)
    dice = random.Random(f"{tz} {change.instant}")
    questions, faults = 0, []
    for expression in expressions(change):
        expected = fires(expression, shown, start)
        cron = Cron(expression, tz)
        asked = [float(start), *(float(instant) for instant in expected)]
        asked += [dice.uniform(start, end) for _ in range(RANDOM_INSTANTS)]
        asked += [change.instant + near for near in (-1.0, -1e-6, 0.0, 1e-6, 1.0)]
        questions += len(asked)
        for instant in asked:
            wrong = fault(cron, instant, expected, end)
            if wrong is not None:
                faults.append(f"{tz}, change at {datetime.fromtimestamp(change.instant, UTC)}: {wrong}")
    return Result(1, questions, faults)


def fault(cron: Cron, instant: float, expected: list[int], end: int) -> str | None:
    found = cron.after(instant)
    place = bisect_right(expected, instant)
    if place < len(expected):
        right = found == expected[place]
        rule = f"at {datetime.fromtimestamp(expected[place], UTC)}"
    else:
        right = found > end
        rule = f"not before {datetime.fromtimestamp(end, UTC)}"
    if right and found > instant:
        return None
    fired, asked = datetime.fromtimestamp(found, UTC), datetime.fromtimestamp(instant, UTC)
    return f"{cron.expression} after {asked} fires at {fired}, and should {rule}"


def judge_zone(tz: str, first_year: int = FIRST_YEAR, last_year: int = LAST_YEAR) -> Result:
    results = [judge(tz, change) for change in changes(ZoneInfo(tz), first_year, last_year)]
    return _sum(results)


def _sum(results: Iterable[Result]) -> Result:
    total = Result(0, 0, [])
    for result in results:
        total = Result(total.changes + result.changes, total.questions + result.questions, total.faults + result.faults)
    return total


def groups(zones: Iterable[str], last_year: int = LAST_YEAR) -> Iterator[list[str]]:
    """Zones that are the same in these years, together."""
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    start = round(datetime(FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp())
    for tz in sorted(zones):
        zone = ZoneInfo(tz)
        alike[offset(zone, start), *changes(zone, FIRST_YEAR, last_year)].append(tz)
    yield from alike.values()


def main(arguments: list[str] | None = None, output: TextIO = sys.stdout) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.zones", description=__doc__)
    parser.add_argument("zones", nargs="*", help="only these, instead of all there are")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--last-year", type=int, default=LAST_YEAR)
    options = parser.parse_args(arguments)
    zones = options.zones or available_timezones().difference(NO_PLACES)
    found = list(groups(zones, options.last_year))
    with get_context("spawn").Pool(options.processes) as pool:
        total = _sum(
            pool.imap_unordered(partial(judge_zone, last_year=options.last_year), [group[0] for group in found])
        )
    for fault in total.faults[:MOST_FAULTS]:
        output.write(f"{fault}\n")
    output.write(
        f"{sum(map(len, found))} zones with {len(found)} different clocks, {FIRST_YEAR} to {options.last_year}: "
        f"{total.changes:,} changes, {total.questions:,} questions, {len(total.faults):,} wrong answers\n"
    )
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
