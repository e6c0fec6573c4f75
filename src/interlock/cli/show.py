"""`interlock show`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.server import RunArgument

if TYPE_CHECKING:
    from interlock.cli.picture import Picture
    from interlock.client.http.client import Client

REFRESH = 1.0
"""seconds after which a live drawing is made again even if nothing happened: durations grow"""


@takes(*FINDING)
def command(
    flags: Flags,
    run: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing it until it has ended.")] = False,
    wait: Annotated[
        str | None, typer.Option(metavar="[=DURATION]", help="Wait for the end first, so long at the most.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show one run: its facts, the timeline of its states, error, result and last log lines.

    With `--wait` the exit code says whether it succeeded."""
    import sys

    from interlock.cli.server import client_of, run_of
    from interlock.cli.tables import console, print_json
    from interlock.model.duration import seconds

    limit = seconds(wait, "--wait") if wait else None
    with client_of(flags) as client:
        run_id = run_of(client, run)
        if follow:
            _follow(client, run_id, json)
        failure = None if wait is None else _ended(client, run_id, limit)
        picture = look(client, run_id)
        if json:
            print_json({"run": picture.run, "history": picture.history, "logs": picture.logs})
        elif not sys.stdout.isatty():
            from interlock.cli.picture import print_plain

            print_plain(picture)
        else:
            from interlock.cli.picture import drawing

            console().print(drawing(picture))
        if failure is not None:
            raise failure


def look(client: "Client", run_id: str) -> "Picture":
    from interlock.cli.picture import Picture

    return Picture(client.get(run_id), client.history(run_id), client.logs(run_id))


def _ended(client: "Client", run_id: str, limit: float | None) -> Exception | None:
    """What is to be reported once it has been shown."""
    from interlock.model.error import RunEnded, WaitTimeout

    try:
        client.result(run_id, limit)
    except (RunEnded, WaitTimeout) as error:
        return error
    return None


def _follow(client: "Client", run_id: str, json: bool) -> None:
    """Until the end, in a terminal with a drawing that stays current."""
    import sys

    from interlock.cli.event_watch import Watcher
    from interlock.model.error import ConnectionLost, NotRunning
    from interlock.model.state import TERMINAL

    client.get(run_id)  # a run or a server that is not there is said at once
    looks = Watcher(client, run=run_id).looks(REFRESH)
    if sys.stdout.isatty() and not json:
        from rich.live import Live
        from rich.text import Text

        from interlock.cli.picture import drawing
        from interlock.cli.tables import console

        with Live(console=console(), auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            for _ in looks:
                try:
                    picture = look(client, run_id)
                except (NotRunning, ConnectionLost) as error:
                    live.update(Text(f"{error}; waiting for it", style="yellow"), refresh=True)
                    continue
                live.update(drawing(picture), refresh=True)
                if picture.run.state in TERMINAL:
                    return
    else:
        for _ in looks:
            try:
                if client.get(run_id).state in TERMINAL:
                    return
            except (NotRunning, ConnectionLost):
                continue
