"""`interlock backfill`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.submit import ParameterOption, PayloadOption

if TYPE_CHECKING:
    from interlock.model.job_info import Backfilled


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")],
    start: Annotated[str, typer.Argument(metavar="FROM", help="The first time that is wanted; 7d is seven days ago.")],
    end: Annotated[str, typer.Argument(metavar="TO", help="Up to before this time; 'now' is now.")],
    max_parallel: Annotated[
        int, typer.Option("--max-parallel", metavar="NUMBER", help="How many of the runs may be live at once.")
    ] = 1,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    tenant: Annotated[str | None, typer.Option(metavar="TEXT", help="The tenant they belong to.")] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="[=DURATION]", help="Wait for the end of all, so long at the most, and print the results."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create the runs that a job's schedule has in a range of time. What has a run already is left as it is.

    Piped: `created` or `existing` and the id of the run, with a tab between them."""
    import time

    from interlock.cli.payloads import read_one
    from interlock.cli.server import client_of
    from interlock.cli.submit import wait_for
    from interlock.model.duration import seconds
    from interlock.model.error import BadValue

    now = time.time()
    limit = seconds(wait, "--wait") if wait else None
    first, last = _point(start, "FROM", now), _point(end, "TO", now)
    if first >= last:
        raise BadValue("FROM", start, f"earlier than TO ({end})")
    if not 1 <= max_parallel <= 1000:
        raise BadValue("--max-parallel", max_parallel, "a number from 1 to 1,000")
    given = read_one(payload, parameter or [])
    with client_of(flags) as client:
        found = client.backfill(job, first, last, max_parallel=max_parallel, payload=given, tenant=tenant)
        if wait is None:
            _print(found, json)
        elif found.created:
            wait_for(client, [client.handle(run_id) for run_id in found.created], limit, json)


def _point(text: str, field: str, now: float) -> float:
    from interlock.cli.server import since

    return now if text == "now" else since(text, field, now)


def _print(found: "Backfilled", json: bool) -> None:
    import sys

    from interlock.cli.tables import out, print_json

    if json:
        print_json(found)
    elif not sys.stdout.isatty():
        for run_id in found.created:
            out(f"created\t{run_id}")
        for run_id in found.existing:
            out(f"existing\t{run_id}")
    else:
        count, known = len(found.created), len(found.existing)
        out(f"{count:,} {'run' if count == 1 else 'runs'} created" + (f", {known:,} there already" if known else ""))
