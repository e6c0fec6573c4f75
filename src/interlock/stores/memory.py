"""A store and leases in memory: for simulations and for work that need not last."""

from collections.abc import Sequence

from interlock.core.decisions import Batch
from interlock.model.error import LeaseLost, StaleEpoch
from interlock.model.job import Job
from interlock.model.run import Run, Transition
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import DeadLetter, Inputs, LogEntry, Snapshot, Store

_CHANGING = Run.__struct_fields__[Run.CONSTANT :]


class MemoryStore(Store, Leases):
    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.entries: dict[str, list[Transition]] = {}
        self.jobs: dict[str, Job] = {}
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.checkpoints: dict[str, bytes] = {}
        self.lines: dict[str, dict[tuple[int, int], LogEntry]] = {}
        self.letters: list[DeadLetter] = []
        self.leases: dict[str, Lease] = {}

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def commit(self, batch: Batch, lease: str, epoch: int) -> None:
        current = self.leases.get(lease)
        if current is None or current.epoch != epoch or not current.token:
            raise StaleEpoch(lease, epoch, 0 if current is None else current.epoch)
        self.apply(batch)

    def apply(self, batch: Batch) -> None:
        for job in batch.jobs:
            self.jobs[job.version] = job
        for row in batch.created:
            if row[0] not in self.runs:
                self.runs[row[0]] = Run(*row)
        for row in batch.updated:
            self._update(row)
        for run_id, transitions in batch.history:
            entries = self.entries.setdefault(run_id, [])
            last = entries[-1].seq if entries else 0
            entries.extend(entry for entry in transitions if entry.seq > last)
        for tenant, key, run_id, digest in batch.keys:
            self.keys.setdefault((tenant, key), (run_id, digest))
        self.checkpoints.update(batch.checkpoints)
        for run_id, attempt, number, at, level, text in batch.logs:
            self.lines.setdefault(run_id, {}).setdefault((attempt, number), LogEntry(at, attempt, level, text))
        known = {letter.run_id for letter in self.letters}
        self.letters.extend(DeadLetter(*letter) for letter in batch.dead_letters if letter[0] not in known)

    def _update(self, row: Sequence[object]) -> None:
        run = self.runs.get(str(row[0]))
        values = dict(zip(_CHANGING, row[1:], strict=True))
        if run is not None and run.seq <= int(str(values["seq"])):
            for name, value in values.items():
                setattr(run, name, value)

    async def load(self, small_payload: int) -> Snapshot:
        runs = [_copy(run) for run in self.runs.values() if run.ended_at is None]
        for run in runs:
            if run.payload is not None and len(run.payload) > small_payload:
                run.payload = None
        return Snapshot(runs, list(self.jobs.values()))

    async def inputs(self, run_ids: Sequence[str]) -> dict[str, Inputs]:
        found = {one: self.runs[one].payload for one in run_ids if one in self.runs}
        return {one: Inputs(payload or b"", self.checkpoints.get(one)) for one, payload in found.items()}

    async def known_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        return {key: self.keys[key] for key in keys if key in self.keys}

    async def known_ids(self, run_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(one for one in run_ids if one in self.runs)

    async def run(self, run_id: str) -> Run | None:
        run = self.runs.get(run_id)
        return None if run is None else _copy(run)

    async def history(self, run_id: str) -> list[Transition]:
        return list(self.entries.get(run_id, ()))

    async def logs(self, run_id: str) -> list[LogEntry]:
        lines = self.lines.get(run_id, {})
        return [lines[key] for key in sorted(lines)]

    async def dead_letters(self) -> list[DeadLetter]:
        return list(self.letters)

    async def acquire(self, name: str, holder: str, token: str, ttl: float, now: float) -> Lease | None:
        current = self.leases.get(name)
        if current is not None and current.token == token:
            return await self.renew(current, ttl, now)
        if current is not None and now < current.ends_at:
            return None
        epoch = 1 if current is None else current.epoch + 1
        lease = Lease(name=name, holder=holder, token=token, epoch=epoch, ends_at=now + ttl)
        self.leases[name] = lease
        return lease

    async def renew(self, lease: Lease, ttl: float, now: float) -> Lease:
        current = self.leases.get(lease.name)
        if current is None or current.token != lease.token or current.epoch != lease.epoch:
            raise LeaseLost(lease.name, f"now held by {current.holder if current else 'nobody'}")
        renewed = Lease(name=lease.name, holder=lease.holder, token=lease.token, epoch=lease.epoch, ends_at=now + ttl)
        self.leases[lease.name] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        current = self.leases.get(lease.name)
        if current is not None and current.token == lease.token:
            # The epoch stays, so that the next holder's is greater; the token goes, so that this one cannot renew.
            self.leases[lease.name] = Lease(name=lease.name, holder="", token="", epoch=lease.epoch, ends_at=0.0)


def _copy(run: Run) -> Run:
    return Run(*(getattr(run, name) for name in Run.__struct_fields__))
