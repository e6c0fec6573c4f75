"""What must hold of bulk requests: each finishes, reaches every run it is for, and touches no other."""

from collections.abc import Callable

from msgspec.structs import replace

from interlock.core.attempts.settle import CANCEL, TIMEOUT
from interlock.core.decisions import Batch
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.run import Run
from interlock.model.state import TERMINAL
from soak.simulation.store import Disk


class Bulks:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self._meant: dict[str, dict[str, None]] = {}
        """request → the runs that were live before it and fit, whatever their states"""
        self.reached = 0  # how many of those its end found asked to stop, or ended by it

    def before(self, batch: Batch) -> None:
        for bulk in batch.of(BulkRequest):
            if bulk.id not in self._meant and bulk.action is RunAction.CANCEL:
                wanted = replace(bulk.wanted, states=frozenset())
                live = [run for run in self._disk.runs_by_id.values() if run.state not in TERMINAL]
                self._meant[bulk.id] = {run.id: None for run in live if wanted.fits(run)}

    def after(self, batch: Batch) -> None:
        for bulk in batch.of(BulkRequest):
            if bulk.ended_at is not None and not bulk.wanted.states and bulk.id in self._meant:
                for run_id in self._meant[bulk.id]:
                    run = self._disk.found(run_id)
                    stopped = run is not None and (
                        run.state in TERMINAL or run.stop in (CANCEL, TIMEOUT) or run.closing is not None
                    )
                    self._require(stopped, f"bulk request {bulk.id} has finished, and {run_id} is {run}")
                    self.reached += run is not None and self.asked_for(run)

    def asked_for(self, run: Run) -> bool:
        """Whether a request is why the run was stopped: the reason they give is their id."""
        found = [one for one in (run.reason.partition(":")[0], run.stop_reason) if one in self._meant]
        for bulk_id in found:
            self._require(run.id in self._meant[bulk_id], f"{run.id} was stopped by {bulk_id}, which is not for it")
        return bool(found)

    def sent(self, told: BulkRequest) -> None:
        stored = self._disk.get_record(BulkRequest, told.id)
        same = stored is not None and stored.seq >= told.seq
        self._require(same, f"bulk request {told.id} is told of as {told}, and stored is {stored}")

    def check_rest(self) -> None:
        for bulk in self._disk.all_of(BulkRequest).values():
            self._require(bulk.ended_at is not None, f"bulk request {bulk.id} was acknowledged and has not finished")
