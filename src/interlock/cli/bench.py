"""`interlock bench`."""

import signal
import sys
from typing import Annotated

import typer


def command(
    part: Annotated[
        str,
        typer.Argument(metavar="[PART]", help="What to measure: all, or timetable, which takes a quarter of an hour."),
    ] = "all",
    runs: Annotated[
        int, typer.Option(metavar="NUMBER", help="How many runs each end-to-end measurement takes.")
    ] = 50_000,
    waiting: Annotated[
        int, typer.Option(metavar="NUMBER", help="How many waiting runs the memory measurement uses.")
    ] = 100_000,
    rounds: Annotated[int, typer.Option(metavar="NUMBER", help="How often each is measured; the median counts.")] = 3,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write the figures to this file as JSON.")] = None,
) -> None:
    """Measure this machine: raw SQLite, runs end to end, HTTP, event streams, supervision, the timetable, and peers if
    installed."""
    from interlock.bench.report import read_part, run_bench

    for number in (signal.SIGTERM, signal.SIGHUP):
        # As an exception, so that what was started and stored for it goes as well.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    run_bench(runs=runs, waiting=waiting, rounds=rounds, output=output, part=read_part(part))
