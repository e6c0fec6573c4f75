"""One seed from its first submit to rest."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from soak.simulation.chaos import Chaos
from soak.simulation.clients import Clients
from soak.simulation.cluster import Cluster
from soak.simulation.invariants import Violation
from soak.simulation.loop import Crashed, Deadlock, Livelock
from soak.simulation.scenario import Faults, Sabotage, scenario_of

PATIENCE = 600.0  # seconds within which everything must have ended once the faults are over


class Report(msgspec.Struct, kw_only=True):
    seed: int
    violation: str | None
    trace: str  # a hash of everything that happened
    tail: list[str]
    runs: int
    ended: dict[str, int]
    executions: int
    faults: int
    checks: int
    seconds: float  # of virtual time


class Simulation:
    """A seed with everything in it, to be run once and looked at afterwards."""

    def __init__(self, seed: int, faults: Faults | None = None, sabotage: Sabotage | None = None) -> None:
        self.cluster = Cluster(seed, scenario_of(seed, faults), sabotage or Sabotage())
        self.chaos = Chaos(self.cluster)
        self.clients = Clients(self.cluster)

    def run(self) -> Report:
        violation = run_quietly(self.cluster, _live(self.cluster, self.chaos, self.clients))
        return _report(self.cluster, violation)


def simulate(seed: int, faults: Faults | None = None, sabotage: Sabotage | None = None) -> Report:
    """Run a seed; the same one always does the same, wherever it runs."""
    return Simulation(seed, faults, sabotage).run()


def run_quietly(cluster: Cluster, work: Coroutine[Any, Any, None]) -> str | None:
    """Run it on the cluster's loop, and close that; what was violated, if anything."""
    logger = logging.getLogger("interlock")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    violation = None
    try:
        cluster.loop.run_until_complete(work)
    except (Violation, Crashed, Deadlock, Livelock) as error:
        violation = str(error)
    finally:
        cluster.loop.close()
        logger.setLevel(level)
    if cluster.loop.errors and violation is None:
        violation = f"an error nobody caught: {cluster.loop.errors[0]}"
    return violation


async def _live(cluster: Cluster, chaos: Chaos, clients: Clients) -> None:
    cluster.start_schedulers()
    for place in range(cluster.scenario.workers):
        cluster.start_worker(place)
    if cluster.scenario.guards:
        cluster.start_sender()
    if cluster.scenario.scans:
        cluster.start_inspector()
    clients.start()
    harm = cluster.loop.create_task(chaos.run())
    await asyncio.sleep(cluster.scenario.duration)
    chaos.stop()
    await harm
    await cluster.end_timetable()
    await _rest(cluster, clients)
    cluster.invariants.check_rest()


async def _rest(cluster: Cluster, clients: Clients) -> None:
    """Until nobody waits for anything; being stuck is a violation."""
    begun = cluster.loop.time()
    while True:
        running = sum(worker.host.running for worker in cluster.workers.values())
        unfinished = cluster.invariants.unfinished()
        owed = await cluster.invariants.guards.pending()
        if not unfinished and not clients.busy and not running and not owed and _is_empty(cluster):
            return
        if cluster.loop.time() - begun > PATIENCE:
            runs = ", ".join(f"{run.id} {run.state} ({run.reason})" for run in unfinished)
            waiting = ", ".join(clients.waiting())
            cluster.invariants.fail(
                f"no rest after {PATIENCE:g}s: runs [{runs}], {running} attempts held, "
                f"{owed} deliveries owed, {clients.busy} clients wait for [{waiting}], "
                f"the scheduler is empty: {_is_empty(cluster)}"
            )
        await asyncio.sleep(1.0)


def _is_empty(cluster: Cluster) -> bool:
    """The scheduler's memory holds nothing that has ended, and no worker that should have left."""
    if cluster.scheduler is None or not cluster.scheduler.engine.present.available:
        return False
    state = cluster.scheduler.engine.state
    held = sum(len(lane.holding) + lane.waiting for lane in state.lanes.values())
    busy = any(worker.attempts or worker.draining for worker in state.workers.values())
    return not state.runs and not held and not busy


def _report(cluster: Cluster, violation: str | None) -> Report:
    ended: dict[str, int] = {}
    runs = [*cluster.disk.runs_by_id.values(), *cluster.disk.pruned.values()]
    for run in runs:
        ended[run.state] = ended.get(run.state, 0) + 1
    return Report(
        seed=cluster.seed,
        violation=violation,
        trace=cluster.trace.digest(),
        tail=cluster.trace.tail(),
        runs=len(runs),
        ended=ended,
        executions=len(cluster.invariants.executions),
        faults=cluster.trace.faults,
        checks=cluster.invariants.checks,
        seconds=cluster.loop.time(),
    )
