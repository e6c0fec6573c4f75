"""Messages between scheduler, workers and clients, sent in batches of msgpack arrays.

A worker sends `Hello` and gets `Welcome`, then `Dispatch`, `Stop` and `Settled`; it sends `Starting`, `Started`,
`Finished`, `Lost`, `Returned` and heartbeats. Every message of an attempt names run and fence, which shows whether it
is stale. A client sends `Greeting`, then requests (`wire/request.py`).

The types bound every field, so reading a frame checks it; a test goes through all fields of all messages of workers. A
result is decoded once as it arrives (`payload.fault_of`), because every interface must be able to read it later.
"""

from collections.abc import Iterator
from math import inf
from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.fields.payload import EMPTY, LIMIT
from interlock.model.failure import Failure
from interlock.model.policy.verdict import RunLimits
from interlock.model.work import Work

PROTOCOL = 1

# Bounds of what others send. A message beyond one cannot be read: it is kept as a dead letter.
Id = Annotated[str, Meta(max_length=1000)]
Word = Annotated[str, Meta(max_length=64)]
Name = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=128 * 1024)]  # a log line with its escapes, an error with its traceback
Json = Annotated[bytes, Meta(max_length=LIMIT)]
MOST_HELD = 1_000_000  # attempts that a worker may list
ExitCode = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Number = Annotated[int, Meta(ge=0, lt=2**53)]
Tokens = Number
Instant = Annotated[float, Meta(ge=0, le=1e11)]
Span = Annotated[float, Meta(ge=0, le=1e11)]
Percent = Annotated[float, Meta(ge=0, le=100)]


class Message(msgspec.Struct, array_like=True, tag=True, frozen=True, gc=False):
    pass


def sent_kinds(parent: type[Message]) -> Iterator[type[Message]]:
    """Yield every kind of message, generic bases excepted."""
    for kind in parent.__subclasses__():
        below = list(sent_kinds(kind))
        yield from below if kind.__dict__.get("__parameters__") else [kind, *below]


class OfAttempt(Message, frozen=True):
    run_id: Id
    fence: Number

    @property
    def key(self) -> tuple[str, int]:
        return self.run_id, self.fence


class Unread(Message, frozen=True):
    """Stands for a message that cannot be read; nobody sends it."""

    raw: bytes
    error: str


class Held(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An attempt that a worker has, finished or not, until the scheduler has settled it."""

    run_id: Id
    fence: Number
    begun: bool = False  # it executes, or has; repeated with every heartbeat, because `Started` may be lost with a link


class Credential(Message, frozen=True):
    """Before `Hello`, from a worker elsewhere. The answer is `Seen`, or the end of the connection."""

    token: Annotated[str, Meta(max_length=4096)]

    def __repr__(self) -> str:
        return "Credential(…)"


class Hello(Message, frozen=True):
    worker_id: Name
    protocol: Count
    pid: Count
    slots: Count
    processes: Count
    jobs: Annotated[dict[Name, Name], Meta(max_length=100_000)]  # of its app, with the digests of their code
    held: Annotated[list[Held], Meta(max_length=MOST_HELD)]
    instance: Name  # the start of `interlock up` that the worker belongs to; empty for one that was started alone
    pool: Name = ""  # empty for the default one
    capabilities: Annotated[list[Name], Meta(max_length=1000)] = []
    labels: Annotated[dict[Name, Id], Meta(max_length=1000)] = {}
    wall: Instant = 0.0  # the worker's wall clock


class Unready(Message, frozen=True):
    """Instead of `Hello`, over a link of its own: the worker cannot start an executor process, or can again."""

    worker_id: Name
    instance: Name
    reason: Text  # empty if it can again
    traceback: Text


class Starting(OfAttempt, frozen=True):
    """The worker creates what will execute the attempt; sent again when the reason changes."""

    reason: Text  # what the start waits for


class Started(OfAttempt, frozen=True):
    ago: Span = 0.0  # seconds since it began


class Finished(OfAttempt, frozen=True):
    outcome: Word
    result: Annotated[bytes, Meta(max_length=32 * LIMIT)] | None = None  # one of more than 1 MiB fails the run
    error: Text | None = None
    exit_code: ExitCode | None = None
    ago: Span = 0.0  # seconds since it ended
    took: Span = 0.0  # seconds from its start to its end: its start may not have been reported
    failure: Failure | None = None  # of an attempt that raised an exception


class Lost(OfAttempt, frozen=True):
    """The process that executed the attempt died under it."""

    reason: Text
    exit_code: ExitCode | None = None


class Returned(OfAttempt, frozen=True):
    """The worker gives an attempt back that did not fail: the worker is leaving, or could not begin it."""

    reason: Text
    begun: bool = False  # whether it has begun all the same; its start may not be reported


class Heartbeat(Message, frozen=True):
    held: Annotated[list[Held], Meta(max_length=MOST_HELD)]
    at: Span = 0.0  # the worker's elapsed time


class Load(Message, frozen=True):
    """How busy the worker's machine is, every interval, whether it holds attempts or not: a sign of life."""

    cpu: Percent = 0.0
    memory: Percent = 0.0
    gpu: Percent = 0.0  # of its busiest GPU


class Progress(OfAttempt, frozen=True):
    percent: Percent
    text: Text


class Usage(OfAttempt, frozen=True):
    """How much of its window the session of the run has used."""

    tokens: Tokens
    window: Tokens


CHUNKS = "@chunks"  # level of a log line that has chunks of the run's stream: its text is a JSON list of them


class LogMessage(OfAttempt, frozen=True, tag="LogLine"):
    number: Count
    at: Instant
    level: Word
    text: Text
    logger: Name = ""  # name of a Python logger, stdout or stderr; empty for `Context.log`


class Checkpoint(OfAttempt, frozen=True):
    value: Json


class Leaving(Message, frozen=True):
    """The worker takes nothing new and will close."""


class Welcome(Message, frozen=True):
    """The answer to `Hello`. The scheduler sets the heartbeat interval, because it counts the missing ones."""

    heartbeat: Annotated[float, Meta(gt=0, lt=1e9)]
    now: float = 0.0  # the scheduler's elapsed time
    offer: Annotated[float, Meta(gt=0)] = 30.0  # seconds for which an offer stands
    wall: Instant = 0.0  # the scheduler's wall clock
    lease: Annotated[float, Meta(ge=0, lt=1e9)] = 0.0
    """seconds of silence after which each side leaves the link, because another scheduler may lead; 0 if none may"""


class Heard(Message, frozen=True):
    """The answer to a heartbeat. Every attempt it named stays with the worker, unless a `Stop` came before this."""

    at: float  # as in the heartbeat
    now: float  # the scheduler's elapsed time


class Seen(Message, frozen=True):
    """The answer to a right `Credential`, and to `Load` of a worker that is not to leave: the link works."""


class Dispatch(OfAttempt, frozen=True):
    job_id: str
    attempt: int
    payload: bytes | None
    deadline: float | None
    isolated: bool
    grace: float
    checkpoint: bytes | None = None
    work: Work | None = None  # the work, unless it is the function of the app for this job
    scheduled_at: float = 0.0
    hold: float = 0.0  # seconds until its time: the host of the worker keeps it until then
    begin_by: float = inf
    """elapsed time after which the worker must ask before it begins: the scheduler's time, and between a host and its
    executor processes the worker's own"""
    further: tuple[bytes, ...] = ()  # payloads of the runs that were collapsed into this one, in order
    session: str | None = None
    limits: RunLimits | None = None  # those that the policy puts on the run
    tenant: str = "default"
    labels: dict[str, str] | None = None
    parent: str | None = None  # run that made this one
    proof: str = ""  # shows that code belongs to this attempt
    record: bytes | None = None  # of a turn of a workflow: a `WorkflowRecord`

    @property
    def payloads(self) -> list[bytes]:
        """All payloads, in order."""
        return [self.payload or EMPTY, *self.further]

    @property
    def handler(self) -> str:
        """Id of the app's job whose function runs, unless `work` is something else."""
        return (self.work and self.work.function_of) or self.job_id


class Stop(OfAttempt, frozen=True):
    """Stop this attempt: ask, then TERM, then KILL."""

    reason: str


class Settled(OfAttempt, frozen=True):
    """The worker's report of this attempt is stored or stale: forget the attempt."""


class Drain(Message, frozen=True):
    """Take nothing new, finish the rest, then leave. Repeated as the answer to each `Load`."""


class ExecutorReady(Message, frozen=True):
    """Executor to host: the app is loaded and its lifespan entered."""

    jobs: dict[str, str]  # with the digests of their code
    has_lifespan: bool = False


class Expired(OfAttempt, frozen=True):
    """Executor to host: the attempt was not begun, because `begin_by` has passed."""


class Revoke(OfAttempt, frozen=True):
    """Host to executor: give this attempt back if it has not begun."""


class Revoked(OfAttempt, frozen=True):
    """Executor to host: the attempt had not begun and will not."""


class Greeting(Message, frozen=True):
    protocol: int


class Problem(Message, frozen=True):
    """An error answer; request 0 means that the whole link is refused."""

    request: int
    code: str
    text: str
    retry_after: float | None = None  # seconds after which to try again, if that may help
