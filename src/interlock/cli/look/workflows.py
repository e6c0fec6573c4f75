"""`interlock workflows`."""

import sys
from functools import partial
from typing import Annotated, Any

from interlock.cli.draw.event_watch import draw, follow
from interlock.cli.draw.listing import AGE, COUNT, Column, Listing, piped
from interlock.cli.draw.tables import console, json_text
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.output import check_choice
from interlock.cli.shared.server import at_least_one, client_of
from interlock.cli.shared.short_ids import with_short_ids
from interlock.model.workflow_info import WorkflowInfo, WorkflowStatus

COLOURS = {WorkflowStatus.CLOSING: "yellow", WorkflowStatus.ROLLING_BACK: "magenta", WorkflowStatus.HALTED: "red"}

WORKFLOWS = Listing[WorkflowInfo](
    "workflows",
    "no workflow is under way",
    Column("run", "run_id"),
    Column("workflow", "job_id"),
    *piped("tenant"),
    Column("status", colours=COLOURS),
    Column("for", "started_at", AGE),
    Column("done", "ended", COUNT),
    Column("live", form=COUNT, spare=1),
    Column("what", "waits_for", gives_way=True),
)


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str | None, option("JOB", "Only runs of this workflow.", autocompletion=completion.jobs)] = None,
    tenant: Annotated[str | None, option("TEXT", "Only runs of this tenant.")] = None,
    status: Annotated[
        str | None,
        option("STATUS", "Only runs with this status.", autocompletion=completion.of(*WorkflowStatus)),
    ] = None,
    steps: Annotated[bool, switch("List workflows that are steps of others too.", "--steps")] = False,
    limit: Annotated[int, option("NUMBER", "Most runs to list.", "--limit", "-n")] = 50,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--watch")] = False,
    json: JsonOption = False,
) -> None:
    """List workflow runs under way, the newest first: status, steps that have ended, steps that have not, and what each
    run waits for. Status is `waiting`, `closing` (its end is decided), `rolling_back` or `halted` (its code does not
    fit its record). `interlock show RUN` draws the steps of one.

    Piped: run, workflow, tenant, status, start, steps that have ended, steps that have not, and the wait, separated by
    tabs."""
    at_least_one("--limit", limit)
    check_choice("--status", status, WorkflowStatus)
    with client_of(flags) as client:
        find = partial(client.workflows, job=job, tenant=tenant, status=status, steps=steps)
        if watch and sys.stdout.isatty() and not json:

            def look() -> tuple[Any, bool]:
                most = min(limit, max(1, console().height - 2))
                return WORKFLOWS.table(with_short_ids(client, list(find(limit=most)), "run_id")), False

            draw(client, look, types=("run",), tenant=tenant)
        elif watch:
            follow(client, lambda: _lines(list(find(limit=limit)), json), "gone", types=("run",), tenant=tenant)
        else:
            shorten = partial(with_short_ids, client, field="run_id")
            WORKFLOWS.show(json, find(limit=limit + 1), limit, on_screen=shorten)


def _lines(workflows: list[WorkflowInfo], json: bool) -> dict[str, tuple[Any, str]]:
    if json:
        return {"": (workflows, json_text({"workflows": workflows}))}
    return {workflow.run_id: (workflow, WORKFLOWS.line(workflow)) for workflow in workflows}
