"""The runs of a job with constraints: those that hold a place, and those that must pass first."""

from typing import TYPE_CHECKING

import msgspec

from interlock.core.snapshot import Snapshot
from interlock.model.guard import ActionKind
from interlock.model.run import CATCH_UP, SCHEDULE, Now, Run
from interlock.model.state import GUARDED, HOLDS_SLOT, State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass

ACTION = "action"  # name in `asked` of the run that an action has called
_PASSED = HOLDS_SLOT | {State.SCHEDULED, State.RETRYING}


class JobGuard(msgspec.Struct, eq=False):
    holding: dict[str, Run] = {}  # runs that have passed and not ended
    pending: dict[str, Run] = {}  # runs whose constraints are checked, or that wait because of them; in order
    waiting: dict[str, Run] = {}  # those that wait for a place
    asking: dict[str, Run] = {}  # those that wait for others to end, whatever places there are
    occurrences: dict[str, Run] = {}  # those that a schedule created, that wait, and that have never begun

    @property
    def is_used(self) -> bool:
        return bool(self.holding or self.pending)

    def add(self, run: Run) -> None:
        """Put a run where its state says."""
        if run.guarded.cleared or run.state in _PASSED:
            self.holding[run.id] = run
        if run.state in GUARDED:
            self.pending[run.id] = run
        if waits(run):
            self.park(run)

    def park(self, run: Run) -> None:
        """Let a run wait, for what its decision says."""
        decision = run.guarded.decision
        assert decision is not None
        if decision.action is ActionKind.KILL_OLD or (decision.action is ActionKind.WAIT and run.guarded.cleared):
            self.asking[run.id] = run
        elif decision.action is ActionKind.WAIT:
            self.waiting[run.id] = run
        if run.origin in (SCHEDULE, CATCH_UP) and not run.may_have_begun:
            self.occurrences[run.id] = run

    def wake(self, run: Run) -> None:
        for runs in (self.waiting, self.asking, self.occurrences):
            runs.pop(run.id, None)

    def drop(self, run: Run) -> None:
        self.holding.pop(run.id, None)
        self.pending.pop(run.id, None)
        self.wake(run)


class Guards(dict[str, JobGuard]):
    """By job, for those that have had a guarded run."""

    def __init__(self) -> None:
        self.freed: dict[str, None] = {}  # jobs with a place that has become free


def forget_unused(p: "Pass") -> None:
    """Drop the guards of jobs that are gone, once they are the majority."""
    guards, jobs = p.state.of(Guards), p.state.jobs
    if len(guards) > 100 + 2 * len(jobs):
        for job_id in [job_id for job_id, guard in guards.items() if job_id not in jobs and not guard.is_used]:
            del guards[job_id]


def waits(run: Run) -> bool:
    """Return whether a run waits because of a violation, and not for a run that it has called."""
    return run.state is State.ACTION_RUNNING and not run.guarded.asked and run.guarded.decision is not None


def guard_of(state: "SchedulerState", job_id: str) -> JobGuard:
    """Return the guard of a job; the first time, look for the runs that its earlier definitions left."""
    guard = state.of(Guards).get(job_id)
    if guard is None:
        guard = state.of(Guards)[job_id] = JobGuard()
        for run in state.runs.values():
            if run.job_id == job_id:
                guard.add(run)
    return guard


def load(state: "SchedulerState", snapshot: Snapshot, now: Now) -> None:
    """Make the guards of all jobs with guarded runs."""
    guards = state.of(Guards)
    guards.update((run.job_id, JobGuard()) for run in snapshot.runs if run.state in GUARDED or run.guarded.cleared)
    for run in snapshot.runs if guards else ():
        if run.job_id in guards:
            guards[run.job_id].add(run)


def adopt(state: "SchedulerState", run: Run, memo: object) -> None:
    if run.state in GUARDED or run.guarded.cleared or run.job_id in state.of(Guards):
        guard_of(state, run.job_id).add(run)
