"""What happens because its time has come: runs fall due, retries begin, deadlines pass."""

from heapq import heappop

from interlock.core.admission import admit
from interlock.core.passing import Pass
from interlock.core.settle import ATTEMPT_TIMEOUT, TIMEOUT
from interlock.core.state import runtime_limit
from interlock.core.stopping import ask_to_stop
from interlock.model.outcome import Outcome
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State

WAITS_FOR_DUE = (State.PRERUN, State.RETRYING)


def fire(p: Pass) -> None:
    """Look at every run whose timer has come. A timer is only a hint: the run's own fields decide."""
    p.state.sweep_timers()
    timers, runs = p.state.timers, p.state.runs
    while timers and timers[0][0] <= p.now:
        run = runs.get(heappop(timers)[2])
        if run is not None:
            look(p, run)
    while p.state.unsettled:
        unsettled, p.state.unsettled = p.state.unsettled, []
        for run_id in unsettled:
            run = runs.get(run_id)
            if run is not None:
                look(p, run)


def look(p: Pass, run: Run) -> None:
    if run.state is not State.PRERUN and _expired(p, run):
        return
    if run.state in WAITS_FOR_DUE and (run.due_at is None or run.due_at <= p.now):
        run.due_at = None
        p.move(run, State.PENDING, "due", "scheduler")
        if _expired(p, run):
            return
    if run.state is State.PENDING:
        admit(p, run)


def _expired(p: Pass, run: Run) -> bool:
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
