"""Runs that have had their time."""

from interlock.core.passing import Pass
from interlock.core.settle import ATTEMPT_TIMEOUT, TIMEOUT
from interlock.core.state import runtime_limit
from interlock.core.stopping import ask_to_stop
from interlock.model.outcome import Outcome
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State


def expired(p: Pass, run: Run) -> bool:
    """End a run past its deadline, or ask it to stop where it executes."""
    job = p.state.job_of(run)
    limit = runtime_limit(run, job)
    for_good = run.deadline_at is not None and run.deadline_at <= p.now
    too_long = limit is not None and limit <= p.now
    if not for_good and not too_long:
        return False
    only_attempt = too_long and not for_good and job.max_runtime_per_attempt
    if run.state in ON_WORKER:
        if run.stop is None or (run.stop == ATTEMPT_TIMEOUT and not only_attempt):
            if only_attempt:
                ask_to_stop(p, run, ATTEMPT_TIMEOUT, "attempt ran too long", "scheduler")
            else:
                ask_to_stop(p, run, TIMEOUT, "deadline passed", "scheduler")
    elif not only_attempt:
        run.outcome = Outcome.TIMEOUT
        p.move(run, State.TIMEOUT, f"deadline passed while {run.state}", "scheduler")
    return True
