"""Memory and store must agree: whenever nothing is being stored, a sweep without any slack must find nothing. A
scheduler that has lost its lease without noticing is exempt."""

import asyncio

from interlock.core.recovery.sweep import PendingMoves, why_missed
from interlock.engine.engine import Engine
from interlock.engine.ownership import LEADER
from interlock.ports.clock import Clock
from soak.simulation.invariants import Invariants
from soak.simulation.store import Disk, FaultyStore

EVERY = 0.5  # seconds between two looks


def leads(holder: str, disk: Disk) -> bool:
    lease = disk.leases.get(LEADER)
    return lease is not None and lease.holder == holder


async def watch(engine: Engine, store: FaultyStore, clock: Clock, invariants: Invariants) -> None:
    while True:
        await asyncio.sleep(EVERY)
        if clock.now().elapsed < invariants.lanes.jumped + engine.settings.longest_wait:
            continue  # it sees the new wall time with its next pass
        present = engine.present
        is_still = present.available and present.is_settled and present.writing is None
        if is_still and store.is_current and leads(engine.settings.holder, invariants.disk):
            coming = PendingMoves(engine.state, clock.now(), slack=0.0, patience=0.0)
            for run in invariants.disk.runs_by_id.values():
                if run.ended_at is None and (why := why_missed(coming, run)) is not None:
                    invariants.fail(f"the scheduler missed {run.id} ({run.state}, {why})")
