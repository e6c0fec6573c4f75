"""`interlock backfill`."""

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.server import JobArgument
from interlock.cli.submit import ParameterOption, PayloadOption

if TYPE_CHECKING:
    from interlock.model.job_info import Backfilled


@takes(*FINDING)
def command(
    flags: Flags,
    job: JobArgument,
    start: Annotated[str, typer.Argument(metavar="FROM", help="Start of the range; 7d is seven days ago.")],
    end: Annotated[str, typer.Argument(metavar="TO", help="End of the range, itself excluded; 'now' is now.")],
    max_parallel: Annotated[
        int, typer.Option("--max-parallel", metavar="NUMBER", help="Most runs of the backfill that are live at once.")
    ] = 1,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    tenant: Annotated[str | None, typer.Option(metavar="TEXT", help="Tenant of the runs.")] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="[=DURATION]", help="Wait until all have ended, at most this long, and print the results."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create the runs that a schedule has in a range of time. Occurrences that already have a run are left alone.

    Piped: `created` or `existing` and the id of the run, with a tab between them."""
    import time

    from interlock.cli.payloads import read_one
    from interlock.cli.server import client_of, since
    from interlock.cli.submit import wait_for
    from interlock.model.duration import seconds
    from interlock.model.error import BadValue

    now = time.time()
    limit = seconds(wait, "--wait") if wait else None
    first = now if start == "now" else since(start, "FROM", now)
    last = now if end == "now" else since(end, "TO", now)
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


def _print(found: "Backfilled", json: bool) -> None:
    import sys

    from interlock.cli.format import counted
    from interlock.cli.tables import out, print_json

    if json:
        print_json(found)
    elif sys.stdout.isatty():
        existing = f", {len(found.existing):,} already there" if found.existing else ""
        out(f"{counted(len(found.created), 'run')} created{existing}")
    else:
        for word, run_ids in (("created", found.created), ("existing", found.existing)):
            for run_id in run_ids:
                out(f"{word}\t{run_id}")
