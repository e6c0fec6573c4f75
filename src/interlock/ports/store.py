"""Port: the store of runs. The store is the truth; everything in memory is rebuilt from it.

Every history row, log line and row of the services' log has a position: a number that grows from commit to commit, so
that a reader can continue after any position, at any time and in any process.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from math import inf
from typing import Generic

import msgspec
from msgspec.json import decode

from interlock.core.decisions import Batch
from interlock.core.facts import Snapshot as Snapshot
from interlock.core.workflows.flow import EndedStep
from interlock.model.audit import AuditEntry, AuditFilter, AuditHead
from interlock.model.child_info import Change
from interlock.model.guard import ViolationEvent
from interlock.model.job import Job
from interlock.model.record import R, Record, RecordFilter
from interlock.model.run import Run, Transition
from interlock.model.run import RunFilter as RunFilter
from interlock.model.state import State
from interlock.ports.leases import Lease

MOST_LOOKED_AT = 50_000  # runs that one call of `runs` looks at, and positions that one of `events` does
MOST_SEARCHED = 1000  # runs that one call of `runs` looks at if the filter has a text
MOST_WITH_PREFIX = 1000  # runs that it looks at if the filter has `id_prefix`: the last of them by id
MOST_EVENT_BYTES = 256 * 1024  # size of the answer to one call of `events`, roughly
MOST_RECORDS = 120_000  # records that one call of `records` looks at
MOST_RECORD_BYTES = 4 * 1024 * 1024  # size of its answer, roughly
MOST_PRUNED = 1000  # rows, keys or runs that one call of `prune` deletes
HURRIED = 20  # times more runs in a hurried call


def most_looked_at(wanted: RunFilter) -> int:
    """Return how many runs one call of `runs` looks at."""
    return MOST_LOOKED_AT if wanted.text is None else MOST_SEARCHED


class PruneLimits(msgspec.Struct, frozen=True):
    """The rows that `prune` leaves; by default all."""

    most: int = sys.maxsize  # newest ended runs of each job
    ended_before: float = 0.0
    total: int = sys.maxsize  # newest ended runs
    occurrences_before: float = inf  # scheduled runs created at this time or later stay
    hurry: bool = False
    log_lines: int = sys.maxsize  # newest rows of each service
    log_bytes: int = sys.maxsize
    keys_before: float = 0.0
    calls_before: float = 0.0  # of keys that begin with `CALL_KEY`
    records: tuple[tuple[type[Record], float, int], ...] = ()  # kind, time, and how many of the newest

    @property
    def runs(self) -> int:
        """The most runs that one call deletes."""
        return MOST_PRUNED * HURRIED if self.hurry else MOST_PRUNED


class Inputs(msgspec.Struct, frozen=True):
    payload: bytes
    checkpoint: bytes | None
    further: tuple[bytes, ...] = ()  # payloads of the runs that were collapsed into this one, in order


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """Questions about single runs, jobs and records, all answered as one commit left the store."""

    runs: Collection[str] = ()
    inputs: Collection[str] = ()  # runs
    states: Collection[str] = ()  # runs
    previous: Collection[str] = ()  # runs
    steps: Collection[str] = ()  # workflows
    sagas: Collection[str] = ()  # workflows
    digests: Collection[str] = ()  # runs, pruned ones too
    pruned: Collection[str] = ()  # runs
    keys: Collection[tuple[str, str]] = ()  # tenants and idempotency keys
    versions: Collection[str] = ()  # of jobs
    first_times: Collection[str] = ()  # jobs
    latest_times: Collection[str] = ()  # jobs
    after: float = 0.0  # time after which the latest ones are wanted
    records: Collection[tuple[type[Record], str]] = ()  # kinds and ids


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The answers; what is not there is left out."""

    runs: dict[str, Run] = {}  # with payload and result
    inputs: dict[str, Inputs] = {}
    states: dict[str, State] = {}
    previous: dict[str, tuple[str, State, bool]] = {}
    """the last run of the same job and tenant created before that has begun, or is due and has not ended: its id, its
    state, and whether it has ended"""
    steps: dict[str, list[EndedStep]] = {}  # ended runs that a workflow made, in the order of their creation
    sagas: dict[str, list[str]] = {}  # steps and items that a workflow has yet to undo, the last completed one last
    digests: dict[str, bytes] = {}  # of runs that had a key or were an occurrence
    pruned: dict[str, str] = {}  # tenants of pruned runs whose key or occurrence is kept
    keys: dict[tuple[str, str], tuple[str, bytes]] = {}  # run id and digest
    versions: dict[str, Job] = {}
    first_times: dict[str, float] = {}  # fire time of the first scheduled run of a job that is still stored
    latest_times: dict[str, float] = {}  # latest fire time of a job that has a run
    records: dict[tuple[str, str], Record] = {}  # by kind and id


class LogEntry(msgspec.Struct, frozen=True):
    position: int
    at: float
    attempt: int
    level: str
    text: str
    logger: str = ""


class StoredEvent(msgspec.Struct, frozen=True):
    """The effect of one commit on one run, or one log line."""

    position: int
    run_id: str
    job_id: str
    tenant: str
    transitions: list[Transition]  # in order; empty for a log line
    line: LogEntry | None = None


class Unscanned(msgspec.Struct, frozen=True):
    """What scanners look through."""

    run_id: str
    result: bytes | None
    lines: list[tuple[int, int, str]]  # held back with it: attempt, number and text, in order
    names: list[str] = []  # levels and loggers of these lines, each once
    chunks: list[tuple[int, int]] = []  # attempt and number of the lines that have chunks of its stream


class ServiceEntry(msgspec.Struct, frozen=True):
    """A line of a service, or a change of it."""

    position: int
    service: str
    at: float
    stream: str  # stdout, stderr or status
    text: str
    change: Change | None = None

    @property
    def violation(self) -> ViolationEvent | None:
        """The violation that it stands for; None for any other row."""
        return decode(self.text, type=ViolationEvent) if self.stream == ViolationEvent.stream else None


class EventFilter(msgspec.Struct, frozen=True):
    """The wanted events: those that match every given field. Violations have a run, a job and a tenant. Other events of
    services have none; those in the log of the sessions of a tenant have this tenant."""

    run_id: str | None = None
    job_id: str | None = None
    tenant: str | None = None
    service: str | None = None

    @property
    def of_one(self) -> bool:
        """Whether a single run or service is meant."""
        return self.run_id is not None or self.service is not None

    @property
    def of_tenant(self) -> str | None:
        """The tenant, if no other field is given."""
        return self.tenant if self.run_id is self.job_id is self.service is None else None


EVERY_EVENT = EventFilter()


class EventRows(msgspec.Struct, frozen=True):
    events: list[StoredEvent | ServiceEntry]  # in order of position
    reached: int  # the position up to which the answer is complete
    more: bool  # whether anything is stored beyond that


class RunRows(msgspec.Struct, frozen=True):
    runs: list[Run]  # newest first, without payload and result
    next: int | None  # where to continue; None after the last page
    reached: float | None = None  # with a text and another page: creation of the oldest run that was looked at


class RecordRows(msgspec.Struct, Generic[R], frozen=True):
    records: list[R]  # newest first
    next: int | None  # where to continue; None after the last page


class AuditRows(msgspec.Struct, frozen=True):
    entries: list[AuditEntry]  # oldest first
    next: int | None  # the number to continue after; None after the last page
    head: AuditHead  # the end as the scheduler noted it beside the entries


EVERY_ENTRY = AuditFilter()
EVERY_RECORD = RecordFilter()


class Pruned(msgspec.Struct, frozen=True):
    """The number of rows that were deleted; `MOST_PRUNED` of a kind means that more may be left."""

    runs: int
    more: bool  # whether more runs are left to delete
    lines: int = 0
    keys: int = 0
    records: int = 0


class Reader(ABC):
    """Reads for any process beside the scheduler that writes. Calls may come from one event loop at a time. Any call
    raises `StoreUnavailable` when the store cannot be read now, and may be repeated. Each call sees the store
    as one commit left it. No value given out is shared with the store.
    """

    is_private = False  # whether no other process can read it, and it ends with its process

    @abstractmethod
    async def open(self) -> None:
        """Make ready; call once, first. Raises if a store is there that is not ours or from a newer version."""

    @abstractmethod
    async def close(self) -> None:
        """Finish pending calls and release everything. May be called twice, and after a failed `open`."""

    @abstractmethod
    async def look_up(self, wanted: Lookup) -> Found: ...

    async def run(self, run_id: str) -> Run | None:
        """Return a run with payload and result."""
        return (await self.look_up(Lookup(runs=[run_id]))).runs.get(run_id)

    async def record(self, kind: type[R], id: str) -> R | None:
        found = (await self.look_up(Lookup(records=[(kind, id)]))).records.get((kind.kind, id))
        return found if isinstance(found, kind) else None

    @abstractmethod
    async def unscanned(self, run_ids: Sequence[str]) -> list[Unscanned]:
        """Return those of these runs whose results are still to be scanned."""

    @abstractmethod
    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        """Return at most `limit` runs that match, last created first; `before` is the `next` of the previous page.

        Pages repeat no run, leave out none that matched all the while, and contain none created since the first page.
        One call looks at `MOST_LOOKED_AT` runs at most, or at `MOST_SEARCHED` if the filter has a text, which is looked
        for in large columns; so a page may be short or empty and still have a `next`. It looks at the last
        `MOST_WITH_PREFIX` by id alone if the filter has `id_prefix`: of all tenants, anew for each page. It looks at no
        ended run if the filter is `only_live`, at unsuccessful ones alone if it is `only_unsuccessful`, and otherwise
        at those of the parent, root or job alone if it names one.
        """

    @abstractmethod
    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        """Return the number of runs that have not ended, by job, for jobs that have any; of one tenant if given."""

    @abstractmethod
    async def history(self, run_id: str) -> list[Transition]:
        """Return a run's history in order; empty for an unknown run."""

    @abstractmethod
    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[LogEntry]:
        """Return at most `limit` lines of a run's log with a position above `after`, in order. That is also the order
        of attempt and number, because no line of an attempt is stored once the next has begun."""

    @abstractmethod
    async def events(self, after: int, limit: int, wanted: EventFilter = EVERY_EVENT) -> EventRows:
        """Return at most `limit` of the wanted events with a position above `after`.

        Continuing after `reached` misses nothing, because nothing is ever stored below a stored position. One call
        looks at `MOST_LOOKED_AT` positions at most, except for a single run or service, and returns no more than about
        `MOST_EVENT_BYTES`; so the answer may be short or empty though there is more.
        """

    @abstractmethod
    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[ServiceEntry]:
        """Return the first or the last `limit` rows of a service with a position above `after`, in order."""

    @abstractmethod
    async def position(self) -> int:
        """Return the highest stored position, or 0."""

    @abstractmethod
    async def records(
        self, kind: type[R], wanted: RecordFilter = EVERY_RECORD, before: int | None = None, limit: int = MOST_RECORDS
    ) -> RecordRows[R]:
        """Return at most `limit` records of a kind that match, last created first; `before` is the `next` of the
        previous page. One call looks at `MOST_RECORDS` of them at most, except for a single run or an id, and returns
        no more than about `MOST_RECORD_BYTES`; so a page may be short or empty and still have a `next`."""

    @abstractmethod
    async def counts(self, kind: type[Record], wanted: RecordFilter) -> dict[str, int]:
        """Return the number of records of a kind that match, by state."""

    @abstractmethod
    async def audit(self, after: int, limit: int, wanted: AuditFilter = EVERY_ENTRY, last: bool = False) -> AuditRows:
        """Return the first or the last `limit` entries that match, of those with a number above `after`. One call
        looks at `MOST_LOOKED_AT` of them at most, so a page may be short or empty and still have a `next`; with `last`
        it has none. No entry is ever changed, or deleted with its run."""

    @abstractmethod
    async def due_times(self, kind: type[Record]) -> dict[str, float]:
        """Return each queue with records of a kind that have a `due_at`, and the earliest. One with an order counts
        only when it is the first of it."""

    @abstractmethod
    async def due(self, kind: type[R], queue: str, now: float, limit: int) -> list[R]:
        """Return at most `limit` records of a queue that are due by `now`, earliest first. One with an order is left
        out while an earlier one of the same order has a `due_at`."""


async def every_record(reader: Reader, kind: type[R], wanted: RecordFilter = EVERY_RECORD) -> AsyncIterator[R]:
    """Yield all records of a kind that match, last created first, page by page."""
    page = await reader.records(kind, wanted)
    while True:
        for record in page.records:
            yield record
        if page.next is None:
            return
        page = await reader.records(kind, wanted, page.next)


class Store(Reader):
    """The calls of the one scheduler. A failed call leaves nothing behind, except where `commit` says so."""

    @abstractmethod
    async def open(self) -> None:
        """Make ready; call once, first. Makes a missing store and brings an older layout up to date. Raises if the
        place is no store of ours, is from a newer version, or has another scheduler."""

    @abstractmethod
    def commit(self, batch: Batch, lease: Lease) -> Awaitable[None]:
        """Store the whole batch durably, or nothing. May begin before it is awaited. An update changes only the fields
        of its group.

        Raises `StaleEpoch` unless epoch and token of the lease are current, which is checked in the same transaction; a
        take of the lease waits for this transaction, or makes it fail. May prolong the lease. Raises `OutcomeUnknown`
        if the batch may have been stored, or may still be: until the lease is taken again. It is also unknown to a
        caller that does not wait for the end of the call. Whatever is confirmed only with a warning is unknown, too.

        Storing a batch again changes nothing, and neither does an update older than the stored one: an update is
        identified by run and `seq`, a log line by run, attempt and number, a row of the services' log by service and
        number. A record replaces the one with its kind and id if its `seq` is higher, or 0. A bulk request covers the
        runs stored before the batch it first came with, and those before the last run it has looked at. The first run
        of an entry in `copied` gets copies of the further payloads of the second, and of its own payload if the entry
        says so; each comes once, whatever its run becomes. A run of `past_runs` that is pruned gets no history and no
        records. An entry of the audit is identified by its number; one that is stored stays as it is. New rows need
        positions above every stored one, or `StoreUnavailable` is raised.
        """

    @abstractmethod
    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        """Return the live part of the store, with payloads of at most this size, and all records of these kinds."""

    @abstractmethod
    async def prune(self, limits: PruneLimits, lease: Lease) -> Pruned:
        """Delete, oldest first and at most `MOST_PRUNED` of each:

        - rows of services beyond a limit, but never the row with the highest position, so that none is used twice
        - keys created before a time; those of live runs stay
        - records of the given kinds that were written before a time, or are beyond the newest ones; those that a bulk
          retry under way has not reached stay
        - ended runs with all their rows and records but their keys: those that ended before a time, those beyond the
          newest of their job, and then those beyond the newest of all

        These runs stay: those that a record holds, those that a bulk retry under way has not reached, occurrences
        created at `occurrences_before` or later, the run created last and the run of the highest position, so that no
        number or position is used twice. One call deletes `limits.runs` runs at most, fewer where they have many rows,
        and none in part; others may write in between, and wait longer for a hurried call. After the clock was set back,
        everything may stay longer by as much.

        Every transaction checks the lease as `commit` does: with `StaleEpoch`, a part may have been deleted.
        """
