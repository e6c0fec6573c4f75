"""What travels between scheduler, workers and clients, in batches of msgpack arrays.

A worker says `Hello`, hears `Welcome`, then `Dispatch`, `Stop` and `Settled`; it answers `Started`, `Finished`, `Lost`,
`Returned` and beats. Every message of an attempt names run and fence, so that one from the past is known as such. A
client says `Greeting`, then makes requests (`model/request.py`).
"""

from math import inf
from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.model.work import Work

PROTOCOL = 1

ExitCode = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Instant = Annotated[float, Meta(ge=0, le=1e11)]
Span = Annotated[float, Meta(ge=0, le=1e11)]
Percent = Annotated[float, Meta(ge=0, le=100)]


class Message(msgspec.Struct, array_like=True, tag=True, frozen=True, gc=False):
    pass


# ── worker → scheduler ──────────────────────────────────────────────────────────────────────────────────────────────


class Held(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt a worker has, finished or not, until the scheduler settled it."""

    run_id: str
    fence: int
    begun: bool = False
    """it executes, or has; said with every beat, for the word of its start may be lost with a link"""


class Hello(Message, frozen=True):
    worker_id: str
    protocol: int
    pid: int
    slots: Count
    processes: Count
    jobs: list[str]
    held: list[Held]
    instance: str
    """which start of `interlock up` the worker belongs to; empty for one that was started alone"""


class Started(Message, frozen=True):
    run_id: str
    fence: int
    ago: Span = 0.0
    """seconds since it began"""


class Finished(Message, frozen=True):
    run_id: str
    fence: int
    outcome: str
    result: bytes | None = None
    error: str | None = None
    exit_code: ExitCode | None = None
    ago: Span = 0.0
    """seconds since it ended"""
    took: Span = 0.0
    """seconds from its start to its end: its start may not have been reported"""


class Lost(Message, frozen=True):
    """The process that executed the attempt died under it."""

    run_id: str
    fence: int
    reason: str
    exit_code: ExitCode | None = None


class Returned(Message, frozen=True):
    """The worker gives an attempt back unharmed: it is leaving, or could not begin."""

    run_id: str
    fence: int
    reason: str


class Heartbeat(Message, frozen=True):
    held: list[Held]
    at: float = 0.0
    """the worker's elapsed time"""


class Progress(Message, frozen=True):
    run_id: str
    fence: int
    percent: Percent
    text: str


class LogLine(Message, frozen=True):
    run_id: str
    fence: int
    number: Count
    at: Instant
    level: str
    text: str


class Checkpoint(Message, frozen=True):
    run_id: str
    fence: int
    value: bytes


class Leaving(Message, frozen=True):
    """The worker takes nothing new and will close."""


# ── scheduler → worker ──────────────────────────────────────────────────────────────────────────────────────────────


class Welcome(Message, frozen=True):
    """The answer to `Hello`: how often to beat is the scheduler's to say, for it counts the beats that are missing."""

    heartbeat: Annotated[float, Meta(gt=0, lt=1e9)]
    now: float = 0.0
    """the scheduler's elapsed time"""
    offer: Annotated[float, Meta(gt=0)] = 30.0
    """seconds for which an offer stands"""


class Heard(Message, frozen=True):
    """The answer to a heartbeat. Every attempt it named stays with the worker, unless a `Stop` came before this."""

    at: float
    """as in the heartbeat"""
    now: float
    """the scheduler's elapsed time"""


class Dispatch(Message, frozen=True):
    run_id: str
    fence: int
    job_id: str
    attempt: int
    payload: bytes | None
    deadline: float | None
    isolated: bool
    grace: float
    checkpoint: bytes | None = None
    work: Work | None = None
    """what to do, where it is not a function of the app"""
    scheduled_at: float = 0.0
    hold: float = 0.0
    """seconds until its time: the host of the worker keeps it until then"""
    begin_by: float = inf
    """elapsed time after which the worker must ask before it begins: the scheduler's time, and between a host and its
    executor processes the worker's own"""


class Stop(Message, frozen=True):
    """Stop this attempt: ask, then TERM, then KILL."""

    run_id: str
    fence: int
    reason: str


class Settled(Message, frozen=True):
    """What the worker reported of this attempt is stored, or was of no use: forget it."""

    run_id: str
    fence: int


class Drain(Message, frozen=True):
    """Take nothing new, finish what there is, then leave."""


class Ready(Message, frozen=True):
    """Executor to host: the app is loaded and has these jobs."""

    jobs: list[str]


class Expired(Message, frozen=True):
    """Executor to host: `begin_by` has passed, so it was not begun."""

    run_id: str
    fence: int


class Revoke(Message, frozen=True):
    """Host to executor: give this attempt back if it has not begun."""

    run_id: str
    fence: int


class Revoked(Message, frozen=True):
    """Executor to host: it had not begun and will not."""

    run_id: str
    fence: int


# ── either side ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Greeting(Message, frozen=True):
    protocol: int


class Problem(Message, frozen=True):
    """An error answer; request 0 means that the whole link is refused."""

    request: int
    code: str
    text: str
