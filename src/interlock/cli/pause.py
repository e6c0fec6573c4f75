"""`interlock pause`, and what it shares with `resume`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli import completion
from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.job_info import JobInfo

JobArguments = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.", autocompletion=completion.jobs)
]


@takes(*FINDING)
def command(flags: Flags, jobs: JobArguments, json: JsonOption = False) -> None:
    """Pause the schedules of jobs. Active runs continue, and paused jobs can be triggered.

    Piped: a line like that of `interlock jobs` for each job."""
    act_on_each(flags, jobs, lambda client, job: client.pause(job), json)


def act_on_each(flags: Flags, jobs: Sequence[str], act: "Callable[[Client, str], JobInfo]", json: bool) -> None:
    """Act on every job and print its status, even after one that fails; raise the first error at the end."""
    import sys
    import time

    from interlock.cli.format import job_line, next_fire
    from interlock.cli.output import safe
    from interlock.cli.server import client_of
    from interlock.cli.tables import out, print_json
    from interlock.model.error import BadSchedule, InterlockError, UnknownJob

    failure: InterlockError | None = None
    found: list[JobInfo] = []
    with client_of(flags) as client:
        for job in jobs:
            try:
                info = act(client, job)
            except (UnknownJob, BadSchedule) as error:
                failure = failure or error
                continue
            found.append(info)
            if sys.stdout.isatty() and not json:
                fires = next_fire(info, time.time())
                out(safe(f"{info.id}: {fires if info.paused else f'fires {fires}' if fires else 'does not fire'}"))
            elif not json:
                out(job_line(info))
    if json:
        print_json({"jobs": found})
    if failure is not None:
        raise failure
