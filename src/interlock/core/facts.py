"""Facts: the data that a step needs from the store. The shell reads them for a whole batch, right before the step."""

from typing import TYPE_CHECKING

import msgspec

from interlock.core.timetable.fire_times import following
from interlock.model.job import Job
from interlock.model.letter import LetterFilter
from interlock.model.record import Record
from interlock.model.run import Run
from interlock.model.run_filter import RunFilter
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


class Facts(msgspec.Struct):
    """The answers, valid for one step: no undecided or unstored change exists while the shell reads them."""

    keys: dict[tuple[str, str], tuple[str, bytes]] = {}  # used key → run id and digest
    digests: dict[str, bytes | None] = {}  # existing or pruned run → its digest, None if no longer known
    states: dict[str, State | None] = {}  # requested run → its state; succeeded if pruned, None if unknown
    runs: dict[str, Run] = {}
    pruned: set[str] = set()  # requested runs that were pruned
    versions: dict[str, Job] = {}
    latest: dict[str, float] = {}  # job → its latest fire time with a run, if in the future
    records: dict[tuple[str, str], Record] = {}  # by kind and id
    letters: dict[LetterFilter, tuple[list[str], bool]] = {}  # ids, and whether there are more
    pages: dict[str, tuple[list[Run], int | None]] = {}
    """bulk request → a page of ended runs, with payloads, and where the next begins; None after the last"""
