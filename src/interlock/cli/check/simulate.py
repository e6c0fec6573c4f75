"""`interlock simulate`: a forecast as findings, jobs, lanes and, on request, every run."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Annotated, Any

import msgspec

from interlock.cli.draw.format import COLOURS, counted, exact
from interlock.cli.draw.gantt import gantt
from interlock.cli.draw.listing import COUNT, LENGTH, NUMBER, Column, Form, Listing
from interlock.cli.draw.tables import present, tabbed
from interlock.cli.draw.zones import wall
from interlock.cli.shared.options import Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.picture_file import check_writable, write_picture
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast, RunForecast

MOST_NOTABLE = 40  # findings shown in a terminal
YELLOW = {"waited": "yellow", "overlap": "yellow"}


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


def lines_of(found: Forecast, runs: bool) -> Iterator[str]:
    for one in found.notable:
        yield tabbed("notable", one.job_id, one.what, one.count, exact(one.first_at), exact(one.last_at), one.text)
    for job in found.jobs:
        length = (f"{job.length.seconds:g}", job.length.source)
        figures = (job.runs, job.waited, f"{job.longest_wait:g}", job.missed, job.overlaps, job.most_at_once)
        yield tabbed("job", job.id, job.schedule, job.lane, *length, *figures, f"{job.busy:g}")
    for lane in found.lanes:
        yield tabbed("lane", lane.name, lane.limit, lane.most, exact(lane.most_at), f"{lane.full:g}")
    for run in found.runs if runs else ():
        times = (exact(run.nominal_at), exact(run.due_at), exact(run.started_at), exact(run.ended_at))
        wait = (f"{run.waited:g}", run.waited_for)
        yield tabbed("run", run.job_id, *times, run.state, *wait, run.attempts, run.reason)


def drawing(found: Forecast, zone: tzinfo, runs: bool) -> Any:
    from rich.console import Group
    from rich.text import Text

    def time(at: float | None) -> str:
        return "" if at is None else f"{wall(at, zone):%Y-%m-%d %H:%M:%S}"

    count_text = f"{counted(len(found.runs), 'run')} of {counted(len(found.jobs), 'job')}"
    span_text = f" from {time(found.start)} to {time(found.until)} {zone}"
    parts: list[Any] = [Text.assemble((count_text, "bold"), span_text)]

    moment = Form(lambda at, _: time(at))

    def add(items: Sequence[Any], *columns: Column) -> None:
        parts.extend([Text(""), Listing[Any]("", "", *columns).table(items, 0.0)])

    if found.notable:
        add(
            found.notable[:MOST_NOTABLE],
            Column("job", "job_id"),
            Column("what", colours=dict.fromkeys((one.what for one in found.notable), "red") | YELLOW),
            Column("first", "first_at", moment),
            Column("last", "last_at", moment),
            Column("how", "text", gives_way=True, wrap=True),
        )
        if (more := len(found.notable) - MOST_NOTABLE) > 0:
            parts.append(Text(f"{more:,} more; pipe the output, or use --json, to see all", style="dim"))
    else:
        parts += [Text(""), Text("everything starts when it is due, and nothing is missed", style="green")]
    add(
        found.jobs,
        Column("job", "id"),
        Column("schedule", gives_way=True),
        Column("lasts", lambda job: job.length.seconds, LENGTH),
        Column("known by", lambda job: job.length.source),
        Column("runs", form=NUMBER),
        Column("waited", form=COUNT),
        Column("at most", lambda job: job.longest_wait if job.waited else None, LENGTH),
        Column("missed", form=COUNT),
        Column("at once", "most_at_once", COUNT),
    )
    if found.lanes:
        add(
            found.lanes,
            Column("lane", "name"),
            Column("limit", form=NUMBER),
            Column("most at once", "most", NUMBER),
            Column("first at", "most_at", moment),
            Column("full for", lambda lane: lane.full or None, LENGTH),
        )
    if runs:
        add(
            found.runs,
            Column("due", "due_at", moment),
            Column("job", "job_id"),
            Column("state", colours=COLOURS),
            Column("waited", lambda run: run.waited if run.waited_for else None, LENGTH),
            Column("started", "started_at", moment),
            Column("ended", "ended_at", moment),
            Column("why", _why, gives_way=True),
        )
    return Group(*parts)


def _why(run: RunForecast) -> str:
    return f"waited for {run.waited_for}" if run.state is State.SUCCEEDED and run.waited_for else run.reason
