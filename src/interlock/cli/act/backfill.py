"""`interlock backfill`."""

import time
from typing import Annotated

from interlock.cli.act.submit import ParameterOption, PayloadOption, wait_for
from interlock.cli.draw.format import counted
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.payloads import parameters_explained, read_one
from interlock.cli.shared.server import JobArgument, client_of, since
from interlock.error import BadValue
from interlock.fields.duration import seconds


@takes(*FINDING)
def command(
    flags: Flags,
    job: JobArgument,
    start: Annotated[str, argument("FROM", "Start of the range; 7d is seven days ago.")],
    end: Annotated[str, argument("TO", "End of the range, exclusive; 'now' is now.")],
    max_parallel: Annotated[int, option("NUMBER", "Most live runs of the backfill at once.")] = 1,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    tenant: Annotated[str | None, option("TEXT", "Tenant of the runs.")] = None,
    wait: Annotated[
        str | None, option("[=DURATION]", "Wait until all have ended, at most this long, and print the results.")
    ] = None,
    dry_run: Annotated[bool, switch("Create nothing, and print the runs that would be made.", "--dry-run")] = False,
    json: JsonOption = False,
) -> None:
    """Create the runs of a schedule in a range of time. Occurrences that already have a run stay unchanged.

    Piped: `created` or `existing`, and the id of the run, separated by a tab."""
    now = time.time()
    limit = seconds(wait, "--wait") if wait else None
    first = now if start == "now" else since(start, "FROM", now)
    last = now if end == "now" else since(end, "TO", now)
    if first >= last:
        raise BadValue("FROM", start, f"earlier than TO ({end})")
    if not 1 <= max_parallel <= 1000:
        raise BadValue("--max-parallel", max_parallel, "a number from 1 to 1,000")
    given = read_one(payload, parameter or [])
    with client_of(flags) as client, parameters_explained(parameter):
        found = client.backfill(
            job, first, last, max_parallel=max_parallel, payload=given, tenant=tenant, dry_run=dry_run
        )
        if wait is None or dry_run:
            rest = f", {len(found.existing):,} already existed" if found.existing else ""
            both = (("created", found.created), ("existing", found.existing))
            present(
                json,
                lambda: found,
                lambda: (f"{word}\t{run_id}" for word, run_ids in both for run_id in run_ids),
                lambda: f"{counted(len(found.created), 'run')} {'to create' if dry_run else 'created'}{rest}",
            )
        elif found.created:
            wait_for(client, [client.handle(run_id) for run_id in found.created], limit, json)
