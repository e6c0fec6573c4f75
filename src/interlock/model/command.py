"""What the shell hands to the core besides the workers' own messages."""

from typing import Any

import msgspec

from interlock.model.child_info import Kept
from interlock.model.effect import Effect
from interlock.model.job import Job
from interlock.model.message import Held, Message
from interlock.model.request import NewRun


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create these runs, all or none."""

    request: int
    runs: list[NewRun]
    actor: str
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


class Put(msgspec.Struct, frozen=True, gc=False):
    """Add these jobs to those that are stored, or change them; all or none."""

    request: int
    jobs: list[Job]
    actor: str


class Refill(msgspec.Struct, frozen=True, gc=False):
    """Create the runs of a job for these times, which have passed."""

    request: int
    job_id: str
    times: list[float]
    payload: bytes
    tenant: str
    max_parallel: int
    actor: str


class Quarantine(msgspec.Struct, frozen=True, gc=False):
    """Withhold the output of a run, if it is still succeeded."""

    run_id: str
    reason: str
    actor: str


class Answered(msgspec.Struct, frozen=True, gc=False):
    """Answers to effects: late, repeated or void ones too."""

    answers: list[tuple[Effect, Any]]


class HandedOver(msgspec.Struct, frozen=True, gc=False):
    """These messages are on their way to their workers since `at`, in elapsed time."""

    sends: dict[str, list[Message]]
    at: float


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
