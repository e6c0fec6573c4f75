"""Workflows that have ended run again from a step, and what must hold of the new run of a function."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from interlock.client.connection import Connection
from interlock.error import InterlockError
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import TAKEN_OVER
from interlock.wire.run_request import RetryRun
from soak.simulation.link import AWAY
from soak.simulation.store import Disk

if TYPE_CHECKING:
    from soak.simulation.clients import Clients


async def run_again(
    clients: "Clients", rng: Random, connection: Connection, run_id: str, steps: Sequence[str] = ()
) -> str | None:
    """Run a workflow that has ended again from a step of its own, if that may be one to begin with; or wait for its
    end, and run it again from one of these steps. Return the new run."""
    disk, again = clients.cluster.disk, None
    clients.busy += 1
    await asyncio.sleep(rng.uniform(5, 60))

    def is_live() -> bool:
        return (run := disk.runs_by_id.get(run_id)) is not None and run.state not in TERMINAL

    while steps and is_live():  # noqa: ASYNC110 - nobody reports an end on the disk
        await asyncio.sleep(5.0)
    if (run := disk.runs_by_id.get(run_id)) is not None and run.state in TERMINAL:
        own = [other.id[len(run_id) + 1 :] for other in disk.runs_by_id.values() if other.parent == run_id]
        name = rng.choice(steps or sorted(own) or ["first"])
        with suppress(*AWAY, InterlockError):
            request = RetryRun(0, run_id, "again", from_step=name)
            again = (await connection.ask(request.by(actor="ann", key=f"again {run_id}"))).id
            clients.cluster.invariants.workflows.began_again(again, run_id, name)
    clients.busy -= 1
    return again


def check_taken_over(disk: Disk, require: Callable[[bool, str], None], run: Run, old: Run, name: str) -> None:
    """Check that a function which begins with a step has taken over those that the old run had asked for before it, as
    they had ended, and in the order in which they had completed."""
    before, after = _asked(disk, old), _asked(disk, run)
    number = before[name][0] if name in before else 0
    wanted = {step for step, (place, _, _) in before.items() if place < number}
    found = {step for step, (_, _, ended) in after.items() if ended.job_id == TAKEN_OVER}
    require(found == wanted, f"{run.id} begins with {name} and has taken over {sorted(found)}, not {sorted(wanted)}")
    kept = [_completed(steps, wanted) for steps in (before, after)]
    require(kept[0] == kept[1], f"{run.id} has taken over {kept[1]}, and they had completed as {kept[0]}")


Asked = dict[str, tuple[int, int, Run]]  # step that a function asked for → its places in the two orders, and its run


def _asked(disk: Disk, run: Run) -> Asked:
    """Return the steps that a function has asked for in its first round."""
    waits, places = run.workflow_facet.waits, run.workflow_facet.places
    below = {other.id[len(run.id) + 1 :]: other for other in disk.runs_by_id.values() if other.parent == run.id}
    found: Asked = {}
    for name, step in below.items():
        facet = step.step_facet
        if facet is not None and name not in waits.values() and not name.startswith(("event.", "comp-", "r2")):
            found[name] = facet.number, facet.done or 0, step
    for name, event in waits.items():
        if event in below and name in places:
            found[name] = places[name][0], places[name][1] or 0, below[event]
    return found


def _completed(steps: Asked, names: set[str]) -> list[tuple[str, bool]]:
    """Return these steps in the order of completion, and whether each has succeeded. An event that came before the
    function asked for it has the place of the step that had completed last by then."""
    own = sorted((place, number, name, step.state) for name, (number, place, step) in steps.items() if name in names)
    return [(name, state is State.SUCCEEDED) for *_, name, state in own]
