"""A replica of the store that takes over: whatever was stored since it fell behind is gone.

A synchronous one loses nothing that was confirmed. Of an asynchronous one, the checker expects just the loss of what
was stored meanwhile: it goes back with the store, but for what was sent and what executes.
"""

from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from interlock.engine.ownership import LEADER
from interlock.model.run import Run
from soak.simulation.invariants import Invariants
from soak.simulation.scenario import LEASE_TTL
from soak.simulation.store import Disk

OUTSIDE = {"left"}  # of the disk: sessions belong to the server
HAPPENED = {  # of the checker: what no store takes back
    "executions", "crashed", "acknowledged", "cancels", "checks", "led", "lost", "reverted",
    "_fences", "_attempts", "_sent", "_executing", "_writers", "_loop", "_trace",
}  # fmt: skip


class Replica:
    def __init__(self, disk: Disk, invariants: Invariants, is_synchronous: bool) -> None:
        """Copy what is stored now, and what the checker knows of it."""
        self._disk = disk
        self._invariants = invariants
        self._is_synchronous = is_synchronous
        kept = (disk, invariants, invariants._loop, invariants._trace, invariants.lanes.elapsed)
        self._copy = deepcopy(self._parts(), {id(one): one for one in (*kept, *invariants.executions)})
        self._led = dict(invariants.led)

    def _parts(self) -> list[dict[str, Any]]:
        disk, checker = vars(self._disk), vars(self._invariants)
        return [
            {name: value for name, value in disk.items() if name not in OUTSIDE},
            {name: value for name, value in checker.items() if name not in HAPPENED},
        ]

    def take_over(self) -> None:
        disk, checker = self._disk, self._invariants
        before = {**disk.pruned, **disk.runs_by_id}
        vars(disk).update(self._copy[0])
        vars(checker).update(self._copy[1])
        if (lease := disk.leases.get(LEADER)) is not None:
            # The leader that survives is the first to find the replica.
            disk.leases[LEADER] = replace(lease, ends_at=disk.now() + LEASE_TTL)
        lost = {run_id for run_id in before if disk.found(run_id) is None}
        told = sorted(lost & checker.acknowledged.keys())
        checker.check(not (self._is_synchronous and told), f"{told[:3]} were acknowledged, and no replica had them")
        checker.go_back(lost, {run_id for run_id, run in before.items() if self._differs(run)}, self._led)

    def _differs(self, run: Run) -> bool:
        found = self._disk.found(run.id)
        return found is not None and found.seq != run.seq
