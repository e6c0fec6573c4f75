"""Port: where runs are kept. The store is the truth; everything in memory is rebuilt from it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence

import msgspec

from interlock.core.decisions import Batch
from interlock.model.job import Job
from interlock.model.run import Run, Transition


class Snapshot(msgspec.Struct, frozen=True):
    """What a scheduler needs to take over."""

    runs: list[Run]
    """every run that has not ended; payloads above the asked size are None"""
    jobs: list[Job]
    """every version of a job that was ever written"""


class Inputs(msgspec.Struct, frozen=True):
    payload: bytes
    checkpoint: bytes | None


class DeadLetter(msgspec.Struct, frozen=True):
    run_id: str
    at: float
    code: str
    error: str


class LogEntry(msgspec.Struct, frozen=True):
    at: float
    attempt: int
    level: str
    text: str


class Store(ABC):
    """One scheduler writes, anybody reads. Calls may come from one event loop at a time.

    Any call raises `StoreUnavailable` when the store cannot do it now. After a failed call nothing of it is kept, and
    the same call may be made again.
    """

    @abstractmethod
    async def open(self) -> None:
        """Make ready, bringing an older layout up to date. Raises where the place is no store of ours, is from a newer
        version, or is written by another scheduler already. Must be called first, once."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was begun and let go of everything. May be called twice, and after a failed `open`."""

    @abstractmethod
    def commit(self, batch: Batch, lease: str, epoch: int) -> Awaitable[None]:
        """Store the whole batch, durably, or nothing of it. May begin before it is awaited.

        Raises `StaleEpoch`, storing nothing, unless `epoch` is the current one of `lease`. An update is known by its
        run and sequence number: a batch stored once more changes nothing, and neither does an update that is older than
        what is there.
        """

    @abstractmethod
    async def load(self, small_payload: int) -> Snapshot:
        """Every run that has not ended, with its payload if that is no larger, and every job version."""

    @abstractmethod
    async def inputs(self, run_ids: Sequence[str]) -> dict[str, Inputs]:
        """Payload and last checkpoint of these runs."""

    @abstractmethod
    async def known_keys(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        """(tenant, idempotency key) → run id and digest, for those that were used."""

    @abstractmethod
    async def known_ids(self, run_ids: Sequence[str]) -> frozenset[str]:
        """Which of these runs exist, ended or not."""

    @abstractmethod
    async def run(self, run_id: str) -> Run | None:
        """A run with payload and result."""

    @abstractmethod
    async def history(self, run_id: str) -> list[Transition]:
        """In order; empty for a run that does not exist."""

    @abstractmethod
    async def logs(self, run_id: str) -> list[LogEntry]:
        """By attempt and number of the line."""

    @abstractmethod
    async def dead_letters(self) -> list[DeadLetter]:
        """In the order they were stored."""
