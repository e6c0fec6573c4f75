"""Lanes: which runs wait and which start. Only the states of runs decide who holds a slot."""

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from operator import itemgetter

from interlock.core.routing import dispatch, pick
from interlock.core.state import Lane, RouteKey, SchedulerState
from interlock.core.transition import Pass
from interlock.model.run import Run

SWEEP_AT = 1000  # dead entries that a lane keeps before a sweep


def enqueue(state: SchedulerState, run: Run) -> None:
    state.lanes[run.lane].add(state.route_key(run), state.arrival(), run)


def requeue(state: SchedulerState, run: Run, order: int) -> None:
    """Return a run that its worker never began to its place in the queue."""
    lane, key = state.lanes[run.lane], state.route_key(run)
    queue = lane.queues.setdefault(key, deque())
    place = next((place for place, entry in enumerate(queue) if entry[0] > order), len(queue))
    queue.insert(place, (order, run))
    if run.id in lane.moved:
        lane.moved[run.id] = order
    if place == 0:
        heappush(lane.heads, (order, key))


def adopt_limits(p: Pass, limits: Mapping[str, int]) -> None:
    """Add new lanes, change limits, and move the live runs of removed lanes to main, as a restart does. A lowered limit
    stops nothing; the lane starts nothing until it has room."""
    lanes = p.state.lanes
    for name, limit in limits.items():
        lanes.setdefault(name, Lane(name, limit)).limit = limit
    gone = [lanes.pop(name) for name in list(lanes) if limits and name not in limits]
    moved = [run for run in p.state.runs.values() if run.lane not in lanes] if gone else []
    for lane in gone:
        count = sum(run.lane == lane.name for run in moved)
        p.warnings.append(f"lane {lane.name!r} is no longer declared: {count:,} live runs use main")
        _merge(lanes["main"], lane)
    for run in moved:
        run.lane = "main"
        p.touch(run)


def _merge(main: Lane, gone: Lane) -> None:
    """Take over the runs of a lane; waiting ones keep their order of arrival."""
    main.holding |= gone.holding
    main.moved |= gone.moved
    main.dead += gone.dead
    for key, queue in ((key, queue) for key, queue in gone.queues.items() if queue):
        merged = main.queues[key] = deque(sorted([*main.queues.get(key, ()), *queue], key=itemgetter(0)))
        heappush(main.heads, (merged[0][0], key))


def fill(p: Pass) -> None:
    """Dispatch as many waiting runs as lanes and workers take, in order of arrival. When workers are short, the lane
    that uses the least of its limit goes first, so that no lane's backlog delays another."""
    if p.state.draining:
        return
    for lane in p.state.lanes.values():
        if lane.dead > SWEEP_AT and lane.dead > lane.waiting():
            _sweep(lane)
    waiting = [lane for lane in p.state.lanes.values() if lane.heads and len(lane.holding) < lane.limit]
    for lane in sorted(waiting, key=lambda lane: (len(lane.holding) / lane.limit, lane.heads[0][0])):
        _fill_lane(p, lane)


def _fill_lane(p: Pass, lane: Lane) -> None:
    heads, blocked = lane.heads, []
    while heads and len(lane.holding) < lane.limit:
        head = heappop(heads)
        if not _is_head(lane, head):
            continue
        # Runs of one key in a row are common: continue until another key has an older run, or no worker is left.
        if not _hand_out(p, lane, head[1], heads[0][0] if heads else None):
            blocked.append((lane.queues[head[1]][0][0], head[1]))
            if not any(worker.has_room for worker in p.state.workers.values()):
                break
    for head in blocked:
        heappush(heads, head)


def _is_head(lane: Lane, head: tuple[int, RouteKey]) -> bool:
    """Return whether the head is the first waiting run of its queue; if not, push that one."""
    order, key = head
    queue = lane.queues.get(key)
    if not queue or queue[0][0] != order:
        return False
    if lane.waits(queue[0]):
        return True
    _next_alive(lane, key, queue)
    if queue:
        heappush(lane.heads, (queue[0][0], key))
    return False


def _next_alive(lane: Lane, key: RouteKey, queue: "deque[tuple[int, Run]]") -> None:
    """Drop dead entries from the front, and the queue if nothing is left."""
    while queue and not lane.waits(queue[0]):
        queue.popleft()
        lane.dead -= 1
    if not queue:
        del lane.queues[key]


def _hand_out(p: Pass, lane: Lane, key: RouteKey, until: int | None) -> bool:
    """Dispatch the runs of one queue that are older than `until`; return False if no worker takes the next."""
    queue = lane.queues[key]
    while queue:
        order, run = queue[0]
        if len(lane.holding) >= lane.limit or (until is not None and order > until):
            heappush(lane.heads, (order, key))
            return True
        worker = pick(p.state, key)
        if worker is None:
            return False
        queue.popleft()
        dispatch(p, run, worker, key[1], order)
        _next_alive(lane, key, queue)
    lane.queues.pop(key, None)
    return True


def _sweep(lane: Lane) -> None:
    for key, queue in list(lane.queues.items()):
        alive = deque(entry for entry in queue if lane.waits(entry))
        if alive:
            lane.queues[key] = alive
        else:
            del lane.queues[key]
    lane.heads = [(queue[0][0], key) for key, queue in lane.queues.items()]
    heapify(lane.heads)
    lane.dead = 0
