"""Stopping a run, because it was cancelled or its time is up: at once where it waits, by asking where it executes."""

from interlock.core.settle import ATTEMPT_TIMEOUT, CANCEL, TIMEOUT
from interlock.core.state import ATTEMPT_RUNTIME
from interlock.core.transition import Pass
from interlock.model.message import Stop
from interlock.model.outcome import Outcome
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State


def cancel_run(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """End a run that waits, or ask one on a worker to stop; False if it was asked already."""
    if run.state not in ON_WORKER:
        run.outcome = Outcome.CANCELLED
        p.move(run, State.CANCELLED, reason, actor)
    elif run.stop in (CANCEL, TIMEOUT):
        return False
    else:
        _ask_to_stop(p, run, CANCEL, reason, actor)
    return True


def has_expired(p: Pass, run: Run) -> bool:
    """Stop a run past its deadline; also a stage of the entry."""
    if run.deadline_at is None or run.deadline_at > p.now:
        return False
    _time_out(p, run)
    return True


def overrun(p: Pass, run: Run, kind: str) -> None:
    """Stop a run that, or whose attempt, has run for too long."""
    if kind != ATTEMPT_RUNTIME:
        _time_out(p, run)
    elif run.state in ON_WORKER and run.stop is None:
        _ask_to_stop(p, run, ATTEMPT_TIMEOUT, "attempt ran too long", "scheduler")


def _time_out(p: Pass, run: Run) -> None:
    if run.state not in ON_WORKER:
        run.outcome = Outcome.TIMEOUT
        p.move(run, State.TIMEOUT, f"deadline passed while {run.state}")
    elif run.stop in (None, ATTEMPT_TIMEOUT):
        _ask_to_stop(p, run, TIMEOUT, "deadline passed", "scheduler")


def _ask_to_stop(p: Pass, run: Run, why: str, reason: str, actor: str) -> None:
    run.stop = why
    run.stop_reason = reason
    run.stop_actor = actor
    p.touch(run)
    p.send(str(run.worker_id), Stop(run.id, run.fence, why))
