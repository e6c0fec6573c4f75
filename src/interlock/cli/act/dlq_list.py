"""`interlock dlq list`."""

import time
from typing import Annotated, Any

from interlock.cli.act.letters import line, takes_letters
from interlock.cli.draw.format import last_line, span
from interlock.cli.draw.tables import columns_of, plain, present, rich_table
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.server import at_least_one, client_of
from interlock.error_lines import say
from interlock.interface.letter_view import LetterInfo


@takes(*FINDING)
@takes_letters
def command(
    flags: Flags,
    asked: dict[str, Any],
    replayed: Annotated[
        bool | None, switch("Only letters that were replayed, or only others.", "--replayed/--not-replayed")
    ] = None,
    limit: Annotated[int, option("NUMBER", "Most letters to list.", "--limit", "-n")] = 50,
    json: JsonOption = False,
) -> None:
    """List dead letters, newest first: runs that were given up, and why.

    Piped: id, time, code, job, tenant, run that replays it, worker and error, separated by tabs."""
    at_least_one("--limit", limit)
    if replayed is not None:
        asked["replayed"] = replayed
    with client_of(flags) as client:
        found = list(client.dead_letters(**asked, limit=limit + 1))
        counts = client.dead_letter_counts(**asked)
    shown = found[:limit]
    present(
        json,
        lambda: {"letters": shown, "counts": counts},
        lambda: map(line, shown),
        lambda: _table(shown, counts),
    )
    if len(found) > limit:
        say(f"the newest {limit:,}; for more, use --limit")


def _table(letters: list[LetterInfo], counts: dict[str, int]) -> Any:
    from rich.console import Group
    from rich.text import Text

    if not letters:
        return Text("no dead letters", style="dim")
    now = time.time()
    rows = []
    for letter in letters:
        again = f"replayed as {letter.replayed_as}; " if letter.replayed_as else ""
        rows.append(
            [
                letter.id,
                span(now - letter.at),
                Text(letter.code, style="red"),
                letter.job_id,
                plain(again + last_line(letter.error)),
            ]
        )
    total = ", ".join(f"{number:,} {code}" for code, number in sorted(counts.items()))
    return Group(rich_table(columns_of("letter, >age, code, job, ~error"), rows), Text(total, style="dim"))
