"""What the shell hands to the core besides the workers' own messages."""

import msgspec

from interlock.model.child_info import Kept
from interlock.model.job import Job
from interlock.model.message import Held
from interlock.model.request import NewRun
from interlock.model.state import State


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create these runs, all or none. The shell adds what the store has under their keys and occurrence ids."""

    request: int
    runs: list[NewRun]
    actor: str
    digests: dict[int, bytes]
    """place in `runs` → digest of job and payload, for those with an idempotency key or an occurrence"""
    known_keys: dict[tuple[str, str], tuple[str, bytes]]
    known: dict[str, bytes | None]
    """the digests of occurrences that exist, or did; None where it is not known any more"""
    look_up: bool
    """whether the store has still to be asked for those"""
    size: int
    """bytes of all payloads"""


class Define(msgspec.Struct, frozen=True, gc=False):
    """These are the jobs from now on, besides those that were put. Anything that is wrong with one of them refuses all;
    at a start, request 0, it was checked before."""

    request: int
    jobs: list[Job]
    actor: str = "scheduler"
    sources: dict[str, str] = {}
    """job → where it is declared"""
    reached: dict[str, float] | None = None
    """the latest times of runs that jobs have which have no schedule so far; None as long as the store was not asked"""


class Put(msgspec.Struct, frozen=True, gc=False):
    """Add these jobs to those that are stored, or change them; all or none."""

    request: int
    jobs: list[Job]
    actor: str
    reached: dict[str, float] | None = None
    """as above"""


class Refill(msgspec.Struct, frozen=True, gc=False):
    """Create the runs of a job for these times, which have passed."""

    request: int
    job_id: str
    times: list[float]
    payload: bytes
    tenant: str
    max_parallel: int
    actor: str
    known: dict[str, State] | None = None
    """the states of those that exist; None as long as the store has not been asked"""


class Learn(msgspec.Struct, frozen=True, gc=False):
    """What there is under ids that may be taken; the store is asked just before the pass that is told."""

    run_ids: dict[str, list[str]]
    """by job"""
    states: dict[str, State] = {}


class WorkerUp(msgspec.Struct, frozen=True, gc=False):
    """A worker has joined, or is back, and holds these attempts."""

    worker_id: str
    slots: int
    processes: int
    jobs: frozenset[str]
    held: list[Held]
    draining: bool
    link: int = 0
    """which of its links it joined on"""


class WorkerDown(msgspec.Struct, frozen=True, gc=False):
    """A worker's link is gone; `dead` when its process is known to have ended."""

    worker_id: str
    dead: bool
    reason: str


class Stalled(msgspec.Struct, frozen=True, gc=False):
    """The scheduler itself stood still for so long, so silence in that span proves nothing."""

    seconds: float


class StartDraining(msgspec.Struct, frozen=True, gc=False):
    """Refuse new work and start nothing more."""


ServiceRow = tuple[str, int, float, str, str, bytes | None]
"""service, a number that grows within it, when, stream (stdout, stderr, status), text, and the `Change` that it tells
of, as JSON"""


class NoteServices(msgspec.Struct, frozen=True, gc=False):
    """Store this of services: what outlasts them (None forgets it), and what they said and what became of them."""

    kept: list[tuple[str, Kept | None]]
    lines: list[ServiceRow]
