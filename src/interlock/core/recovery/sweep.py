"""Sweeps: find stored runs that the scheduler has missed, and put them back on their way.

A sweep compares each stored run that has not ended with the memory. A run is missed if it should have moved and nothing
in memory will move it: no timer, no span, no effect, no attempt on a worker. Every missed run is a defect of the
scheduler, so each is counted and logged.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from math import inf

import msgspec

from interlock.core import timers
from interlock.core.attempts.settle import runtimes
from interlock.core.effects import PendingEffects
from interlock.core.entry.actions import has_expired, overrun
from interlock.core.facts import Needs
from interlock.core.part import Part
from interlock.core.policy.judge_state import Judging
from interlock.core.recovery import rebuild
from interlock.core.state import ATTEMPT_RUNTIME, RUNTIME, WAIT, SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows import machine as workflows
from interlock.core.workflows.flow import Flows
from interlock.core.workflows.turn_table import Turns
from interlock.model.audit import AuditKind
from interlock.model.run import Now, Run
from interlock.model.state import ON_WORKER, State
from interlock.model.workflow import EVENT, PARALLEL
from interlock.wire.command import Sweep, WentBack

SLACK = 5.0  # seconds that a run may be past a time
PATIENCE = 120.0  # seconds that a run may be pending and wait for nothing
MOST_TRIES = 3  # times that a run is put back

UNKNOWN = "unknown to the scheduler"


class Sweeps(msgspec.Struct):
    put_back: dict[str, int] = {}  # run that a sweep has put back → how often


class PendingMoves:
    """The looks at runs that are still to come. Each part is made when it is first needed, which is hardly ever."""

    def __init__(
        self,
        state: SchedulerState,
        now: Now,
        slack: float = SLACK,
        patience: float = PATIENCE,
        entering: Iterable[Run] = (),
    ) -> None:
        self.state = state
        self.late = now.wall - slack
        self.too_old = now.wall - patience
        self._now = now
        self._entering = entering

    @cached_property
    def looks(self) -> set[str]:
        """The runs that this pass or the next one looks at."""
        due = {run_id for when, _, run_id in self.state.timers.heap if when <= self._now.wall}
        unsure = (run_id for runs in self.state.timetable.unsure.values() for run_id in runs)
        return due.union(
            self.state.timers.unsettled, self.state.of(Judging).to_judge, unsure, (run.id for run in self._entering)
        )

    @cached_property
    def spans(self) -> set[tuple[str, str, float]]:
        return {span[2:] for span in self.state.timers.spans}

    @cached_property
    def effects(self) -> set[tuple[str, int]]:
        return {(effect.run_id, effect.seq) for effect in self.state.of(PendingEffects).pending}


def why_missed(coming: PendingMoves, stored: Run) -> str | None:
    """Return in what way the scheduler has missed a stored run that has not ended; None if it has not. A run with
    another `seq` in memory is just moving."""
    run = coming.state.runs.get(stored.id)
    if run is None:
        return UNKNOWN
    if run.seq != stored.seq:
        return None
    return next((why for why, (finds, _) in SYMPTOMS.items() if finds(coming, run)), None)


def _has_no_attempt(coming: PendingMoves, run: Run) -> bool:
    worker = coming.state.workers.get(str(run.worker_id)) if run.state in ON_WORKER else None
    return run.state in ON_WORKER and (worker is None or run.id not in worker.attempts)


def _is_expired(coming: PendingMoves, run: Run) -> bool:
    if run.deadline_at is None or run.deadline_at >= coming.late or run.state is State.PRERUN:
        return False
    return not _is_ending(run) and run.id not in coming.looks


def _runs_too_long(coming: PendingMoves, run: Run) -> bool:
    return run.started_at is not None and _is_past(coming, run, RUNTIME)


def _attempt_runs_too_long(coming: PendingMoves, run: Run) -> bool:
    return run.state in ON_WORKER and _is_past(coming, run, ATTEMPT_RUNTIME)


def _is_past(coming: PendingMoves, run: Run, kind: str) -> bool:
    """Return whether a run time has passed its limit, and no span is left to end it. If the wall clock has jumped, the
    span is still there."""
    longest, start = dict(runtimes(coming.state.job_of(run), run)).get(kind, inf), getattr(run, kind)
    if start is None or start + longest >= coming.late or _is_ending(run):
        return False
    return (run.id, kind, start) not in coming.spans


def _is_ending(run: Run) -> bool:
    """Return whether the work is done, or its worker was asked to stop it."""
    is_stopping = run.closing is not None or (run.state in ON_WORKER and run.stop is not None)
    return run.state is State.TERMINATING or is_stopping


def _is_idle(coming: PendingMoves, run: Run) -> bool:
    if (
        run.state is not State.PENDING
        or run.changed_at >= coming.too_old
        or run.is_held
        or coming.state.machine.waits_for_span(run)
    ):
        return False
    return (run.id, run.seq) not in coming.effects and run.id not in coming.looks


def _is_approved(coming: PendingMoves, run: Run) -> bool:
    approval = None if run.judged is None else run.judged.approval
    return run.state is State.APPROVAL_REQUIRED and approval is not None and bool(approval.approved)


def _has_waited(coming: PendingMoves, run: Run) -> bool:
    is_wait = coming.state.machine.waits_for_span(run) or run.state is State.PRERUN
    if not is_wait or run.due_at is None or run.due_at >= coming.late:
        return False
    return (run.id, WAIT, run.seq) not in coming.spans and run.id not in coming.looks


def _has_no_step(coming: PendingMoves, run: Run) -> bool:
    waits = run.due_at is not None or run.job_id in (EVENT, PARALLEL)
    if run.state is not State.UNDER_WAY or waits or run.changed_at >= coming.too_old:
        return False
    flow = coming.state.of(Flows).get(run.id)
    if coming.state.of(Turns).waits(run.id):
        return False
    steps = () if flow is None else (coming.state.runs.get(flow.id_of(name)) for name in flow.live)
    has_step = any(step is not None and step.job_id != PARALLEL for step in steps)
    if has_step or (run.id, run.seq) in coming.effects or run.id in coming.looks:
        return False
    # It may be about to send an event to a workflow whose record is being read.
    return not any(run.id in other.wakes for other in coming.state.of(Flows).values())


def _find_steps(p: Pass, run: Run) -> None:
    if run.id not in p.state.of(Flows):
        workflows.place(p.state, run, Now(p.now, p.elapsed))
    workflows.look_again(p, run)


def _approve(p: Pass, run: Run) -> None:
    run.due_at = None
    p.move(run, State.PENDING, "approved; put back by a sweep")


def _place(p: Pass, run: Run) -> None:
    rebuild.place(p.state, run, Now(p.now, p.elapsed))


SYMPTOMS: dict[str, tuple[Callable[[PendingMoves, Run], bool], Callable[[Pass, Run], object]]] = {
    "its worker does not have it": (_has_no_attempt, _place),
    "past its deadline": (_is_expired, has_expired),
    "past its longest run time": (_runs_too_long, lambda p, run: overrun(p, run, RUNTIME)),
    "its attempt took too long": (_attempt_runs_too_long, lambda p, run: overrun(p, run, ATTEMPT_RUNTIME)),
    "waits for nothing": (_is_idle, lambda p, run: p.entering.append(run)),
    "approved and not moving": (_is_approved, _approve),
    "has no step under way": (_has_no_step, _find_steps),
    "past the end of its wait": (_has_waited, timers.end_wait),
}
"""how a run is missed → whether one is, and the step that puts it back"""


def needs_runs(state: SchedulerState, command: Sweep, needs: Needs) -> None:
    needs.runs.update(dict.fromkeys(command.runs))
    needs.versions.update({version: None for version in command.runs.values() if version not in state.versions})


def sweep(p: Pass, origin: str, command: Sweep) -> None:
    """Put back those of these runs that are missed by what the store has now."""
    coming = PendingMoves(p.state, Now(p.now, p.elapsed), entering=p.entering)
    for run_id in command.runs:
        stored = p.facts.runs.get(run_id)
        if stored is None or stored.ended_at is not None or run_id in p.history:
            continue
        why = why_missed(coming, stored)
        if why is not None:
            _put_back(p, stored, why)
    p.state.of(Sweeps).put_back = {
        run_id: tries for run_id, tries in p.state.of(Sweeps).put_back.items() if run_id in p.state.runs
    }


def _put_back(p: Pass, stored: Run, why: str) -> None:
    put_back = p.state.of(Sweeps).put_back
    tries = put_back[stored.id] = put_back.get(stored.id, 0) + 1
    if tries > MOST_TRIES:
        if tries == MOST_TRIES + 1:
            p.problems.append(
                f"run {stored.id} ({stored.state}, {why}) was put back {MOST_TRIES} times and is missed again; "
                "restart the scheduler, and report this as a defect"
            )
        return
    p.warnings.append(f"the scheduler had missed run {stored.id} ({stored.state}, {why}); it was put back")
    p.state.versions.update(p.facts.versions)
    p.put_back.append((stored.state, p.state.job_of(stored).policy_topic))
    if why == UNKNOWN:
        _adopt(p, stored)
    else:
        _, cure = SYMPTOMS[why]
        cure(p, p.state.runs[stored.id])


def _adopt(p: Pass, stored: Run) -> None:
    """Take a stored run into memory, and lead one that waits for a worker through the entry again."""
    run = rebuild.adopt(p.state, stored, Now(p.now, p.elapsed), p.memo)
    if run.state is State.SCHEDULED:
        p.move(run, State.PENDING, "put back by a sweep")


def note_loss(p: Pass, origin: str, command: WentBack) -> None:
    """Keep for later starts since when times and fences are not those of the time that the store has lost."""
    p.keep_memo(rebuild.AT, repr(p.state.timetable.restored_at).encode())
    p.audit(AuditKind.WENT_BACK, "scheduler", "", "the database", positions=command.lost)


RECOVERY = Part(
    name="recovery",
    slices=(Sweeps,),
    handlers={Sweep: sweep, WentBack: note_loss},
    needs={Sweep: needs_runs},
)
