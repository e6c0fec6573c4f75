"""`interlock workflow diff`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, NamedTuple

import typer

from interlock.cli.draw.format import counted
from interlock.cli.draw.listing import Column, Listing
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.replays import Replays
from interlock.cli.shared.server import client_of
from interlock.client.http.client import Client
from interlock.error import UnknownRun
from interlock.error_lines import say
from interlock.interface.record_view import RunRecord
from interlock.model.workflow_info import WorkflowInfo, WorkflowStatus
from interlock.worker.workflow_fit import Misfit

_LIVE = (WorkflowStatus.WAITING, WorkflowStatus.HALTED)


class UnfitRun(NamedTuple):
    run: WorkflowInfo
    misfit: Misfit


RUNS = Listing[UnfitRun](
    "runs",
    "every live run fits",
    Column("run", lambda unfit: unfit.run.run_id),
    Column("workflow", lambda unfit: unfit.run.job_id),
    Column("tenant", lambda unfit: unfit.run.tenant),
    Column("step", lambda unfit: unfit.misfit.step),
    Column("why", lambda unfit: unfit.misfit.text, wrap=True),
    records=True,
)


@takes("app", *FINDING)
def command(
    *,
    flags: Flags,
    job: Annotated[
        str | None, option("JOB", "Only runs of this workflow.", "--job", autocompletion=completion.jobs)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the live workflow runs that the code of an app does not fit, and the step that differs.

    A worker with this code would halt them. The functions are replayed from the records of the runs; nothing is
    written, and no job runs. Graphs are not compared, because a live run keeps its graph. The exit code is 1 if a run
    does not fit.

    Piped: run, workflow, tenant, the first step that differs, and why, separated by tabs."""
    target = flags.resolve().settings.app
    if target is None:
        raise WrongUsage("-A: missing; give the app to compare with, as MODULE:VARIABLE")
    checked, unfit = 0, list[UnfitRun]()
    with client_of(flags) as client, Replays(target) as replays:
        for run, record in _records(client, job):
            checked += 1
            if (misfit := replays.misfit_of(record)) is not None:
                unfit.append(UnfitRun(run, misfit))
    RUNS.show(json, unfit, more={"checked": checked})
    if not json:
        say(f"{len(unfit):,} of {counted(checked, 'live run')} would halt")
    if unfit:
        raise typer.Exit(1)


def _records(client: Client, job: str | None) -> Iterator[tuple[WorkflowInfo, RunRecord]]:
    for run in client.workflows(job=job, steps=True):
        if run.is_function and run.status in _LIVE:
            with suppress(UnknownRun):  # it has ended meanwhile, and was pruned
                record = client.record(run.run_id)
                if not record.ended:
                    yield run, record
