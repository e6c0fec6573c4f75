"""`interlock dlq drop`."""

from typing import Annotated, Any

from interlock.cli.act.letters import LettersArgument, choice, confirm, id_of, takes_letters
from interlock.cli.draw.format import counted
from interlock.cli.draw.tables import each, present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, switch, takes
from interlock.cli.shared.server import client_of
from interlock.error import UnknownLetter


@takes(*FINDING)
@takes_letters
def command(
    flags: Flags,
    asked: dict[str, Any],
    letters: LettersArgument = None,
    replayed: Annotated[bool, switch("Only letters that were replayed.", "--replayed")] = False,
    everything: Annotated[bool, switch("Drop every letter.", "--all")] = False,
    yes: Annotated[bool, switch("Do not ask for confirmation.", "--yes", "-y")] = False,
    json: JsonOption = False,
) -> None:
    """Drop dead letters: those you name, or all that match the options. Their runs are kept like any other.

    Piped: the number of dropped letters."""
    asked |= {"replayed": True} if replayed else {}
    choice(letters, asked, everything, "drop")
    dropped = 0
    with client_of(flags) as client:
        if letters:
            drop = each(letters, lambda given: client.drop_dead_letter(id_of(client, given)), UnknownLetter)
            dropped = sum(1 for _ in drop)
        elif yes or confirm(client, "drop", asked):
            dropped = client.drop_dead_letters(everything=everything, **asked)
    present(
        json, lambda: {"dropped": dropped}, lambda: [str(dropped)], lambda: f"dropped {counted(dropped, 'dead letter')}"
    )
