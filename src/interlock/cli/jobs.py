"""`interlock jobs`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli import completion
from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client

ON_SCREEN = 200  # jobs listed in a terminal by default


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Show everything about this job.", autocompletion=completion.jobs),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help=f"Most jobs to list. Default: {ON_SCREEN} in a terminal, else all."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List jobs in order of declaration: schedule, next fire time, last run, live runs.

    Piped: id, schedule, next fire time, state of the last run, number of live runs, `paused` or nothing, kind, lane and
    place of declaration, with tabs between them. For one job, a line for each field: name, tab, value."""
    import sys
    import time
    from itertools import islice

    from interlock.cli.format import job_line, job_table
    from interlock.cli.server import client_of
    from interlock.cli.tables import console, out, print_json
    from interlock.model.error import BadValue

    if limit is not None and limit < 1:
        raise BadValue("--limit", limit, "1 or more")
    is_terminal, now = sys.stdout.isatty(), time.time()
    with client_of(flags) as client:
        if job is not None:
            _show(client, job, is_terminal, json)
        elif json:
            print_json({"jobs": list(islice(client.jobs(), limit))})
        elif is_terminal:
            shown = limit or ON_SCREEN
            found = list(islice(client.jobs(), shown + 1))
            console().print(job_table(found[:shown], now))
            if len(found) > shown:
                out(f"only the first {shown:,}; for more, use --limit")
        else:
            for one in islice(client.jobs(), limit):
                out(job_line(one))


def _show(client: "Client", job: str, is_terminal: bool, json: bool) -> None:
    import time

    from interlock.cli.format import ago, exact, job_facts, when
    from interlock.cli.tables import out, print_json

    found, now = client.job(job), time.time()
    if json:
        print_json(found)
    elif is_terminal:
        later = [] if found.next_at is None else client.next_times(job, after=found.next_at)
        pairs = job_facts(found, lambda at: f"{when(at, now)} ({ago(at, now)})", later)
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            out(f"{name:{width}}  {value}")
    else:
        for name, value in job_facts(found, exact):
            out(f"{name}\t{value}")
