"""Lanes: who waits, who may go. A slot is taken by being in a state that holds one, and by nothing else."""

from collections import deque
from heapq import heapify, heappop, heappush

from interlock.core.passing import Pass
from interlock.core.routing import dispatch, pick
from interlock.core.state import Lane, SchedulerState
from interlock.model.run import Run
from interlock.model.state import State

SWEEP_AT = 1000
"""dead entries below which a queue is not worth sweeping"""


def enqueue(state: SchedulerState, run: Run) -> None:
    queues = state.lanes[run.lane].queues
    key = state.route_key(run)
    queue = queues.get(key)
    if queue is None:
        queue = queues[key] = deque()
    queue.append((state.arrival(), run))


def requeue(state: SchedulerState, run: Run, order: int) -> None:
    """Back to its place in the queue, for a run that a worker never began."""
    queue = state.lanes[run.lane].queues.setdefault(state.route_key(run), deque())
    place = next((place for place, entry in enumerate(queue) if entry[0] > order), len(queue))
    queue.insert(place, (order, run))


def fill(p: Pass) -> None:
    """Hand out as many waiting runs as lanes and workers take, in order of arrival."""
    if p.state.draining:
        return
    for lane in p.state.lanes.values():
        if lane.queues:
            _fill_lane(p, lane)


def _fill_lane(p: Pass, lane: Lane) -> None:
    if lane.dead > SWEEP_AT and lane.dead > lane.waiting():
        _sweep(lane)
    heads = [(queue[0][0], key) for key, queue in lane.queues.items() if queue]
    heapify(heads)
    while heads and len(lane.holding) < lane.limit:
        _, key = heappop(heads)
        queue = lane.queues[key]
        # Runs of one key in a row are the common case: go on until another key has the older run, or no worker is left.
        until = heads[0][0] if heads else None
        while queue and len(lane.holding) < lane.limit:
            order, run = queue[0]
            if run.state is not State.SCHEDULED:
                queue.popleft()
                lane.dead -= 1
                continue
            if until is not None and order > until:
                heappush(heads, (order, key))
                break
            worker = pick(p.state, key)
            if worker is None:
                break
            queue.popleft()
            dispatch(p, run, worker, key[1], order)
        if not queue:
            del lane.queues[key]


def _sweep(lane: Lane) -> None:
    for key, queue in list(lane.queues.items()):
        alive: deque[tuple[int, Run]] = deque(entry for entry in queue if entry[1].state is State.SCHEDULED)
        if alive:
            lane.queues[key] = alive
        else:
            del lane.queues[key]
    lane.dead = 0
