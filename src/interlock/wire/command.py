"""Commands: what the shell hands to the core besides messages and requests."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from interlock.model.child_info import Kept
from interlock.model.job import Job
from interlock.model.lane import LaneSpec
from interlock.model.pool import DEFAULT_POOL, PoolSpec
from interlock.model.tally import Tally
from interlock.model.tenant import TenantSpec
from interlock.wire.effect import Effect
from interlock.wire.message import Held, Message
from interlock.wire.request import NewRun


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create these runs, all or none."""

    request: int
    runs: list[NewRun]
    actor: str
    size: int  # bytes of all payloads
    show: bool = False  # whether the answer is to have the run, of a single one
    only_tenant: str | None = None  # the one tenant for which the caller acts; None for every tenant
    parent: str = ""  # claim of the attempt whose code submits them


class Define(msgspec.Struct, frozen=True, gc=False):
    """Replace the declared jobs and the lanes; jobs that were put stay. One bad job refuses all; at a start (request 0)
    they were checked before."""

    request: int
    jobs: list[Job]
    actor: str = "scheduler"
    sources: dict[str, str] = {}  # job → where it is declared
    lanes: Mapping[str, LaneSpec] = {}  # if empty, lanes stay as they are
    policy: Any = None  # the compiled policy, `interlock.policy.policy.Policy`
    position: int = 0  # of the last row that was stored or is about to be
    pools: Mapping[str, PoolSpec] = {}
    tenants: Mapping[str, TenantSpec] = {}
    claim_key: bytes = b""  # key of the proofs in dispatches, for a store without one


class Put(msgspec.Struct, frozen=True, gc=False):
    """Add or change stored jobs, all or none."""

    request: int
    jobs: list[Job]
    actor: str


class Refill(msgspec.Struct, frozen=True, gc=False):
    """Create the runs of a job for these past times."""

    request: int
    job_id: str
    times: list[float]
    payload: bytes
    tenant: str
    max_parallel: int
    actor: str


class PolicyMoved(msgspec.Struct, frozen=True, gc=False):
    """The remote policy has another digest now."""

    digest: str


class Answered(msgspec.Struct, frozen=True, gc=False):
    """Answers to effects, among them late, repeated and void ones."""

    answers: list[tuple[Effect, Any]]


class HandedOver(msgspec.Struct, frozen=True, gc=False):
    """These messages were sent to their workers at `at`, in elapsed time."""

    sends: dict[str, list[Message]]
    at: float


class WorkerUp(msgspec.Struct, frozen=True, gc=False):
    """A worker has connected and holds these attempts."""

    worker_id: str
    slots: int
    processes: int
    jobs: Mapping[str, str]  # of its app, with the digests of their code
    held: list[Held]
    draining: bool
    link: int = 0  # the number of the link it joined on
    pool: str = DEFAULT_POOL
    capabilities: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    tenants: Set[str] | None = None  # those whose runs it may have; None for all
    skew: float = 0.0  # its wall clock minus the scheduler's


class WorkerDown(msgspec.Struct, frozen=True, gc=False):
    """A worker's link is gone; `dead` if its process has ended."""

    worker_id: str
    dead: bool
    reason: str


class Stalled(msgspec.Struct, frozen=True, gc=False):
    """The scheduler itself stood still, so silence in that span proves nothing."""

    seconds: float


class Sweep(msgspec.Struct, frozen=True, gc=False):
    """Put back those of these runs that the scheduler has missed."""

    runs: dict[str, str]  # id → version of its job


class KeepTallies(msgspec.Struct, frozen=True, gc=False):
    """Store these tallies, in which the ends of runs are counted up to this position."""

    tallies: Sequence[Tally]
    position: int


class StartDraining(msgspec.Struct, frozen=True, gc=False):
    """Refuse new work and start nothing more."""


class WentBack(msgspec.Struct, frozen=True, gc=False):
    """The store has lost its last rows, as after a failover to a replica that lagged."""

    lost: int  # positions
    at: float  # time at which that was found

    def __str__(self) -> str:
        return f"the store has gone back (positions lost: {self.lost:,})"


class NoteTokens(msgspec.Struct, frozen=True, gc=False):
    """These tokens are accepted from now on."""

    tokens: dict[str, str]  # name → a text that differs if role, tenant or secret do


ServiceRow = tuple[str, int, float, str, str, bytes | None]
"""service, a number that grows within it, time, stream (stdout, stderr, status), text, and the `Change` as JSON"""


class NoteServices(msgspec.Struct, frozen=True, gc=False):
    """Store the records of services: what outlasts them (None forgets it), their lines and their changes."""

    kept: list[tuple[str, Kept | None]]
    lines: list[ServiceRow]
