"""One run as `show` presents it: facts, the timeline of its states, notes, violations, findings, deliveries, error,
result, log."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from interlock.cli.draw.format import COLOURS, LEVELS, ago, clock, exact, local, progress_of, took, why
from interlock.cli.draw.listing import COUNT, LENGTH, PIPE, SCREEN, Column, Form, Listing
from interlock.cli.draw.run_tree import Branch, branches
from interlock.cli.draw.tables import console, json_text, on_one_line, plain, tabbed
from interlock.cli.look.approvals import verdict_facts
from interlock.cli.look.deliveries import COLOURS as DELIVERY_COLOURS
from interlock.cli.look.deliveries import DELIVERIES, outcome
from interlock.fields.safe_text import safe
from interlock.interface.run_view import HistoryEntry, LogLine, RunDetail, RunInfo, ServiceLine
from interlock.model.approval import VerdictInfo, verdict_of
from interlock.model.delivery import DeliveryInfo
from interlock.model.facets import Allowed, Judged
from interlock.model.policy.output import Finding, OutputRecord, OutputStatus
from interlock.model.session import SOME_OPTIONS
from interlock.model.state import TERMINAL, State

BAR, SHORT_BAR = 30, 16  # characters of the timeline's bar, in a narrow terminal too
NARROW = 100
LAST_LINES = 10
APART = ("failure", "policy", "allowed", "output", "notes")  # facets with a form of their own
LAST_NOTES = 10
PLAIN = ("", "root", "stdout", "stderr")  # loggers that are not shown


class Picture(NamedTuple):
    """Everything about a run at one moment."""

    run: RunDetail
    history: list[HistoryEntry]
    logs: list[LogLine]
    deliveries: list[DeliveryInfo]  # oldest first
    waits_for: str = ""  # why no worker takes it
    steps: list[RunInfo] = []  # of a workflow, newest first
    above: dict[str, str] = {}  # step inside a parallel step → that one

    def shown(self) -> dict[str, Any]:
        """Return its parts for JSON."""
        return {name: part for name, part in self._asdict().items() if name != "above"}

    @property
    def violations(self) -> list[dict[str, Any]]:
        """The latest violations, each with constraint, message and time."""
        found: list[dict[str, Any]] = self.run.facets.get("constraints", {}).get("violations", [])
        return found

    @property
    def notes(self) -> list[dict[str, Any]]:
        """The latest notes, each with time and text."""
        found: list[dict[str, Any]] = self.run.facets.get("notes", [])
        return found


class Stay(NamedTuple):
    """One state of the timeline."""

    entry: HistoryEntry
    start: float  # seconds since the first state began
    seconds: float | None  # length; None for a final state

    def bar(self, total: float, size: int) -> str:
        """Return its bar in the timeline: at least one character, so that a short state is visible."""
        if self.seconds is None or total <= 0:
            return ""
        begin = min(int(self.start / total * size), size - 1)
        return " " * begin + "█" * min(max(1, round(self.seconds / total * size)), size - begin)


def stays(history: list[HistoryEntry], now: float) -> list[Stay]:
    ends = [entry.at for entry in history[1:]] + [now]
    return [
        Stay(entry, entry.at - history[0].at, None if entry.after in TERMINAL else max(0.0, end - entry.at))
        for entry, end in zip(history, ends, strict=False)
    ]


def facts(run: RunDetail, when: Callable[[float | None], str]) -> list[tuple[str, str]]:
    """Return the names and values of all fields with a value; `when` formats a time."""
    failed = [f"{count} {name}" for count, name in ((run.failures, "failed"), (run.crashes, "crashed")) if count]

    # How a workflow is to end is news only until it has ended.
    hidden = ("violations",) if run.ended_at is None else ("violations", "closing")

    def facet(value: Any, name: str = "") -> str:
        if name == "options":
            return SOME_OPTIONS.show(value)
        if isinstance(value, dict):
            return ", ".join(f"{name} {facet(one, name)}" for name, one in value.items() if name not in hidden)
        if isinstance(value, list):
            return ", ".join(map(facet, value))
        return when(value) if isinstance(value, float) else str(value)

    pairs: Iterable[tuple[str, Any]] = (
        ("run", run.id),
        ("job", f"{run.job_id} ({run.job_version})"),
        ("state", run.state.value),
        ("reason", run.reason),
        ("tenant", run.tenant if run.tenant != "default" else None),
        ("origin", run.origin if run.origin != "submit" else None),
        ("parent", run.parent),
        ("root", run.root if run.root != run.parent else None),
        ("lane", run.lane),
        ("session", run.session),
        ("key", run.idempotency_key),
        *((name, when(getattr(run, f"{name}_at"))) for name in ("created", "due", "deadline", "started", "ended")),
        ("attempts", f"{run.attempt}" + (f" ({', '.join(failed)})" if failed else "")),
        ("worker", run.worker_id),
        ("progress", progress_of(run)),
        ("stop", None if run.stop is None else f"{run.stop}: {run.stop_reason} (by {run.internals.stop_actor})"),
        ("exit code", run.exit_code),
        *((name, facet(fields)) for name, fields in run.facets.items() if name not in APART),
        *verdict_facts(_verdict(run), when),
        *_output_facts(output_of(run), when),
        ("payload", json_text(run.payload)),
    )
    return [(name, safe(str(value))) for name, value in pairs if value not in (None, "")]


def _verdict(run: RunDetail) -> VerdictInfo | None:
    judged, allowed = run.facets.get("policy"), run.facets.get("allowed")
    return verdict_of(msgspec.convert(judged, Judged | None), msgspec.convert(allowed, Allowed | None))


STATUSES = {
    OutputStatus.PENDING: "not yet scanned",
    OutputStatus.CLEAN: "clean",
    OutputStatus.REDACTED: "redacted for its {}",
    OutputStatus.QUARANTINED: "quarantined for its {}",
    OutputStatus.SKIPPED: "not scanned",
}


def output_of(run: RunDetail) -> OutputRecord | None:
    return None if "output" not in run.facets else msgspec.convert(run.facets["output"], OutputRecord)


def _output_facts(record: OutputRecord | None, when: Callable[[float | None], str]) -> Iterator[tuple[str, str]]:
    if record is None:
        return
    what = "metadata" if record.phase == 1 else "content"
    rule = f"rule {record.rule}: " if record.rule else ""
    why = f": {rule}{record.reason or record.decision}" if rule or record.reason else ""
    yield "output", f"{STATUSES[record.status or OutputStatus.QUARANTINED].format(what)}, {when(record.at)}{why}"
    if record.released_at is not None:
        yield "released", f"by {record.released_by}, {when(record.released_at)}: {record.release_reason}"


FINDINGS = Listing[Finding](
    "findings",
    "",
    Column("scanner"),
    Column("kind"),
    Column("place", lambda finding: finding.path or "(whole result)", gives_way=True),
    Column("note"),
)


def step_name(step: RunInfo) -> str:
    group, _, item = step.id.rpartition(".")
    return item if group == step.parent else step.id.rpartition("@")[2]


def steps_of(run: RunInfo) -> Listing[RunInfo]:
    """Declare the listing of the steps of a run."""
    begin = run.started_at or run.created_at
    return Listing(
        "steps",
        "",
        Column("step", step_name, on=SCREEN),
        Column("step", "id", on=PIPE),
        Column("job", "job_id"),
        Column("state", colours=COLOURS),
        Column("after", lambda step: max(0.0, step.created_at - begin), LENGTH, spare=1),
        Column("took", lambda step: took(step, time.time()), LENGTH),
        Column("what", why, gives_way=True),
    )


def _tree(picture: Picture) -> list[tuple[str, Branch]]:
    """Return the steps in the order in which they began, each below its own workflow, group or parallel step."""
    return list(branches([*picture.steps, picture.run], picture.above))[1:] if picture.steps else []


def lines_of(picture: Picture) -> Iterator[str]:
    """Yield uncut lines with tabs for programs: fields, then states, then the rest."""
    run = picture.run
    for name, value in facts(run, exact):
        yield tabbed(name, value)
    if picture.waits_for:
        yield tabbed("waits for", picture.waits_for)
    if _has_result(run):
        yield f"result\t{json_text(run.result)}"
    for line in (run.error or "").splitlines():
        yield f"error\t{on_one_line(line)}"
    for entry, _, seconds in stays(picture.history, time.time()):
        lasted = "" if seconds is None else f"{seconds:.3f}"
        yield tabbed("state", entry.after, exact(entry.at), lasted, entry.attempt, entry.reason)
    steps = steps_of(run)
    yield from (f"step\t{steps.line(branch.run)}" for _, branch in _tree(picture))
    yield from (tabbed("note", exact(note["at"]), note["text"]) for note in picture.notes)
    yield from (
        tabbed("violation", violation["constraint"], exact(violation["at"]), violation["message"])
        for violation in picture.violations
    )
    if (record := output_of(run)) is not None:
        yield from (f"finding\t{FINDINGS.line(finding)}" for finding in record.findings)
    for delivery in picture.deliveries:
        yield f"delivery\t{DELIVERIES.line(delivery)}"
    for log in picture.logs[-LAST_LINES:]:
        yield f"log\t{exact(log.at)}\t{log.level}\t{on_one_line(log.text)}"


def _has_result(run: RunDetail) -> bool:
    record = output_of(run)
    return run.state is State.SUCCEEDED or (record is not None and record.released_at is not None)


def scrolling(picture: Picture) -> Any:
    """Return the drawing; if it is longer than the screen, its end says again which run it is and how it stands."""
    from rich.console import Group
    from rich.text import Text

    drawn, screen, run = drawing(picture), console(), picture.run
    if len(screen.render_lines(drawn)) < screen.height - 1:
        return drawn
    state = (run.state.value, COLOURS.get(run.state, ""))
    return Group(drawn, Text.assemble("\n", (run.id, "bold"), f"  {plain(run.job_id)}  ", state))


def drawing(picture: Picture) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    run, now = picture.run, time.time()
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    for name, value in facts(run, lambda at: "" if at is None else f"{local(at)} ({ago(at, now)})"):
        head.add_row(name, Text(value, style=COLOURS.get(run.state, "") if name == "state" else ""))
    if picture.waits_for:
        head.add_row("waits for", Text(safe(picture.waits_for), style="yellow"))
    parts: list[Any] = [head]
    if run.progress is not None and run.state not in TERMINAL | {State.STARTING}:
        parts.append(ProgressBar(total=100, completed=run.progress.percent, width=BAR))
    parts += [Text(""), _timeline(picture.history, now)]
    if tree := _tree(picture):
        parts += _titled(
            "steps", [steps_of(run).table([branch.run for _, branch in tree], now, [lead for lead, _ in tree])]
        )
    parts += _titled("notes", [_remark(note["at"], "", note["text"]) for note in picture.notes[-LAST_NOTES:]])
    violations = [
        _remark(violation["at"], f"{safe(violation['constraint'])} ", violation["message"])
        for violation in picture.violations
    ]
    parts += _titled("violations", violations)
    if (record := output_of(run)) is not None and (findings := record.findings):
        more = f" (the first {len(findings)} of {record.found:,})" if record.found > len(findings) else ""
        parts += [Text.assemble(("\nfindings", "bold"), (more, "dim")), FINDINGS.table(findings)]
    parts += _titled("deliveries", [_delivery_text(delivery, now) for delivery in picture.deliveries])
    if _has_result(run):
        parts += [Text("\nresult", style="bold"), Text(json_text(run.result, indent=True))]
    if run.error and run.error.strip():
        parts += [Text("\nerror", style="bold"), Text(safe(run.error.rstrip()), style="red")]
    if picture.logs:
        is_cut = len(picture.logs) > LAST_LINES
        more = f" (the last {LAST_LINES} of {len(picture.logs):,}: interlock logs {run.id})" if is_cut else ""
        parts.append(Text.assemble(("\nlog", "bold"), (more, "dim")))
        parts += [log_text(log) for log in picture.logs[-LAST_LINES:]]
    return Group(*parts)


def _timeline(history: list[HistoryEntry], now: float) -> Any:
    from rich.text import Text

    after = [entry.after for entry in history[1:]]
    pairs = zip(stays(history, now), [*after, None], strict=False)
    # That a run which succeeds has its process ended first says nothing about it.
    found = [stay for stay, to in pairs if (stay.entry.after, to) != (State.TERMINATING, State.SUCCEEDED)]
    size = BAR if console().width >= NARROW else SHORT_BAR
    total = max((stay.start + (stay.seconds or 0.0) for stay in found), default=0.0)
    bar = Form(lambda stay, _: Text(stay.bar(total, size), COLOURS.get(stay.entry.after, "")))
    return Listing[Stay](
        "history",
        "",
        Column("state", lambda stay: stay.entry.after, colours=COLOURS),
        Column("after", lambda stay: stay.start if stay.start else None, LENGTH),
        Column("for", "seconds", LENGTH),
        Column("timeline", lambda stay: stay, bar),
        Column("try", lambda stay: stay.entry.attempt, COUNT),
        Column("why", lambda stay: stay.entry.reason, gives_way=True),
    ).table(found, now)


def _titled(title: str, lines: list[Any]) -> list[Any]:
    from rich.text import Text

    return [Text(f"\n{title}", style="bold"), *lines] if lines else []


def _remark(at: float, name: str, text: str) -> Any:
    from rich.text import Text

    return Text.assemble((f"{clock(at)} ", "dim"), (name, "yellow"), plain(text))


def _delivery_text(one: DeliveryInfo, now: float) -> Any:
    from rich.text import Text

    head = f"{safe(one.event)} → {plain(one.target)}  "
    return Text.assemble((f"{clock(one.created_at)} ", "dim"), head, (outcome(one, now), DELIVERY_COLOURS[one.state]))


def log_text(line: LogLine) -> Any:
    from rich.text import Text

    level = line.level.upper()
    logger = "" if line.logger in PLAIN else f"{safe(line.logger)}: "
    head = (f"{clock(line.at)} ", "dim"), (f"{level:<8}", LEVELS.get(level, "")), (logger, "dim")
    return Text.assemble(*head, safe(line.text))


def service_text(name: str, line: ServiceLine) -> Any:
    from rich.text import Text

    if line.stream == "status":
        return Text(f"{clock(line.at)} {safe(f'{name} {line.stream:<6} │ {line.text}')}", style="dim")
    stream = (f"{safe(line.stream):<6}", "yellow" if line.stream == "stderr" else "")
    return Text.assemble((f"{clock(line.at)} ", "dim"), f"{safe(name)} ", stream, (" │ ", "dim"), safe(line.text))
