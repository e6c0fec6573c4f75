"""The end of an attempt, also on request, and what follows: success, a retry after a delay, or the end of the run."""

from collections.abc import Iterator
from math import inf

import msgspec

from interlock.core import output
from interlock.core.attempts.log_table import Logs
from interlock.core.attempts.silence import Silence, end_silence
from interlock.core.guards.http_hooks import call_after
from interlock.core.lanes.fill import enqueue
from interlock.core.letters.letter import give_up
from interlock.core.policy.judge_state import Judging
from interlock.core.routing.roster import MOST_TRIES, Attempt
from interlock.core.sessions.session import Sessions
from interlock.core.state import ATTEMPT_RUNTIME, LATE, RUNTIME, WAIT, SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows.turn_table import LONGEST_TURN, TURN, LostTurn, Turns
from interlock.fields.duration import brief, checked
from interlock.fields.field_types import Span
from interlock.model.facets import ProgressInfo
from interlock.model.failure import TIMED_OUT, Failure, Outcome, read_outcome
from interlock.model.guard import ALLOWED
from interlock.model.job import Job
from interlock.model.letter import LetterCode
from interlock.model.run import SCHEDULE, Run
from interlock.model.state import DISPATCHED, ON_WORKER, RUNNING, SUCCEEDED, TERMINATING, State
from interlock.wire.message import Finished, Lost, Returned, Settled, Started, Starting, Stop

CANCEL = "cancel"
TIMEOUT = "timeout"
ATTEMPT_TIMEOUT = "attempt_timeout"  # values of `Run.stop`: why a running attempt was asked to stop
LONGEST_REASON = 200
LONGEST_KEPT = 2000  # characters of a worker's own reason
as_written = Span().show  # 7200.0 → 2h
DEADLINE = "deadline passed"
DONE = Outcome.SUCCEEDED  # under a plain name, as the states in `model/state.py`


class RunEnd(msgspec.Struct, frozen=True):
    """A decision: the run ends in this state."""

    state: State
    outcome: Outcome
    reason: str
    actor: str = "scheduler"
    fails: bool = False  # whether the attempt counts as failed


class NextTry(msgspec.Struct, frozen=True):
    """A decision: the run is tried again after a delay in seconds."""

    outcome: Outcome
    delay: float
    reason: str
    fails: bool = True


def current(p: Pass, worker_id: str, run_id: str, fence: int) -> Attempt | None:
    """Return the attempt that a message names if it is live; count any other message as stale."""
    worker = p.state.roster.workers.get(worker_id)
    attempt = None
    if worker is not None:
        worker.heard = p.elapsed
        if worker.silent:
            end_silence(p.state, worker)
        attempt = worker.attempts.get(run_id)
    if attempt is None or attempt.run.fence != fence:
        p.state.of(Silence).stale_messages += 1
        return None
    return attempt


def starting(p: Pass, worker_id: str, message: Starting) -> None:
    """Record what the start of an attempt waits for. The first word moves the run; later ones show as its progress."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is None:
        return
    attempt.heard = p.elapsed
    attempt.accepted = True
    run, reason = attempt.run, message.reason[:LONGEST_KEPT]
    if run.state is DISPATCHED:
        timeout = p.state.job_of(run).start_timeout
        run.due_at = p.now + timeout
        p.move(run, State.STARTING, reason, worker_id)
        p.state.set_span(p.elapsed + timeout, run, WAIT)
    if run.state is State.STARTING:
        p.state.of(Logs).progress[run.id] = ProgressInfo(0.0, reason)
        p.progressed[run.id] = (run.id, run.job_id, run.tenant, 0.0, reason)


def start_reason(state: SchedulerState, run: Run) -> str:
    progress = state.of(Logs).progress.get(run.id)
    return run.reason if progress is None else progress.text


def leave_start(p: Pass, run: Run) -> None:
    """Forget what the start waited for."""
    p.state.of(Logs).progress.pop(run.id, None)


def started(p: Pass, worker_id: str, message: Started) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is None:
        return
    attempt.heard = p.elapsed
    attempt.accepted = True
    begin(p, attempt.run, max(attempt.run.changed_at, p.now - message.ago) if message.ago else None)


def begin(p: Pass, run: Run, at: float | None = None) -> None:
    """Record that a run executes; its worker may report this more than once."""
    if run.state is RUNNING:
        return
    if run.state is State.UNDER_WAY:
        if run.attempt_started_at is None:
            run.attempt_started_at = p.now
            p.state.set_alarm(p.elapsed + LONGEST_TURN, TURN, f"{run.fence} {run.id}")
        return
    p.move(run, RUNNING, "started", str(run.worker_id), at)
    run.attempt_started_at = run.changed_at
    run.due_at = None
    is_first = run.started_at is None
    job = p.state.versions[run.job_version]
    if is_first:
        run.started_at = run.changed_at
        if run.origin == SCHEDULE:
            offset = 0.0 if job.schedule is None else job.schedule.offset(job.id)
            p.lags.append(run.changed_at - run.scheduled_at - offset)
    expected = job.constraints.max_expected_run_time if is_first else None
    if job.max_runtime is not None or expected is not None or run.judged is not None:
        began = p.elapsed - max(0.0, p.now - run.changed_at)
        if expected is not None:
            p.state.set_span(began + checked(expected), run, LATE)
        for kind, longest in runtimes(job, run):
            if is_first or kind == ATTEMPT_RUNTIME:
                p.state.set_span(began + longest, run, kind)


def runtimes(job: Job, run: Run) -> Iterator[tuple[str, float]]:
    """Yield the longest times that a run or its attempt may take, each with the kind of its span."""
    allowed = inf if run.limits.max_runtime is None else checked(run.limits.max_runtime)
    own = inf if job.max_runtime is None else job.max_runtime
    if job.max_runtime_per_attempt and own < inf:
        yield ATTEMPT_RUNTIME, own
        own = inf
    if (longest := min(own, allowed)) < inf:
        yield RUNTIME, longest


def limit_name(job: Job, run: Run, kind: str) -> str:
    """Name the limit behind a span of `runtimes`, with its value."""
    name, longest = "max_runtime", dict(runtimes(job, run))[kind]
    if job.constraints.max_allowed_run_time is not None:
        name = ALLOWED
    if kind != ATTEMPT_RUNTIME and (longest != job.max_runtime or job.max_runtime_per_attempt):
        name = "the policy's max_runtime"
    return f"{name} of {as_written(longest)}{' per attempt' * (kind == ATTEMPT_RUNTIME)}"


def longest_wait(run: Run, job: Job) -> float:
    """Return the longest delay before this retry."""
    asked = run.failure and run.failure.retry_after
    return max(job.retry.delay(max(run.failures - 1, 0), 1.0), asked or 0.0)


def most_retries(job: Job, run: Run) -> int:
    allowed = run.limits.max_retries
    return job.max_retries if allowed is None else min(allowed, job.max_retries)


def finished(p: Pass, worker_id: str, message: Finished) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    p.send(worker_id, Settled(message.run_id, message.fence))
    if attempt is None:
        return
    run = attempt.run
    p.state.roster.drop(p.state.workers[worker_id], run.id)
    if run.state is State.UNDER_WAY:
        p.state.of(Turns).over.append((run, message))
        return
    # The report may be late, but no event precedes its cause.
    at = None if not message.ago else max(run.changed_at, p.now - message.ago)
    never_ran = run.state is State.STARTING and not message.took and read_outcome(message.outcome) is not DONE
    if run.state is not RUNNING and not never_ran:
        begin(p, run, at if at is None else max(run.changed_at, at - message.took))
    if message.error is not None or message.result is not None:
        message = output.narrowed(p.state, run, message)
    run.outcome = outcome = read_outcome(message.outcome)
    run.exit_code = message.exit_code
    run.error = message.error
    if message.failure is not None or (run.facets is not None and run.failure is not None):
        p.set_facet(run, failure=message.failure)
    if not never_ran:
        p.move(run, TERMINATING, message.outcome, worker_id, at)
    if outcome is DONE:
        run.result = message.result
        _succeed(p, run, at)
    else:
        _apply(p, run, _decide(p, run, outcome, message.failure, worker_id), at)


def _succeed(p: Pass, run: Run, at: float | None) -> None:
    """End a run that has done its work, unless its result is withheld, or it first waits for a scan or a hook."""
    is_checked = output.output_of(p.state) is not None or (run.facets is not None and run.is_held_back)
    if is_checked and output.withhold(p, run, at):
        return
    if not (is_checked and output.scan_first(p, run)) and not call_after(p, run):
        p.move(run, SUCCEEDED, "done", "scheduler", at)
        if is_checked:
            output.scan_later(p, run)
    elif run.id in p.state.runs and (progress := p.state.of(Logs).progress.get(run.id)) is not None:
        # The wait may last over a restart.
        p.set_facet(run, progress=progress)


def _decide(p: Pass, run: Run, outcome: Outcome, failure: Failure | None, worker_id: str) -> RunEnd | NextTry:
    """Decide what follows from a report of an attempt that did not succeed."""
    if run.stop is None and outcome is Outcome.CANCELLED:
        return RunEnd(State.CANCELLED, outcome, "stopped by itself", worker_id)
    if (stopped := _stopped(run)) is not None:
        return stopped
    if outcome is Outcome.FAILED_FATAL:
        return RunEnd(State.FAILED, outcome, "fatal", fails=True)
    if run.stop == ATTEMPT_TIMEOUT or outcome is Outcome.TIMEOUT:
        return _retry_or(p, run, State.TIMEOUT, Outcome.TIMEOUT, failure)
    return _retry_or(p, run, State.FAILED, outcome, failure)


def _stopped(run: Run, detail: str = "") -> RunEnd | None:
    """Return the end of a run that was being stopped for good; None for any other."""
    reason = f"{run.stop_reason}{detail}"
    if run.stop == CANCEL:
        return RunEnd(State.CANCELLED, Outcome.CANCELLED, reason, run.stop_actor or "scheduler")
    return RunEnd(State.TIMEOUT, Outcome.TIMEOUT, reason) if run.stop == TIMEOUT else None


def _retry_or(p: Pass, run: Run, end: State, outcome: Outcome, failure: Failure | None = None) -> RunEnd | NextTry:
    """Decide on a retry after a delay, or the end. A delay that the handler asked for is kept unchanged."""
    job = p.state.job_of(run)
    most, failures = most_retries(job, run), run.failures + 1
    why = "failed"
    if end is State.TIMEOUT:
        why = run.stop_reason if run.stop == ATTEMPT_TIMEOUT and run.stop_reason else "attempt ran too long"
    types = TIMED_OUT if end is State.TIMEOUT else () if failure is None else failure.types
    delay = None if failure is None else failure.retry_after
    if failures > most:
        return RunEnd(end, outcome, why if most == 0 else f"{why}, no retry left", fails=True)
    if delay is None and not job.retry.covers(types):
        reason = f"{why}, {types[0] if types else 'no exception'}: not retried"
        return RunEnd(end, outcome, reason, fails=True)
    if failure is None or delay is None:
        delay = job.retry.delay(failures - 1, p.rng.uniform(-1, 1))
    else:
        why = f"{why}: {' '.join(failure.message.split())[:LONGEST_REASON]}"
    return NextTry(outcome, delay, f"{why}, retry {failures} of {most} in {brief(delay)}")


def _apply(p: Pass, run: Run, decision: RunEnd | NextTry, at: float | None = None) -> None:
    run.outcome = decision.outcome
    run.failures += decision.fails
    if isinstance(decision, RunEnd):
        p.move(run, decision.state, decision.reason, decision.actor, at)
        return
    p.count("runs_retried_total", run.job_id)
    run.stop = None
    run.worker_id = None
    run.attempt_started_at = None
    run.due_at = p.now + decision.delay
    p.move(run, State.RETRYING, decision.reason)
    p.state.set_span(p.elapsed + decision.delay, run, WAIT)


def lost(p: Pass, worker_id: str, message: Lost) -> None:
    """Handle a worker's report that the process of an attempt died."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    p.send(worker_id, Settled(message.run_id, message.fence))
    if attempt is not None:
        lose(p, attempt.run, message.reason[:LONGEST_KEPT], message.exit_code)


def lose(p: Pass, run: Run, reason: str, exit_code: int | None = None) -> None:
    """Count a crash: the attempt was lost with its worker, or only with its process, which leaves an `exit_code`."""
    _detach(p, run)
    if run.state is State.UNDER_WAY:
        p.state.of(Turns).over.append((run, LostTurn(reason, exit_code is not None)))
        return
    run.exit_code = exit_code
    if run.error is not None or run.failure is not None:
        # Left by an earlier attempt.
        run.error = None
        p.set_facet(run, failure=None)
    decision: RunEnd | NextTry | None = _stopped(run, f": {reason}")
    if run.stop == ATTEMPT_TIMEOUT:
        # The worker killed it because it ran too long: an ordinary failure.
        decision = _retry_or(p, run, State.TIMEOUT, Outcome.TIMEOUT)
    if decision is not None:
        _apply(p, run, decision)
        return
    p.count("runs_crashed_total", run.job_id)
    run.crashes += 1
    run.outcome = None
    if run.crashes >= p.state.job_of(run).max_crashes:
        run.error = reason
        p.move(run, State.ORPHANED, f"crashed {run.crashes} times: {reason}")
    else:
        _again(p, run, f"crash {run.crashes}: {reason}")


def _detach(p: Pass, run: Run) -> None:
    """Take the run off its worker; later reports from there are stale."""
    if run.worker_id is not None and run.worker_id in p.state.workers:
        p.state.roster.drop(p.state.workers[run.worker_id], run.id)
    run.fence += 1
    run.worker_id = None


def returned(p: Pass, worker_id: str, message: Returned) -> None:
    """Take back an attempt that its worker gave up; it did not fail, so do not count it."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    p.send(worker_id, Settled(message.run_id, message.fence))
    if attempt is not None:
        if message.begun:
            begin(p, attempt.run)
        give_back(p, attempt, message.reason[:LONGEST_KEPT])


def give_back(p: Pass, attempt: Attempt, reason: str) -> None:
    run = attempt.run
    _detach(p, run)
    if run.state is State.UNDER_WAY:
        p.state.of(Turns).over.append((run, LostTurn(reason, False)))
    elif (ending := _stopped(run, f": {reason}")) is not None:
        _apply(p, run, ending)
    elif run.state is DISPATCHED and run.attempt >= MOST_TRIES and not run.has_begun:
        text = f"handed out {run.attempt} times and never begun; the last time: {reason}"
        give_up(p, run, LetterCode.DISPATCH_FAILED, text)
    elif run.state is DISPATCHED:
        run.stop = None
        p.move(run, State.SCHEDULED, reason)
        enqueue(p.state, run, attempt.order)
        if run.is_held:
            p.move(run, State.PENDING, "held")
            p.state.of(Sessions).stepping_back.append(run)
        elif run.id in p.state.of(Judging).unjudged:
            p.state.of(Judging).unjudged.discard(run.id)
            p.move(run, State.PENDING, "the policy has changed")
    else:
        _again(p, run, reason)


def _again(p: Pass, run: Run, reason: str) -> None:
    """Send the run through the entry again, without a delay."""
    run.stop = None
    run.attempt_started_at = None
    # A run dispatched early may still have to wait for its time; a clock that was set back makes that no longer.
    if run.due_at is not None:
        run.due_at = None if run.due_at <= p.now else min(run.due_at, p.now + p.state.limits.lead)
    p.move(run, State.RETRYING, reason)
    if run.due_at is None:
        p.state.timers.unsettled.append(run.id)
    else:
        p.state.set_span(p.elapsed + run.due_at - p.now, run, WAIT)


def cancel_run(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """End a waiting run, or ask the worker of an executing one; return False if it was already asked, or has ended
    in this pass and not left its session yet."""
    if run.ended_at is not None:
        return False
    if (stop := p.state.machine.stops.get(run.state)) is not None:
        return bool(stop(p, run, State.CANCELLED, reason, actor))
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
