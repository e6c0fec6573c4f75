"""`interlock tree`."""

import sys
import time
from typing import Annotated, Any

from interlock.cli.draw.children import drawing, everybody, line_of
from interlock.cli.draw.event_watch import draw, looks
from interlock.cli.draw.tables import json_text, out, present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, switch, takes
from interlock.cli.shared.server import client_of
from interlock.client.http.client import Client
from interlock.error import InterlockError


@takes(*FINDING)
def command(
    flags: Flags,
    follow: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--follow", "-f")] = False,
    json: JsonOption = False,
) -> None:
    """Show the supervision tree: services, workers and the server itself.

    Piped: path, kind, status, process, since, restarts, next try, last exit and the reason for not being up, separated
    by tabs."""
    with client_of(flags) as client:

        def look() -> tuple[Any, bool]:
            return drawing(client.tree(), time.time()), False

        if follow and (json or not sys.stdout.isatty()):
            _follow(client, json)
        elif follow:
            draw(client, look, types=("service",))
        else:
            present(json, client.tree, lambda: map(line_of, everybody(client.tree())), lambda: look()[0])


def _follow(client: Client, json: bool) -> None:
    """Print a line for each child, and again after each change of it; in JSON, print the whole tree."""
    known: dict[str, str] = {}
    client.tree()  # without a server this raises
    for top in looks(client, client.tree, types=("service",)):
        if isinstance(top, InterlockError):
            continue
        found = {"": json_text(top)} if json else {child.path: line_of(child) for child in everybody(top)}
        for path, line in found.items():
            if known.get(path) != line:
                out(line)
        for path in known.keys() - found.keys():
            out(f"{path}\t\tremoved")
        known = found
        sys.stdout.flush()
