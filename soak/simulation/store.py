"""The store on a simulated disk: commits take time, fail, or are the last thing their scheduler does.

The disk outlives every scheduler; a `FaultyStore` is how one scheduler reaches it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import inf
from random import Random
from typing import Any, NoReturn, TypeVar

import msgspec

from interlock.core.decisions import Batch, Row
from interlock.core.workflows.flow import left_to_undo
from interlock.error import LeaseLost, OutcomeUnknown, StaleEpoch, StoreUnavailable
from interlock.model.audit import AuditFilter
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.delivery import Delivery
from interlock.model.record import R, Record, RecordFilter
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import (
    EVERY_ENTRY,
    EVERY_EVENT,
    EVERY_RECORD,
    MOST_RECORDS,
    AuditRows,
    EventFilter,
    EventRows,
    Found,
    LogEntry,
    Lookup,
    Pruned,
    PruneLimits,
    RecordRows,
    RunFilter,
    RunRows,
    ServiceEntry,
    Snapshot,
    Store,
    Unscanned,
)
from interlock.stores.memory import MemoryStore
from soak.simulation.loop import Process, VirtualLoop
from soak.simulation.trace import Trace

T = TypeVar("T")
NO_ANSWER = 4.0  # seconds after which a call is given up: those of a lease
GONE = 0.8  # seconds without the session of its holder after which a lease may be taken
LATEST = 1.0  # seconds after which a write that its caller gave up on is carried out, or never will be


class StoreFaults(msgspec.Struct):
    longest_write: float = 0.01
    longest_read: float = 0.002
    fail: float = 0.0  # how often a call fails
    crash: float = 0.0  # how often the scheduler dies at a commit, just before or just after it
    doubt: float = 0.0  # how often a write is not confirmed, which is carried out nevertheless: at once, or later
    doubted: int = 0  # writes that were not confirmed
    down_until: float = 0.0  # every call fails until then
    cuts: dict[tuple[Process | None, Process | None], float] = {}  # those of the network
    unconfirmed: bool = False  # writes are carried out, and come back with a warning: no replica has them
    has_sessions: bool = False  # whether a lease is to be had once its holder has long been gone


class StoreSabotage(msgspec.Struct, frozen=True):
    """Ways to be a bad store, to see that the invariants notice."""

    loses_commits: bool = False  # says that a batch is kept, and sometimes has not kept it
    keeps_late: bool = False  # says that a batch is kept a while before it is
    forgets_keys: bool = False
    prunes_keys: bool = False  # keys go with their runs
    prunes_occurrences: bool = False  # that an occurrence was submitted goes with its run
    doubles_history: bool = False
    ignores_epochs: bool = False
    reads_epochs: bool = False  # some time before it writes, and does not lock them until then
    keeps_epochs: bool = False  # a lease that its holder takes again has the epoch it had
    prunes_unfenced: bool = False  # whatever lease the caller has
    ends_leases_early: bool = False  # a second before their end
    trusts_warnings: bool = False  # takes a write for confirmed that comes back with one
    forgets_holders: bool = False  # a lease is taken again though another scheduler had it since
    forgets_retries: bool = False  # keeps the new runs, and neither the marks of the old nor how far it has come
    loses_payloads: bool = False  # one of those that a batch collapses
    loses_submitters: bool = False  # of the runs that a new one comes from
    keeps_unique_keys: bool = False
    frees_keys_early: bool = False
    loses_deliveries: bool = False
    loses_audit: bool = False  # one entry of some batches
    shows_held: bool = False  # lines that nobody may read before they are scanned
    loses_cursors: bool = False  # keeps the occurrences of a batch, and sometimes not how far their jobs have come
    undoes_again: bool = False  # leaves out the compensations that have begun when a saga is read


Records = dict[tuple[str, str], Record | None]
_FACETS = Run.__struct_fields__.index("facets")


class Disk(MemoryStore):
    """What is durable, and who looks at every change of it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.before_commit: Callable[[Lease], None] = lambda lease: None
        self.before_apply: Callable[[Batch], None] = lambda batch: None
        self.after_apply: Callable[[Batch], None] = lambda batch: None
        self.on_load: Callable[[], None] = lambda: None
        self.after_prune: Callable[[Lease], None] = lambda lease: None
        self.after_take: Callable[[Lease | None, Lease], None] = lambda before, after: None
        self.pruned: dict[str, Run] = {}
        self.left: dict[str, float] = {}  # holders whose sessions are gone, and since when
        self.now = clock
        self.commits = 0

    def found(self, run_id: str) -> Run | None:
        """A run that is there, or was."""
        return self.runs_by_id.get(run_id) or self.pruned.get(run_id)

    def _forget(self, run: Run) -> None:
        self.pruned[run.id] = run
        super()._forget(run)

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        self.on_load()
        return await super().load(small_payload, kinds)

    async def commit(self, batch: Batch, lease: Lease) -> None:
        self.before_commit(lease)
        await super().commit(batch, lease)

    def apply(self, batch: Batch) -> None:
        self.before_apply(batch)
        super().apply(batch)
        self.commits += 1
        self.after_apply(batch)


class FaultyStore(Store, Leases):
    def __init__(
        self,
        disk: Disk,
        process: Process,
        rng: Random,
        faults: StoreFaults,
        trace: Trace,
        sabotage: StoreSabotage | None = None,
    ) -> None:
        self._disk = disk
        self._process = process
        self._loop: VirtualLoop = process.loop
        self._rng = rng
        self._doubts = Random(str(rng.getstate()))  # draws nothing from `rng`, so that other seeds do what they did
        self._faults = faults
        self._trace = trace
        self.sabotage = sabotage or StoreSabotage()
        self._known = 0  # commits that were confirmed or seen
        self._epochs: dict[str, int] = {}  # name of a lease → its highest epoch that was seen

    async def _work(self, longest: float, doubt: Exception | None = None) -> None:
        """Take the time the call needs, and fail if this is when it fails."""
        await asyncio.sleep(self._rng.uniform(0, longest))
        await self._travel((self._process, None), doubt)
        if doubt is None:
            await self._travel((None, self._process), doubt)
        if self._loop.time() < self._faults.down_until or self._rng.random() < self._faults.fail:
            self._trace.add("fault: the store fails")
            raise StoreUnavailable("simulated")

    async def _travel(self, way: tuple[Process | None, Process | None], doubt: Exception | None) -> None:
        """Wait until the network lets a call or its answer through, or nobody waits for that any more."""
        left = self._faults.cuts.get(way, 0.0) - self._loop.time()
        if left > 0:
            await asyncio.sleep(min(left, NO_ANSWER))
        if left > NO_ANSWER:
            self._trace.add(f"fault: {self._process.name} gives up a call to the store")
            if doubt is not None:
                self._leave()
            raise doubt or StoreUnavailable("no answer")

    def _leave(self) -> None:
        """Note that this connection is gone; the next write makes another."""
        if self._faults.has_sessions:
            self._disk.left.setdefault(self._process.name, self._loop.time())

    async def _write(self, work: Callable[[], Coroutine[Any, Any, T]], doubt: Exception, is_awaited: bool = False) -> T:
        """Carry out a write. Sometimes say only that it may have been, or nothing if there is a limit to how long that
        `is_awaited`: it was carried out, or will be within a second."""
        doubts = self._doubts
        self._disk.left.pop(self._process.name, None)
        if not self._faults.doubt or doubts.random() >= self._faults.doubt:
            done = await work()
            await self._travel((None, self._process), doubt)
            if self._faults.unconfirmed and not self.sabotage.trusts_warnings:
                raise doubt
            return done
        self._leave()
        seconds, is_silent = doubts.choice((0.0, doubts.uniform(0, LATEST))), is_awaited and doubts.random() < 0.3
        self._faults.doubted += 1
        how = "never answered" if is_silent else "not confirmed"
        self._trace.add(f"fault: a write is {how}, and carried out after {seconds:.3f}s")
        late = partial(self._loop.create_task, context=Context())  # the process may end meanwhile
        try:
            if is_silent:
                await self._loop.create_future()
        except asyncio.CancelledError:
            late(self._work_late(seconds, work))
            raise
        late(self._work_late(seconds, work))
        raise doubt

    async def _work_late(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        await asyncio.sleep(seconds)
        with suppress(StaleEpoch, LeaseLost, StoreUnavailable):
            await work()

    async def _die(self, when: str) -> NoReturn:
        self._trace.add(f"fault: {self._process.name} dies {when} a commit")
        self._process.kill()
        while True:
            await self._loop.create_future()

    async def open(self) -> None:
        await self._disk.open()

    async def close(self) -> None:
        await self._disk.close()

    async def commit(self, batch: Batch, lease: Lease) -> None:
        doubt = OutcomeUnknown("simulated")
        await self._work(self._faults.longest_write, doubt)
        chance = self._rng.random()
        if chance < self._faults.crash / 2:
            await self._die("before")
        await self._write(lambda: self._keep(batch, lease), doubt, True)
        if chance > 1 - self._faults.crash / 2:
            await self._die("after")
        await asyncio.sleep(self._rng.uniform(0, self._faults.longest_write))

    async def _keep(self, batch: Batch, lease: Lease) -> None:
        if self.sabotage.loses_commits and self._rng.random() < 0.02:
            return
        self._spoil(batch)
        if self.sabotage.shows_held:
            batch.logs.held = set()
        if self.sabotage.keeps_late:
            self._loop.call_later(0.2, self._disk.apply, batch)
        elif self.sabotage.ignores_epochs:
            self._disk.apply(batch)
        elif self.sabotage.reads_epochs:
            if not self._disk.has_lease(lease):
                raise StaleEpoch(lease.name, lease.epoch, 0)
            await asyncio.sleep(self._rng.uniform(0, 0.2))
            self._disk.apply(batch)
        else:
            if self._went_back(lease.name) or (self._disk.has_lease(lease) and not self.is_current):
                raise OutcomeUnknown("it ends at another position")
            await self._disk.commit(batch, lease)
        self._known = self._disk.commits

    @property
    def is_current(self) -> bool:
        """Whether the store has all that this scheduler has stored, and nothing else."""
        return self._known == self._disk.commits

    def _went_back(self, name: str) -> bool:
        """Whether the store is behind an epoch that this scheduler has seen."""
        known = self._disk.leases.get(name)
        return (0 if known is None else known.epoch) < self._epochs.get(name, 0)

    def _spoil(self, batch: Batch) -> None:
        if self.sabotage.doubles_history and batch.history and self._rng.random() < 0.02:
            run_id, entries = batch.history[0]
            again = [msgspec.structs.replace(entry, seq=entry.seq + len(entries)) for entry in entries]
            batch.history[0] = (run_id, [*entries, *again])
        if self.sabotage.loses_cursors and self._rng.random() < 0.3:
            batch.schedules = {}
        if self.sabotage.forgets_retries:
            batch.updated.pop("facets", None)
            later = [bulk for bulk in batch.of(BulkRequest) if bulk.action is RunAction.RETRY and bulk.seq > 2]
            batch.records = _without(batch.records, later)
        if self.sabotage.loses_payloads:
            batch.inputs.copied = batch.inputs.copied[1:]
        if self.sabotage.loses_submitters:
            batch.created = [_without_submitters(row) for row in batch.created]
        if self.sabotage.loses_deliveries:
            batch.records = _without(batch.records, [one for one in batch.of(Delivery) if one.seq == 1][:1])
        if self.sabotage.loses_audit and self._rng.random() < 0.1:
            batch.audit = batch.audit[1:]
        if self.sabotage.keeps_unique_keys:
            batch.keys.freed = []
        if self.sabotage.frees_keys_early:
            running = [run_id for run_id, entries in batch.history if entries[-1].after is State.RUNNING]
            batch.keys.freed += [run_id for run_id in running if self._is_unique(run_id)]

    def _is_unique(self, run_id: str) -> bool:
        run = self._disk.runs_by_id.get(run_id)
        return run is not None and run.facets is not None and run.facets.unique is not None

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        await self._work(self._faults.longest_read)
        return await self._disk.load(small_payload, kinds)

    async def look_up(self, wanted: Lookup) -> Found:
        await self._work(self._faults.longest_read)
        found = await self._disk.look_up(wanted)
        if self.sabotage.undoes_again:
            return msgspec.structs.replace(found, sagas={run_id: self._whole_saga(run_id) for run_id in found.sagas})
        return msgspec.structs.replace(found, keys={}) if self.sabotage.forgets_keys else found

    def _whole_saga(self, run_id: str) -> list[str]:
        below = (run for run in self._disk.runs_by_id.values() if run.id.startswith(f"{run_id}@"))
        return left_to_undo(run_id, ((run.id, run.facets) for run in below if not run.is_compensation))

    async def unscanned(self, run_ids: Sequence[str]) -> list[Unscanned]:
        await self._work(self._faults.longest_read)
        return await self._disk.unscanned(run_ids)

    async def prune(self, limits: PruneLimits, lease: Lease) -> Pruned:
        doubt = StoreUnavailable("simulated")
        await self._work(self._faults.longest_write, doubt)
        return await self._write(lambda: self._prune(limits, lease), doubt)

    async def _prune(self, limits: PruneLimits, lease: Lease) -> Pruned:
        before = len(self._disk.pruned)
        current = self._disk.leases[lease.name] if self.sabotage.prunes_unfenced else lease
        found = await self._disk.prune(limits, current)
        self._disk.after_prune(lease)
        for run in list(self._disk.pruned.values())[before:]:
            self._trace.add(f"{run.id[-12:]} is pruned")
            is_keyed = run.idempotency_key is not None
            forgets = self.sabotage.prunes_keys if is_keyed else self.sabotage.prunes_occurrences
            if forgets and (await self._disk.look_up(Lookup(digests=[run.id]))).digests:
                self._disk.forget_key(run.id)
        return found

    async def run(self, run_id: str) -> Run | None:
        await self._work(self._faults.longest_read)
        return await self._disk.run(run_id)

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        await self._work(self._faults.longest_read)
        return await self._disk.runs(wanted, before, limit)

    async def history(self, run_id: str) -> list[Transition]:
        await self._work(self._faults.longest_read)
        return await self._disk.history(run_id)

    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[LogEntry]:
        await self._work(self._faults.longest_read)
        return await self._disk.logs(run_id, after, limit)

    async def events(self, after: int, limit: int, wanted: EventFilter = EVERY_EVENT) -> EventRows:
        await self._work(self._faults.longest_read)
        return await self._disk.events(after, limit, wanted)

    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[ServiceEntry]:
        await self._work(self._faults.longest_read)
        return await self._disk.service_log(service, after, limit, last)

    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        await self._work(self._faults.longest_read)
        return await self._disk.live_counts(tenant)

    async def position(self) -> int:
        await self._work(self._faults.longest_read)
        return await self._disk.position()

    async def record(self, kind: type[R], id: str) -> R | None:
        await self._work(self._faults.longest_read)
        return await self._disk.record(kind, id)

    async def records(
        self, kind: type[R], wanted: RecordFilter = EVERY_RECORD, before: int | None = None, limit: int = MOST_RECORDS
    ) -> RecordRows[R]:
        await self._work(self._faults.longest_read)
        return await self._disk.records(kind, wanted, before, limit)

    async def audit(self, after: int, limit: int, wanted: AuditFilter = EVERY_ENTRY, last: bool = False) -> AuditRows:
        await self._work(self._faults.longest_read)
        return await self._disk.audit(after, limit, wanted, last)

    async def counts(self, kind: type[Record], wanted: RecordFilter) -> dict[str, int]:
        await self._work(self._faults.longest_read)
        return await self._disk.counts(kind, wanted)

    async def due_times(self, kind: type[Record]) -> dict[str, float]:
        await self._work(self._faults.longest_read)
        return await self._disk.due_times(kind)

    async def due(self, kind: type[R], queue: str, now: float, limit: int) -> list[R]:
        await self._work(self._faults.longest_read)
        return await self._disk.due(kind, queue, now, limit)

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        work, doubt = partial(self._take, name, holder, token, ttl, again), StoreUnavailable("simulated")
        await self._work(self._faults.longest_write, doubt)
        return await self._write(work, doubt, True)

    async def _take(self, name: str, holder: str, token: str, ttl: float, again: bool) -> Lease | None:
        known = self._disk.leases.get(name)
        if self.sabotage.keeps_epochs and known is not None and known.token == token:
            return await self._disk.renew(known, ttl)
        if self.sabotage.ends_leases_early and known is not None:
            self._disk.leases[name] = msgspec.structs.replace(known, ends_at=known.ends_at - 1.0)
        if known is not None and self._loop.time() - self._disk.left.get(known.holder, inf) >= GONE:
            known = self._disk.leases[name] = msgspec.structs.replace(known, ends_at=0.0)
        if known is not None and self._went_back(name):
            known = self._disk.leases[name] = msgspec.structs.replace(known, epoch=self._epochs[name])
        lease = await self._disk.take(name, holder, token, ttl, again and not self.sabotage.forgets_holders)
        self._epochs[name] = max(self._epochs.get(name, 0), self._disk.leases[name].epoch)
        if lease is None:
            self._known = max(self._known, self._disk.commits)
            return None
        self._disk.after_take(known, lease)
        lost, self._known = max(0, self._known - self._disk.commits), self._disk.commits
        return msgspec.structs.replace(lease, lost=lost)

    async def renew(self, lease: Lease, ttl: float) -> Lease:
        if self.sabotage.ignores_epochs:
            return lease
        doubt = StoreUnavailable("simulated")
        await self._work(self._faults.longest_write, doubt)
        renewed = await self._write(lambda: self._renew(lease, ttl), doubt, True)
        if not self.is_current:
            raise OutcomeUnknown("it ends at another position")
        return renewed

    async def _renew(self, lease: Lease, ttl: float) -> Lease:
        if self._went_back(lease.name):
            raise OutcomeUnknown("it has an earlier epoch")
        return await self._disk.renew(lease, ttl)

    async def release(self, lease: Lease, to: str = "", within: float = 0.0) -> None:
        doubt = StoreUnavailable("simulated")
        await self._work(self._faults.longest_write, doubt)
        await self._write(lambda: self._disk.release(lease, to, within), doubt)


def _without(records: Records, lost: Sequence[Record]) -> Records:
    keys = {(record.kind, record.id) for record in lost}
    return {key: record for key, record in records.items() if key not in keys}


def _without_submitters(row: Row) -> Row:
    facets = row[_FACETS] if len(row) > _FACETS else None
    return (
        row if facets is None else (*row[:_FACETS], msgspec.structs.replace(facets, behind=None), *row[_FACETS + 1 :])
    )
