"""The decisions of one step: rows to store, messages to send, answers to give, effects, and the next look."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import astuple

from interlock.core.timetable.table import ScheduleRow
from interlock.error import InterlockError
from interlock.model.audit import AuditEntry
from interlock.model.guard import Violation
from interlock.model.job import Job
from interlock.model.record import R, Record
from interlock.model.reload_report import Difference
from interlock.model.run import Run, Transition
from interlock.model.state import SUCCEEDED, State
from interlock.wire.command import ServiceRow
from interlock.wire.effect import Effect
from interlock.wire.message import Message
from interlock.wire.request import ProgressRow

Row = tuple[Any, ...]


class KeyChanges(msgspec.Struct):
    taken: list[tuple[str, str | None, str, bytes, float]] = []  # tenant, key or None, run id, digest, time
    freed: list[str] = []  # runs whose keys are free again, before the others are stored


class InputChanges(msgspec.Struct):
    checkpoints: list[tuple[str, bytes]] = []
    copied: list[tuple[str, str, bool]] = []
    """in order: a run, the run whose collected payloads it takes over, and whether it takes that run's own one too"""


class LogChanges(msgspec.Struct):
    lines: list[tuple[str, int, int, float, str, str, str]] = []
    """run id, attempt, number of the line, time, level, text, logger"""
    held: set[str] = set()  # runs whose lines nobody may read until they are in `published`
    redacted: list[tuple[str, str, int, int]] = []  # new texts of such lines: text, run, attempt, number
    published: list[tuple[str, int]] = []  # run whose held lines get new positions, and at least their number


class Batch(msgspec.Struct):
    """The writes of one step, stored together or not at all."""

    created: list[Row] = []  # fields of `Run` in order; only the first `Run.PLAIN` if the others are defaults
    updated: dict[str, list[Row]] = {}  # group of `UPDATES` → the id, then its fields; a run is in one group
    history: list[tuple[str, list[Transition]]] = []
    keys: KeyChanges = field(default_factory=KeyChanges)
    inputs: InputChanges = field(default_factory=InputChanges)
    logs: LogChanges = field(default_factory=LogChanges)
    jobs: list[Job] = []  # versions that runs refer to
    schedules: dict[str, ScheduleRow | None] = {}  # job → its new row, None to delete it
    service_log: list[ServiceRow] = []
    audit: list[AuditEntry] = []
    records: dict[tuple[str, str], Record | None] = {}  # by kind and id; None to delete one
    position: int = 0  # of the first row; log lines come before history, so that a log precedes the end of its run

    def of(self, kind: type[R]) -> list[R]:
        """Return the records of a kind."""
        return [record for record in self.records.values() if isinstance(record, kind)]

    @property
    def past_runs(self) -> list[str]:
        """Runs that it changes although they may have ended: they came from the store, and may be pruned before the
        batch is stored."""
        moved = [run_id for run_id, entries in self.history if entries[0].before is SUCCEEDED]
        return [*moved, *(row[0] for row in self.updated.get("facets", ()))]

    @property
    def of_logs(self) -> int:
        """Position of the first new log line, after the published ones."""
        return self.position + sum(count for _, count in self.logs.published)

    @property
    def of_history(self) -> int:
        return self.of_logs + len(self.logs.lines)

    @property
    def of_services(self) -> int:
        return self.of_history + len(self.history)

    @property
    def last_position(self) -> int:
        """Position of the last row; `position - 1` without rows."""
        return self.of_services + len(self.service_log) - 1

    def __bool__(self) -> bool:
        """Whether the batch has rows."""
        parts = (astuple(part) if isinstance(part, msgspec.Struct) else (part,) for part in astuple(self))
        return any(rows for part in parts for rows in part if type(rows) in (list, dict))


class Failed(msgspec.Struct, frozen=True):  # tracked by the collector: the frames of its error may lead back to it
    request: int
    error: InterlockError


class DefinitionStored(msgspec.Struct, frozen=True, gc=False):
    request: int
    difference: Difference


Answer = Message | DefinitionStored | Failed  # a message to a client, the outcome of a declaration, or an error


class Decisions(msgspec.Struct, kw_only=True):
    now: float  # wall time of the pass
    elapsed: float
    batch: Batch = field(default_factory=Batch)
    sends: dict[str, list[Message]] = {}  # worker id → messages, in order
    answers: list[tuple[str, Answer]] = []  # client → answer
    changed: dict[str, Run] = {}  # every run in the batch, new ones too
    ended: list[Run] = []
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """counter of `engine/metrics.py` and the values of its labels → how often"""
    owed: int = 0  # new deliveries, and those to be delivered again
    violations: list[tuple[Run, Violation]] = []
    outputs_judged: list[str] = []  # job of each result whose metadata was judged
    scans: list[tuple[str, float]] = []  # topic of each scanned result, and the seconds that it took
    rolled_back: list[float] = []  # seconds of each rollback that has ended
    warnings: list[str] = []
    put_back: list[tuple[State, str]] = []  # state and topic of each run that a sweep has put back
    problems: list[str] = []  # refused attempts to break the state table, and runs that sweeps cannot help
    progressed: dict[str, ProgressRow] = {}  # run → its latest progress
    lags: list[float] = []  # seconds from the time of each occurrence that began to the first line of its work
    effects: list[Effect] = []  # effects to carry out
    wake_at: float | None = None  # wall time of the next timer or occurrence; now if the timetable waits for facts
