"""`interlock resume`."""

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.pause import JobArguments, act_on_each


@takes(*FINDING)
def command(flags: Flags, jobs: JobArguments, json: JsonOption = False) -> None:
    """Resume paused schedules at their next fire time. Missed occurrences are not caught up.

    Piped: a line like that of `interlock jobs` for each job."""
    act_on_each(flags, jobs, lambda client, job: client.resume(job), json)
