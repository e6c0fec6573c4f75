"""`interlock simulate`."""

from typing import Annotated

import typer

from interlock.cli.options import Flags, JsonOption, takes


@takes("app", "database", "workers", "slots", "processes", "lanes")
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Files and folders with jobs.")] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When to begin, in the zone of --tz; now by default.")
    ] = None,
    span: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long, up to 366d.")] = "7d",
    tz: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of times, here and in what is shown.")] = "UTC",
    duration: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB=DURATION",
            help="How long a run of this job lasts. May be repeated. Of other jobs it is the median of the last 20 "
            "runs that succeeded, if --db names a database that has any; else what is given without JOB=, or 1s.",
        ),
    ] = None,
    fail: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Let every attempt of this job fail. May be repeated.")
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Show every run.")] = False,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it into this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Show what would run in a span of time, on virtual time and without running anything.

    Piped, with tabs between them: notable, job, what, how many, first, last and how; job, id, schedule, lane, seconds a
    run lasts and how that is known, runs, waited, longest wait, missed, overlaps, most at once and seconds in all;
    lane, name, limit, most at once, since when and seconds full; with --runs also run, job, nominal, due, started and
    ended time, state, seconds waited and what for, attempts and reason."""
    import sys

    from interlock.cli.forecast_plan import asked_of, forecast_of
    from interlock.cli.forecasts import print_plain, shown
    from interlock.cli.output import say
    from interlock.cli.tables import console, print_json

    if svg is not None:
        check_writable(svg)
    asked = asked_of(begin, span, tz, duration or [], fail or [])
    found = forecast_of(flags.given(files=paths or None).resolve(), asked)
    if svg is not None:
        from interlock.simulation.gantt import gantt

        _write(svg, gantt(found, asked.zone))
        say(f"drawn: {svg}")
    if json:
        print_json(found if runs else _without_runs(found))
    elif sys.stdout.isatty():
        console().print(shown(found, asked.zone, runs))
    else:
        print_plain(found, runs)


def check_writable(svg: str) -> None:
    """Before anything is worked out in vain; nothing is written yet."""
    import errno
    import os

    folder = os.path.dirname(os.path.abspath(svg))
    if os.path.isdir(svg):
        raise _not_writable(svg, errno.EISDIR)
    if not os.path.isdir(folder):
        raise _not_writable(svg, errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT)
    if not os.access(svg if os.path.exists(svg) else folder, os.W_OK):
        raise _not_writable(svg, errno.EACCES)


def _write(svg: str, text: str) -> None:
    try:
        with open(svg, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _not_writable(svg, error.errno or 0) from None


def _not_writable(svg: str, number: int) -> Exception:
    import os

    from interlock.model.error import BadValue

    return BadValue("--svg", svg, f"a file that can be written ({os.strerror(number)})")


def _without_runs(found: object) -> dict[str, object]:
    import msgspec

    return {name: value for name, value in msgspec.structs.asdict(found).items() if name != "runs"}  # type: ignore[arg-type] # a struct
