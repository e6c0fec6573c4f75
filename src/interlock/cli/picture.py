"""One run as `show` presents it: facts, the timeline of its states, error, result, last log lines."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from interlock.cli.format import COLOURS, LEVELS, ago, clock, exact, local, span
from interlock.cli.output import safe
from interlock.cli.tables import Column, json_text, on_one_line, out, plain, rich_table
from interlock.model.run_view import HistoryEntry, LogLine, RunDetail, ServiceLine
from interlock.model.state import TERMINAL, State

BAR = 30
"""characters of the timeline's bar"""
LAST_LINES = 10


class Picture(NamedTuple):
    """All that is known of a run at one moment."""

    run: RunDetail
    history: list[HistoryEntry]
    logs: list[LogLine]


class Stay(NamedTuple):
    """One state of the timeline: how long the run was in it, and where that lies on the whole."""

    entry: HistoryEntry
    start: float
    seconds: float | None
    """None at the end"""


def stays(history: list[HistoryEntry], now: float) -> list[Stay]:
    found = []
    for place, entry in enumerate(history):
        after = history[place + 1].at if place + 1 < len(history) else now
        lasted = None if entry.after in TERMINAL else max(0.0, after - entry.at)
        found.append(Stay(entry, entry.at - history[0].at, lasted))
    return found


def bar(stay: Stay, total: float, width: int = BAR) -> str:
    """Where this state lies in the life of the run; never empty, so that a short stay is seen too."""
    if stay.seconds is None or total <= 0:
        return ""
    begin = min(int(stay.start / total * width), width - 1)
    length = max(1, round(stay.seconds / total * width))
    return " " * begin + "█" * min(length, width - begin)


def facts(run: RunDetail, when: Callable[[float | None], str]) -> list[tuple[str, str]]:
    """Names and values, those left out that say nothing; `when` is how a time reads."""
    pairs: Iterable[tuple[str, Any]] = (
        ("run", run.id),
        ("job", f"{run.job_id} ({run.job_version})"),
        ("state", run.state.value),
        ("reason", run.reason),
        ("tenant", run.tenant if run.tenant != "default" else None),
        ("origin", run.origin if run.origin != "submit" else None),
        ("lane", run.lane),
        ("session", run.session),
        ("key", run.idempotency_key),
        ("created", when(run.created_at)),
        ("due", when(run.due_at)),
        ("deadline", when(run.deadline_at)),
        ("started", when(run.started_at)),
        ("ended", when(run.ended_at)),
        ("attempts", _attempts(run)),
        ("worker", run.worker_id),
        ("progress", None if run.progress is None else f"{run.progress.percent:.0f}% {run.progress.text}".strip()),
        ("stop", None if run.stop is None else f"{run.stop}: {run.stop_reason} (by {run.stop_actor})"),
        ("exit code", run.exit_code),
        *((name, _facet(fields, when)) for name, fields in run.facets.items()),
        ("payload", json_text(run.payload)),
    )
    return [(name, safe(str(value))) for name, value in pairs if value not in (None, "")]


def _facet(fields: dict[str, Any], when: Callable[[float | None], str]) -> str:
    return ", ".join(f"{name} {when(value) if name == 'at' else value}" for name, value in fields.items())


def _attempts(run: RunDetail) -> str:
    parts = [f"{count} {name}" for count, name in ((run.failures, "failed"), (run.crashes, "crashed")) if count]
    return f"{run.attempt}" + (f" ({', '.join(parts)})" if parts else "")


def result_of(run: RunDetail, indent: bool = False) -> str | None:
    """None if there is none to show."""
    return json_text(run.result, indent) if run.state is State.SUCCEEDED else None


def print_plain(picture: Picture) -> None:
    """For a program: names and values, then the states, then the rest, with tabs and nothing cut."""
    run = picture.run
    now = time.time()
    for name, value in facts(run, exact):
        out(f"{name}\t{plain(value)}")
    if (result := result_of(run)) is not None:
        out(f"result\t{result}")
    for line in (run.error or "").splitlines():
        out(f"error\t{on_one_line(line)}")
    for stay in stays(picture.history, now):
        out(stay_line(stay))
    for one in picture.logs[-LAST_LINES:]:
        out(f"log\t{exact(one.at)}\t{one.level}\t{on_one_line(one.text)}")


def stay_line(stay: Stay) -> str:
    entry = stay.entry
    lasted = "" if stay.seconds is None else f"{stay.seconds:.3f}"
    return f"state\t{entry.after}\t{exact(entry.at)}\t{lasted}\t{entry.attempt}\t{plain(entry.reason)}"


def drawing(picture: Picture) -> Any:
    """The same for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    run = picture.run
    now = time.time()
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    for name, value in facts(run, lambda at: "" if at is None else f"{local(at)} ({ago(at, now)})"):
        head.add_row(name, Text(value, style=COLOURS.get(run.state, "") if name == "state" else ""))
    parts: list[Any] = [head]
    if run.progress is not None and run.state not in TERMINAL:
        parts.append(ProgressBar(total=100, completed=run.progress.percent, width=BAR))
    parts += [Text(""), _timeline(picture.history, now)]
    if (result := result_of(run, indent=True)) is not None:
        parts += [Text("\nresult", style="bold"), Text(result)]
    if run.error and run.error.strip():
        parts += [Text("\nerror", style="bold"), Text(safe(run.error.rstrip()), style="red")]
    if picture.logs:
        hidden = len(picture.logs) - LAST_LINES
        more = f" (the last {LAST_LINES} of {len(picture.logs):,}: interlock logs {run.id})" if hidden > 0 else ""
        parts.append(Text.assemble(("\nlog", "bold"), (more, "dim")))
        parts += [log_text(one) for one in picture.logs[-LAST_LINES:]]
    return Group(*parts)


def _timeline(history: list[HistoryEntry], now: float) -> Any:
    from rich.text import Text

    columns = [Column("state"), Column("at", right=True), Column("for", right=True), Column("timeline")]
    columns += [Column("try", right=True), Column("why", gives_way=True)]
    all_stays = stays(history, now)
    total = max((stay.start + (stay.seconds or 0.0) for stay in all_stays), default=0.0)
    rows = []
    for stay in all_stays:
        entry = stay.entry
        colour = COLOURS.get(entry.after, "")
        lasted = "" if stay.seconds is None else span(stay.seconds)
        cells = [Text(entry.after, style=colour), f"+{span(stay.start)}", lasted, Text(bar(stay, total), style=colour)]
        rows.append([*cells, str(entry.attempt or ""), plain(entry.reason)])
    return rich_table(columns, rows)


def log_text(line: LogLine) -> Any:
    from rich.text import Text

    level = line.level.upper()
    return Text.assemble((f"{clock(line.at)} ", "dim"), (f"{level:<8}", LEVELS.get(level, "")), safe(line.text))


def service_text(name: str, line: ServiceLine) -> Any:
    from rich.text import Text

    if line.stream == "status":
        return Text(f"{clock(line.at)} {safe(f'{name} {line.stream:<6} │ {line.text}')}", style="dim")
    stream = (f"{safe(line.stream):<6}", "yellow" if line.stream == "stderr" else "")
    return Text.assemble((f"{clock(line.at)} ", "dim"), f"{safe(name)} ", stream, (" │ ", "dim"), safe(line.text))
