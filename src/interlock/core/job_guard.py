"""The runs of a job with constraints: those that hold a place, and those that must pass first."""

from typing import TYPE_CHECKING

import msgspec

from interlock.model.run import Run
from interlock.model.state import GUARDED, HOLDS_SLOT, State

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState

_PASSED = HOLDS_SLOT | {State.SCHEDULED, State.RETRYING}


class JobGuard(msgspec.Struct, eq=False):
    holding: dict[str, Run] = {}  # runs that have passed and not ended
    pending: dict[str, Run] = {}  # runs whose constraints are checked, or that wait because of them; in order

    def add(self, run: Run) -> None:
        if run.guarded.cleared or run.state in _PASSED:
            self.holding[run.id] = run
        if run.state in GUARDED:
            self.pending[run.id] = run

    def drop(self, run: Run) -> None:
        self.holding.pop(run.id, None)
        self.pending.pop(run.id, None)


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
