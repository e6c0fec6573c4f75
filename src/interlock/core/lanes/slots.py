"""Slots: only the states of runs decide who holds one."""

from interlock.core.lanes.gate import limit_names
from interlock.core.routing.route import line_key
from interlock.core.sessions.session import Sessions
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.run import Now, Run
from interlock.model.state import HOLDS_SLOT


def take(p: Pass, run: Run) -> None:
    p.state.lanes[run.lane].holding[run.id] = run
    if run.facets is not None:
        _take_limits(p.state, run)


def _take_limits(state: SchedulerState, run: Run) -> None:
    for name in limit_names(run):
        state.gates.limit(name).holders.add(run.id)


def free(p: Pass, run: Run) -> None:
    state = p.state
    lane = state.lanes.startable[run.lane] = state.lanes[run.lane]
    del lane.holding[run.id]
    if run.facets is not None:
        for name in limit_names(run):
            gate = state.gates.open[name] = state.gates.limit(name)
            gate.holders.discard(run.id)


def leave_queue(p: Pass, run: Run) -> None:
    """Take a run that ends, or goes through the entry again, out of its lane; or out of the wait for its turn."""
    if run.session is not None and p.state.of(Sessions).keeps(run):
        run.due_at = None  # ended the time to collect others; a pending run collects none
    else:
        p.state.lanes.mark_startable(run.lane).remove(line_key(p.state, run), run)


def forget(p: Pass, ended: list[Run]) -> None:
    for lane in p.state.lanes.values():
        if lane.moved:
            for run in ended:
                lane.moved.pop(run.id, None)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    if run.state in HOLDS_SLOT:
        state.lanes[run.lane].holding[run.id] = run
        _take_limits(state, run)
