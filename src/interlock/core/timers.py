"""Time: runs fall due, retries begin, deadlines pass."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from msgspec.structs import replace

from interlock.core import output
from interlock.core.attempts.settle import most_retries
from interlock.core.audit import AUDIT, end_count
from interlock.core.entry.actions import has_expired, overrun
from interlock.core.guards import constraints
from interlock.core.lanes.gates import GATE, RateGate, ring
from interlock.core.policy import approvals, judge
from interlock.core.routing.dispatching import look_again
from interlock.core.routing.roster import DEMAND
from interlock.core.sessions.turns import end_window
from interlock.core.state import LATE, WAIT, SchedulerState
from interlock.core.timetable import firing as timetable
from interlock.core.timetable.table import goes_early
from interlock.core.transition import Pass
from interlock.fields.duration import span
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import State


def fire(p: Pass) -> None:
    """Look at every run whose timer is due. A timer is only a hint: the run's own fields decide."""
    timers, runs = p.state.timers, p.state.runs
    early = p.now + p.state.limits.lead
    kept = []
    while timers and timers[0][0] <= early:
        timer = heappop(timers)
        run = runs.get(timer[2])
        if run is not None and timer[0] <= p.now:
            _look(p, run)
        elif run is not None and goes_early(p.state, run):
            timetable.fall_due(p, run)
        elif run is not None:
            kept.append(timer)
    for timer in kept:
        heappush(timers, timer)
    _end_spans(p)
    while p.state.unsettled:
        unsettled, p.state.unsettled = p.state.unsettled, []
        for run_id in unsettled:
            if (run := runs.get(run_id)) is not None:
                _look(p, run)


def _look(p: Pass, run: Run) -> None:
    is_due = run.due_at is not None and run.due_at <= p.now
    if run.state is not State.PRERUN and has_expired(p, run):
        return
    if run.state is State.PRERUN and run.origin is not None:
        if is_due:
            timetable.fall_due(p, run)
    elif run.state in (State.PRERUN, State.RETRYING):
        if not waits_for_span(run) and (is_due or run.due_at is None):
            _go_on(p, run)
    elif run.state is State.PENDING:
        p.entering.append(run)
    else:
        constraints.resume(p, run)


def waits_for_span(run: Run) -> bool:
    """Return whether `due_at` ends a delay (of a submit, retry, violation or verdict), and is no requested instant."""
    if run.state is State.PRERUN:
        return run.due_at is not None and run.delay is not None
    if run.state is State.PENDING:
        return run.due_at is not None and run.judged is not None and run.judged.waits
    return run.due_at is not None and run.state in (State.RETRYING, State.ACTION_RUNNING, State.APPROVAL_REQUIRED)


def _go_on(p: Pass, run: Run) -> None:
    run.due_at = None
    if run.deadline_at is not None:
        p.state.set_timer(run.deadline_at, run)  # a clock that was set back may have passed it before
    p.move(run, State.PENDING, "due")


def _end_spans(p: Pass) -> None:
    """End delays, retry delays and run times, which count elapsed time regardless of the wall clock."""
    state = p.state
    while state.spans and state.spans[0][0] <= p.elapsed:
        _, _, run_id, kind, value = heappop(state.spans)
        if kind == GATE:
            ring(p, run_id, value)
            continue
        if kind == AUDIT:
            end_count(p, run_id)
            continue
        if kind == DEMAND:
            look_again(p, run_id)
            continue
        run = state.runs.get(run_id)
        if run is None or getattr(run, kind) != value:
            continue
        if kind == LATE:
            constraints.late(p, run)
        elif kind != WAIT:
            overrun(p, run, kind)
        elif run.state in _WAITS:
            _WAITS[run.state](p, run)


def end_wait(p: Pass, run: Run) -> None:
    """Let a run go on whose wait has ended, as its timer or span should have done."""
    if waits_for_span(run):
        _WAITS[run.state](p, run)
    else:
        _look(p, run)


_WAITS: dict[State, Callable[[Pass, Run], None]] = {
    State.PRERUN: _go_on,
    State.RETRYING: _go_on,
    State.PENDING: judge.time_passed,
    State.APPROVAL_REQUIRED: approvals.expire,
    State.ACTION_RUNNING: constraints.check_again,
    State.SCHEDULED: end_window,
    State.TERMINATING: output.scan_overdue,
}
"""state → what the end of a wait does there"""


def follow_wall_clock(p: Pass) -> None:
    """Move the recorded ends of waits, and the debts of rates, by the change of the wall clock."""
    jump = p.state.jump(Now(p.now, p.elapsed))
    if not jump:
        return
    p.state.wall_ahead = p.now - p.elapsed
    for _, _, run_id, kind, value in p.state.spans:
        run = p.state.runs.get(run_id)
        if kind == WAIT and run is not None and run.seq == value and run.due_at is not None:
            run.due_at += jump
            if run.guarded.since is not None:
                p.set_facet(run, constraints=replace(run.guarded, since=run.guarded.since + jump))
            p.touch(run)
    for gate in p.state.gates.values():
        if isinstance(gate, RateGate) and gate.due > p.elapsed:
            gate.keep_debt(p)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a wait for a time: that of the run, or of its retry."""
    if run.state not in (State.PRERUN, State.RETRYING) or run.due_at is None:
        return
    at = run.due_at + state.jump(now) if waits_for_span(run) else run.due_at
    left = f"in {span(at - now.wall)}" if at > now.wall else "now"
    if run.state is State.RETRYING:
        most = most_retries(state.job_of(run), run)
        text = f"waits for retry {run.failures} of {most}, due {left}"
        yield Reason(kind=ReasonKind.RETRY, text=text, at=at)
    else:
        yield Reason(kind=ReasonKind.SCHEDULED_TIME, text=f"waits for its time, due {left}", at=at)
