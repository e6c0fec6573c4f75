"""`interlock up`."""

from typing import Annotated

from interlock.cli.shared.options import SERVER_FLAGS, Flags, argument, option, switch, takes
from interlock.config.settings import SETTINGS
from interlock.runtime import require_linux


@takes(*SERVER_FLAGS)
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, argument("PATH", SETTINGS["files"].help)] = None,
    submit: Annotated[
        list[str] | None, option("JOB", "Submit this job at the start, unless it has a live run.")
    ] = None,
    no_table: Annotated[bool, switch("Do not draw the live table in a terminal.", "--no-table")] = False,
) -> None:
    """Run the scheduler with its workers and services.

    Ctrl-C stops it in order, a second Ctrl-C at once. With neither an app nor files, it starts without jobs: put them
    over HTTP."""
    require_linux()
    from interlock.cli.run.serve import serve

    serve(flags.given(files=paths or None).resolve(), submit or [], not no_table)
