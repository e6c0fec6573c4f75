"""Build the state of a scheduler that takes over from the store."""

from collections.abc import Callable, Iterator, Mapping
from math import inf

import msgspec

from interlock.core import audit, lineage, restored, sessions, warm_start
from interlock.core.gates import RATE, RateGate
from interlock.core.job_guard import guard_of, rebuild_guards
from interlock.core.judge import LONGEST_PAUSE, MEMO, UNSURE
from interlock.core.lane import SlotKind
from interlock.core.output import MEMO as SCANNED
from interlock.core.roster import Attempt, Worker
from interlock.core.schedule_table import series_of
from interlock.core.settle import runtimes
from interlock.core.snapshot import Snapshot as Snapshot
from interlock.core.state import JUMP, LATE, WAIT, Limits, Lines, SchedulerState
from interlock.core.timers import waits_for_span
from interlock.fields.duration import checked
from interlock.model.bulk import BulkRequest
from interlock.model.job import Job
from interlock.model.lane import LaneMemo, LaneSpec
from interlock.model.run import Now, Run
from interlock.model.run_action import RunAction
from interlock.model.state import GUARDED, HOLDS_SLOT, ON_WORKER, State
from interlock.model.stored_job import StoredJob

LOADED = (StoredJob, BulkRequest)
"""kinds of records that a scheduler needs when it takes over"""


def rebuild(
    limits: Limits, lanes: Mapping[str, LaneSpec], snapshot: Snapshot, now: Now, before: SchedulerState | None = None
) -> SchedulerState:
    """Make the state that the store describes. An attempt counts as live until its worker is silent for too long. Spans
    continue from `before`, the previous state of this same scheduler; without it, the wall clock shows the rest."""
    lane_memos = {
        name.removeprefix(LaneMemo.PREFIX): msgspec.json.decode(memo, type=LaneMemo)
        for name, memo in snapshot.memos.items()
        if name.startswith(LaneMemo.PREFIX)
    }
    state = SchedulerState(limits, lanes, lane_memos)
    state.wall_ahead = now.wall - now.elapsed if before is None else before.wall_ahead
    state.events = snapshot.position
    state.log_sizes = dict(snapshot.log_sizes)
    state.lines = {run_id: Lines(*mark) for run_id, mark in snapshot.log_marks.items()}
    state.jobs = {stored.id: stored.job for stored in snapshot.of(StoredJob)}
    state.versions = {job.version: job for job in snapshot.jobs}
    state.timetable.rows = {row[0]: row for row in snapshot.schedules}
    for bulk in snapshot.of(BulkRequest):
        state.bulks[bulk.id] = bulk
        if bulk.ended_at is None:
            reach = 0 if bulk.action is RunAction.RETRY else snapshot.reaches[bulk.id]
            tenant, met = bulk.wanted.tenant, snapshot.runs[:reach]
            state.walks[bulk.id] = [run for run in met if tenant in (None, run.tenant)]
    for name, memo in snapshot.memos.items():
        if name.startswith(RATE):
            left = msgspec.json.decode(memo, type=float) - now.wall
            state.gates[name] = state.open_gates[name] = RateGate(name=name, due=now.elapsed + left)
    state.policy_digest = snapshot.memos.get(MEMO, b"").decode()
    state.scanned = int(snapshot.memos[SCANNED]) if SCANNED in snapshot.memos else None
    lineage.set_key(state, snapshot.memos.get(lineage.MEMO))
    warm_start.expect(state, snapshot.memos.get(warm_start.MEMO), now)
    sessions.open_all(state, snapshot, now)
    audit.rebuild(state, snapshot, now)
    restored.rebuild(state, snapshot.memos)
    known = {} if before is None else {span[2:]: span[0] for span in before.spans}
    for run in snapshot.runs:
        _add(state, run, now, known)
    if state.workers and warm_start.MEMO not in snapshot.memos:
        state.kept_workers.warnings.append(
            "the store has no snapshot of the workers; only those with runs are expected back"
        )
    rebuild_guards(state)
    return state


def adopt(state: SchedulerState, stored: Run, now: Now, memo: Callable[[str], bytes | None]) -> Run:
    """Take one stored run into a state that does not have it, and return it: as its lane or session still has it, or
    as it is stored."""
    run = _left_behind(state, stored)
    if run is not None and run.seq == stored.seq:
        state.runs[run.id] = run
        return run
    if stored.payload is not None and len(stored.payload) > state.limits.small_payload:
        stored.payload = None
    sessions.adopt(state, stored, memo)
    _add(state, stored, now, {})
    if stored.state in GUARDED or stored.guarded.cleared or stored.job_id in state.guards:
        guard_of(state, stored.job_id).add(stored)
    if state.is_judged and stored.state in UNSURE:
        state.unjudged.add(stored.id)
    return stored


def _left_behind(state: SchedulerState, stored: Run) -> Run | None:
    lane, session = state.lanes.get(stored.lane), state.sessions.get((stored.tenant, stored.session or ""))
    found = None if session is None else session.waiting.get(stored.id) or session.active.get(stored.id)
    if found is not None or lane is None:
        return found
    entries = (entry for queue in lane.queues() for entry in queue)
    waiting = next((entry[1] for entry in entries if entry[1].id == stored.id and lane.waits(entry)), None)
    return lane.holding.get(stored.id) or waiting


def _add(state: SchedulerState, run: Run, now: Now, known: dict[tuple[str, str, float], float]) -> None:
    state.runs[run.id] = run
    if run.lane not in state.lanes:
        run.lane = "main"
    if run.state is State.APPROVAL_REQUIRED:
        state.awaiting_approval[run.id] = run
    elif run.state is State.PENDING and waits_for_span(run):
        state.deferred_by_policy[run.id] = run
    place(state, run, now.elapsed)
    if run.deadline_at is not None:
        state.set_timer(run.deadline_at, run)
    if run.due_at is not None or run.started_at is not None:
        _set_spans(state, run, now, known)


def _set_spans(state: SchedulerState, run: Run, now: Now, known: dict[tuple[str, str, float], float]) -> None:
    for kind, left in _spans_left(run, state.job_of(run), now.wall):
        end = known.get((run.id, kind, getattr(run, kind)), now.elapsed + left)
        state.set_span(end, run, kind)
        if kind == WAIT and run.due_at is not None and abs(end + state.wall_ahead - run.due_at) >= JUMP:
            run.due_at = end + state.wall_ahead  # the clock was set back meanwhile


def _spans_left(run: Run, job: Job, wall: float) -> Iterator[tuple[str, float]]:
    """Yield the rest of each span by the wall clock; never more than the whole, even if the clock was set back."""
    for kind, longest in runtimes(job, run):
        if (start := getattr(run, kind)) is not None:
            yield kind, min(start + longest - wall, longest)
    expected = job.constraints.max_expected_run_time
    if expected is not None and run.started_at is not None:
        yield LATE, min(run.started_at + checked(expected) - wall, checked(expected))
    if run.due_at is not None and waits_for_span(run):
        whole = _longest_wait(run, job) if run.state is not State.PRERUN else run.delay
        yield WAIT, min(run.due_at - wall, inf if whole is None else whole)


def _longest_wait(run: Run, job: Job) -> float:
    if run.state is State.PENDING:
        return LONGEST_PAUSE
    if run.judged is not None and run.judged.approval is not None and run.state is State.APPROVAL_REQUIRED:
        return run.judged.approval.expires_at - run.judged.approval.asked_at
    if (decision := run.guarded.decision) is not None:
        return max(checked(decision.delay), checked(decision.limit or 0.0))
    asked = run.failure and run.failure.retry_after
    return max(job.retry.longest_delay, asked or 0.0)


def place(state: SchedulerState, run: Run, elapsed: float) -> None:
    """Put a run in the place of its state."""
    series = None if run.origin is None else series_of(state.series, run)
    if series is not None and run.state is State.PRERUN:
        if run.due_at is None:
            series.waiting.append(run)
            return
        state.timetable.ahead.setdefault(run.job_id, []).append(run)
    elif series is not None:
        series.live.add(run.id)
    if run.state in HOLDS_SLOT:
        state.hold_slot(run)
    if run.state in ON_WORKER and run.worker_id is not None:
        worker = state.workers.setdefault(run.worker_id, Worker(run.worker_id, heard=elapsed))
        worker.attempts[run.id] = Attempt(run, elapsed, run.state is not State.DISPATCHED, state.arrival())
        if (room := state.route_key(run)[1]) is not SlotKind.SHARED:
            worker.apart[run.id] = room
        state.watch_silence(elapsed)
    elif run.state is State.SCHEDULED:
        sessions.place(state, run, elapsed)
    elif run.due_at is None or (run.state is State.PENDING and not waits_for_span(run)):
        state.unsettled.append(run.id)  # a pending run with a time has passed `PRERUN` a moment ahead of it
    elif not waits_for_span(run):
        state.set_timer(run.due_at, run)
