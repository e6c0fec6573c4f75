"""A forecast as `simulate` prints it: notable findings, jobs, lanes and, on request, every run."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any

from interlock.cli.draw.format import COLOURS, counted, exact
from interlock.cli.draw.listing import COUNT, LENGTH, NUMBER, Column, Form, Listing
from interlock.cli.draw.tables import tabbed
from interlock.cli.draw.zones import wall
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast, RunForecast

MOST_NOTABLE = 40  # findings shown in a terminal
YELLOW = {"waited": "yellow", "overlap": "yellow"}


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
