"""Text for counts, times, runs and jobs: aligned and coloured in a terminal, exact and tabbed in a pipe."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from interlock.cli.draw.tables import columns_of, console, on_one_line, out, plain, rich_table, tabbed
from interlock.fields.duration import brief
from interlock.fields.duration import span as span
from interlock.fields.json_form import rfc3339
from interlock.fields.safe_text import safe
from interlock.interface.run_view import RunInfo
from interlock.model.job_info import JobInfo, LoggedRun
from interlock.model.labels import LABELS
from interlock.model.reload_report import Reloaded
from interlock.model.state import TERMINAL, State
from interlock.policy.policy import Policy

COLOURS = {
    State.SUCCEEDED: "green",
    State.RUNNING: "cyan",
    **dict.fromkeys((State.FAILED, State.TIMEOUT, State.ORPHANED, State.DENIED, State.OUTPUT_QUARANTINED), "red"),
    **dict.fromkeys((State.RETRYING, State.CANCELLED, State.SKIPPED), "yellow"),
}

MOST_NAMES = 10  # names of one kind in one line
LEVELS = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2,000 runs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def ago(at: float, now: float) -> str:
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def local(at: float) -> str:
    """Return date and time to the millisecond, in the reader's zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def clock(at: float) -> str:
    return local(at)[11:]


def exact(at: float | None) -> str:
    """Return a time for programs, in UTC."""
    return "" if at is None else rfc3339(at)


def when(at: float, now: float, zone: tzinfo | None = None) -> str:
    """Return a time in a zone, the reader's by default. Leave out the day if it is today, and seconds that are zero."""
    there, here = (datetime.fromtimestamp(one, UTC).astimezone(zone) for one in (at, now))
    days = (there.date() - here.date()).days
    day = "" if days == 0 else f"{there:%a} " if 0 < days < 7 else f"{there:%Y-%m-%d} "
    return day + (f"{there:%H:%M}" if there.second == 0 else f"{there:%H:%M:%S}")


def took(run: RunInfo, now: float) -> float | None:
    """Return the seconds from the start of the first attempt to the end of the run, or to now."""
    if run.started_at is None:
        return None
    return (run.ended_at if run.ended_at is not None else now) - run.started_at


def last_line(error: str) -> str:
    """Return what a traceback ends with."""
    return error.strip().rpartition("\n")[2]


def why(run: RunInfo) -> str:
    """Return the explanation of the state: progress, the error's last line, or the reason."""
    if run.progress is not None and run.state not in TERMINAL:
        return f"{run.progress.percent:.0f}% {run.progress.text}".strip()
    if run.error and run.error.strip() and run.state is not State.SUCCEEDED:
        return last_line(run.error)
    return run.reason


def print_log(runs: Sequence[LoggedRun]) -> None:
    """Print each run, and below it its output."""
    from rich.text import Text

    is_terminal, now = sys.stdout.isatty(), time.time()
    for run in runs:
        if is_terminal:
            ran = "" if run.started_at is None or run.ended_at is None else f" in {span(run.ended_at - run.started_at)}"
            rest = plain(f"{ago(run.scheduled_at, now)}, {run.origin}: {run.reason}")
            state = (f"{run.state}{ran}", COLOURS.get(run.state, ""))
            console().print(Text.assemble((run.id, "bold"), "  ", state, "  ", (rest, "dim")))
        else:
            times = (exact(run.scheduled_at), exact(run.started_at), exact(run.ended_at))
            out(tabbed(run.id, run.state, run.origin, *times, run.exit_code, run.reason))
        for line in safe(run.output.expandtabs()).splitlines():
            out(f"  {line}" if is_terminal else f"\t{line}")


def job_line(job: JobInfo) -> str:
    last, paused = job.last_run and job.last_run.state, "paused" if job.paused else ""
    return tabbed(job.id, job.schedule_text, exact(job.next_at), last, job.live, paused, job.kind, job.lane, job.source)


def next_fire(job: JobInfo, now: float) -> str:
    if job.paused:
        return "paused"
    return "" if job.next_at is None else f"{when(job.next_at, now)} ({ago(job.next_at, now)})"


def job_table(jobs: Sequence[JobInfo], now: float, most: int = sys.maxsize) -> Any:
    """Return a table for a terminal, with the first `most` jobs. A long schedule is cut first."""
    from rich.console import Group
    from rich.text import Text

    rows: list[list[Any]] = []
    for job in jobs[:most]:
        last, ended = job.last_run, Text("")
        if last is not None:
            ended = Text(f"{last.state} {ago(last.ended_at or last.scheduled_at, now)}", COLOURS.get(last.state, ""))
        fires = Text(next_fire(job, now), style="yellow" if job.paused else "")
        other = Text(f"on {', '.join(job.other_code)}", style="yellow") if job.other_code else Text("")
        rows.append([job.id, plain(job.schedule_text or ""), fires, ended, str(job.live or ""), other])
    if not rows:
        return Text("no jobs", style="dim")
    note = [f"only the first {most:,}; for more, use --limit"] if len(jobs) > most else []
    columns = "job, ~schedule, next, last run, >live"
    if any(job.other_code for job in jobs[:most]):
        columns += ", other code"
    return Group(rich_table(columns_of(columns), [row[: columns.count(",") + 1] for row in rows]), *note)


def job_facts(job: JobInfo, time_text: Callable[[float], str], later: Sequence[float] = ()) -> list[tuple[str, str]]:
    """Return every field that has a value, by its name in JSON. `later` are the fire times after the next one."""
    own = ("id", "source", "kind", "command", "lane", "priority", "version", "max_concurrent_runs", "topic")
    pairs: list[tuple[str, Any]] = [(name, getattr(job, name)) for name in own]
    pairs += [(name, ", ".join(getattr(job, name))) for name in ("capabilities", "risk_tags", "requires")]
    pairs += [("labels", LABELS.show(job.labels)), ("sensitivity", job.sensitivity), ("schedule", job.schedule_text)]
    pairs += [(name, json.dumps(value, ensure_ascii=False)) for name, value in job.guards.items()]
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


def policy_line(policy: Policy | None) -> str:
    """Say which policy decides."""
    if policy is None:
        return "policy: none; every run is allowed"
    rules = f"{len(policy.rules):,} rule{'s' * (len(policy.rules) != 1)}"
    return f"policy: {policy.id} ({policy.digest}), {rules}; {policy.default.ruling} if none matches"


def reload_line(reloaded: Reloaded) -> str:
    found = [f"{what} {kind} {_some(names)}" for what, kind, names in changes_of(reloaded) if what != "unchanged"]
    return f"reloaded: {'; '.join(found) or 'nothing has changed'}"


def changes_of(reloaded: Reloaded) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each change, `job`, `service` or `policy`, and the names."""
    for what in ("added", "changed", "removed", "unchanged"):
        for kind, difference in (
            ("job", reloaded.jobs),
            ("service", reloaded.services),
            ("policy", reloaded.policy),
        ):
            if names := getattr(difference, what):
                yield what, kind, names


def _some(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")
