"""Views of supervised children: status, last exit and place in the tree."""

import signal as signals
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.record import Record


class Status(StrEnum):
    CREATED = "created"  # never started
    PENDING = "pending"  # waiting out its backoff before a restart
    STARTING = "starting"  # being started, or not ready yet
    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPING = "stopping"  # asked to end
    STOPPED = "stopped"  # ended on request
    FINISHED = "finished"  # ended by itself with success; not restarted
    KILLED = "killed"  # ended by a signal, or too slow to stop; not restarted
    FAILED = "failed"  # ended with a failure; not restarted


UP = frozenset({Status.RUNNING, Status.SUSPENDED})
OVER = frozenset({Status.STOPPED, Status.FINISHED, Status.KILLED, Status.FAILED})


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one life of a child."""

    at: Annotated[Time, doc("Time.")]
    code: Annotated[int | None, doc("Exit code; 0 for a function that returned.")] = None
    signal: Annotated[int | None, doc("Signal that ended the process.")] = None
    error: Annotated[str, doc("What a function raised, or why the child could not be started or had to be ended.")] = ""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.error

    @property
    def status(self) -> int:
        """The exit code; -1 without one."""
        return -1 if self.code is None else self.code

    def __str__(self) -> str:
        parts = [f"exit {self.code}"] if self.code is not None else []
        if self.signal is not None:
            parts.append(f"signal {self.signal} ({_signal_name(self.signal)})")
        if self.error:
            parts.append(self.error)
        return ", ".join(parts) or "unknown"


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return "unknown"


class ChildInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A child as it is now."""

    path: Annotated[str, doc("Names from the top of the tree down to the child, joined by slashes; empty for the top.")]
    name: Annotated[str, doc("Name.")]
    kind: Annotated[str, doc("`function`, `process`, `container` or `supervisor`.")]
    status: Annotated[Status, doc("Status.")]
    pid: Annotated[int | None, doc("Id of the process, if there is one.")] = None
    since: Annotated[Time | None, doc("Time of the latest start.")] = None
    restarts: Annotated[int, doc("Restarts since the supervisor started.")] = 0
    next_try_at: Annotated[Time | None, doc("End of the backoff before the next restart.")] = None
    last_exit: Annotated[Exit | None, doc("Latest end.")] = None
    exhausted: Annotated[bool, doc("Whether the supervisor gave up after too many restarts.")] = False
    reason: Annotated[str, doc("Reason why the child is not up.")] = ""
    traceback: Annotated[str, doc("Traceback of the app of a worker that cannot start.")] = ""
    strategy: Annotated[str | None, doc("Of a supervisor: `one_for_one`, `one_for_all` or `rest_for_one`.")] = None
    children: Annotated[list["ChildInfo"], doc("Of a supervisor: its children, in the order in which they start.")] = []

    def everybody(self) -> "Iterator[ChildInfo]":
        """Yield the child and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.everybody()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a child; neither side has `children`."""

    at: Time
    path: str
    before: ChildInfo | None  # None if the child was added
    after: ChildInfo | None  # None if the child was removed


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The memory handed from one life of a child to the next."""

    resume_id: str
    last_exit: Exit | None = None  # None before the first end, and for an end that nobody saw


class KeptService(Record, frozen=True):
    """What outlasts a service, by its name."""

    kind = "service"

    kept: Kept


class ServiceAction(StrEnum):
    START = "start"
    STOP = "stop"  # stays down until it is started, or until the server restarts
    RESTART = "restart"
    SUSPEND = "suspend"
    RESUME = "resume"
