"""Time: runs fall due, retries begin, deadlines pass. A timer is only a hint to look at a run; the run's own fields
decide.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from msgspec.structs import replace

from interlock.core.attempts.settle import most_retries
from interlock.core.entry.actions import has_expired
from interlock.core.part import Part, Wait
from interlock.core.state import WAIT, SchedulerState
from interlock.core.timetable import occurrences
from interlock.core.timetable.table import goes_early, series_key
from interlock.core.transition import Pass
from interlock.fields.duration import span
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import ON_WORKER, State


def fire(p: Pass) -> None:
    """Look at every run whose timer is due. A timer is only a hint: the run's own fields decide."""
    timers, runs = p.state.timers.heap, p.state.runs
    early = p.now + p.state.limits.lead
    kept = []
    while timers and timers[0][0] <= early:
        timer = heappop(timers)
        run = runs.get(timer[2])
        if run is not None and timer[0] <= p.now:
            look(p, run)
        elif run is not None and goes_early(p.state, run):
            occurrences.fall_due(p, run)
        elif run is not None:
            kept.append(timer)
    for timer in kept:
        heappush(timers, timer)
    _end_spans(p)
    while p.state.timers.unsettled:
        unsettled, p.state.timers.unsettled = p.state.timers.unsettled, []
        for run_id in unsettled:
            if (run := runs.get(run_id)) is not None:
                look(p, run)


def look(p: Pass, run: Run) -> None:
    """Let a run go on if nothing but a look at it is needed."""
    if run.state is not State.PRERUN and has_expired(p, run):
        return
    if (go := p.state.machine.looks.get(run.state)) is not None:
        go(p, run)


def look_ahead(p: Pass, run: Run) -> None:
    if run.origin is None:
        look_at_delay(p, run)
    elif _is_due(p, run):
        occurrences.fall_due(p, run)


def look_at_delay(p: Pass, run: Run) -> None:
    if not p.state.machine.waits_for_span(run) and (run.due_at is None or _is_due(p, run)):
        go_on(p, run)


def _is_due(p: Pass, run: Run) -> bool:
    return run.due_at is not None and run.due_at <= p.now


def go_on(p: Pass, run: Run) -> None:
    run.due_at = None
    if run.deadline_at is not None:
        p.state.set_timer(run.deadline_at, run)  # a clock that was set back may have passed it before
    p.move(run, State.PENDING, "due")


def _end_spans(p: Pass) -> None:
    """End delays, retry delays and run times, which count elapsed time regardless of the wall clock."""
    timers, machine = p.state.timers, p.state.machine
    while timers.spans and timers.spans[0][0] <= p.elapsed:
        _, _, name, kind, value = heappop(timers.spans)
        if kind in machine.alarms:
            machine.alarms[kind](p, name, value)
        elif (run := p.state.runs.get(name)) is not None and getattr(run, kind) == value:
            machine.spans[kind](p, run, kind)


def _end_span(p: Pass, run: Run, kind: str) -> None:
    p.state.machine.waits[run.state].ends(p, run)


def end_wait(p: Pass, run: Run) -> None:
    """Let a run go on whose wait has ended, as its timer or span should have done."""
    machine = p.state.machine
    (machine.waits[run.state].ends if machine.waits_for_span(run) else look)(p, run)


def follow_wall_clock(p: Pass) -> None:
    """Move the recorded ends of waits, and the debts of rates, by the change of the wall clock."""
    jump = p.state.jump(Now(p.now, p.elapsed))
    if not jump:
        return
    p.state.timers.wall_ahead = p.now - p.elapsed
    # A run whose wait ended early and began anew has two spans.
    for run_id, value in dict.fromkeys((entry[2], entry[4]) for entry in p.state.timers.spans if entry[3] == WAIT):
        run = p.state.runs.get(run_id)
        if run is not None and run.seq == value and run.due_at is not None:
            run.due_at += jump
            if run.guarded.since is not None:
                p.set_facet(run, constraints=replace(run.guarded, since=run.guarded.since + jump))
            p.touch(run)
    for follow in p.state.machine.jumps:
        follow(p)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a wait for a time: that of the run, or of its retry."""
    if run.state not in (State.PRERUN, State.RETRYING) or run.due_at is None:
        return
    at = run.due_at + state.jump(now) if state.machine.waits_for_span(run) else run.due_at
    left = f"in {span(at - now.wall)}" if at > now.wall else "now"
    if run.state is State.RETRYING:
        most = most_retries(state.job_of(run), run)
        text = f"waits for retry {run.failures} of {most}, due {left}"
        yield Reason(kind=ReasonKind.RETRY, text=text, at=at)
    else:
        yield Reason(kind=ReasonKind.SCHEDULED_TIME, text=f"waits for its time, due {left}", at=at)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    """Look at a stored run when it is due, or at once if it waits for nothing that its part knows."""
    if run.deadline_at is not None:
        state.set_timer(run.deadline_at, run)
    if run.state is State.SCHEDULED or (run.state in ON_WORKER and run.worker_id is not None):
        return
    waits_for_span = state.machine.waits_for_span(run)
    if run.due_at is None or (run.state is State.PENDING and not waits_for_span):
        if run.state is not State.PRERUN or series_key(run) is None:  # an occurrence waits for those before it
            state.timers.unsettled.append(run.id)  # a pending run with a time has passed `PRERUN` a moment ahead of it
    elif not waits_for_span:
        state.set_timer(run.due_at, run)


def next_look(p: Pass) -> Iterator[float]:
    timers = p.state.timers.heap
    if timers:
        run = p.state.runs.get(timers[0][2])
        is_early = run is not None and goes_early(p.state, run)
        yield timers[0][0] - p.state.limits.lead / 2 if is_early else timers[0][0]


TIMERS = Part(
    name="timers",
    waits={State.PRERUN: Wait(go_on, lambda run: run.delay is not None, lambda run, job: run.delay or 0.0)},
    looks={State.PRERUN: look_ahead},
    spans={WAIT: _end_span},
    places=((frozenset(State), place),),
    explains=(explain,),
    fires=(fire,),
    next_looks=(next_look,),
)
