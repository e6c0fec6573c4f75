"""A forecast as `simulate` prints it: notable findings, jobs, lanes and, on request, every run."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any

from interlock.cli.draw.format import COLOURS, counted, exact, span
from interlock.cli.draw.tables import Column, columns_of, rich_table, tabbed
from interlock.cli.draw.zones import wall
from interlock.fields.safe_text import safe
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast

MOST_NOTABLE = 40  # findings shown in a terminal
COLOURS_OF = {"missed": "red", "waited": "yellow", "overlap": "yellow"}


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

    def count(number: float) -> str:
        return f"{number:,}" if number else ""

    count_text = f"{counted(len(found.runs), 'run')} of {counted(len(found.jobs), 'job')}"
    span_text = f" from {time(found.start)} to {time(found.until)} {zone}"
    parts: list[Any] = [Text.assemble((count_text, "bold"), span_text)]

    def add(columns: Sequence[Column], rows: Iterable[list[Any]]) -> None:
        parts.extend([Text(""), rich_table(columns, list(rows))])

    if found.notable:
        add(
            [*columns_of("job, what, first, last"), Column("how", wrap=True, gives_way=True)],
            (
                [one.job_id, Text(one.what, COLOURS_OF.get(one.what, "red")), *map(time, (one.first_at, one.last_at)),
                 safe(one.text)]
                for one in found.notable[:MOST_NOTABLE]
            ),
        )  # fmt: skip
        if (more := len(found.notable) - MOST_NOTABLE) > 0:
            parts.append(Text(f"{more:,} more; pipe the output, or use --json, to see all", style="dim"))
    else:
        parts += [Text(""), Text("everything starts when it is due, and nothing is missed", style="green")]
    rows: list[list[Any]] = []
    for job in found.jobs:
        waited = [count(job.waited), span(job.longest_wait) if job.waited else ""]
        lasts = [span(job.length.seconds), safe(job.length.source)]
        rows.append(
            [job.id, job.schedule, *lasts, f"{job.runs:,}", *waited, *map(count, (job.missed, job.most_at_once))]
        )
    add(columns_of("job, ~schedule, >lasts, known by, >runs, >waited, >at most, >missed, >at once"), rows)
    if found.lanes:
        add(
            columns_of("lane, >limit, >most at once, first at, >full for"),
            ([lane.name, f"{lane.limit:,}", f"{lane.most:,}", time(lane.most_at), span(lane.full) if lane.full else ""]
             for lane in found.lanes),
        )  # fmt: skip
    if runs:
        rows = []
        for run in found.runs:
            why = f"waited for {run.waited_for}" if run.state is State.SUCCEEDED and run.waited_for else run.reason
            state, wait = Text(run.state, COLOURS.get(run.state, "")), span(run.waited) if run.waited_for else ""
            rows.append(
                [time(run.due_at), run.job_id, state, wait, time(run.started_at), time(run.ended_at), safe(why)]
            )
        add(columns_of("due, job, state, >waited, started, ended, ~why"), rows)
    return Group(*parts)
