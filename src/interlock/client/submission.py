"""The runs of a submit, from the arguments of a program to messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from interlock.client.handle import RunHandle
from interlock.error import BadUse, BadValue
from interlock.fields.value import ResultType
from interlock.interface.run_builder import check_size, new_run
from interlock.wire import request as r
from interlock.wire.claim import present_claim, read_claim
from interlock.wire.new_run import RunOptions

if TYPE_CHECKING:  # it imports asyncio, and the blocking client must start without
    from interlock.client.connection import Connection

T = TypeVar("T")


class Call(Generic[T]):
    """A run that is not yet submitted, made by `report.call(...)`. Apps and clients take it: `client.submit(call)`."""

    __slots__ = ("job_id", "options", "payload", "result_type")

    def __init__(self, job_id: str, payload: bytes, options: RunOptions, result_type: ResultType[T] | None) -> None:
        self.job_id = job_id
        self.payload = payload  # JSON, or empty for the job's own
        self.options = options
        self.result_type = result_type

    def __repr__(self) -> str:
        return f"Call({self.job_id!r})"

    def new_run(self, now: float | None = None) -> r.NewRun:
        """Return the run as a message. Deadlines count from `now`."""
        return msgspec.structs.replace(new_run(self.job_id, now=now, **self.options), payload=self.payload)


NewRuns = Iterable[Call[Any] | r.NewRun | tuple[str, Mapping[str, Any] | None]]


def call_of(
    job: str | Call[Any], arguments: Any, options: RunOptions, now: float | None = None
) -> Call[Any] | r.NewRun:
    """Return the run of a submit: the call itself, or a run of the job with this name."""
    if not isinstance(job, Call):
        return new_run(job, arguments, now=now, **options)
    if arguments is not None or options:
        raise BadUse("payload" if arguments is not None else min(options), "is part of the call; give it there")
    return job


def run_of(place: int, one: object, now: float) -> r.NewRun:
    """Return one run of `submit_many`."""
    if isinstance(one, r.NewRun):
        return one
    if isinstance(one, Call):
        return one.new_run(now)
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        # Only its type is shown, because it may contain a secret.
        expected = "a pair of job and payload, or made by interlock.run(...) or the call(...) of a job"
        raise BadValue(f"runs[{place}]", type(one).__name__, expected)
    return new_run(one[0], one[1], now=now)


def result_type_of(one: object) -> ResultType[Any] | None:
    return one.result_type if isinstance(one, Call) else None


def in_tenant(runs: Sequence[r.NewRun], tenant: str) -> list[r.NewRun]:
    """Return these runs, those of no particular tenant in this one."""
    return [msgspec.structs.replace(new, tenant=tenant) if new.tenant == "default" else new for new in runs]


async def submit(connection: "Connection", runs: NewRuns, actor: str = "") -> list[RunHandle[Any]]:
    """Submit all runs or none; they are durable when this returns. Safe to repeat if each has an idempotency key.
    `actor` is the caller behind this client, if any."""
    now, given = connection.now(), list(runs)
    ready = [run_of(place, one, now) for place, one in enumerate(given)]
    check_size(ready)
    if claim := present_claim():
        ready = in_tenant(ready, read_claim(claim).tenant)
    accepted = await connection.ask(r.Submit(0, ready, actor, parent=claim))
    return [
        RunHandle(run_id, connection, result_type_of(one)) for run_id, one in zip(accepted.run_ids, given, strict=True)
    ]
