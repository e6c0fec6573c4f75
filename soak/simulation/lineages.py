"""What must hold of runs that were made by runs: each has the tenant and the submitters of the run that made it."""

from collections.abc import Callable

from interlock.core.decisions import Batch
from interlock.model.run import Run
from soak.simulation.store import Disk


class Lineages:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self.made = 0  # runs that were made by others
        self.cancelled: set[str] = set()  # runs that a client asked to be cancelled with those that they made

    def before(self, batch: Batch) -> None:
        for row in batch.created:
            run = Run(*row)
            if (
                run.parent is not None
                and not run.is_compensation
                and (run.facets is None or run.facets.retry_of is None)
            ):
                parent = self._disk.found(run.parent)
                closed = parent is not None and parent.facets is not None and parent.facets.cascade
                self._require(not closed, f"{run.id} is made by {run.parent}, which makes no more runs")

    def asked_for(self, run: Run) -> bool:
        """Whether a run was to be cancelled with those above it."""
        return any(run.is_under(one) for one in self.cancelled)

    def after(self, batch: Batch) -> None:
        for row in batch.created:
            run = self._disk.runs_by_id[row[0]]
            if run.parent is None:
                self._require(run.root is None, f"{run.id} has the root {run.root} and no parent")
                continue
            parent = self._disk.found(run.parent)
            self._require(parent is not None, f"{run.id} is made by {run.parent}, which never was")
            if parent is not None:
                self.made += 1
                self._check(run, parent)

    def _check(self, run: Run, parent: Run) -> None:
        kept = run.tenant == parent.tenant and set(parent.submitters) <= set(run.submitters)
        theirs = f"{parent.tenant}, {parent.submitters}"
        self._require(kept, f"{run.id} has {run.tenant}, {run.submitters}, and its parent {parent.id} has {theirs}")
        root = parent.root or parent.id
        self._require(run.root == root, f"{run.id} has the root {run.root}, and its parent has {root}")
        under = all(run.is_under(one) for one in (run.id, parent.id, root))
        self._require(under, f"{run.id} does not know the runs above it")
