"""The live part of a store, from which a scheduler that takes over builds its state."""

import msgspec

from interlock.core.timetable.table import ScheduleRow
from interlock.model.audit import AuditHead
from interlock.model.job import Job
from interlock.model.record import R, Record
from interlock.model.run import Run


class Snapshot(msgspec.Struct, frozen=True):
    """The live part of a store."""

    runs: list[Run]  # runs that have not ended, in the order stored; payloads above the requested size are None
    jobs: list[Job]  # every job version that these runs refer to
    position: int  # highest one stored, or 0
    log_sizes: dict[str, tuple[int, int]]  # run id → log lines and bytes of their text, for live runs with a log
    log_marks: dict[str, tuple[int, int]] = {}  # run → its attempt and the last log line before any missing one
    schedules: list[ScheduleRow] = []
    records: list[Record] = []  # of the kinds asked for, oldest first
    reaches: dict[str, int] = {}  # bulk request under way → the number of the first `runs` that are left to it
    memos: dict[str, bytes] = {}  # those of idle sessions are left out
    has_session_memos: bool = False
    audit: AuditHead = AuditHead()  # the last entry that is stored

    def of(self, kind: type[R]) -> list[R]:
        """Return the records of a kind."""
        return [record for record in self.records if isinstance(record, kind)]
