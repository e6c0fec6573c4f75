"""Lanes: which runs wait and which start. Only the states of runs decide who holds a slot."""

from heapq import heappop
from operator import itemgetter

from interlock.core import gates
from interlock.core.gates import LANE_RATE
from interlock.core.lane import Head, Lane, Line
from interlock.core.routing import dispatch, pick
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.run import Run


def enqueue(state: SchedulerState, run: Run, order: int | None = None) -> None:
    """Let a run wait in its lane: as the last one, or at the place it had before its worker gave it back."""
    arrival = state.arrival() if order is None else order
    state.lanes[run.lane].add(state.line_key(run), state.route_key(run), arrival, run)


def fill(p: Pass) -> None:
    """Dispatch as many waiting runs as lanes and workers take. When workers are short, the lane that uses the least of
    its limit goes first, so that no lane's backlog delays another."""
    if p.state.draining:
        return
    gates.let_queues_try(p)
    waiting = []
    for lane in p.state.lanes.values():
        lane.sweep()
        if lane.has_slot and (line := lane.next_line()) is not None:
            waiting.append((len(lane.holding) / lane.limit, line.heads[0][0], lane))
    for _, _, lane in sorted(waiting, key=itemgetter(0, 1)):
        _fill_lane(p, lane)


def _fill_lane(p: Pass, lane: Lane) -> None:
    aside: list[tuple[Line, Head]] = []  # heads that no worker takes
    rate = None if lane.rate is None else p.state.rate_gate(LANE_RATE.format(lane.name), lane.rate, lane.burst)
    while len(lane.holding) < lane.limit and (line := lane.next_line()) is not None:
        room = lane.limit if rate is None else rate.room(p.elapsed)
        if rate is not None and not room:
            rate.set_alarm(p)
            break
        started = _hand_out(p, lane, line, 1 if len(lane.lines) > 1 else room, aside)
        if started:
            lane.count(line, started, started)
            if rate is not None:
                rate.take(p, started)
        elif not any(worker.has_room for worker in p.state.workers.values()):
            break
    for line, head in aside:
        lane.add_head(line, head)


def _hand_out(p: Pass, lane: Lane, line: Line, most: int, aside: list[tuple[Line, Head]]) -> int:
    """Dispatch up to `most` runs of a line's first queue, until another queue has an older one; return their number."""
    _, key = heappop(line.heads)
    until = line.heads[0][0] if line.heads else None
    queue, started = line.queues[key], 0
    passing = p.state.gates_of(queue[0][1], key) if key[2] else ()
    while True:
        order, run = queue[0]
        if started == most or len(lane.holding) >= lane.limit or (until is not None and order > until):
            lane.add_head(line, (order, key))
            return started
        for gate in passing:
            if not gate.room(p.elapsed):
                gate.park(p, lane, line, key, order)
                return started
        worker = pick(p.state, key)
        if worker is None:
            aside.append((line, (order, key)))
            return started
        queue.popleft()
        for gate in passing:
            gate.take(p)
        dispatch(p, run, worker, key[1], order)
        started += 1
        if not lane.drop_dead(line, key, queue):
            return started
