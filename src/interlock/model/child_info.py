"""What is known of a supervised child: its status, how it last ended, and its place in the tree."""

import signal as signals
from enum import StrEnum

import msgspec


class Status(StrEnum):
    CREATED = "created"
    """known, and never started"""
    PENDING = "pending"
    """waits out its backoff before it is started again"""
    STARTING = "starting"
    """is being started, or is not ready yet"""
    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    """was asked to end"""
    STOPPED = "stopped"
    """ended because it was asked to"""
    FINISHED = "finished"
    """ended by itself, with success, and is not started again"""
    KILLED = "killed"
    """ended by a signal, or did not end in time when it was asked to, and is not started again"""
    FAILED = "failed"
    """ended with a failure and is not started again"""


UP = frozenset({Status.RUNNING, Status.SUSPENDED})
OVER = frozenset({Status.STOPPED, Status.FINISHED, Status.KILLED, Status.FAILED})


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How an instance of a child ended."""

    at: float
    """wall time"""
    code: int | None = None
    """the exit code; 0 for a function that returned"""
    signal: int | None = None
    """the signal that ended a process"""
    error: str = ""
    """what a function raised, or why it could not be started or had to be ended"""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.error

    @property
    def status(self) -> int:
        """The exit code, -1 if there is none."""
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
    """A child as it stands. Times are seconds since 1970."""

    path: str
    """the names from the top of the tree down to it, with slashes between; the top itself is not named"""
    name: str
    kind: str
    """function, process, container or supervisor"""
    status: Status
    pid: int | None = None
    since: float | None = None
    """when the instance that is there, or was there last, was started"""
    restarts: int = 0
    """how often it was started again since the supervisor was started"""
    next_try_at: float | None = None
    """when its backoff ends"""
    last_exit: Exit | None = None
    exhausted: bool = False
    """whether it was given up because it was restarted too often"""
    reason: str = ""
    """why it is not up, if it is not"""
    strategy: str | None = None
    """of a supervisor"""
    children: list["ChildInfo"] = []
    """of a supervisor, in the order in which they start"""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened to a child; neither side has `children`."""

    at: float
    path: str
    before: ChildInfo | None
    """None: it was added"""
    after: ChildInfo | None
    """None: it was removed"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is handed from one life of a child to the next."""

    resume_id: str
    last_exit: Exit | None = None
    """None if there is none, or nobody saw it end"""


class ServiceAction(StrEnum):
    START = "start"
    STOP = "stop"
    """it stays down until it is started, or until the next start of everything"""
    RESTART = "restart"
    SUSPEND = "suspend"
    RESUME = "resume"
