"""`interlock simulate`."""

import errno
import os
from typing import Annotated

import msgspec
import typer

from interlock.cli.options import Flags, JsonOption, takes
from interlock.cli.output import say
from interlock.cli.tables import present
from interlock.model.error import BadValue


@takes("app", "database", "workers", "slots", "processes", "lanes")
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Files and folders with jobs.")] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Start, in the zone of --tz. Default: now.")
    ] = None,
    span: Annotated[str, typer.Option("--for", metavar="DURATION", help="Length, up to 366d.")] = "7d",
    tz: Annotated[str, typer.Option(metavar="ZONE", help="Time zone of --from and of the printed times.")] = "UTC",
    duration: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB=DURATION",
            help="Length of this job's runs; without JOB=, of all other jobs. May be repeated. Default: the median of "
            "the job's last 20 successful runs in the database of --db, else 1s.",
        ),
    ] = None,
    fail: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Let every attempt of this job fail. May be repeated.")
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Show every run.")] = False,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Draw a chart into this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Forecast what would run, on virtual time, without running anything.

    Piped, with tabs between the values: `notable`, job, what, count, first, last and how; `job`, id, schedule, lane,
    seconds a run lasts and how that is known, runs, waited, longest wait, missed, overlaps, most at once and seconds in
    all; `lane`, name, limit, most at once, since when and seconds full; with --runs also `run`, job, nominal, due,
    started and ended time, state, seconds waited and for what, attempts and reason."""
    from interlock.cli.forecast_plan import forecast_of, question_of
    from interlock.cli.forecasts import drawing, lines_of

    if svg is not None:
        _check_writable(svg)
    question = question_of(begin, span, tz, duration or [], fail or [])
    found = forecast_of(flags.given(files=paths or None).resolve(), question)
    if svg is not None:
        from interlock.cli.gantt import gantt

        try:
            with open(svg, "w", encoding="utf-8") as file:
                file.write(gantt(found, question.zone))
        except OSError as error:
            raise BadValue("--svg", svg, f"a file that can be written ({error.strerror})") from None
        say(f"drawn: {svg}")
    fields = msgspec.structs.asdict(found)
    present(
        json,
        lambda: {name: value for name, value in fields.items() if runs or name != "runs"},
        lambda: lines_of(found, runs),
        lambda: drawing(found, question.zone, runs),
    )


def _check_writable(svg: str) -> None:
    """Refuse an impossible path before a long computation; write nothing yet."""
    folder = os.path.dirname(os.path.abspath(svg))
    number = 0
    if os.path.isdir(svg):
        number = errno.EISDIR
    elif not os.path.isdir(folder):
        number = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(svg if os.path.exists(svg) else folder, os.W_OK):
        number = errno.EACCES
    if number:
        raise BadValue("--svg", svg, f"a file that can be written ({os.strerror(number)})")
