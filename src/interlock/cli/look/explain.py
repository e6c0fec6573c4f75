"""`interlock explain`."""

import time
from collections.abc import Iterator
from typing import Any

from interlock.cli.draw.format import ago, exact, when
from interlock.cli.draw.listing import facts
from interlock.cli.draw.picture import LAST_NOTES
from interlock.cli.draw.tables import plain, present, tabbed
from interlock.cli.look.approvals import verdict_facts
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import RunArgument, client_of, run_of
from interlock.fields.safe_text import safe
from interlock.model.explanation import Explanation, Reason


@takes(*FINDING)
def command(flags: Flags, run: RunArgument, json: JsonOption = False) -> None:
    """Explain a run: what it waits for, its place, who is ahead, the workers passed over, and roughly when it starts;
    for a run that has ended, how and why it ended.

    Piped: the sentence; then a line for each reason with kind, name, place, time and text; then a line for each worker
    with `worker`, id, `fits` or what is in the way, and text; then `verdict`, `limits` and `approval`, each with its
    text; then a line for each note with `note`, time and text; separated by tabs."""
    with client_of(flags) as client:
        found = client.explain(run_of(client, run))
    present(json, lambda: found, lambda: lines_of(found), lambda: drawing(found, time.time()))


def lines_of(found: Explanation) -> Iterator[str]:
    yield plain(found.sentence)
    for reason in found.reasons:
        yield tabbed(reason.kind, reason.name, reason.place, exact(reason.at), reason.text)
    for worker in found.workers:
        yield tabbed("worker", worker.id, worker.obstacle or "fits", worker.text)
    for pair in verdict_facts(found.verdict, exact):
        yield tabbed(*pair)
    for note in found.notes:
        yield tabbed("note", exact(note.at), note.text)


def drawing(found: Explanation, now: float) -> Any:
    from rich.console import Group
    from rich.text import Text

    rows: list[tuple[str, str]] = []
    for reason in found.reasons:
        rows += [(reason.kind if not at else "", plain(line)) for at, line in enumerate(details_of(reason, now))]
    for worker in found.workers:
        fits = "takes the run" if worker.fits else "passed over"
        rows.append(("worker", plain(f"{worker.id}: {fits}{', ' if worker.text else ''}{worker.text}")))
    if found.next_at is not None:
        rows.append(("next_at", f"{when(found.next_at, now)} ({ago(found.next_at, now)})"))
    if found.estimate_at is not None and found.estimate_at != found.next_at:
        rows.append(("estimate_at", f"about {when(found.estimate_at, now)} ({ago(found.estimate_at, now)})"))
    for name, text in verdict_facts(found.verdict, lambda at: "" if at is None else ago(at, now)):
        rows.append((name, plain(text)))
    rows += [("note", f"{ago(note.at, now)}: {plain(note.text)}") for note in found.notes[-LAST_NOTES:]]
    for name in ("reason", "actor", "outcome", "error", "exit_code", "attempts", "failures", "crashes"):
        if (value := getattr(found.end, name, None)) not in (None, "", 0):
            rows.append((name, plain(value)))
    state = Text.assemble((found.run_id, "bold"), "  ", str(found.state))
    return Group(state, Text(safe(found.sentence)), Text(""), facts(rows))


def details_of(reason: Reason, now: float) -> Iterator[str]:
    place = "" if reason.place is None else f"place {reason.place:,}"
    until = "" if reason.at is None else f"at {when(reason.at, now)} ({ago(reason.at, now)})"
    since = "" if reason.since is None else f"since {when(reason.since, now)} ({ago(reason.since, now)})"
    yield ", ".join(filter(None, (reason.name, place, until, since))) or reason.text
    for title, ids in (("ahead", reason.ahead), ("held by", reason.holders), ("run", reason.runs)):
        if ids:
            yield f"{title}: {', '.join(ids)}"
