"""`interlock show`."""

import sys
import time
from typing import Annotated, Any

from interlock.cli.draw.event_watch import draw, looks
from interlock.cli.draw.flow_chart import flow_chart
from interlock.cli.draw.picture import Picture, drawing, lines_of, scrolling
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.picture_file import check_writable, write_picture
from interlock.cli.shared.server import RunArgument, client_of, run_of
from interlock.client.http.client import Client
from interlock.error import BadUse, InterlockError, RunEnded, WaitTimeout
from interlock.fields.duration import seconds
from interlock.interface.run_view import RunInfo
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import PARALLEL

MOST_STEPS = 1000


@takes(*FINDING)
def command(
    flags: Flags,
    run: RunArgument,
    follow: Annotated[bool, switch("Keep showing the run until it has ended.", "--follow", "-f")] = False,
    wait: Annotated[str | None, option("[=DURATION]", "Wait for the run to end first, at most this long.")] = None,
    svg: Annotated[str | None, option("FILE", "Draw the steps of a workflow into this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Show a run: its facts, the timeline of its states, its steps, notes, violated constraints, webhooks, error,
    result and last log lines.

    Piped, a step is a line with `step`, id, job, state, seconds from the start of the run to its own, seconds that it
    took, and why, separated by tabs. With `--wait`, the exit code says whether it succeeded."""
    limit = seconds(wait, "--wait") if wait else None
    if svg is not None:
        check_writable(svg)
    with client_of(flags) as client:
        run_id = run_of(client, run)
        if follow:
            _follow(client, run_id, json)
        failure = None
        try:
            if wait is not None:
                client.result(run_id, limit)
        except (RunEnded, WaitTimeout) as error:
            failure = error
        picture = _picture(client, run_id)
        if svg is not None:
            graph = client.step_graph(run_id)
            if graph is None and not picture.steps:
                raise BadUse("--svg", f"run {run_id} has no steps; only workflows are drawn")
            write_picture(svg, flow_chart(picture.run, picture.steps, graph, time.time(), picture.above))
        present(json, picture.shown, lambda: lines_of(picture), lambda: scrolling(picture))
        if failure is not None:
            raise failure


def _picture(client: Client, run_id: str) -> Picture:
    run = client.get(run_id)
    waits_for = _worker_fault(client) if run.state in (State.SCHEDULED, State.DISPATCHED) else ""
    deliveries = list(client.deliveries(run=run_id))[::-1]
    steps: list[RunInfo] = []
    if run.attempt == 0 and run.started_at is not None:  # a workflow: only these start without an attempt
        steps = list(client.runs(id_prefix=f"{run_id}@", limit=MOST_STEPS))
    above = _around(client, run, steps)
    return Picture(run, client.history(run_id), client.logs(run_id), deliveries, waits_for, steps, above)


def _around(client: Client, run: RunInfo, steps: list[RunInfo]) -> dict[str, str]:
    """Return the parallel step around each step inside one, as the graphs of their workflows have it."""
    workflows = {step.id: step for step in (run, *steps)}
    found: dict[str, str] = {}
    for parent in {step.parent: None for step in steps if step.job_id == PARALLEL}:
        if parent in workflows and (graph := client.step_graph(parent)) is not None:
            waits = workflows[parent].facets.get("workflow", {}).get("waits", {})
            found |= {f"{parent}@{waits.get(step, step)}": f"{parent}@{name}" for step, name in graph.around.items()}
    return found


def _worker_fault(client: Client) -> str:
    """Say why workers are not up, which is why a run may wait; empty if all are."""
    try:
        workers = [one for one in client.tree().everybody() if one.path.startswith("workers/")]
    except InterlockError:  # this user may not see the tree
        return ""
    faults = [f"{worker.name}: {worker.reason}" for worker in workers if worker.reason]
    return f"a worker: {'; '.join(faults)}" if faults else ""


def _follow(client: Client, run_id: str, json: bool) -> None:
    """Wait for the end of the run, in a terminal with a drawing that stays current."""

    def look() -> tuple[Any, bool]:
        picture = _picture(client, run_id)
        return drawing(picture), picture.run.state in TERMINAL

    if sys.stdout.isatty() and not json:
        draw(client, look, run=run_id)
        return
    for found in looks(client, lambda: client.get(run_id), run=run_id):
        if not isinstance(found, InterlockError) and found.state in TERMINAL:
            return
