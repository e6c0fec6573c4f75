"""`interlock pause` and `interlock resume`."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

from interlock.cli.draw.tables import each, report_each
from interlock.cli.look.jobs import JOBS, next_fire
from interlock.cli.shared.completion import jobs as job_ids
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, takes
from interlock.cli.shared.server import client_of
from interlock.error import BadSchedule, UnknownJob
from interlock.fields.safe_text import safe
from interlock.model.job_info import JobInfo

MEANINGS = {
    "pause": "Pause the schedules of jobs. Active runs continue, and paused jobs can be triggered.",
    "resume": "Resume paused schedules at their next fire time. Missed occurrences are not caught up.",
}


def command_of(action: str) -> Callable[..., None]:
    def command(
        flags: Flags, jobs: Annotated[list[str], argument("JOB...", "Ids of jobs.", job_ids)], json: JsonOption = False
    ) -> None:
        with client_of(flags) as client:
            done = each(jobs, client.pause if action == "pause" else client.resume, UnknownJob, BadSchedule)
            report_each(done, json, "jobs", _sentence if sys.stdout.isatty() else JOBS.line)

    command.__doc__ = f"{MEANINGS[action]}\n\nPiped: a line like that of `interlock jobs` for each job."
    return takes(*FINDING)(command)


def _sentence(job: JobInfo) -> str:
    fires = next_fire(job, time.time())
    return safe(f"{job.id}: {fires if job.paused else f'fires {fires}' if fires else 'does not fire'}")
