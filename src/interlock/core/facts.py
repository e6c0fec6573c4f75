"""Facts: the data that a step needs from the store. The shell reads them for a whole batch, right before the step. A
start loads a `Snapshot`, the live part of the store."""

from typing import TYPE_CHECKING, Any

import msgspec

from interlock.core.timetable.table import ScheduleRow, following
from interlock.model.audit import AuditHead
from interlock.model.job import Job
from interlock.model.letter import LetterFilter
from interlock.model.record import R, Record
from interlock.model.run import Run, RunFilter
from interlock.model.state import State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState


class Needs(msgspec.Struct):
    """The questions of one batch."""

    keys: dict[tuple[str, str], None] = {}  # tenants and idempotency keys
    digests: dict[str, str] = {}  # run id → job, for each run whose digest of job and payload is needed
    states: dict[str, None] = {}  # ids of runs whose state is needed
    passed: dict[str, tuple[str, float]] = {}  # run id → job and time, for runs before the schedule's cursor
    runs: dict[str, None] = {}  # ids of runs that are needed whole
    versions: dict[str, None] = {}  # versions of jobs, beside `runs`
    steps: dict[str, None] = {}  # workflow runs whose ended steps are needed whole; they are among `runs` too
    latest: dict[str, None] = {}  # jobs whose latest fire time is needed
    retries: dict[tuple[str, str], None] = {}  # runs to retry, and the keys of the new runs in their tenants
    records: dict[tuple[type[Record], str], None] = {}  # kinds and ids
    letters: dict[LetterFilter, None] = {}  # dead letters, a page of each
    pages: dict[str, tuple[RunFilter, int | None, int]] = {}
    """bulk request → the ended runs it is for, where the next page begins, and its size"""

    def __bool__(self) -> bool:
        asked = self.keys, self.digests, self.states, self.runs, self.latest, self.pages, self.records
        return any(asked) or bool(self.letters)

    def note_passed(self, state: "SchedulerState", run_id: str, job_id: str, at: float) -> None:
        """Record a run whose second is a fire time that the schedule has passed."""
        entry = state.timetable.entries.get(job_id)
        found = None if entry is None else following(entry.schedule, entry.anchor, int(at) - 1e-6)
        if entry is not None and found is not None and int(found) == int(at) and entry.anchor <= found <= entry.cursor:
            self.passed[run_id] = (job_id, at)


def needs_run(state: "SchedulerState", command: Any, needs: Needs) -> None:
    """Need the run that a request names, unless it is live."""
    if command.run_id not in state.runs:
        needs.runs[command.run_id] = None


class Facts(msgspec.Struct):
    """The answers, valid for one step: no undecided or unstored change exists while the shell reads them."""

    keys: dict[tuple[str, str], tuple[str, bytes]] = {}  # used key → run id and digest
    digests: dict[str, bytes | None] = {}  # existing or pruned run → its digest, None if no longer known
    states: dict[str, State | None] = {}  # requested run → its state; succeeded if pruned, None if unknown
    runs: dict[str, Run] = {}
    pruned: dict[str, str] = {}  # requested run that was pruned → its tenant
    steps: dict[str, list[Run] | None] = {}  # with the items that have a compensation; None if they are too large
    versions: dict[str, Job] = {}
    latest: dict[str, float] = {}  # job → its latest fire time with a run, if in the future
    records: dict[tuple[str, str], Record] = {}  # by kind and id
    letters: dict[LetterFilter, tuple[list[str], bool]] = {}  # ids, and whether there are more
    pages: dict[str, tuple[list[Run], int | None] | None] = {}
    """bulk request → a page of ended runs, with payloads, and where the next begins, None after the last; or None: it
    could not be read"""


class Snapshot(msgspec.Struct, frozen=True):
    """The live part of a store."""

    runs: list[Run]  # runs that have not ended, in the order stored; payloads above the requested size are None
    jobs: list[Job]  # every job version that these runs refer to
    position: int  # highest one stored, or 0
    log_sizes: dict[str, tuple[int, int, bool]]
    """live run with a log → its lines, bytes of their text, and whether one has a negative number: the log is full"""
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
