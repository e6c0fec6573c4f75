"""Runs that have had their time."""

from interlock.core.settle import ATTEMPT_TIMEOUT, TIMEOUT
from interlock.core.state import ATTEMPT_RUNTIME
from interlock.core.stop import ask_to_stop
from interlock.core.transition import Pass
from interlock.model.outcome import Outcome
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State


def expired(p: Pass, run: Run) -> bool:
    """End a run past its deadline, or ask it to stop where it executes."""
    if run.deadline_at is None or run.deadline_at > p.now:
        return False
    _time_out(p, run)
    return True


def overrun(p: Pass, run: Run, kind: str) -> None:
    """A run, or its attempt, has run for too long."""
    if kind != ATTEMPT_RUNTIME:
        _time_out(p, run)
    elif run.state in ON_WORKER and run.stop is None:
        ask_to_stop(p, run, ATTEMPT_TIMEOUT, "attempt ran too long", "scheduler")


def _time_out(p: Pass, run: Run) -> None:
    if run.state not in ON_WORKER:
        run.outcome = Outcome.TIMEOUT
        p.move(run, State.TIMEOUT, f"deadline passed while {run.state}", "scheduler")
    elif run.stop in (None, ATTEMPT_TIMEOUT):
        ask_to_stop(p, run, TIMEOUT, "deadline passed", "scheduler")
