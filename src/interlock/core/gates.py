"""Gates: the rate of a lane or a job, and the limit of a job for each value of a key.

A queue of a lane waits at the first closed gate, while others pass by. A gate that opens lets one of its queues try
again: the one with the highest priority, then the oldest. Nothing polls.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from interlock.core.lane import Lane, Line, LineKey, RouteKey
from interlock.model.run import Run

if TYPE_CHECKING:
    from interlock.core.transition import Pass


class Gate(msgspec.Struct, eq=False, kw_only=True):
    name: str
    parked: list[tuple[int, int, str, LineKey, RouteKey]] = []  # heap: priority, order, lane, line and queue
    known: set[tuple[str, LineKey, RouteKey]] = set()  # the queues in it

    def park(self, lane: Lane, line: Line, key: RouteKey, order: int) -> None:
        place = (lane.name, line.key, key)
        if place not in self.known:
            self.known.add(place)
            heappush(self.parked, (line.key[0], order, *place))

    def let_one_try(self, lanes: dict[str, Lane]) -> bool:
        """Put one queue back into its lane; return False if none waits here."""
        while self.parked:
            _, _, lane_name, line_key, key = heappop(self.parked)
            self.known.discard((lane_name, line_key, key))
            lane = lanes.get(lane_name)
            line = None if lane is None else lane.lines.get(line_key)
            if lane is not None and line is not None and key in line.queues:
                lane.add_head(line, (line.queues[key][0][0], key))
                return True
        return False


class RateGate(Gate, eq=False, kw_only=True):
    """At most `burst + T / interval` starts in any span of time T."""

    interval: float
    burst: int
    due: float = 0.0  # elapsed time at which the starts so far are paid for, one every `interval`
    has_alarm: bool = False

    @property
    def opens_at(self) -> float:
        return self.due - (self.burst - 1) * self.interval

    def take(self, p: "Pass") -> None:
        self.due = max(self.due, p.elapsed) + self.interval
        p.batch.memos[self.name] = msgspec.json.encode(p.now + self.due - p.elapsed)


class LimitGate(Gate, eq=False, kw_only=True):
    most: int
    holders: set[str] = set()  # runs that execute
