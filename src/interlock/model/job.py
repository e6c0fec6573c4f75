"""What a job is: its id, where it runs, how it is retried and how long it may take."""

import hashlib
import re
from enum import StrEnum
from typing import Any

import msgspec

from interlock.model.duration import seconds
from interlock.model.error import BadValue
from interlock.model.interning import shared
from interlock.model.schedule import Schedule
from interlock.model.work import Work

JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


RETRIES_OF_SCHEDULED = 3
"""how often a run of a job with a schedule is tried again if the job says nothing of it"""


class ExecutorKind(StrEnum):
    ASYNC = "async"
    """on the event loop of a shared process"""
    THREAD = "thread"
    """in a thread of a shared process"""
    PROCESS = "process"
    """in a process of its own"""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and after which delays a failed run is tried again; delays in seconds."""

    max_retries: int | None = None
    """None for what is usual: 3 where the job has a schedule, and 0 where it has none"""
    initial_delay: float | str = 2.0
    multiplier: float = 2.0
    max_delay: float | str = 30.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        most = 0 if self.max_retries is None else self.max_retries
        if not isinstance(most, int) or isinstance(most, bool) or most < 0:
            raise BadValue("retry.max_retries", most, "a whole number of zero or more")
        for field in ("multiplier", "jitter"):
            if not isinstance(getattr(self, field), (int, float)) or isinstance(getattr(self, field), bool):
                raise BadValue(f"retry.{field}", getattr(self, field), "a number")
        if not 1 <= self.multiplier <= 1000:
            raise BadValue("retry.multiplier", self.multiplier, "a number from 1 to 1000")
        if not 0 <= self.jitter <= 1:
            raise BadValue("retry.jitter", self.jitter, "a number from 0 to 1")
        initial = seconds(self.initial_delay, "retry.initial_delay")
        longest = seconds(self.max_delay, "retry.max_delay")
        msgspec.structs.force_setattr(self, "initial_delay", initial)
        msgspec.structs.force_setattr(self, "max_delay", longest)

    @property
    def longest_delay(self) -> float:
        return float(self.max_delay) * (1 + self.jitter)

    def delay(self, retry: int, spread: float) -> float:
        """Seconds before retry number `retry` (0 is the first); `spread` from -1 to 1 places it within the jitter."""
        initial, longest = float(self.initial_delay), float(self.max_delay)
        # The power of a large count overflows a float long after the cap has been reached.
        factor = self.multiplier ** min(retry, 100)
        return max(0.0, min(initial * factor, longest) * (1 + self.jitter * spread))


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A definition as the scheduler knows it; `version` changes whenever anything else in it does."""

    id: str
    lane: str = "main"
    executor: ExecutorKind = ExecutorKind.ASYNC
    retry: Retry = Retry()
    deadline: float | None = None
    """seconds from the submit (or the due time) by which a run must have ended"""
    max_runtime: float | None = None
    """seconds from the first start, over all attempts"""
    max_runtime_per_attempt: bool = False
    """count `max_runtime` anew for each attempt"""
    max_crashes: int = 3
    grace: float = 10.0
    """seconds between asking, TERM and KILL when a run is stopped"""
    secrets: tuple[str, ...] = ()
    """arguments that are never shown, because the handler takes them as `Secret`"""
    schedule: Schedule | None = None
    """without one it runs when it is submitted"""
    max_concurrent_runs: int = 1
    """how many of its occurrences may be live at once"""
    payload: dict[str, Any] | None = None
    """what it is given when nobody says otherwise"""
    work: Work | None = None
    """None for a function of the app"""
    version: str = ""

    def __post_init__(self) -> None:
        for field in ("id", "lane"):
            if not isinstance(getattr(self, field), str):
                raise BadValue(field, getattr(self, field), "a text")
        if not JOB_ID.fullmatch(self.id):
            raise BadValue("job", self.id, "a name of letters, digits, '_', '-' and '.', up to 128 long")
        if not NAME.fullmatch(self.lane):
            raise BadValue("lane", self.lane, "a name of letters, digits, '_', '-' and '.', up to 64 long")
        if not isinstance(self.max_crashes, int) or isinstance(self.max_crashes, bool) or self.max_crashes < 0:
            raise BadValue("max_crashes", self.max_crashes, "a whole number of zero or more")
        for field in ("deadline", "max_runtime"):
            if getattr(self, field) == 0:
                raise BadValue(field, 0, "longer than zero")
        self._check_occurrences()
        if not self.version:
            content = msgspec.json.encode(self)
            msgspec.structs.force_setattr(self, "version", hashlib.blake2b(content, digest_size=8).hexdigest())

    @property
    def max_retries(self) -> int:
        """How often a run is tried again, whatever it was created by: its schedule, a trigger or a submit."""
        if self.retry.max_retries is not None:
            return self.retry.max_retries
        return 0 if self.schedule is None else RETRIES_OF_SCHEDULED

    def _check_occurrences(self) -> None:
        most = self.max_concurrent_runs
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise BadValue("max_concurrent_runs", most, "a whole number of one or more")
        # A million jobs may have few schedules, and do few things.
        for field in ("schedule", "work"):
            value = getattr(self, field)
            if value is not None:
                msgspec.structs.force_setattr(self, field, shared(value))
