"""`interlock dlq show`."""

import time
from typing import Any

from interlock.cli.act.letters import LETTERS, LetterArgument, id_of
from interlock.cli.draw.format import ago, local
from interlock.cli.draw.listing import facts
from interlock.cli.draw.picture import Picture, drawing, lines_of
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.fields.safe_text import safe
from interlock.interface.letter_view import LetterDetail


@takes(*FINDING)
def command(flags: Flags, letter: LetterArgument, json: JsonOption = False) -> None:
    """Show a dead letter: its reason code, and its run as `interlock show` does.

    Piped: a line like those of `interlock dlq list`, and then those of `interlock show`."""
    with client_of(flags) as client:
        found = client.dead_letter(id_of(client, letter))
        picture = None
        if found.run is not None and not json:
            picture = Picture(found.run, found.history, client.logs(found.id), list(client.deliveries(run=found.id)))
    present(
        json,
        lambda: found,
        lambda: [LETTERS.line(found), *(() if picture is None else lines_of(picture))],
        lambda: _drawing(found, picture),
    )


def _drawing(found: LetterDetail, picture: Picture | None) -> Any:
    from rich.console import Group

    pairs = (
        ("letter", found.id), ("code", found.code.value), ("at", f"{local(found.at)} ({ago(found.at, time.time())})"),
        ("replayed as", found.replayed_as or ""), ("worker", found.worker_id or ""),
        ("error", found.error if picture is None else ""), ("raw", "" if found.raw is None else repr(found.raw)),
    )  # fmt: skip
    table = facts((name, safe(text)) for name, text in pairs)
    return table if picture is None else Group(table, "", drawing(picture))
