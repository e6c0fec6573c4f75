"""A store and leases in memory, for simulations and for work that need not last."""

import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Sequence
from heapq import nlargest
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.sessions.session import PREFIX, memo_name
from interlock.core.timetable.table import ScheduleRow
from interlock.error import LeaseLost, StaleEpoch, StoreUnavailable
from interlock.model.child_info import Change
from interlock.model.job import Job
from interlock.model.record import Memo, Record
from interlock.model.run import CALL_KEY, UPDATES, Run, Transition
from interlock.model.state import State
from interlock.ports import store as port
from interlock.ports.leases import Lease, Leases
from interlock.stores import memory_looks as looks
from interlock.stores.event_page import EventPage, last_position
from interlock.stores.memory_records import MemoryRecords, copy_payloads

_change_decoder = msgspec.json.Decoder(Change)
_POSITION = attrgetter("position")


class _KeyRow(NamedTuple):
    tenant: str
    key: str | None
    digest: bytes
    created_at: float


class MemoryStore(MemoryRecords, port.Store, Leases):
    is_private = True

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` is that of its leases."""
        super().__init__()
        self._clock = clock
        self.runs_by_id: dict[str, Run] = {}
        self.entries: dict[str, list[Transition]] = {}
        self.job_versions: dict[str, Job] = {}
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._submitted: dict[str, _KeyRow] = {}  # run → its key, in order of creation
        self.checkpoints: dict[str, bytes] = {}
        self.further: dict[str, dict[str, bytes]] = {}  # run → source → payload, in order
        self.lines: dict[str, dict[tuple[int, int], port.LogEntry]] = {}
        self.leases: dict[str, Lease] = {}
        self._numbered: list[tuple[int, Run]] = []  # runs with their numbers, in order of creation
        self.schedules: dict[str, ScheduleRow] = {}
        self._events: list[port.StoredEvent | port.ServiceEntry] = []
        self._held_up_to = 0  # highest position of a line that nobody might read
        self._events_of: dict[str, list[port.StoredEvent | port.ServiceEntry]] = {}
        self._service_log: dict[str, dict[int, port.ServiceEntry]] = {}  # service → number → row, in order of position

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def has_lease(self, lease: Lease) -> bool:
        current = self.leases.get(lease.name)
        return current is not None and "" != current.token == lease.token and current.epoch == lease.epoch

    def _check_lease(self, lease: Lease) -> None:
        if not self.has_lease(lease):
            current = self.leases.get(lease.name)
            raise StaleEpoch(lease.name, lease.epoch, 0 if current is None else current.epoch)

    async def commit(self, batch: Batch, lease: Lease) -> None:
        self._check_lease(lease)
        if batch.position <= self._highest() and not self._has(batch):
            raise StoreUnavailable(f"position {batch.position} is not above {self._highest()}, the highest there is")
        self.apply(batch)

    def _has(self, batch: Batch) -> bool:
        """Whether every row and line of a batch is stored."""
        lines = ((line[1], line[2]) in self.lines.get(line[0], ()) for line in batch.logs.lines)
        rows = (row[1] in self._service_log.get(row[0], ()) for row in batch.service_log)
        return not any(self._unknown(*row) for row in batch.history) and all(lines) and all(rows)

    def _unknown(self, run_id: str, transitions: list[Transition]) -> list[Transition]:
        entries = self.entries.get(run_id)
        last = entries[-1].seq if entries else 0
        return [entry for entry in transitions if entry.seq > last]

    def apply(self, batch: Batch) -> None:
        for job in batch.jobs:
            self.job_versions[job.version] = job
        self.apply_records(batch, self._last_number())
        for row in batch.created:
            if row[0] not in self.runs_by_id:
                run = self.runs_by_id[row[0]] = Run(*row)
                self._numbered.append((self._last_number() + 1, run))
        for group, rows in batch.updated.items():
            for run_id, *values in rows:
                self._update(run_id, dict(zip(UPDATES[group], values, strict=True)))
        self._apply_logs(batch)
        for position, (run_id, transitions) in enumerate(batch.history, batch.of_history):
            if new := self._unknown(run_id, transitions):
                self.entries.setdefault(run_id, []).extend(new)
                self._add_event(position, run_id, new, None)
        self._apply_keys(batch)
        self._apply_timetable(batch)
        self.checkpoints.update(batch.inputs.checkpoints)
        copy_payloads(batch, self.runs_by_id, self.further)
        self._apply_services(batch)
        if pruned := set(batch.past_runs) - self.runs_by_id.keys():
            self.forget_runs(pruned)
            for run_id in pruned:
                self.entries.pop(run_id, None)

    def _last_number(self) -> int:
        return self._numbered[-1][0] if self._numbered else 0

    def _apply_keys(self, batch: Batch) -> None:
        for run_id in batch.keys.freed:
            if (row := self._submitted.get(run_id)) is not None and row.key is not None:
                del self.keys[row.tenant, row.key]
                self._submitted[run_id] = row._replace(key=None)
        for tenant, key, run_id, digest, at in batch.keys.taken:
            if run_id not in self._submitted and (key is None or (tenant, key) not in self.keys):
                self._submitted[run_id] = _KeyRow(tenant, key, digest, at)
                if key is not None:
                    self.keys[tenant, key] = (run_id, digest)

    def _apply_logs(self, batch: Batch) -> None:
        for position, (run_id, attempt, number, at, *rest) in enumerate(batch.logs.lines, start=batch.of_logs):
            lines = self.lines.setdefault(run_id, {})
            if (attempt, number) not in lines:
                is_held = run_id in batch.logs.held
                line = port.LogEntry(-position if is_held else position, at, attempt, *rest)
                lines[attempt, number] = line
                self._held_up_to = max(self._held_up_to, -line.position)
                if not is_held:
                    self._add_event(position, run_id, [], line)
        for text, run_id, attempt, number in batch.logs.redacted:
            held = self.lines.get(run_id, {}).get((attempt, number))
            if held is not None and held.position < 0:
                self.lines[run_id][attempt, number] = replace(held, text=text)
        first = batch.position
        for run_id, count in batch.logs.published:
            for position, key in enumerate(self._held_lines(run_id), start=first):
                line = self.lines[run_id][key] = replace(self.lines[run_id][key], position=position)
                self._add_event(position, run_id, [], line)
            first += count

    def _held_lines(self, run_id: str) -> list[tuple[int, int]]:
        """Return attempt and number of the lines that nobody may read yet, in order."""
        held = [(line.position, key) for key, line in self.lines.get(run_id, {}).items() if line.position < 0]
        return [key for _, key in sorted(held, reverse=True)]

    def _apply_services(self, batch: Batch) -> None:
        rows_of_services = enumerate(batch.service_log, start=batch.of_services)
        for position, (service, number, at, stream, text, change) in rows_of_services:
            rows = self._service_log.setdefault(service, {})
            if number not in rows:
                decoded = None if change is None else _change_decoder.decode(change)
                entry = rows[number] = port.ServiceEntry(position, service, at, stream, text, decoded)
                insort(self._events, entry, key=_POSITION)
                if (violation := entry.violation) is not None:
                    insort(self._events_of.setdefault(violation.run_id, []), entry, key=_POSITION)

    def _apply_timetable(self, batch: Batch) -> None:
        for job_id, row in batch.schedules.items():
            if row is None:
                self.schedules.pop(job_id, None)
            else:
                self.schedules[job_id] = row

    def _add_event(self, position: int, run_id: str, transitions: list[Transition], line: port.LogEntry | None) -> None:
        run = self.runs_by_id.get(run_id)
        if run is not None:
            event = port.StoredEvent(position, run_id, run.job_id, run.tenant, transitions, line)
            insort(self._events, event, key=_POSITION)
            insort(self._events_of.setdefault(run_id, []), event, key=_POSITION)

    def _update(self, run_id: str, values: dict[str, Any]) -> None:
        run = self.runs_by_id.get(run_id)
        if run is not None and run.seq <= values["seq"]:
            for name, value in values.items():
                setattr(run, name, value)

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> port.Snapshot:
        live = [run for run in self.runs_by_id.values() if run.ended_at is None]
        runs = [replace(run, payload=run.payload if len(run.payload or b"") <= small_payload else None) for run in live]
        sizes = {run.id: looks.size_of_log(lines) for run in runs if (lines := self.lines.get(run.id))}
        marks = {run.id: mark for run in runs if (mark := looks.mark_of(run, self.lines.get(run.id, {}))) is not None}
        jobs = [
            self.job_versions[version]
            for version in sorted({run.job_version for run in runs})
            if version in self.job_versions
        ]
        records = [record for kind in kinds for record in self.all_of(kind).values()]
        numbers = [number for number, run in self._numbered if run.ended_at is None]
        number_of = {run.id: number for number, run in self._numbered}.get
        reaches = {bulk_id: bisect_right(numbers, last) for bulk_id, last in self.reaches(number_of).items()}
        found = records, reaches, *self._memos_for(runs), self.audit_end
        return port.Snapshot(runs, jobs, self._highest(), sizes, marks, list(self.schedules.values()), *found)

    def _memos_for(self, runs: list[Run]) -> tuple[dict[str, bytes], bool]:
        """Return the memos but those of idle sessions, and whether any session has one."""
        live = {memo_name(run.tenant, run.session) for run in runs if run.session is not None}
        memos = self.memos
        of_sessions = {name for name in memos if name.startswith(PREFIX)}
        return {name: value for name, value in memos.items() if name not in of_sessions - live}, bool(of_sessions)

    def memo(self, name: str) -> bytes | None:
        found = self.get_record(Memo, name)
        return None if found is None else found.value

    @property
    def memos(self) -> dict[str, bytes]:
        return {memo.id: memo.value for memo in self.all_of(Memo).values()}

    async def look_up(self, wanted: port.Lookup) -> port.Found:
        runs, keys, versions = self.runs_by_id, self.keys, self.job_versions
        every, submitted = runs.values(), self._submitted
        previous = {run_id: self.previous(run_id) for run_id in wanted.previous}
        records = {(kind.kind, id): self.get_record(kind, id) for kind, id in wanted.records}
        return port.Found(
            runs={run_id: replace(runs[run_id]) for run_id in wanted.runs if run_id in runs},
            inputs={run_id: self._inputs(runs[run_id]) for run_id in wanted.inputs if run_id in runs},
            states={run_id: runs[run_id].state for run_id in wanted.states if run_id in runs},
            previous={run_id: found for run_id, found in previous.items() if found is not None},
            steps={parent: looks.ended_steps(every, parent) for parent in wanted.steps},
            sagas={above: looks.saga(every, above) for above in wanted.sagas},
            digests={run_id: submitted[run_id].digest for run_id in wanted.digests if run_id in submitted},
            pruned={
                run_id: submitted[run_id].tenant for run_id in wanted.pruned if run_id in submitted.keys() - runs.keys()
            },
            keys={key: keys[key] for key in wanted.keys if key in keys},
            versions={version: versions[version] for version in wanted.versions if version in versions},
            first_times=looks.first_times(every, wanted.first_times),
            latest_times=looks.latest_times(every, wanted.latest_times, wanted.after),
            records={key: record for key, record in records.items() if record is not None},
        )

    def _inputs(self, run: Run) -> port.Inputs:
        further = tuple(self.further.get(run.id, {}).values())
        return port.Inputs(run.payload or b"", self.checkpoints.get(run.id), further)

    async def unscanned(self, run_ids: Sequence[str]) -> list[port.Unscanned]:
        found = (self.runs_by_id[run_id] for run_id in run_ids if run_id in self.runs_by_id)
        return [
            looks.unscanned(run, {key: self.lines[run.id][key] for key in self._held_lines(run.id)})
            for run in found
            if run.is_unscanned
        ]

    def previous(self, run_id: str) -> tuple[str, State, bool] | None:
        return looks.previous_run(self.runs_by_id.values(), self.runs_by_id[run_id])

    async def prune(self, limits: port.PruneLimits, lease: Lease) -> port.Pruned:
        self._check_lease(lease)
        lines = looks.prune_lines(self._service_log.values(), limits, self._highest())
        self._events = [event for event in self._events if event.position not in lines] if lines else self._events
        keys = self._prune_keys(limits.keys_before, limits.calls_before)
        records = sum(self.prune_records(*kept) for kept in limits.records)
        return replace(self._prune_runs(limits), lines=len(lines), keys=keys, records=records)

    def _prune_keys(self, created_before: float, calls_before: float) -> int:
        old = [
            run_id
            for run_id, row in self._submitted.items()
            if row.created_at < (calls_before if (row.key or "").startswith(CALL_KEY) else created_before)
            and (run_id not in self.runs_by_id or self.runs_by_id[run_id].ended_at is not None)
        ]
        for run_id in old[: port.MOST_PRUNED]:
            self.forget_key(run_id)
        return min(len(old), port.MOST_PRUNED)

    def forget_key(self, run_id: str) -> None:
        row = self._submitted.pop(run_id)
        if row.key is not None:
            del self.keys[row.tenant, row.key]

    def _prune_runs(self, limits: port.PruneLimits) -> port.Pruned:
        found = self._prunable(limits)
        wanted = {run.id for run in found[: limits.runs]}
        gone = {run_id: run for run_id, run in self.runs_by_id.items() if run_id.partition("@")[0] in wanted}
        for run in gone.values():
            self._forget(run)
        if gone:
            self.forget_runs(set(gone))
            self._numbered = [numbered for numbered in self._numbered if numbered[1].id not in gone]
            self._events = [
                event for event in self._events if isinstance(event, port.ServiceEntry) or event.run_id not in gone
            ]
        return port.Pruned(len(gone), len(found) > limits.runs)

    def _prunable(self, limits: port.PruneLimits) -> list[Run]:
        """Return the runs to prune, oldest first."""
        # A workflow stays with its steps.
        kept = {run_id.partition("@")[0] for run_id in self.held_runs()} | {
            self._numbered[-1][1].id if self._numbered else ""
        }
        unreached = self.unreached(of_letters=False)
        kept.update(run.id for number, run in self._numbered if number < unreached)
        if self._events and isinstance(newest := self._events[-1], port.StoredEvent):
            kept.add(newest.run_id)
        return looks.prunable([run for _, run in self._numbered], kept, limits)

    def _forget(self, run: Run) -> None:
        del self.runs_by_id[run.id]
        for kept in (self.entries, self.checkpoints, self.further, self.lines, self._events_of):
            kept.pop(run.id, None)

    async def runs(self, wanted: port.RunFilter, before: int | None, limit: int) -> port.RunRows:
        found: list[Run] = []
        looked_at, most = 0, port.most_looked_at(wanted)
        numbered = self._numbered if wanted.id_prefix is None else self._with_prefix(wanted.id_prefix)
        count = len(numbered) if before is None else bisect_left(numbered, before, key=itemgetter(0))
        for number, run in reversed(numbered[:count]):
            if looks.is_passed_over(wanted, run):
                continue
            fits = wanted.fits(run)
            if looked_at == most or (fits and len(found) == limit):
                oldest = None if wanted.text is None else self._numbered_at(number + 1).created_at
                return port.RunRows(found, number + 1, oldest)
            looked_at += 1
            if fits:
                found.append(replace(run, payload=None, result=None))
        return port.RunRows(found, None)

    def _numbered_at(self, number: int) -> Run:
        """Return the run with this number, or the next one that is stored."""
        return self._numbered[bisect_left(self._numbered, number, key=itemgetter(0))][1]

    def _with_prefix(self, prefix: str) -> list[tuple[int, Run]]:
        found = [numbered for numbered in self._numbered if numbered[1].id.startswith(prefix)]
        return sorted(nlargest(port.MOST_WITH_PREFIX, found, key=lambda numbered: numbered[1].id), key=itemgetter(0))

    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        live = (run for run in self.runs_by_id.values() if run.ended_at is None and tenant in (None, run.tenant))
        return dict(Counter(run.job_id for run in live))

    async def history(self, run_id: str) -> list[Transition]:
        return list(self.entries.get(run_id, ()))

    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[port.LogEntry]:
        lines = (line for line in self.lines.get(run_id, {}).values() if line.position > max(0, after))
        return sorted(lines, key=_POSITION)[:limit]

    async def events(self, after: int, limit: int, wanted: port.EventFilter = port.EVERY_EVENT) -> port.EventRows:
        events = self._events
        if wanted.run_id is not None:
            events = self._events_of.get(wanted.run_id, [])
        elif wanted.service is not None:
            events = list(self._service_log.get(wanted.service, {}).values())
        newest, after = self._highest(), max(0, after)
        last = last_position(wanted, after, newest)
        later = takewhile(lambda event: event.position <= last, events[bisect_right(events, after, key=_POSITION) :])
        fitting = (event for event in later if looks.fits(wanted, event))
        page = EventPage[port.StoredEvent | port.ServiceEntry](limit, last, looks.size_of, _POSITION)
        for event in fitting:
            if page.add(event):
                break
        found = [looks.copy_event(event) for event in page.events]
        return port.EventRows(found, max(after, page.until), page.until < newest)

    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[port.ServiceEntry]:
        found = [entry for entry in self._service_log.get(service, {}).values() if entry.position > after]
        return found[:limit] if limit is None or not last else found[max(0, len(found) - limit) :]

    async def position(self) -> int:
        return self._highest()

    def _highest(self) -> int:
        return max(self._held_up_to, self._events[-1].position if self._events else 0)

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        now, current = self._clock(), self.leases.get(name)
        if current is not None and current.token != token:
            is_free = current.token == "" and current.holder in ("", holder)
            if again or (not is_free and now < current.ends_at):
                return None
        epoch = 1 if current is None else current.epoch + 1
        lease = Lease(name=name, holder=holder, token=token, epoch=epoch, granted_at=now, ends_at=now + ttl)
        self.leases[name] = lease
        return lease

    async def renew(self, lease: Lease, ttl: float) -> Lease:
        if not self.has_lease(lease):
            current = self.leases.get(lease.name)
            raise LeaseLost(lease.name, f"now held by {(current and current.holder) or 'nobody'}")
        now = self._clock()
        renewed = self.leases[lease.name] = replace(lease, granted_at=now, ends_at=now + ttl)
        return renewed

    async def release(self, lease: Lease, to: str = "", within: float = 0.0) -> None:
        current = self.leases.get(lease.name)
        if current is not None and current.token == lease.token:
            # The epoch stays, so that the next is greater; the token goes, so that nobody writes with it.
            self.leases[lease.name] = replace(current, holder=to, token="", ends_at=self._clock() + within)
