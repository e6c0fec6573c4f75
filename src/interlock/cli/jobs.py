"""`interlock jobs`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client

ON_SCREEN = 200
"""jobs that a terminal is shown, if it is not said how many"""


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only this job, with all that is known of it.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help=f"How many at the most; all of them, {ON_SCREEN} in a terminal."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List jobs, in the order of their declaration: schedule, next time, last run.

    Piped: id, schedule, next time, state of the last run, how many are live, whether it is paused, kind, lane and
    where it is declared, with tabs between them; of one job, a line for each field, its name and its value."""
    from interlock.cli.server import client_of
    from interlock.model.error import BadValue

    if limit is not None and limit < 1:
        raise BadValue("--limit", limit, "1 or more")
    with client_of(flags) as client:
        if job is None:
            _list(client, limit, json)
        else:
            _show(client, job, json)


def _list(client: "Client", limit: int | None, json: bool) -> None:
    import sys
    import time
    from itertools import islice

    from interlock.cli.job_format import line_of, table
    from interlock.cli.tables import console, out, print_json

    if json:
        print_json({"jobs": list(islice(client.jobs(), limit))})
    elif not sys.stdout.isatty():
        for one in islice(client.jobs(), limit):
            out(line_of(one))
    else:
        shown = limit or ON_SCREEN
        found = list(islice(client.jobs(), shown + 1))
        console().print(table(found[:shown], time.time()))
        if len(found) > shown:
            out(f"the first {shown:,}; for more: --limit")


def _show(client: "Client", job: str, json: bool) -> None:
    import sys
    import time

    from interlock.cli.format import ago, exact
    from interlock.cli.job_format import facts, when
    from interlock.cli.tables import out, print_json

    found = client.job(job)
    if json:
        print_json(found)
    elif not sys.stdout.isatty():
        for name, value in facts(found, exact):
            out(f"{name}\t{value}")
    else:
        now = time.time()
        later = [] if found.next_at is None else client.next_times(job, after=found.next_at)
        pairs = facts(found, lambda at: f"{when(at, now)} ({ago(at, now)})", later)
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            out(f"{name:{width}}  {value}")
