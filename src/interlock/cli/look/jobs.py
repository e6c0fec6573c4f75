"""`interlock jobs`."""

import json as plain_json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from interlock.cli.draw.format import COLOURS, ago, exact, when
from interlock.cli.draw.listing import COUNT, PIPE, SCREEN, Column, Form, Listing, piped
from interlock.cli.draw.tables import on_one_line, present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import client_of
from interlock.client.http.client import Client
from interlock.fields.duration import brief
from interlock.model.job_info import JobInfo, LastRun
from interlock.model.labels import LABELS

ON_SCREEN = 200  # jobs listed in a terminal by default


def next_fire(job: JobInfo, now: float) -> str:
    if job.paused:
        return "paused"
    return "" if job.next_at is None else f"{when(job.next_at, now)} ({ago(job.next_at, now)})"


def _next(job: JobInfo, now: float) -> Any:
    from rich.text import Text

    return Text("paused", "yellow") if job.paused else "" if job.next_at is None else when(job.next_at, now)


def _last(run: LastRun, now: float) -> Any:
    from rich.text import Text

    return Text(f"{run.state} {ago(run.ended_at or run.scheduled_at, now)}", COLOURS.get(run.state, ""))


JOBS = Listing[JobInfo](
    "jobs",
    "no jobs are declared; interlock init writes a project with some",
    Column("job", "id"),
    Column("schedule", "schedule_text", gives_way=True),
    Column("next", lambda job: job, Form(_next, lambda job: exact(job.next_at))),
    Column("fires", "next_at", Form(lambda at, now: ago(at, now)), SCREEN, spare=1),
    Column("last run", "last_run", Form(_last, lambda run: str(run.state))),
    Column("live", form=COUNT),
    Column("other code", lambda job: f"on {', '.join(job.other_code)}" if job.other_code else None, on=SCREEN),
    Column("paused", lambda job: "paused" if job.paused else "", on=PIPE),
    *piped("kind", "lane", "source"),
    first="first",
)


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str | None, argument("[JOB]", "Show everything about this job.", completion.jobs)] = None,
    limit: Annotated[
        int | None, option("NUMBER", f"Most jobs to list. Default: {ON_SCREEN} in a terminal, else all.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List jobs in order of declaration: schedule, next fire time, last run, live runs.

    Piped: id, schedule, next fire time, state of the last run, number of live runs, `paused` or nothing, kind, lane and
    place of declaration, separated by tabs. For one job, a line for each field: name, tab, value."""
    most = ON_SCREEN if limit is None and sys.stdout.isatty() and not json else limit
    with client_of(flags) as client:
        if job is None:
            JOBS.show(json, client.jobs(), most)
        else:
            _show(client, job, json)


def _show(client: Client, job: str, json: bool) -> None:
    found, now = client.job(job), time.time()

    def drawing() -> str:
        later = [] if found.next_at is None else client.next_times(job, after=found.next_at)
        pairs = job_facts(found, lambda at: f"{when(at, now)} ({ago(at, now)})", later)
        width = max(len(name) for name, _ in pairs)
        return "\n".join(f"{name:{width}}  {value}" for name, value in pairs)

    present(json, lambda: found, lambda: map("\t".join, job_facts(found, exact)), drawing)


def job_facts(job: JobInfo, time_text: Callable[[float], str], later: Sequence[float] = ()) -> list[tuple[str, str]]:
    """Return every field that has a value, by its name in JSON. `later` are the fire times after the next one."""
    own = ("id", "source", "kind", "command", "lane", "priority", "version", "max_concurrent_runs", "topic")
    pairs: list[tuple[str, Any]] = [(name, getattr(job, name)) for name in own]
    pairs += [(name, ", ".join(getattr(job, name))) for name in ("capabilities", "risk_tags", "requires")]
    pairs += [("labels", LABELS.show(job.labels)), ("sensitivity", job.sensitivity), ("schedule", job.schedule_text)]
    pairs += [(name, plain_json.dumps(value, ensure_ascii=False)) for name, value in job.guards.items()]
    if (schedule := job.schedule) is not None:
        pairs += [
            ("schedule.jitter", brief(schedule.jitter)),
            ("schedule.catch_up", schedule.catch_up),
            ("schedule.catch_up_window", brief(schedule.catch_up_window)),
            ("schedule.catch_up_max", schedule.catch_up_max),
            ("schedule.keep", "yes" if schedule.keep else None),
        ]
    pairs += [
        ("paused", "yes" if job.paused else "no"),
        ("next_at", None if job.next_at is None else time_text(job.next_at)),
        *(("", time_text(at)) for at in later),
        ("other_code", ", ".join(job.other_code)),
        ("live", job.live),
    ]
    if (last := job.last_run) is not None:
        pairs += [
            ("last_run", last.id),
            *((f"last_run.{name}", getattr(last, name)) for name in ("state", "reason")),
            ("last_run.scheduled_at", time_text(last.scheduled_at)),
            ("last_run.ended_at", None if last.ended_at is None else time_text(last.ended_at)),
        ]
    return [(name, on_one_line(str(value))) for name, value in pairs if value not in (None, "")]
