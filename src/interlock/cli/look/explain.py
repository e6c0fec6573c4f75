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
from interlock.model.state import State


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
        rows += [(reason.kind, line) for line in details_of(reason, found.sentence, now)]
    rows += [("worker", f"{worker.id}: {'takes the run' if worker.fits else worker.text}") for worker in found.workers]
    if found.next_at is not None and found.next_at not in [reason.at for reason in found.reasons]:
        rows.append(("next_at", f"{when(found.next_at, now)} ({ago(found.next_at, now)})"))
    if found.estimate_at not in (None, found.next_at):
        rows.append(("estimate_at", f"about {when(found.estimate_at, now)} ({ago(found.estimate_at, now)})"))
    verdict = verdict_facts(found.verdict, lambda at: "" if at is None else ago(at, now))
    is_asked = found.state is State.APPROVAL_REQUIRED  # then the reason has it all, except for limits
    rows += [(name, text) for name, text in verdict if name == "limits" or not is_asked]
    rows += [("note", f"{ago(note.at, now)}: {note.text}") for note in found.notes[-LAST_NOTES:]]
    if (end := found.end) is not None:
        rows += [("reason", end.reason), ("actor", end.actor), ("error", end.error or "")]
        rows += [("exit_code", str(end.exit_code))] if end.exit_code else []
        rows += [("attempts", f"{end.attempts} ({end.failures} failed, {end.crashes} crashed)")] * (end.attempts > 1)
    told, shown = found.sentence, list[tuple[str, str]]()
    for name, text in rows:
        if text and text not in told:
            shown.append((name if name not in dict(shown[-1:]) else "", plain(text)))
            told += f"\n{text}"
    state = Text.assemble((found.run_id, "bold"), "  ", str(found.state))
    return Group(state, Text(safe(found.sentence)), *([Text(""), facts(shown)] if shown else []))


def details_of(reason: Reason, sentence: str, now: float) -> Iterator[str]:
    """Yield what is known of a reason beyond the sentence."""
    until = "" if reason.at is None else f"at {when(reason.at, now)} ({ago(reason.at, now)})"
    since = "" if reason.since is None else f"since {when(reason.since, now)} ({ago(reason.since, now)})"
    name = "" if reason.name is None or reason.name in sentence else reason.name
    yield ", ".join(filter(None, (name, until, since)))
    for title, ids in (("ahead", reason.ahead), ("held by", reason.holders), ("run", reason.runs)):
        if others := [run_id for run_id in ids if run_id not in sentence]:
            yield f"{title}: {', '.join(others)}"
