"""`interlock pause`."""

from interlock.cli.job_format import JobArguments
from interlock.cli.options import FINDING, Flags, JsonOption, takes


@takes(*FINDING)
def command(flags: Flags, jobs: JobArguments, json: JsonOption = False) -> None:
    """Have jobs not fire any more, until they are resumed. What runs goes on, and they can still be triggered.

    Piped: a line as `interlock jobs` has it."""
    from interlock.cli.job_format import act_on_each

    act_on_each(flags, jobs, lambda client, job: client.pause(job), json)
