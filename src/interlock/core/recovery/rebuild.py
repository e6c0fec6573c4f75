"""Build the state of a scheduler that takes over from the store.

A restore, or a failover to a replica that lagged, takes the store back in time. A worker may still execute a run of the
lost time, and report it. Occurrences have the same id again, so each run gets fences that the lost time cannot have
used: they begin at the milliseconds of the restore. Fire times before the restore are recorded as missed, because their
runs may have been executed.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from interlock.core.attempts.settle import runtimes
from interlock.core.facts import Snapshot
from interlock.core.part import Machine
from interlock.core.sessions.session import Sessions
from interlock.core.state import JUMP, LATE, WAIT, CoreLimits, SchedulerState
from interlock.fields.duration import checked
from interlock.model.lane import LaneSpec
from interlock.model.run import Now, Run
from interlock.wire.command import WentBack


def rebuild(
    machine: Machine,
    limits: CoreLimits,
    lanes: Mapping[str, LaneSpec],
    snapshot: Snapshot,
    now: Now,
    before: SchedulerState | None = None,
) -> SchedulerState:
    """Make the state that the store describes. An attempt counts as live until its worker is silent for too long. Spans
    continue from `before`, the previous state of this same scheduler; without it, the wall clock shows the rest."""
    state = SchedulerState(machine, limits, lanes)
    state.timers.wall_ahead = now.wall - now.elapsed if before is None else before.timers.wall_ahead
    state.numbers.events = snapshot.position
    for load in machine.loads:
        load(state, snapshot, now)
    known = {} if before is None else {span[2:]: span[0] for span in before.timers.spans}
    for run in snapshot.runs:
        _add(state, run, now, known)
    return state


def adopt(state: SchedulerState, stored: Run, now: Now, memo: Callable[[str], bytes | None]) -> Run:
    """Add a stored run that the state does not have, and return it: as its lane or session still has it, or as it is
    stored."""
    run = _left_behind(state, stored)
    if run is not None and run.seq == stored.seq:
        state.runs[run.id] = run
        return run
    if stored.payload is not None and len(stored.payload) > state.limits.small_payload:
        stored.payload = None
    for take in state.machine.adopts:
        take(state, stored, memo)
    _add(state, stored, now, {})
    return stored


def _left_behind(state: SchedulerState, stored: Run) -> Run | None:
    lane, session = state.lanes.get(stored.lane), state.of(Sessions).of(stored)
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
    place(state, run, now)
    if run.due_at is not None or run.started_at is not None:
        _set_spans(state, run, now, known)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    """Put a run where it belongs, in each part."""
    for put in state.machine.places_of[run.state]:
        put(state, run, now)


def _set_spans(state: SchedulerState, run: Run, now: Now, known: dict[tuple[str, str, float], float]) -> None:
    for kind, left in _spans_left(state, run, now.wall):
        end = known.get((run.id, kind, getattr(run, kind)), now.elapsed + left)
        state.set_span(end, run, kind)
        if kind == WAIT and run.due_at is not None and abs(end + state.timers.wall_ahead - run.due_at) >= JUMP:
            run.due_at = end + state.timers.wall_ahead  # the clock was set back meanwhile


def _spans_left(state: SchedulerState, run: Run, wall: float) -> Iterator[tuple[str, float]]:
    """Yield the rest of each span by the wall clock; never more than the whole, even if the clock was set back."""
    job, machine = state.job_of(run), state.machine
    for kind, longest in runtimes(job, run):
        if (start := getattr(run, kind)) is not None:
            yield kind, min(start + longest - wall, longest)
    expected = job.constraints.max_expected_run_time
    if expected is not None and run.started_at is not None:
        yield LATE, min(run.started_at + checked(expected) - wall, checked(expected))
    if run.due_at is not None and machine.waits_for_span(run):
        yield WAIT, min(run.due_at - wall, machine.waits[run.state].longest(run, job))


AT = "restored:at"  # name of the memo with the time of the last restore
POSITION = "restored:position"  # likewise with the highest position that the lost time can have used
UNSEEN = 1_000_000  # positions that the lost time may have used after the last that a standby saw: it looks each second


def first_fence(at: float) -> int:
    return int(at * 1000)


def without_lost_time(snapshot: Snapshot, loss: WentBack, position: int) -> Snapshot:
    """Let the state continue behind everything that the lost time can have used, up to this position."""
    at = max(loss.at, float(snapshot.memos.get(AT, 0.0)) + 1)  # also if the clock was set back since
    position = max(position, snapshot.position + loss.lost) + UNSEEN
    return msgspec.structs.replace(snapshot, position=position, memos={**snapshot.memos, AT: repr(at).encode()})


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    if AT in snapshot.memos:
        state.timetable.restored_at = float(snapshot.memos[AT])
        state.numbers.first_fence = first_fence(state.timetable.restored_at)
