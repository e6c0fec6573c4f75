"""`interlock overview`."""

import sys

from interlock.cli.draw.listing import AGE, NUMBER, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.error_lines import say
from interlock.model.overview import WaitingRuns

WAITING = Listing[WaitingRuns](
    "waiting",
    "no runs wait",
    Column("runs", "count", NUMBER),
    Column("oldest", "since", AGE),
    Column("reason", "kind"),
    Column("of", "name", spare=2),
    Column("job", spare=1),
    Column("run", spare=3),
    Column("the oldest", "text", gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Show the overview: what needs a person, and the waiting runs by reason, each with the oldest.

    Piped: number of runs, start of the oldest wait, reason, what it is about, job, run and text of the oldest,
    separated by tabs."""
    with client_of(flags) as client:
        found = client.overview()
    if sys.stdout.isatty() and not json:
        for need in found.needs:
            say(f"{need.text}{f' ({need.detail})' if need.detail else ''}")
        if not found.needs:
            say("nothing needs you")
    more = {name: getattr(found, name) for name in found.__struct_fields__ if name != "waiting"}
    WAITING.show(json, found.waiting, more=more)
