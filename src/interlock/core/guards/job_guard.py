"""The runs of a job with constraints: those that hold a place, and those that wait because of a violation. No run
waits for ever."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from interlock.core.attempts.settle import cancel_run
from interlock.core.facts import Snapshot
from interlock.core.sessions.session import Sessions
from interlock.core.sessions.turns import let_others_pass
from interlock.core.state import WAIT as WAIT_SPAN
from interlock.core.state import SchedulerState
from interlock.core.timetable.series import OVERTAKEN, overtaken_by, skip
from interlock.core.transition import Pass
from interlock.fields.duration import brief, checked, span
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.guard import ActionKind, Decision
from interlock.model.job import Job
from interlock.model.run import CATCH_UP, SCHEDULE, Now, Run
from interlock.model.state import GUARDED, HOLDS_SLOT, State

ACTION = "action"  # name in `asked` of the run that an action has called
_PASSED = HOLDS_SLOT | {State.SCHEDULED, State.UNDER_WAY, State.RETRYING}


class JobGuard(msgspec.Struct, eq=False):
    holding: dict[str, Run] = {}  # runs that have passed and not ended
    pending: dict[str, Run] = {}  # runs whose constraints are checked, or that wait because of them; in order
    waiting: dict[str, Run] = {}  # those that wait for a place
    asking: dict[str, Run] = {}  # those that wait for others to end, whatever places there are
    occurrences: dict[str, Run] = {}  # those that a schedule created, that wait, and that have never begun

    @property
    def is_used(self) -> bool:
        return bool(self.holding or self.pending)

    def add(self, run: Run) -> None:
        """Put a run where its state says."""
        if run.guarded.cleared or run.state in _PASSED:
            self.holding[run.id] = run
        if run.state in GUARDED:
            self.pending[run.id] = run
        if waits(run):
            self.park(run)

    def park(self, run: Run) -> None:
        """Let a run wait, for what its decision says."""
        decision = run.guarded.decision
        assert decision is not None
        if decision.action is ActionKind.KILL_OLD or (decision.action is ActionKind.WAIT and run.guarded.cleared):
            self.asking[run.id] = run
        elif decision.action is ActionKind.WAIT:
            self.waiting[run.id] = run
        if run.origin in (SCHEDULE, CATCH_UP) and not run.may_have_begun:
            self.occurrences[run.id] = run

    def wake(self, run: Run) -> None:
        for runs in (self.waiting, self.asking, self.occurrences):
            runs.pop(run.id, None)

    def drop(self, run: Run) -> None:
        self.holding.pop(run.id, None)
        self.pending.pop(run.id, None)
        self.wake(run)


class Guards(dict[str, JobGuard]):
    """By job, for those that have had a guarded run."""

    def __init__(self) -> None:
        self.freed: dict[str, None] = {}  # jobs with a place that has become free


def forget_unused(p: Pass) -> None:
    """Drop the guards of jobs that are gone, once they are the majority."""
    guards, jobs = p.state.of(Guards), p.state.jobs
    if len(guards) > 100 + 2 * len(jobs):
        for job_id in [job_id for job_id, guard in guards.items() if job_id not in jobs and not guard.is_used]:
            del guards[job_id]


def waits(run: Run) -> bool:
    """Return whether a run waits because of a violation, and not for a run that it has called."""
    return run.state is State.ACTION_RUNNING and not run.guarded.asked and run.guarded.decision is not None


def guard_of(state: SchedulerState, job_id: str) -> JobGuard:
    """Return the guard of a job; the first time, look for the runs that its earlier definitions left."""
    guard = state.of(Guards).get(job_id)
    if guard is None:
        guard = state.of(Guards)[job_id] = JobGuard()
        for run in state.runs.values():
            if run.job_id == job_id:
                guard.add(run)
    return guard


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    """Make the guards of all jobs with guarded runs."""
    guards = state.of(Guards)
    guards.update((run.job_id, JobGuard()) for run in snapshot.runs if run.state in GUARDED or run.guarded.cleared)
    for run in snapshot.runs if guards else ():
        if run.job_id in guards:
            guards[run.job_id].add(run)


def adopt(state: SchedulerState, run: Run, memo: object) -> None:
    if run.state in GUARDED or run.guarded.cleared or run.job_id in state.of(Guards):
        guard_of(state, run.job_id).add(run)


KILLED = "killed by a newer run of its job (kill_old)"
MOST_WOKEN = 1000  # runs that the end of one wakes, if their number is not limited
WAITS = (ActionKind.WAIT, ActionKind.KILL_OLD)  # decisions whose wait ends with other runs of the job


class WaitRefusal(str):
    """Why a run cannot wait."""


class Overtaken(WaitRefusal):
    """Why a run need not wait: another takes its place."""


def park(p: Pass, run: Run, decision: Decision) -> WaitRefusal | None:
    """Let a run wait for a time, or for other runs of its job to end; return why it cannot."""
    guard, since = guard_of(p.state, run.job_id), run.guarded.since or p.now
    left = None if decision.limit is None else since + checked(decision.limit) - p.now
    if left is not None and left <= 0:
        limit = brief(checked(decision.limit))
        return WaitRefusal(f"{decision.action} reached its limit: constraints violated for {limit}")
    delay = left
    if decision.action is ActionKind.RETRY_LATER:
        delay = checked(decision.delay) if left is None else min(checked(decision.delay), left)
    elif decision.action is ActionKind.KILL_OLD and not _kill_old(p, run, guard):
        return Overtaken("kill_old: a newer run of the job is live")
    elif not (others := _others(guard, run, decision.action)):
        return WaitRefusal(f"{decision.action} failed: no other run of the job is live")
    elif _is_stuck(p.state, others, run):
        why = "it would never end, because all other runs of the job wait for this one"
        return WaitRefusal(f"{decision.action} failed: {why}")
    if _is_overtaken(p, run, guard):
        return Overtaken(OVERTAKEN)
    guard.park(run)
    run.due_at = None if delay is None else p.now + delay
    p.touch(run)
    if delay is not None:
        p.state.set_span(p.elapsed + delay, run, WAIT_SPAN)
    let_others_pass(p, run)  # one of its job may wait for the turn that this one has
    return None


def _others(guard: JobGuard, run: Run, action: str) -> list[Run]:
    """Return the runs that a run waits for: those with a place, or the older ones that are being killed and those of
    other tenants with a place."""
    if action == ActionKind.KILL_OLD:
        return [*_old(guard, run), *(other for other in guard.holding.values() if other.tenant != run.tenant)]
    return [other for other in guard.holding.values() if other is not run]


def _old(guard: JobGuard, run: Run) -> list[Run]:
    """Return the older runs of the same tenant."""
    both = (guard.holding | guard.pending).values()
    return [other for other in both if other is not run and other.tenant == run.tenant and _is_older(other, run)]


def _is_older(other: Run, run: Run) -> bool:
    return (other.scheduled_at, other.created_at, other.id) < (run.scheduled_at, run.created_at, run.id)


def _kill_old(p: Pass, run: Run, guard: JobGuard) -> bool:
    """Cancel the older runs of its tenant; return False for a run that is an old one itself."""
    most = p.state.job_of(run).constraints.max_concurrent_runs
    own = [other for other in guard.holding.values() if other is not run and other.tenant == run.tenant]
    if most is not None and sum(not _is_older(other, run) for other in own) >= most:
        return False
    for other in _old(guard, run):
        cancel_run(p, other, KILLED, "kill_old")
    return True


def _is_overtaken(p: Pass, run: Run, guard: JobGuard) -> bool:
    """Keep only the latest of the occurrences that wait; return whether that is another one. A run that may have begun
    was not missed: it neither gives way to others nor takes their place."""
    entry = p.state.timetable.entries.get(run.job_id)
    is_new = run.origin is not None and not run.may_have_begun
    for other in [occurrence for occurrence in guard.occurrences.values() if waits(occurrence)] if is_new else ():
        later, earlier = (run, other) if _is_older(other, run) else (other, run)
        if earlier.origin in overtaken_by(entry, later):
            if earlier is run:
                return True
            skip(p, earlier, OVERTAKEN)
    return False


def skip_waiting(p: Pass, job_id: str, why: str) -> None:
    """Skip the occurrences of a job that wait because of a violation and have never begun."""
    guard = p.state.of(Guards).get(job_id)
    for run in (
        [occurrence for occurrence in guard.occurrences.values() if waits(occurrence)] if guard is not None else ()
    ):
        skip(p, run, why)


def _is_stuck(state: SchedulerState, others: Iterable[Run], run: Run) -> bool:
    """Return whether these runs wait for nothing but this run, directly or not. A run that executes, or waits for a
    slot or for an answer from outside, goes on by itself, and so do those that wait for it."""
    seen, ahead = {run.id}, list(others)
    while ahead:
        blocker = ahead.pop()
        if blocker.id in seen:
            continue
        seen.add(blocker.id)
        decision = blocker.guarded.decision
        blockers: list[Run] = []
        if waits(blocker) and decision is not None and decision.action in WAITS:
            blockers = _others(guard_of(state, blocker.job_id), blocker, decision.action)
        elif blocker.state is State.SCHEDULED and state.of(Sessions).keeps(blocker):
            blockers = list(state.of(Sessions)[blocker.tenant, str(blocker.session)].active.values())
        if not blockers:
            return False
        ahead += blockers
    return True


def ready_runs(state: SchedulerState, guard: JobGuard) -> list[Run]:
    """Return the runs whose wait may be over: those that waited for others to end, and the first of those that wait for
    a place, as many as have room."""
    asking = [(run, run.guarded.decision) for run in guard.asking.values() if waits(run)]
    ready = [run for run, wanted in asking if wanted is not None and _is_ready(state, guard, run, wanted.action)]
    return [*ready, *islice(_with_room(state, guard), MOST_WOKEN)]


def _is_ready(state: SchedulerState, guard: JobGuard, run: Run, action: str) -> bool:
    most = state.job_of(run).constraints.max_concurrent_runs
    if action == ActionKind.KILL_OLD and most is not None and len(guard.holding) < most:
        return not _old(guard, run)
    return not _others(guard, run, action)


def _with_room(state: SchedulerState, guard: JobGuard) -> Iterator[Run]:
    for place, run in enumerate(guard.waiting.values()):
        most = state.job_of(run).constraints.max_concurrent_runs
        if most is not None and len(guard.holding) + place >= most:
            return
        yield run


def explain_wait(state: SchedulerState, run: Run, decision: Decision, now: Now) -> Reason:
    """Explain why a run waits that violates a constraint."""
    violated = run.guarded.violations[-1]
    why = f"violates {violated.constraint} ({violated.message})"
    kind, since = ReasonKind.CONSTRAINT, run.guarded.since
    if run.guarded.asked:
        called = run.guarded.asked[ACTION]
        return Reason(kind=kind, text=f"{why}, and waits for run {called}, which its action started", runs=[called])
    at = run.due_at
    if decision.action is ActionKind.RETRY_LATER:
        left = "now" if at is None else f"in {span(at - now.wall)}"
        return Reason(kind=kind, text=f"{why}; constraints are checked again {left}", name=violated.constraint, at=at)
    others = _others(guard_of(state, run.job_id), run, decision.action)
    is_killing = decision.action is ActionKind.KILL_OLD
    what = "older runs of its job and tenant have stopped" if is_killing else "another run of its job ends"
    holders = [other.id for other in others[:MOST_NAMED]]
    text = f"{why}, and waits until {what}"
    return Reason(kind=kind, text=text, name=violated.constraint, since=since, holders=holders, at=at)


def longest_wait(run: Run, job: Job) -> float:
    decision = run.guarded.decision
    return 0.0 if decision is None else max(checked(decision.delay), checked(decision.limit or 0.0))
