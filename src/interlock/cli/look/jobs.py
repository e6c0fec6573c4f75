"""`interlock jobs`."""

import time
from itertools import islice
from typing import Annotated

from interlock.cli.draw.format import ago, exact, job_facts, job_line, job_table, when
from interlock.cli.draw.tables import present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import at_least_one, client_of
from interlock.client.http.client import Client

ON_SCREEN = 200  # jobs listed in a terminal by default


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str | None, argument("[JOB]", "Show everything about this job.", completion.jobs)] = None,
    limit: Annotated[
        int | None, option("NUMBER", f"Most jobs to list. Default: {ON_SCREEN} in a terminal, else all.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List jobs in order of declaration: schedule, next fire time, last run, live runs.

    Piped: id, schedule, next fire time, state of the last run, number of live runs, `paused` or nothing, kind, lane and
    place of declaration, separated by tabs. For one job, a line for each field: name, tab, value."""
    at_least_one("--limit", limit)
    shown = limit or ON_SCREEN
    with client_of(flags) as client:
        if job is not None:
            _show(client, job, json)
            return
        present(
            json,
            lambda: {"jobs": list(islice(client.jobs(), limit))},
            lambda: map(job_line, islice(client.jobs(), limit)),
            lambda: job_table(list(islice(client.jobs(), shown + 1)), time.time(), shown),
        )


def _show(client: Client, job: str, json: bool) -> None:
    found, now = client.job(job), time.time()

    def drawing() -> str:
        later = [] if found.next_at is None else client.next_times(job, after=found.next_at)
        pairs = job_facts(found, lambda at: f"{when(at, now)} ({ago(at, now)})", later)
        width = max(len(name) for name, _ in pairs)
        return "\n".join(f"{name:{width}}  {value}" for name, value in pairs)

    present(json, lambda: found, lambda: map("\t".join, job_facts(found, exact)), drawing)
