"""`interlock up`."""

from typing import Annotated

import typer

from interlock.cli.options import SERVER_FLAGS, Flags, takes
from interlock.config.settings import SETTINGS


@takes(*SERVER_FLAGS)
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help=SETTINGS["files"].help)] = None,
    submit: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Submit this job at start, unless a run of it is live.")
    ] = None,
    table: Annotated[bool | None, typer.Option(help="Show a live table; on by default in a terminal.")] = None,
) -> None:
    """Run the scheduler with its workers and services. Ctrl-C stops it in order, a second one at once."""
    from interlock.runtime import require_linux

    require_linux()
    from interlock.cli.serving import run_up

    run_up(flags.given(files=paths or None).resolve(), submit=submit or [], table=table)
