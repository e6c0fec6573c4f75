"""Lanes: which runs wait and which start. Only the states of runs decide who holds a slot."""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, islice
from operator import itemgetter

from interlock.core.lanes import gates
from interlock.core.lanes.gate import LANE_RATE, RateGate, limit_names
from interlock.core.lanes.gates import gates_of
from interlock.core.lanes.lane import NOWHERE, Entry, Head, Lane, Line, RouteKey, SlotKind
from interlock.core.routing.dispatch import dispatch, keys_of, line_key, park, route_key, unpark
from interlock.core.routing.roster import PREFERRED_WORKER, Demand
from interlock.core.sessions.session import Sessions
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows.flow import Flows
from interlock.fields.safe_text import counted
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.lane import LaneStatus
from interlock.model.run import Now, Run
from interlock.model.state import State

ROOMS = (SlotKind.SHARED,), (SlotKind.SHARED, SlotKind.OWN, SlotKind.SUSPECT)
"""without and with places outside the shared process"""
MOST_AHEAD = 10_000  # runs ahead of one that an explanation counts
MOST_LOOKS = 2 * MOST_AHEAD


def enqueue(state: SchedulerState, run: Run, order: int | None = None) -> None:
    """Let a run wait in its lane: as the last one, at the place it had before its worker gave it back, or as a step at
    the place of its workflow."""
    if order is None:
        order = state.arrival() if run.parent is None else state.of(Flows).order(state, run)
    state.lanes.mark_startable(run.lane).add(*keys_of(state, run), order, run)


def fill(p: Pass) -> None:
    """Dispatch as many waiting runs as lanes and workers take. When workers are short, the lane that uses the least of
    its limit goes first, so that no lane's backlog delays another. Only lanes that can start a run are looked at."""
    if p.state.draining:
        return
    p.state.roster.settle(p.rng)
    while True:
        tries = gates.let_queues_try(p)
        tries = unpark(p) or tries
        _fill_lanes(p)
        if p.state.of(Flows).starting:
            # Workflows have started: their first steps may start as well.
            p.settle()
            p.go_on()
        elif not tries and not p.state.roster.open:
            return


def _fill_lanes(p: Pass) -> None:
    state = p.state
    for lane in state.lanes.startable.values():
        _offer(state, lane)
    state.lanes.startable.clear()
    left = []
    while offers := [heap for room, heap in enumerate(state.lanes.offers) if heap and _has_room(p, room)]:
        offer = heappop(min(offers))
        lane = state.lanes[offer[2]]
        if offer == lane.offer:
            lane.offer = None
            if _fill_lane(p, lane):
                left.append(lane)
    for lane in left:
        _offer(state, lane)


def _has_room(p: Pass, wanted: int) -> bool:
    """Return whether a run of a lane with this `wanted_room` may start, as far as workers go."""
    return wanted == len(ROOMS) or p.state.roster.has_room(ROOMS[wanted], p.rng)


def _offer(state: SchedulerState, lane: Lane) -> None:
    """Put a lane that has a free slot and a waiting run among those that a worker may serve."""
    lane.sweep()
    line = lane.next_line() if lane.has_slot else None
    offer = None if line is None else (len(lane.holding) / lane.limit, line.heads[0][0], lane.name, lane.wanted_room)
    before, lane.offer = lane.offer, offer
    if offer is not None and offer != before:
        heap = state.lanes.offers[lane.wanted_room]
        heappush(heap, offer)
        if len(heap) > 100 + 4 * len(state.lanes):  # most are stale
            offers = (other.offer for other in state.lanes.values())
            heap[:] = sorted(offer for offer in offers if offer is not None and offer[3] == lane.wanted_room)


def _fill_lane(p: Pass, lane: Lane) -> bool:
    """Return False if its rate is used up: it is looked at again when that has room."""
    aside: list[tuple[Line, Head]] = []  # heads that no worker takes
    rate = None if lane.rate is None else p.state.gates.rate(LANE_RATE + lane.name, lane.rate, lane.burst)
    before, has_rate = lane.starts, True
    while len(lane.holding) < lane.limit and (line := lane.next_line()) is not None:
        room = lane.limit if rate is None else rate.room(p.elapsed)
        if rate is not None and not room:
            rate.set_alarm(p, rate.opens_at)
            has_rate = False
            break
        started = _hand_out(p, lane, line, 1 if len(lane.lines) > 1 else room, aside)
        if started:
            lane.count(line, started, started)
            if rate is not None:
                rate.take(p, started)
        elif not _has_room(p, lane.wanted_room):
            break
    for line, head in aside:
        lane.add_head(line, head)
    if lane.starts > before:
        lane.note_starts(lane.starts - before, p.elapsed)
    return has_rate


def _hand_out(p: Pass, lane: Lane, line: Line, most: int, aside: list[tuple[Line, Head]]) -> int:
    """Dispatch up to `most` runs of a line's first queue, until another queue has an older one; return their number."""
    _, key = heappop(line.heads)
    until = line.heads[0][0] if line.heads else None
    queue, started, roster = line.queues[key], 0, p.state.roster
    demand = None if key[0] == NOWHERE else roster.demand_of(key, line.key[1], p.rng)
    passing = gates_of(p.state, queue[0][1], key) if key[2] else ()
    while True:
        order, run = queue[0]
        if started == most or len(lane.holding) >= lane.limit or (until is not None and order > until):
            lane.add_head(line, (order, key))
            return started
        for gate in passing:
            if not gate.room(p.elapsed):
                gate.park(p, lane, line, key, order)
                return started
        worker = None
        if demand is not None:
            # No part of the key: anybody can prefer a worker that nobody knows.
            labels = None if run.facets is None else run.facets.labels
            preferred = "" if labels is None else labels.get(PREFERRED_WORKER, "")
            worker = roster.pick(demand, key[1], p.rng, preferred)
            if worker is None:
                _set_aside(p, demand, lane, line, (order, key), run, aside)
                return started
            demand.tries.clear()
        queue.popleft()
        for gate in passing:
            gate.take(p)
        if worker is not None:
            dispatch(p, run, worker, key[1], order)
        else:
            p.move(run, State.UNDER_WAY, "started")
            p.state.of(Flows).starting.append((run, order))
        started += 1
        if not lane.drop_dead(line, key, queue):
            return started


def _set_aside(
    p: Pass, demand: Demand, lane: Lane, line: Line, head: Head, run: Run, aside: list[tuple[Line, Head]]
) -> None:
    """Let a queue wait whose first run no worker takes now."""
    lack = p.state.roster.lack(demand)
    if lack is None and not p.state.roster.has_room(ROOMS[lane.has_apart], p.rng):
        aside.append((line, head))  # all are busy: the next in turn gets the first free slot
    else:
        park(p, demand, lack, lane, line, head, run)


def waits_in_lane(state: SchedulerState, run: Run) -> bool:
    return run.state is State.SCHEDULED and not state.of(Sessions).keeps(run)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain why a run that waits in its lane has not started, as far as lane and gates go."""
    if not waits_in_lane(state, run):
        return
    lane = state.lanes[run.lane]
    if state.draining:
        yield Reason(kind=ReasonKind.DRAINING, text="waits: the scheduler is draining and starts nothing")
    if lane.status is not LaneStatus.OPEN:
        text = f"waits: lane {lane.name} is {lane.status}"
        yield Reason(kind=ReasonKind.LANE_PAUSED, text=text, name=lane.name)
    if len(lane.holding) >= lane.limit:
        text = f"waits for a slot of lane {lane.name}: {len(lane.holding):,} active, {lane.limit:,} allowed"
        holders = list(islice(lane.holding, MOST_NAMED))
        yield Reason(kind=ReasonKind.LANE_FULL, text=text, name=lane.name, holders=holders)
    gate = state.gates.get(LANE_RATE + lane.name)
    if lane.rate is not None and isinstance(gate, RateGate):
        yield from gate.explain(lane.rate, lane.burst, now)
    yield from gates.explain(state, run, now)


def explain_turn(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain which runs of its lane start before a run, which may take a look at many."""
    if not waits_in_lane(state, run):
        return
    lane = state.lanes[run.lane]
    ahead, first = _ahead(lane, lane.lines[line_key(state, run)], run, route_key(state, run))
    if ahead:
        least = "at least " if ahead == MOST_AHEAD else ""
        text = f"has {least}{counted(ahead, 'run')} ahead of it in lane {lane.name}"
        yield Reason(kind=ReasonKind.LANE_TURN, text=text, name=lane.name, place=ahead + 1, ahead=first)


def _ahead(lane: Lane, own: Line, run: Run, key: RouteKey) -> tuple[int, list[str]]:
    """Return the number of runs that start before this one if nothing changes and all can start, and the first few of
    them. Leave ageing aside, and stop at `MOST_AHEAD`."""
    older = _first(lane, own, MOST_AHEAD + 1, run, key)
    own_order = next((order for order, other in older if other is run), None)
    if own_order is None:
        return MOST_AHEAD, [other.id for _, other in older[:MOST_NAMED]]
    rank, turn, count = own.key[0], own.turn + len(older) - 1, len(older) - 1
    named = [(rank, own.turn + at, *entry) for at, entry in enumerate(older[:-1][:MOST_NAMED])]
    for line in lane.lines.values():
        if line is own or line.key[0] > rank or count >= MOST_AHEAD:
            continue
        if line.key[0] < rank:
            found, most = _first(lane, line, MOST_NAMED), line.waiting
        else:
            # One run a turn: the tenant that has had fewer goes first, then the run that arrived first.
            gap = turn - line.turn
            found = _first(lane, line, max(0, min(gap + 1, MOST_AHEAD)))
            most = len(found) - (len(found) > gap >= 0 and found[gap][0] > own_order)
        count += most
        named += [(line.key[0], line.turn + at, *entry) for at, entry in enumerate(found[: min(most, MOST_NAMED)])]
    return min(count, MOST_AHEAD), [other.id for *_, other in sorted(named, key=itemgetter(0, 1, 2))[:MOST_NAMED]]


def _first(lane: Lane, line: Line, most: int, until: Run | None = None, key: RouteKey | None = None) -> list[Entry]:
    """Return the first waiting runs of a line in order of arrival, none after `until`, whose queue has this key. Look
    at no more than `MOST_LOOKS` entries, so that a question cannot hold up the scheduler."""
    found: list[Entry] = []
    last = None
    own = None if key is None else line.queues.get(key)
    others = (queue for queue in line.queues.values() if queue is not own)
    for queue in others if own is None else chain((own,), others):
        for entry in islice(filter(lane.waits, queue), most):
            if last is not None and entry[0] > last:
                break
            found.append(entry)
            if entry[1] is until:
                last = entry[0]
        if len(found) > MOST_LOOKS:
            break
    found.sort(key=itemgetter(0))
    return [entry for entry in found if last is None or entry[0] <= last][:most]


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
    for run in ended:
        p.state.lanes[run.lane].moved.pop(run.id, None)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    state.lanes[run.lane].holding[run.id] = run
    _take_limits(state, run)
