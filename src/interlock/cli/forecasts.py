"""A forecast as `simulate` shows it: what is worth a look, jobs, lanes, and every run if that is wanted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from interlock.cli.format import COLOURS, exact, span
from interlock.cli.output import safe
from interlock.cli.tables import Column, out, plain, rich_table
from interlock.model.state import State
from interlock.simulation.forecast_model import Forecast, JobForecast, LaneForecast, Notable, RunForecast

MOST_NOTABLE = 40
"""that a terminal is filled with"""
COLOURS_OF = {"missed": "red", "waited": "yellow", "overlap": "yellow"}


def print_plain(found: Forecast, runs: bool) -> None:
    """For a program: tabs between the values, and nothing cut."""
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


def shown(found: Forecast, zone: ZoneInfo, runs: bool) -> Any:
    """The same for a terminal."""
    from rich.console import Group
    from rich.text import Text

    count = f"{len(found.runs):,} runs of {len(found.jobs):,} jobs"
    when = f"{_time(found.start, zone)} to {_time(found.until, zone)} {zone}"
    parts: list[Any] = [Text.assemble((count, "bold"), f" from {when}"), Text("")]
    if found.notable:
        parts.append(_notable_table(found.notable[:MOST_NOTABLE], zone))
        more = len(found.notable) - MOST_NOTABLE
        parts.append(
            Text(f"{more:,} more: they are in what is piped, and in --json\n" if more > 0 else "", style="dim")
        )
    else:
        parts += [Text("everything starts when it is due, and nothing is missed\n", style="green")]
    parts.append(_job_table(found.jobs))
    if found.lanes:
        parts += [Text(""), _lane_table(found.lanes, zone)]
    if runs:
        parts += [Text(""), _run_table(found.runs, zone)]
    return Group(*parts)


def _notable_table(notable: Sequence[Notable], zone: ZoneInfo) -> Any:
    from rich.text import Text

    columns = [Column("job"), Column("what"), Column("first"), Column("last"), Column("how", wrap=True, gives_way=True)]
    rows = []
    for one in notable:
        what = Text(one.what, style=COLOURS_OF.get(one.what, "red"))
        rows.append([one.job_id, what, _time(one.first_at, zone), _time(one.last_at, zone), safe(one.text)])
    return rich_table(columns, rows)


def _job_table(jobs: Sequence[JobForecast]) -> Any:
    columns = [Column("job"), Column("schedule", gives_way=True), Column("lasts", right=True), Column("known by")]
    columns += [Column(name, right=True) for name in ("runs", "waited", "at most", "missed", "at once")]
    rows = []
    for job in jobs:
        waits = [_count(job.waited), span(job.longest_wait) if job.waited else ""]
        figures = [f"{job.runs:,}", *waits, _count(job.missed), _count(job.most_at_once)]
        rows.append([job.id, job.schedule, span(job.length.seconds), safe(job.length.source), *figures])
    return rich_table(columns, rows)


def _lane_table(lanes: Sequence[LaneForecast], zone: ZoneInfo) -> Any:
    columns = [Column("lane"), *(Column(name, right=True) for name in ("limit", "most at once")), Column("first at")]
    columns.append(Column("full for", right=True))
    rows = []
    for lane in lanes:
        when = "" if lane.most_at is None else _time(lane.most_at, zone)
        rows.append([lane.name, f"{lane.limit:,}", f"{lane.most:,}", when, span(lane.full) if lane.full else ""])
    return rich_table(columns, rows)


def _run_table(runs: Sequence[RunForecast], zone: ZoneInfo) -> Any:
    from rich.text import Text

    columns = [Column("due"), Column("job"), Column("state"), Column("waited", right=True), Column("started")]
    columns += [Column("ended"), Column("why", gives_way=True)]
    rows = []
    for run in runs:
        state = Text(run.state, style=COLOURS.get(State(run.state), ""))
        started, ended = ("" if at is None else _time(at, zone) for at in (run.started_at, run.ended_at))
        why = f"waited for {run.waited_for}" if run.state is State.SUCCEEDED and run.waited_for else run.reason
        waited = span(run.waited) if run.waited_for is not None else ""
        rows.append([_time(run.due_at, zone), run.job_id, state, waited, started, ended, safe(why)])
    return rich_table(columns, rows)


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _time(at: float, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")
