"""A forecast as `simulate` prints it: notable findings, jobs, lanes and, on request, every run."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

from interlock.cli.format import COLOURS, counted, exact, span
from interlock.cli.output import safe
from interlock.cli.tables import Column, out, plain, rich_table
from interlock.cli.zones import wall
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast, RunForecast

MOST_NOTABLE = 40  # findings shown in a terminal
COLOURS_OF = {"missed": "red", "waited": "yellow", "overlap": "yellow"}


def print_plain(found: Forecast, runs: bool) -> None:
    """Print tabbed lines for programs, nothing cut."""
    for one in found.notable:
        _line("notable", one.job_id, one.what, one.count, exact(one.first_at), exact(one.last_at), one.text)
    for job in found.jobs:
        length = (f"{job.length.seconds:g}", job.length.source)
        figures = (job.runs, job.waited, f"{job.longest_wait:g}", job.missed, job.overlaps, job.most_at_once)
        _line("job", job.id, job.schedule, job.lane, *length, *figures, f"{job.busy:g}")
    for lane in found.lanes:
        _line("lane", lane.name, lane.limit, lane.most, exact(lane.most_at), f"{lane.full:g}")
    for run in found.runs if runs else ():
        times = (exact(run.nominal_at), exact(run.due_at), exact(run.started_at), exact(run.ended_at))
        wait = (f"{run.waited:g}", run.waited_for or "")
        _line("run", run.job_id, *times, run.state, *wait, run.attempts, run.reason)


def _line(*cells: object) -> None:
    out("\t".join(plain(cell) for cell in cells))


def drawing(found: Forecast, zone: tzinfo, runs: bool) -> Any:
    """Return the same for a terminal."""
    from rich.console import Group
    from rich.text import Text

    def time(at: float | None) -> str:
        return "" if at is None else f"{wall(at, zone):%Y-%m-%d %H:%M:%S}"

    def count(number: float) -> str:
        return f"{number:,}" if number else ""

    count_text = f"{counted(len(found.runs), 'run')} of {counted(len(found.jobs), 'job')}"
    head = Text.assemble((count_text, "bold"), f" from {time(found.start)} to {time(found.until)} {zone}")
    parts: list[Any] = [head, Text("")]
    if found.notable:
        columns = _columns("job", "what", "first", "last")
        columns.append(Column("how", wrap=True, gives_way=True))
        rows: list[list[Any]] = [
            [
                one.job_id,
                Text(one.what, COLOURS_OF.get(one.what, "red")),
                time(one.first_at),
                time(one.last_at),
                safe(one.text),
            ]
            for one in found.notable[:MOST_NOTABLE]
        ]
        parts.append(rich_table(columns, rows))
        if (more := len(found.notable) - MOST_NOTABLE) > 0:
            parts.append(Text(f"{more:,} more; pipe the output, or use --json, to see all", style="dim"))
    else:
        parts.append(Text("everything starts when it is due, and nothing is missed", style="green"))
    columns = [Column("job"), Column("schedule", gives_way=True), Column("lasts", right=True), Column("known by")]
    columns += _columns("runs", "waited", "at most", "missed", "at once", right=True)
    rows = [
        [
            job.id, job.schedule, span(job.length.seconds), safe(job.length.source), f"{job.runs:,}", count(job.waited),
            span(job.longest_wait) if job.waited else "", count(job.missed), count(job.most_at_once),
        ]
        for job in found.jobs
    ]  # fmt: skip
    parts += [Text(""), rich_table(columns, rows)]
    if found.lanes:
        columns = [
            Column("lane"),
            *_columns("limit", "most at once", right=True),
            Column("first at"),
            Column("full for", right=True),
        ]
        rows = [
            [lane.name, f"{lane.limit:,}", f"{lane.most:,}", time(lane.most_at), span(lane.full) if lane.full else ""]
            for lane in found.lanes
        ]
        parts += [Text(""), rich_table(columns, rows)]
    if runs:
        parts += [Text(""), _run_table(found.runs, time)]
    return Group(*parts)


def _columns(*titles: str, right: bool = False) -> list[Column]:
    return [Column(title, right=right) for title in titles]


def _run_table(runs: Sequence[RunForecast], time: Any) -> Any:
    from rich.text import Text

    columns = [*_columns("due", "job", "state"), Column("waited", right=True), *_columns("started", "ended")]
    rows = []
    for run in runs:
        why = f"waited for {run.waited_for}" if run.state is State.SUCCEEDED and run.waited_for else run.reason
        state, waited = Text(run.state, COLOURS.get(run.state, "")), span(run.waited) if run.waited_for else ""
        rows.append([time(run.due_at), run.job_id, state, waited, time(run.started_at), time(run.ended_at), safe(why)])
    return rich_table([*columns, Column("why", gives_way=True)], rows)
