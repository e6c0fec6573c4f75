"""How jobs read: a line for programs, a row and facts for people."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.options import Flags

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.job_info import JobInfo, LoggedRun

JobArguments = Annotated[list[str], typer.Argument(metavar="JOB...", help="The ids of the jobs.")]


def act_on_each(flags: Flags, jobs: Sequence[str], act: "Callable[[Client, str], JobInfo]", json: bool) -> None:
    """Each of them, whatever comes of the others, and tell how it stands then; raises the first error at the end."""
    import sys

    from interlock.cli.server import client_of
    from interlock.cli.tables import out, print_json
    from interlock.model.error import BadSchedule, InterlockError, UnknownJob

    failure: InterlockError | None = None
    found: list[JobInfo] = []
    with client_of(flags) as client:
        for job in jobs:
            try:
                info = act(client, job)
            except (UnknownJob, BadSchedule) as error:
                failure = failure or error
                continue
            found.append(info)
            if not json:
                out(sentence_of(info, time.time()) if sys.stdout.isatty() else line_of(info))
    if json:
        print_json({"jobs": found})
    if failure is not None:
        raise failure


def line_of(job: "JobInfo") -> str:
    """For programs: nothing cut, tabs between."""
    from interlock.cli.format import exact
    from interlock.cli.tables import plain

    last = job.last_run
    cells = (
        job.id, job.schedule_text or "", exact(job.next_at), "" if last is None else last.state,
        job.live, "paused" if job.paused else "", job.kind, job.lane, job.source,
    )  # fmt: skip
    return "\t".join(plain(cell) for cell in cells)


def sentence_of(job: "JobInfo", now: float) -> str:
    from interlock.cli.output import safe

    return safe(f"{job.id}: {'paused' if job.paused else f'fires {next_of(job, now)}' if job.next_at else 'not due'}")


def next_of(job: "JobInfo", now: float) -> str:
    from interlock.cli.format import ago

    if job.paused:
        return "paused"
    return "" if job.next_at is None else f"{when(job.next_at, now)} ({ago(job.next_at, now)})"


def when(at: float, now: float, zone: Any = None) -> str:
    """A time where the reader is, or in a zone, the day left out if it is today, and seconds if there are none."""
    there, here = (datetime.fromtimestamp(one).astimezone(zone) for one in (at, now))
    day = "" if there.date() == here.date() else f"{there:%a} " if _is_near(there, here) else f"{there:%Y-%m-%d} "
    return day + (f"{there:%H:%M}" if there.second == 0 else f"{there:%H:%M:%S}")


def _is_near(there: datetime, here: datetime) -> bool:
    """Whether the name of the day says which day it is."""
    return timedelta(0) <= there.date() - here.date() < timedelta(days=7)


def table(jobs: "Sequence[JobInfo]", now: float) -> Any:
    """What fits a terminal: the schedule is cut before anything else."""
    from rich.text import Text

    from interlock.cli.format import COLOURS, ago
    from interlock.cli.tables import Column, plain, rich_table

    columns = [Column("job"), Column("schedule", gives_way=True), Column("next"), Column("last run")]
    columns.append(Column("live", right=True))
    rows: list[list[Any]] = []
    for job in jobs:
        last, lived = job.last_run, Text("")
        if last is not None:
            lived = Text(f"{last.state} {ago(last.ended_at or last.scheduled_at, now)}", COLOURS.get(last.state, ""))
        fires = Text(next_of(job, now), style="yellow" if job.paused else "")
        rows.append([job.id, plain(job.schedule_text or ""), fires, lived, str(job.live) if job.live else ""])
    return rich_table(columns, rows) if rows else Text("no jobs", style="dim")


def facts(job: "JobInfo", told: Callable[[float], str], later: Sequence[float] = ()) -> list[tuple[str, str]]:
    """Every field by the name it has elsewhere, those left out that have no value; `told` is how a time reads, and
    `later` are times that come after the next one."""
    from interlock.cli.tables import on_one_line

    pairs: list[tuple[str, Any]] = [
        ("id", job.id),
        ("source", job.source),
        ("kind", job.kind),
        ("command", job.command),
        ("lane", job.lane),
        ("version", job.version),
        ("max_concurrent_runs", job.max_concurrent_runs),
        *_schedule_facts(job),
        ("paused", "yes" if job.paused else "no"),
        ("next_at", None if job.next_at is None else told(job.next_at)),
        *(("", told(at)) for at in later),
        ("live", job.live),
    ]
    last = job.last_run
    if last is not None:
        pairs += [
            ("last_run", last.id),
            ("last_run.state", last.state),
            ("last_run.reason", last.reason),
            ("last_run.scheduled_at", told(last.scheduled_at)),
            ("last_run.ended_at", None if last.ended_at is None else told(last.ended_at)),
        ]
    return [(name, on_one_line(str(value))) for name, value in pairs if value not in (None, "")]


def _schedule_facts(job: "JobInfo") -> list[tuple[str, Any]]:
    """The schedule in words, and what the words leave out."""
    from interlock.model.duration import brief

    schedule = job.schedule
    if schedule is None:
        return [("schedule", job.schedule_text)]
    return [
        ("schedule", job.schedule_text),
        ("schedule.jitter", brief(schedule.jitter)),
        ("schedule.catch_up", schedule.catch_up),
        ("schedule.catch_up_window", brief(schedule.catch_up_window)),
        ("schedule.catch_up_max", schedule.catch_up_max),
        ("schedule.keep", "yes" if schedule.keep else None),
    ]


def print_log(runs: "Sequence[LoggedRun]") -> None:
    """Each run, and below it what it printed."""
    import sys

    from interlock.cli.format import COLOURS, ago, exact, span
    from interlock.cli.output import safe
    from interlock.cli.tables import console, out, plain

    now = time.time()
    for run in runs:
        lines = safe(run.output.expandtabs()).splitlines()
        if not sys.stdout.isatty():
            times = (exact(run.scheduled_at), exact(run.started_at), exact(run.ended_at))
            code = "" if run.exit_code is None else run.exit_code
            out("\t".join(plain(cell) for cell in (run.id, run.state, run.origin, *times, code, run.reason)))
            for line in lines:
                out(f"\t{line}")
            continue
        from rich.text import Text

        took = "" if run.started_at is None or run.ended_at is None else f" in {span(run.ended_at - run.started_at)}"
        state = (f"{run.state}{took}", COLOURS.get(run.state, ""))
        rest = (plain(f"{ago(run.scheduled_at, now)}, {run.origin}: {run.reason}"), "dim")
        console().print(Text.assemble((run.id, "bold"), "  ", state, "  ", rest))
        for line in lines:
            out(f"  {line}")
