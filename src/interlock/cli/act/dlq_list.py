"""`interlock dlq list`."""

import sys
from functools import partial
from typing import Annotated, Any

from interlock.cli.act.letters import LETTERS, takes_letters
from interlock.cli.draw.tables import out
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.server import client_of
from interlock.cli.shared.short_ids import with_short_ids


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
    if replayed is not None:
        asked["replayed"] = replayed
    with client_of(flags) as client:
        counts = client.dead_letter_counts(**asked)
        found = client.dead_letters(**asked, limit=limit + 1)
        LETTERS.show(json, found, limit, {"counts": counts}, on_screen=partial(with_short_ids, client))
    if counts and sys.stdout.isatty() and not json:
        out(", ".join(f"{number:,} {code}" for code, number in sorted(counts.items())))
