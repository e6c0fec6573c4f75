"""`interlock tree`."""

import sys
import time
from typing import Annotated, Any

from interlock.cli.draw.children import CHILDREN, drawing
from interlock.cli.draw.event_watch import draw, follow
from interlock.cli.draw.tables import json_text, present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, switch, takes
from interlock.cli.shared.server import client_of
from interlock.model.child_info import ChildInfo


@takes(*FINDING)
def command(
    flags: Flags,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--follow", "-f")] = False,
    json: JsonOption = False,
) -> None:
    """Show the supervision tree: services, workers and the server itself.

    Piped: path, kind, status, process, since, restarts, next try, last exit and the reason for not being up, separated
    by tabs."""
    with client_of(flags) as client:

        def look() -> tuple[Any, bool]:
            return drawing(client.tree(), time.time()), False

        if watch and (json or not sys.stdout.isatty()):
            follow(client, lambda: _lines(client.tree(), json), "\tremoved", types=("service",))
        elif watch:
            draw(client, look, types=("service",))
        else:
            present(json, client.tree, lambda: map(CHILDREN.line, client.tree().everybody()), lambda: look()[0])


def _lines(top: ChildInfo, json: bool) -> dict[str, tuple[str, str]]:
    """Return a line for each child; in JSON, one for the whole tree."""
    found = {"": json_text(top)} if json else {child.path: CHILDREN.line(child) for child in top.everybody()}
    return {path: (line, line) for path, line in found.items()}
