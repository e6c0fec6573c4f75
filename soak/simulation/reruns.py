"""What must hold of retries, of collected payloads, and of keys that are unique while their runs live."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.facets import Facets
from interlock.model.run import UNSUCCESSFUL, Run
from interlock.model.state import TERMINAL
from soak.simulation.scenario import JOBS
from soak.simulation.store import Disk

_KEPT = {job.id for job in JOBS}  # jobs that are never removed


class Reruns:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self._meant: dict[str, list[str]] = {}  # bulk request → the runs that it must retry
        self._retries: dict[tuple[str, str], str] = {}  # request and old run → new run
        self._live: dict[tuple[str, str], str] = {}  # unique key → the live run that has it
        self._sources: dict[str, list[str]] = {}  # run → the runs whose payloads it got, one again if it came again
        self.freed = 0

    @property
    def retried(self) -> int:
        return len(self._retries)

    def before(self, batch: Batch) -> None:
        for bulk in batch.of(BulkRequest):
            if bulk.action is RunAction.RETRY and bulk.id not in self._meant:
                wanted = replace(bulk.wanted, states=bulk.wanted.states or UNSUCCESSFUL, is_step=False)
                fits = [run for run in self._disk.runs_by_id.values() if wanted.fits(run) and run.job_id in _KEPT]
                self._meant[bulk.id] = [run.id for run in fits]

    def after(self, batch: Batch, touched: Iterable[str]) -> None:
        for row in batch.created:
            run = self._disk.runs_by_id[row[0]]
            if run.facets is not None and run.facets.retry_of is not None:
                self._check_retry(run, run.facets.retry_of.run_id)
        for into, run_id, with_own in batch.inputs.copied:
            copied = [*([run_id] if with_own else []), *self._sources.get(run_id, ())]
            self._sources[into] = self._sources.get(into, []) + copied
        runs = [self._disk.runs_by_id[run_id] for run_id in touched]
        for run in runs:
            expected = 0 if run.facets is None or run.facets.collected is None else run.facets.collected.payloads
            sources = self._sources.get(run.id, [])
            self._require(len(sources) == expected, f"{run.id} has {len(sources)} payloads of others, not {expected}")
            found = set(self._disk.further.get(run.id, ()))
            self._require(found == set(sources), f"{run.id} has the payloads of {found}, not of {set(sources)}")
        unique = [run for run in runs if run.facets is not None and run.facets.unique is not None]
        for run in sorted(unique, key=lambda run: run.ended_at is None):
            self._check_unique(run, (run.tenant, run.idempotency_key or ""))
        for bulk in batch.of(BulkRequest):
            if bulk.ended_at is not None:
                for run_id in self._meant.get(bulk.id, ()):
                    # Nothing that it has not reached is pruned; what was read first may be.
                    old = self._disk.found(run_id)
                    facets = Facets() if old is None or old.facets is None else old.facets
                    done = facets.retried_as is not None or facets.collapsed_into is not None
                    done = done or any(of == run_id for _, of in self._retries)
                    self._require(done, f"bulk request {bulk.id} has finished, and {run_id} is not retried")

    def _check_retry(self, run: Run, old_id: str) -> None:
        old = self._disk.found(old_id)
        if old is None or old.state not in TERMINAL:
            self._require(False, f"{run.id} retries {old_id}, which is {old and old.state}")
            return
        fields = ("job_id", "tenant", "session", "payload", "lane")
        same = all(getattr(run, name) == getattr(old, name) for name in fields)
        self._require(same, f"{run.id} retries {old_id}, and is another")
        # The first reason of a retry is the name of its request.
        request = self._disk.entries[run.id][0].reason
        first = self._retries.setdefault((request, old_id), run.id)
        self._require(first == run.id, f"{old_id} is retried twice by {request}: as {first} and as {run.id}")

    def _check_unique(self, run: Run, key: tuple[str, str]) -> None:
        holder = self._disk.keys.get(key)
        if run.ended_at is not None:
            self._require(holder is None or holder[0] != run.id, f"{run.id} has ended, and keeps its key {key}")
            self.freed += 1
            if self._live.get(key) == run.id:
                del self._live[key]
        else:
            first = self._live.setdefault(key, run.id)
            self._require(first == run.id, f"the live runs {first} and {run.id} have the key {key}")
