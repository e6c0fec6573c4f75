"""A lane: a bound on how many runs execute at once, and the runs that wait for it.

Who is next: the highest priority; then the tenant that has had the fewest turns; then the first to arrive. But every
`AGEING`th start of a lane goes to the run that has waited longest. So a run with n older ones before it in its lane
starts within `AGEING * (n + 1)` starts, whatever its priority and tenant, if a worker takes it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from heapq import heappop, heappush, heapreplace
from math import exp
from operator import itemgetter
from typing import Any

import msgspec

from interlock.model.lane import LaneMemo, LaneSpec, LaneStatus
from interlock.model.run import Run
from interlock.model.state import SCHEDULED

AGEING = 8
PACE_SPAN = 60.0  # seconds over which recent starts count
SWEEP_AT = 1000  # dead entries that a lane keeps before a sweep


class SlotKind(IntEnum):
    """The place on a worker where a run executes. Each kind has its own slots."""

    SHARED = 0  # in the shared process
    OWN = 1  # in its own process, because its job demands one
    SUSPECT = 2  # in its own process, because its last process died
    TURN = 3  # in the process for turns of workflows


SHARED = SlotKind.SHARED  # the kind of most runs, under a plain name as their states in `model/state.py`

NOWHERE = "@"  # in place of the job in the key of workflows, which have no worker
Requirements = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], str]
"""what a run demands of its worker: topic, capabilities, labels and preferred pool"""
RouteKey = tuple[str, SlotKind, tuple[str, ...], Requirements]
"""job id, room, names of gates and needs: runs with equal keys can go to the same workers at the same time"""
LineKey = tuple[int, str]  # priority and tenant
Entry = tuple[int, Run]  # order of arrival, and the run
Offer = tuple[float, int, str, int]  # used share of a lane's limit, order of its first run, name, `wanted_room`
Head = tuple[int, RouteKey]  # order of the first entry of a queue, and the key of the queue


class Line(msgspec.Struct, eq=False):
    """The waiting runs of one priority and tenant: at least one."""

    key: LineKey
    turn: int  # its turns so far; a new line begins with that of the latest start
    waiting: int = 0
    queues: dict[RouteKey, deque[Entry]] = {}  # in order of arrival; may contain dead entries
    heads: list[Head] = []  # heap with the first entry of each queue; may contain stale ones


class Lane(msgspec.Struct, eq=False):
    name: str
    limit: int = 1
    rate: float | None = None  # starts a second
    burst: int = 1
    status: LaneStatus = LaneStatus.OPEN
    holding: dict[str, Run] = {}  # runs that hold a slot; their number is the number of used slots
    lines: dict[LineKey, Line] = {}
    # Two heaps of lines, in use while there are several. An entry is never greater than the true one of its line,
    # which takes its place when the entry comes first.
    turns: list[tuple[int, int, int, LineKey]] = []  # priority, turn, order of the first run
    ages: list[tuple[int, LineKey]] = []  # order of the first run
    clocks: dict[int, int] = {}  # priority → turn of the latest start
    starts: int = 0
    waiting: int = 0
    dead: int = 0  # entries of runs that no longer wait; they stay until met or swept
    has_apart: bool = False  # whether a run may wait that needs its own process
    has_workflow: bool = False  # whether a workflow may wait
    offer: Offer | None = None  # its place among the lanes that can start a run
    moved: dict[str, int] = {}  # returned run → its current order; its other entries are dead
    recent: float = 0.0  # starts that count, as of the latest one
    latest: float = 0.0  # elapsed time of the latest start
    earliest: float | None = None  # elapsed time of the first start

    @property
    def wanted_room(self) -> int:
        """Return which places its runs may need: 0 in shared processes, 1 in any, 2 perhaps none."""
        return 2 if self.has_workflow else self.has_apart

    @property
    def has_slot(self) -> bool:
        """Whether a run may start as far as limit and status go."""
        return len(self.holding) < self.limit and self.status is LaneStatus.OPEN

    def add(self, line_key: LineKey, key: RouteKey, order: int, run: Run) -> None:
        """Add a run at its place: the last one, or an earlier one for a run that its worker never began."""
        line = self.lines.get(line_key) or self.open(line_key)
        queue = line.queues.get(key)
        if queue is None:
            queue = line.queues[key] = deque()
            self._note_room(key)
        if not queue or order < queue[0][0]:
            queue.appendleft((order, run))
            self.add_head(line, (order, key))
        elif queue[-1][0] <= order:
            queue.append((order, run))
        else:
            queue.insert(next(index for index, entry in enumerate(queue) if entry[0] > order), (order, run))
        line.waiting += 1
        self.waiting += 1
        if run.id in self.moved:
            self.moved[run.id] = order

    def _note_room(self, key: RouteKey) -> None:
        self.has_apart = self.has_apart or key[1] is not SlotKind.SHARED
        self.has_workflow = self.has_workflow or key[0] == NOWHERE

    def open(self, key: LineKey) -> Line:
        """Add a line."""
        line = self.lines[key] = Line(key, self.clocks.get(key[0], 0))
        if len(self.lines) == 2:
            self._rebuild_heaps()
        return line

    def add_head(self, line: Line, head: Head) -> None:
        heappush(line.heads, head)
        if len(self.lines) > 1 and line.heads[0] is head:
            heappush(self.turns, (line.key[0], line.turn, head[0], line.key))
            heappush(self.ages, (head[0], line.key))
            if len(self.turns) > 100 + 4 * len(self.lines):
                self._rebuild_heaps()

    def _rebuild_heaps(self) -> None:
        known = [line for line in self.lines.values() if line.heads]
        self.turns = sorted((line.key[0], line.turn, line.heads[0][0], line.key) for line in known)
        self.ages = sorted((line.heads[0][0], line.key) for line in known)

    def requeue(self, line: Line, key_of: Callable[[Run], RouteKey]) -> None:
        """Put the runs of a line into the queues that they belong to now."""
        every = sorted((entry for queue in line.queues.values() for entry in queue), key=itemgetter(0))
        alive = [entry for entry in every if self.waits(entry)]
        self.dead -= len(every) - len(alive)
        line.heads.clear()
        line.queues = {}
        for entry in alive:
            line.queues.setdefault(key_of(entry[1]), deque()).append(entry)
        for key, queue in line.queues.items():
            self._note_room(key)
            self.add_head(line, (queue[0][0], key))

    def waits(self, entry: Entry) -> bool:
        """Return whether the entry is the current place of a waiting run."""
        order, run = entry
        return run.state is SCHEDULED and (not self.moved or self.moved.get(run.id, order) == order)

    def remove(self, line_key: LineKey, run: Run) -> None:
        """Note that a run waits no longer; its entry is dead."""
        self.dead += 1
        self.moved[run.id] = 0
        self.count(self.lines[line_key], 0, 1)

    def count(self, line: Line, started: int, left: int) -> None:
        """Count the starts of a line, and the runs that no longer wait in it. Remove it if none does."""
        if started:
            line.turn += started
            self.clocks[line.key[0]] = line.turn - 1
            self.starts += started
        line.waiting -= left
        self.waiting -= left
        if not line.waiting:
            self.dead -= sum(map(len, line.queues.values()))
            del self.lines[line.key]
            self.has_apart = self.has_apart and bool(self.lines)
            self.has_workflow = self.has_workflow and bool(self.lines)

    def queues(self) -> Iterator[deque[Entry]]:
        for line in self.lines.values():
            yield from line.queues.values()

    def first(self, line: Line) -> Head | None:
        """Return the head of the first waiting run of a line, after dropping stale heads and dead entries."""
        heads = line.heads
        while heads:
            order, key = heads[0]
            queue = line.queues.get(key)
            if queue is None or queue[0][0] != order:
                heappop(heads)
            elif self.waits(queue[0]):
                return heads[0]
            elif self.drop_dead(line, key, queue):
                heapreplace(heads, (queue[0][0], key))
            else:
                heappop(heads)
        return None

    def drop_dead(self, line: Line, key: RouteKey, queue: deque[Entry]) -> bool:
        """Drop dead entries from the front, and the queue if nothing is left; return whether something is."""
        while queue:
            if self.waits(queue[0]):
                return True
            queue.popleft()
            self.dead -= 1
        del line.queues[key]
        return False

    def next_line(self) -> Line | None:
        """Return the line that starts a run next; None if no run waits, or all heads are set aside."""
        if len(self.lines) == 1:
            (only,) = self.lines.values()
            return None if self.first(only) is None else only
        ageing = self.starts % AGEING == AGEING - 1
        heap: list[Any] = self.ages if ageing else self.turns
        while heap:
            line = self.lines.get(heap[0][-1])
            head = None if line is None else self.first(line)
            if line is None or head is None:
                heappop(heap)
                continue
            true = (head[0], line.key) if ageing else (line.key[0], line.turn, head[0], line.key)
            if heap[0] == true:
                return line
            heapreplace(heap, true)
        return None

    def note_starts(self, started: int, elapsed: float) -> None:
        self.recent = self.recent * exp((self.latest - elapsed) / PACE_SPAN) + started
        self.latest = elapsed
        if self.earliest is None:
            self.earliest = elapsed

    def pace(self, elapsed: float) -> float:
        """Return the recent starts a second; 0 if nobody can know."""
        if self.earliest is None or elapsed - self.earliest < 1.0:
            return 0.0
        seconds = PACE_SPAN * (1.0 - exp((self.earliest - elapsed) / PACE_SPAN))
        return self.recent * exp((self.latest - elapsed) / PACE_SPAN) / seconds

    def sweep(self) -> None:
        """Drop the dead entries once they are many."""
        if self.dead <= SWEEP_AT or self.dead <= self.waiting:
            return
        for line in self.lines.values():
            alive = {key: deque(filter(self.waits, queue)) for key, queue in line.queues.items()}
            line.queues = {key: queue for key, queue in alive.items() if queue}
            line.heads = sorted((queue[0][0], key) for key, queue in line.queues.items())
        self._rebuild_heaps()
        self.dead = 0


class Lanes(dict[str, Lane]):
    """The lanes that are declared or were created, by name, with the values that count now."""

    def __init__(self, declared: Mapping[str, LaneSpec]) -> None:
        self.declared = declared
        self.memos: dict[str, LaneMemo] = {}
        self.startable: dict[str, Lane] = {}  # those that may be able to start a run since the last look
        # Heaps of those that can, by `wanted_room`.
        self.offers: tuple[list[Offer], ...] = [], [], []
        self.draining: set[str] = set()
        self.settle()

    def settle(self) -> list[Lane]:
        """Follow the declarations and memos; return the lanes that are removed."""
        before = dict(self)
        self.clear()
        created = [name for name, memo in self.memos.items() if memo.created]
        for name in dict.fromkeys([*self.declared, *created]):
            lane = self[name] = before.pop(name) if name in before else Lane(name)
            memo = self.memos.get(name) or LaneMemo()
            spec = memo.spec_over(self.declared.get(name))
            lane.limit, lane.rate, lane.burst, lane.status = spec.limit, spec.rate, spec.burst, memo.status
        self.draining = {name for name, lane in self.items() if lane.status is LaneStatus.DRAINING}
        self.startable = dict(self)
        for heap in self.offers:
            heap.clear()
        for lane in self.values():
            lane.offer = None
        return list(before.values())

    def mark_startable(self, name: str) -> Lane:
        """Return a lane that may be able to start a run now."""
        lane = self.startable[name] = self[name]
        return lane
