"""`interlock failures`."""

import time
from typing import Annotated

from interlock.cli.draw.listing import AGE, NUMBER, Column, Listing
from interlock.cli.shared import completion, server
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.server import client_of
from interlock.model.failures import FailureGroup

FAILURES = Listing[FailureGroup](
    "failures",
    "no run has failed in this time",
    Column("runs", "count", NUMBER),
    Column("job"),
    Column("newest", form=AGE),
    Column("oldest", form=AGE, spare=1),
    Column("run", spare=2),
    Column("error", gives_way=True),
)


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str | None, option("JOB", "Only runs of this job.", autocompletion=completion.jobs)] = None,
    tenant: Annotated[str | None, option("TEXT", "Only runs of this tenant.")] = None,
    since: Annotated[str, option("DURATION|TIME", "Only runs created since then; 1h is the last hour.")] = "1d",
    json: JsonOption = False,
) -> None:
    """List failures: runs that failed, timed out, were lost, denied or quarantined, by job and by error with `#` in
    place of numbers.

    Piped: number of runs, job, end of the newest and of the oldest run, newest run and error, separated by tabs."""
    begin = server.since(since, "--since", time.time())
    with client_of(flags) as client:
        FAILURES.show(json, client.failures(job=job, tenant=tenant, since=begin))
