"""Port: where runs are kept. The store is the truth; everything in memory is rebuilt from it.

Every history row, every log line and every row of the services' log has a position: a number that grows from commit to
commit, so that whoever has read up to a position can go on after it, at any time and in any process.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from math import inf

import msgspec

from interlock.core.decisions import Batch
from interlock.core.rebuild import Snapshot as Snapshot
from interlock.model.bulk import BulkRequest
from interlock.model.child_info import Change, Kept
from interlock.model.job import Job
from interlock.model.run import Run, Transition
from interlock.model.run_filter import UNSUCCESSFUL as UNSUCCESSFUL
from interlock.model.run_filter import RunFilter as RunFilter
from interlock.model.state import State

MOST_LOOKED_AT = 50_000
"""runs that one call of `runs` looks at, whatever it finds"""

MOST_EVENT_BYTES = 256 * 1024
"""of what one call for events gives"""

MOST_PRUNED = 1000
"""rows that one call of `prune_service_log` deletes, keys one of `prune_keys`, runs one of `prune_runs`"""
HURRIED = 20
"""times more runs in one call that is in a hurry"""


class PruneLimits(msgspec.Struct, frozen=True):
    """What `prune_runs` leaves."""

    most: int
    ended_before: float
    total: int = sys.maxsize
    occurrences_before: float = inf
    hurry: bool = False

    @property
    def runs(self) -> int:
        """How many one call deletes at the most."""
        return MOST_PRUNED * HURRIED if self.hurry else MOST_PRUNED


class Inputs(msgspec.Struct, frozen=True):
    payload: bytes
    checkpoint: bytes | None


class DeadLetter(msgspec.Struct, frozen=True):
    run_id: str
    at: float
    code: str
    error: str


class LogEntry(msgspec.Struct, frozen=True):
    position: int
    at: float
    attempt: int
    level: str
    text: str


class StoredEvent(msgspec.Struct, frozen=True):
    """Something that was stored: what one commit did to one run, or one log line."""

    position: int
    run_id: str
    job_id: str
    tenant: str
    transitions: list[Transition]
    """in order; empty if it is a log line"""
    line: LogEntry | None = None


class ServiceEntry(msgspec.Struct, frozen=True):
    """Something that a service printed, or that became of it."""

    position: int
    service: str
    at: float
    stream: str
    """stdout, stderr or status"""
    text: str
    change: Change | None = None
    """what the text tells in words"""


class EventRows(msgspec.Struct, frozen=True):
    events: list[StoredEvent | ServiceEntry]
    """in order of position"""
    reached: int
    """everything that is wanted up to here has been given"""
    more: bool
    """whether anything is stored beyond that"""


class RunRows(msgspec.Struct, frozen=True):
    runs: list[Run]
    """the newest first; payload and result are None"""
    next: int | None
    """where to go on; None when no further run can be wanted"""


class Pruned(msgspec.Struct, frozen=True):
    runs: int
    """how many were deleted"""
    more: bool
    """whether there are more to delete"""


class Reader(ABC):
    """What anybody may read, beside the scheduler that writes. Calls may come from one event loop at a time.

    Any call raises `StoreUnavailable` when the store cannot be read now; the same call may be made again. Each call
    sees the store as one commit left it. Nothing that is handed out is shared with the store.
    """

    @abstractmethod
    async def open(self) -> None:
        """Make ready. Raises where the place is no store of ours or is from a newer version; that nothing is there yet
        is no error of `open`. Must be called first, once."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was begun and let go of everything. May be called twice, and after a failed `open`."""

    @abstractmethod
    async def run(self, run_id: str) -> Run | None:
        """A run with payload and result."""

    @abstractmethod
    async def tenant_of_pruned(self, run_id: str) -> str | None:
        """The tenant of a run that was pruned while its key, or its occurrence, is kept; None for any other id."""

    @abstractmethod
    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        """The runs that are wanted, last created first, at most `limit`; `before` is the `next` of the page before.
        Of a single job no others are looked at, unless only its live or its unsuccessful runs are wanted.

        No page repeats a run, or leaves one out that was there and wanted from the first page to the last; runs created
        since are not in later pages. One call looks at `MOST_LOOKED_AT` runs at the most, so a page may have fewer runs
        than asked for, even none, and still a `next`. Runs that have ended are not looked at, however many there are,
        if the filter is `only_live`, and none but unsuccessful ones if it is `only_unsuccessful`.
        """

    @abstractmethod
    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        """Return the number of runs that have not ended, by job, for jobs that have any; of one tenant if given."""

    @abstractmethod
    async def history(self, run_id: str) -> list[Transition]:
        """In order; empty for a run that does not exist."""

    @abstractmethod
    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[LogEntry]:
        """The run's lines with a position above `after`, in order of position, at most `limit`. The order is also that
        of attempt and number: lines of an attempt are stored as they come, and none of them once the next has begun."""

    @abstractmethod
    async def events(
        self,
        after: int,
        limit: int,
        run_id: str | None = None,
        job_id: str | None = None,
        tenant: str | None = None,
        service: str | None = None,
    ) -> EventRows:
        """What has a position above `after`, at most `limit`; only of a run, a job, a tenant, a service where they are
        given. What is of a service is of no run, job or tenant, and the other way round.

        Going on after the position that was reached misses nothing, for nothing is ever stored below one that is. One
        call looks at `MOST_LOOKED_AT` positions at the most, unless it is for a single run or service, and gives no
        more than about `MOST_EVENT_BYTES`; so it may give little, even nothing, though there is more.
        """

    @abstractmethod
    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[ServiceEntry]:
        """The service's rows with a position above `after`, in order of position: the first `limit` of them, or the
        last ones. Empty for a service that has none."""

    @abstractmethod
    async def kept(self) -> dict[str, Kept]:
        """What outlasts the services, by their names."""

    @abstractmethod
    async def position(self) -> int:
        """The highest that is stored, 0 if none is."""

    @abstractmethod
    async def definition(self, version: str) -> Job | None:
        """A version of a job that a run refers to, or did."""

    @abstractmethod
    async def bulk(self, bulk_id: str) -> BulkRequest | None:
        """A bulk request as the last commit left it."""

    @abstractmethod
    async def dead_letters(self) -> list[DeadLetter]:
        """In the order they were stored."""


class Store(Reader):
    """What the one scheduler does besides. After a failed call nothing of it is kept."""

    @abstractmethod
    async def open(self) -> None:
        """Make ready, making the store if there is none and bringing an older layout up to date. Raises where the place
        is no store of ours, is from a newer version, or is written by another scheduler already. Must be called first,
        once."""

    @abstractmethod
    def commit(self, batch: Batch, lease: str, epoch: int) -> Awaitable[None]:
        """Store the whole batch, durably, or nothing of it. May begin before it is awaited. An update changes only the
        fields of its group.

        Raises `StaleEpoch`, storing nothing, unless `epoch` is the current one of `lease`. An update is known by its
        run and sequence number, a log line by its run, attempt and number, a row of the services' log by its service
        and number: a batch stored once more changes nothing, and neither does an update that is older than what is
        there. A bulk request is known by its id and `seq`; it is for the runs that were stored before the batch that
        it first came with. The positions of rows that are not there yet must be above every position that is: where one
        is taken, `StoreUnavailable` is raised.
        """

    @abstractmethod
    async def prune_service_log(self, most_lines: int, most_bytes: int) -> int:
        """Of each service keep the newest rows, as many as are within both limits, and delete the others, the oldest
        first. The row with the highest position of all stays in any case, so that no position is given out twice.

        Returns how many were deleted: no more than `MOST_PRUNED`, and less only when none is left to delete.
        """

    @abstractmethod
    async def load(self, small_payload: int) -> Snapshot:
        """Every run that has not ended, with its payload if that is no larger, and what else a scheduler goes by."""

    @abstractmethod
    async def inputs(self, run_ids: Sequence[str]) -> dict[str, Inputs]:
        """Payload and last checkpoint of these runs."""

    @abstractmethod
    async def known_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        """(tenant, idempotency key) → run id and digest, for those that were used."""

    @abstractmethod
    async def digests(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        """The digests of these runs, pruned ones too, where they were submitted with a key or as an occurrence."""

    @abstractmethod
    async def states(self, run_ids: Sequence[str]) -> dict[str, State]:
        """The states of those of these runs that exist, ended or not."""

    @abstractmethod
    async def latest_times(self, job_ids: Sequence[str], after: float) -> dict[str, float]:
        """The latest time for which each of these jobs has a run, of those that are later than `after`."""

    @abstractmethod
    async def first_times(self, job_ids: Sequence[str]) -> dict[str, float]:
        """For each job, the time of the first run that its schedule created, of those that are still stored."""

    @abstractmethod
    async def prune_keys(self, created_before: float, calls_before: float = 0.0) -> int:
        """Delete the keys that were created before this, the oldest first, but for those of live runs. Keys that begin
        with `CALL_KEY` go if they were created before `calls_before`.

        Returns how many were deleted: no more than `MOST_PRUNED`, and less only when none is left to delete. Where the
        clock was set back, keys may be kept longer by as much.
        """

    @abstractmethod
    async def prune_runs(self, limits: PruneLimits) -> Pruned:
        """Delete runs that have ended, with all that belongs to them but their keys: those that ended before
        `ended_before`, of each job those beyond its `most` newest, and then the oldest of all until `total` are left.
        Runs with a dead letter stay, and so do those that a schedule created at `occurrences_before` or later. So do,
        whatever their age, the run that was created last and the one that the highest position belongs to: no place in
        the order is given out twice.

        One call deletes `MOST_PRUNED` runs at the most, fewer where much belongs to them, and none in part; others may
        write between two of them. In a hurry it deletes `HURRIED` times as many, and others wait longer to write. Where
        the clock was set back, runs may be kept longer by as much.
        """
