"""`interlock tree`."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client

REFRESH = 1.0
"""seconds after which a live drawing is made again even if nothing happened: times go on"""


@takes(*FINDING)
def command(
    flags: Flags,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing changes until Ctrl-C.")] = False,
    json: JsonOption = False,
) -> None:
    """Show everything that is kept up, as a tree: services, workers and the server itself.

    Piped: path, kind, status, process, since, restarts, next try, last exit and why it is not up, with tabs between
    them."""
    import sys

    from interlock.cli.children import drawing, everybody, line_of
    from interlock.cli.server import client_of
    from interlock.cli.tables import console, out, print_json

    with client_of(flags) as client:
        if follow and (json or not sys.stdout.isatty()):
            _follow(client, json)
        elif follow:
            _draw(client)
        elif json:
            print_json(client.tree())
        elif not sys.stdout.isatty():
            for child in everybody(client.tree()):
                out(line_of(child))
        else:
            console().print(drawing(client.tree(), time.time()))


def _draw(client: "Client") -> None:
    """A drawing that stays current. A server that goes away is waited for."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from interlock.cli.children import drawing
    from interlock.cli.event_watch import Watcher
    from interlock.cli.tables import console
    from interlock.model.error import ConnectionLost, NotRunning

    shown = drawing(client.tree(), time.time())  # a server that is not there is said at once
    with Live(shown, console=console(), auto_refresh=False, vertical_overflow="crop") as live:
        for _ in Watcher(client, types=("service",)).looks(REFRESH):
            try:
                shown = drawing(client.tree(), time.time())
                live.update(shown, refresh=True)
            except (NotRunning, ConnectionLost) as error:
                live.update(Group(shown, Text(f"{error}; waiting for it", style="yellow")), refresh=True)


def _follow(client: "Client", json: bool) -> None:
    """Lines instead of a drawing: each child as it is, then again whenever it has changed; in JSON the whole tree."""
    import sys

    from interlock.cli.children import everybody, line_of
    from interlock.cli.event_watch import Watcher
    from interlock.cli.tables import json_text, out
    from interlock.model.error import ConnectionLost, NotRunning

    known: dict[str, str] = {}
    top = client.tree()
    for _ in Watcher(client, types=("service",)).looks(REFRESH):
        try:
            top = client.tree()
        except (NotRunning, ConnectionLost):
            continue
        found = {"": json_text(top)} if json else {child.path: line_of(child) for child in everybody(top)}
        for path, line in found.items():
            if known.get(path) != line:
                out(line)
        for path in known.keys() - found.keys():
            out(f"{path}\t\tremoved")
        known = found
        sys.stdout.flush()
