"""What one step decided: rows to store, messages to send, answers to give, effects, and when to look again."""

from typing import Any

import msgspec

from interlock.core.schedule_table import ScheduleRow
from interlock.model.bulk import BulkRequest
from interlock.model.child_info import Kept
from interlock.model.command import ServiceRow
from interlock.model.effect import Effect
from interlock.model.error import InterlockError
from interlock.model.job import Job
from interlock.model.message import Message
from interlock.model.reload_report import Difference
from interlock.model.run import Run, Transition

Row = tuple[Any, ...]


class Batch(msgspec.Struct):
    """The writes of one step, kept together or not at all."""

    created: list[Row] = []
    """the fields of `Run` in its order, or the first `Run.PLAIN` where the others have their defaults"""
    updated: dict[str, list[Row]] = {}
    """group of `UPDATES` → rows: the id, then the fields of the group; a run is in one group"""
    history: list[tuple[str, list[Transition]]] = []
    keys: list[tuple[str, str | None, str, bytes, float]] = []
    """tenant, idempotency key, run id, digest, when; without a key for what was submitted as an occurrence alone"""
    jobs: list[Job] = []
    """versions that runs refer to"""
    put_jobs: list[Job] = []
    """jobs that are defined here alone"""
    dropped_jobs: list[str] = []
    schedules: list[ScheduleRow] = []
    """one a job"""
    dropped_schedules: list[str] = []
    checkpoints: list[tuple[str, bytes]] = []
    logs: list[tuple[str, int, int, float, str, str]] = []
    """run id, attempt, number of the line, when, level, text"""
    dead_letters: list[tuple[str, float, str, str]] = []
    """run id, time, reason code, error"""
    kept: list[tuple[str, Kept | None]] = []
    """what outlasts a service, by its name; None forgets it, and the last of a name counts"""
    service_log: list[ServiceRow] = []
    bulks: list[BulkRequest] = []
    """new, or with new counts"""
    dropped_bulks: list[str] = []
    position: int = 0
    """of the first log line; the others follow one by one, and then the history: whoever is told that a run has ended
    has been told what it logged. The log of services comes last."""

    @property
    def last_position(self) -> int:
        """Of its last row; the one before `position` if it has none."""
        return self.position + len(self.history) + len(self.logs) + len(self.service_log) - 1

    def __bool__(self) -> bool:
        """Whether it has any row."""
        return any(rows for rows in msgspec.structs.astuple(self) if type(rows) in (list, dict))


class Failed(msgspec.Struct, frozen=True, gc=False):
    request: int
    error: InterlockError


class Defined(msgspec.Struct, frozen=True, gc=False):
    request: int
    difference: Difference


Answer = Message | Defined | Failed
"""what a client is told; the outcome of a declaration; an error"""


class Decisions(msgspec.Struct):
    batch: Batch
    sends: dict[str, list[Message]]
    """worker id → messages, in order"""
    answers: list[tuple[str, Answer]]
    """who asked → the answer"""
    touched: dict[str, Run]
    """every run that is in the batch"""
    ended: list[Run]
    retried: list[Run]
    """runs of which an attempt failed and another will follow, once for each"""
    crashed: list[Run]
    """runs of which an attempt was lost, once for each"""
    warnings: list[str]
    problems: list[str]
    """what must not happen, and was refused"""
    progressed: list[Run]
    """runs whose attempts reported progress; what they reported is in the state"""
    now: float
    """wall time of the pass"""
    elapsed: float
    lags: list[float]
    """how late occurrences went on whose time came, in seconds"""
    effects: list[Effect]
    """work for the outside"""
    wake_at: float | None
    """wall time of the next timer or the next occurrence to create; now if the timetable waits for facts"""
