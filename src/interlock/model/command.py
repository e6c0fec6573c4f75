"""What the shell hands to the core besides the workers' own messages."""

import msgspec

from interlock.model.child import Kept
from interlock.model.job import Job
from interlock.model.message import Held, NewRun


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create these runs, all or none. `known` holds what the store already has under their keys and occurrence ids."""

    request: int
    runs: list[NewRun]
    actor: str
    digests: dict[int, bytes]
    """place in `runs` → digest of job and payload, for those with an idempotency key"""
    known_keys: dict[tuple[str, str], tuple[str, bytes]]
    known_ids: frozenset[str]
    look_up: bool
    """whether the store has still to be asked for those"""
    size: int
    """bytes of all payloads"""


class CancelRun(msgspec.Struct, frozen=True, gc=False):
    request: int
    run_id: str
    reason: str
    actor: str


class Define(msgspec.Struct, frozen=True, gc=False):
    """These are the jobs from now on."""

    jobs: list[Job]


class WorkerUp(msgspec.Struct, frozen=True, gc=False):
    """A worker has joined, or is back, and holds these attempts."""

    worker_id: str
    slots: int
    processes: int
    jobs: frozenset[str]
    held: list[Held]
    draining: bool


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
