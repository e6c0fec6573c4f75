"""The runs of a job with constraints: those that hold a place, and those that must pass first."""

from typing import TYPE_CHECKING

import msgspec

from interlock.model.guard import ActionKind
from interlock.model.run import CATCH_UP, SCHEDULE, Run
from interlock.model.state import GUARDED, HOLDS_SLOT, State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState

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


def waits(run: Run) -> bool:
    """Return whether a run waits because of a violation, and not for a run that it has called."""
    return run.state is State.ACTION_RUNNING and not run.guarded.asked and run.guarded.decision is not None


def guard_of(state: "SchedulerState", job_id: str) -> JobGuard:
    """Return the guard of a job; the first time, look for the runs that its earlier definitions left."""
    guard = state.guards.get(job_id)
    if guard is None:
        guard = state.guards[job_id] = JobGuard()
        for run in state.runs.values():
            if run.job_id == job_id:
                guard.add(run)
    return guard


def rebuild_guards(state: "SchedulerState") -> None:
    """Make the guards of all jobs with guarded runs, in one pass over the runs."""
    found = (run for run in state.runs.values() if run.state in GUARDED or run.guarded.cleared)
    state.guards = {run.job_id: JobGuard() for run in found}
    for run in state.runs.values() if state.guards else ():
        if run.job_id in state.guards:
            state.guards[run.job_id].add(run)
