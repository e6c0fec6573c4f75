"""`interlock resume`."""

from interlock.cli.job_format import JobArguments
from interlock.cli.options import FINDING, Flags, JsonOption, takes


@takes(*FINDING)
def command(flags: Flags, jobs: JobArguments, json: JsonOption = False) -> None:
    """Have paused jobs fire again, from their next time on; nothing is caught up.

    Piped: a line as `interlock jobs` has it."""
    from interlock.cli.job_format import act_on_each

    act_on_each(flags, jobs, lambda client, job: client.resume(job), json)
