"""Stopping: end a waiting run at once, and ask the worker of an executing one."""

from interlock.core.attempts.settle import CANCEL, TIMEOUT
from interlock.core.transition import Pass
from interlock.model.outcome import Outcome
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State
from interlock.wire.message import Stop


def cancel_run(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """End a waiting run, or ask the worker of an executing one; return False if it was already asked, or has ended
    in this pass and not left its session yet."""
    if run.ended_at is not None:
        return False
    if run.state not in ON_WORKER:
        run.outcome, run.result = Outcome.CANCELLED, None
        p.move(run, State.CANCELLED, reason, actor)
    elif run.stop in (CANCEL, TIMEOUT):
        return False
    else:
        ask_to_stop(p, run, CANCEL, reason, actor)
    return True


def ask_to_stop(p: Pass, run: Run, why: str, reason: str, actor: str) -> None:
    run.stop = why
    run.stop_reason = reason
    run.stop_actor = actor
    p.touch(run)
    p.send(str(run.worker_id), Stop(run.id, run.fence, why))
