"""Text for counts, times, runs and reloads: for people in a terminal, exact in a pipe."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo

from interlock.cli.draw.tables import console, out, plain, tabbed
from interlock.fields.duration import span as span
from interlock.fields.json_form import rfc3339
from interlock.fields.safe_text import counted as counted
from interlock.fields.safe_text import last_line, safe
from interlock.interface.run_view import RunInfo
from interlock.model.job_info import LoggedRun
from interlock.model.reload_report import Reloaded
from interlock.model.state import TERMINAL, State
from interlock.policy.policy import Policy

COLOURS = {
    State.SUCCEEDED: "green",
    **dict.fromkeys((State.STARTING, State.RUNNING), "cyan"),
    **dict.fromkeys((State.FAILED, State.TIMEOUT, State.ORPHANED, State.DENIED, State.OUTPUT_QUARANTINED), "red"),
    **dict.fromkeys((State.RETRYING, State.CANCELLED, State.SKIPPED), "yellow"),
}

MOST_NAMES = 10  # names of one kind in one line
LEVELS = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}


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


def progress_of(run: RunInfo) -> str | None:
    """Return the progress of a run, or what its start waits for."""
    if run.progress is None:
        return None
    if run.state is State.STARTING:
        return run.progress.text
    return f"{run.progress.percent:.0f}% {run.progress.text}".strip()


def why(run: RunInfo) -> str:
    """Return the explanation of the state: progress, the error's last line, or the reason."""
    if run.progress is not None and run.state not in TERMINAL:
        return progress_of(run) or ""
    return run.reason if run.state is State.SUCCEEDED else last_line(run.error) or run.reason


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


def policy_line(policy: Policy | None) -> str:
    """Say which policy decides."""
    if policy is None:
        return "policy: none; every run is allowed"
    rules = counted(len(policy.rules), "rule")
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
