"""`interlock simulate`."""

from typing import Annotated

import msgspec

from interlock.cli.check.forecasts import drawing, lines_of
from interlock.cli.draw.format import exact
from interlock.cli.draw.gantt import gantt
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.picture_file import check_writable, write_picture


@takes("app", "database", "workers", "slots", "processes", "lanes")
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, argument("PATH", "Files and folders with jobs.")] = None,
    begin: Annotated[str | None, option("TIME", "Start, in the zone of --tz. Default: now.", "--from")] = None,
    span: Annotated[str, option("DURATION", "Length of the forecast, up to 366d.", "--for")] = "7d",
    tz: Annotated[str, option("ZONE", "Time zone of --from and of the printed times.")] = "UTC",
    duration: Annotated[
        list[str] | None,
        option(
            "JOB=DURATION",
            "Length of this job's runs; without JOB=, of all other jobs. May be repeated. Default: the median of "
            "the job's last 20 successful runs in the database of --db, else 1s.",
        ),
    ] = None,
    fail: Annotated[list[str] | None, option("JOB", "Let every attempt of this job fail. May be repeated.")] = None,
    runs: Annotated[bool, switch("Show every run.", "--runs")] = False,
    svg: Annotated[str | None, option("FILE", "Draw a chart into this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Forecast what would run, on virtual time, without running anything.

    Piped, separated by tabs: `notable`, job, what, count, first, last and how; `job`, id, schedule, lane,
    seconds a run lasts and how that is known, runs, waited, longest wait, missed, overlaps, most at once and seconds in
    all; `lane`, name, limit, most at once, since when and seconds full; with --runs also `run`, job, nominal, due,
    started and ended time, state, seconds waited and for what, attempts and reason."""
    from interlock.cli.check.forecast_plan import forecast_of, question_of  # reads databases, which only Linux does

    if svg is not None:
        check_writable(svg)
    question = question_of(begin, span, tz, duration or [], fail or [])
    found = forecast_of(flags.given(files=paths or None).resolve(), question)
    if svg is not None:
        write_picture(svg, gantt(found, question.zone))
    fields = msgspec.structs.asdict(found) | {"start": exact(found.start), "until": exact(found.until)}
    present(
        json,
        lambda: {name: value for name, value in fields.items() if runs or name != "runs"},
        lambda: lines_of(found, runs),
        lambda: drawing(found, question.zone, runs),
    )
