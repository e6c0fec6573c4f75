"""Gates: the rate of a lane or a job, and the limit of a job for each value of an argument.

A queue of a lane waits at the first closed gate, while others pass by. A gate that opens lets its queues try again, as
many as it has room for: the highest priority first, then the oldest. Nothing polls.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from interlock.core.lane import Lane, Line, LineKey, RouteKey
from interlock.model.duration import span
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.job import Job
from interlock.model.run import Now, Run

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass

GATE = "gate"  # the kind of a span that ends when a rate has room again
RATE = "rate:"  # prefix of the names of rates, and of their memos
LANE_RATE = "rate:lane:"


def gate_names(job: Job, run: Run) -> tuple[str, ...]:
    rate = (f"{RATE}job:{job.id}",) if job.rate is not None else ()
    return (*rate, limit_name(run)) if job.limit is not None else rate


def limit_name(run: Run) -> str:
    return f"limit:{run.job_id}:{None if run.facets is None else run.facets.limit_value}"


class Gate(msgspec.Struct, eq=False, kw_only=True):
    name: str
    parked: list[tuple[int, int, str, LineKey, RouteKey]] = []  # heap: priority, order, lane, line and queue
    known: set[tuple[str, LineKey, RouteKey]] = set()  # the queues in it

    def room(self, elapsed: float) -> int:
        """Return how many runs may start now."""
        raise NotImplementedError

    def take(self, p: "Pass", starts: int = 1) -> None:
        """Note starts."""

    def park(self, p: "Pass", lane: Lane, line: Line, key: RouteKey, order: int) -> None:
        place = (lane.name, line.key, key)
        if place not in self.known:
            self.known.add(place)
            heappush(self.parked, (line.key[0], order, *place))

    def let_try(self, state: "SchedulerState", most: int) -> None:
        """Put queues back into their lanes, until `most` of them are in lanes with a free slot."""
        while self.parked and most > 0:
            _, _, lane_name, line_key, key = heappop(self.parked)
            self.known.discard((lane_name, line_key, key))
            lane = state.lanes.get(lane_name)
            line = None if lane is None else lane.lines.get(line_key)
            if lane is not None and line is not None and key in line.queues:
                state.stir(lane_name).add_head(line, (line.queues[key][0][0], key))
                most -= lane.has_slot


class RateGate(Gate, eq=False, kw_only=True):
    """At most `burst + T / interval` starts in any span of time T, restarts included: `due` is stored with each."""

    interval: float = 0.0
    burst: int = 1
    due: float = 0.0  # elapsed time at which all starts so far are paid for, one every `interval`
    has_alarm: bool = False

    def room(self, elapsed: float) -> int:
        # More than a whole burst is owed only if the wall clock was set back before a restart.
        self.due = min(self.due, elapsed + self.burst * self.interval)
        return max(0, min(self.burst, int((elapsed - self.due) / self.interval + self.burst + 1e-9)))

    @property
    def opens_at(self) -> float:
        return self.due - (self.burst - 1) * self.interval

    def explain(self, rate: float, burst: int, now: Now) -> Iterator[Reason]:
        """Explain a wait for this rate, if it lets nothing start now. Change nothing, as `room` may."""
        due = min(self.due, now.elapsed + burst / rate)
        left = due - (burst - 1) / rate - now.elapsed
        if left > 1e-9 / rate:
            what, _, name = self.name.removeprefix(RATE).partition(":")
            text = f"waits for the rate of {what} {name}, which allows the next start in {span(left)}"
            yield Reason(kind=ReasonKind.RATE, text=text, name=self.name, at=now.wall + left)

    def take(self, p: "Pass", starts: int = 1) -> None:
        self.due = max(self.due, p.elapsed) + starts * self.interval
        p.batch.memos[self.name] = msgspec.json.encode(p.now + self.due - p.elapsed)

    def park(self, p: "Pass", lane: Lane, line: Line, key: RouteKey, order: int) -> None:
        super().park(p, lane, line, key, order)
        self.set_alarm(p)

    def set_alarm(self, p: "Pass") -> None:
        if not self.has_alarm:
            self.has_alarm = True
            heappush(p.state.spans, (self.opens_at, p.state.arrival(), self.name, GATE, 0.0))


class LimitGate(Gate, eq=False, kw_only=True):
    most: int = 1
    holders: set[str] = set()  # runs that execute

    def room(self, elapsed: float) -> int:
        return max(0, self.most - len(self.holders))

    def explain(self, most: int) -> Iterator[Reason]:
        if len(self.holders) >= most:
            _, job_id, value = self.name.split(":", 2)
            text = f"waits for the limit of job {job_id} for {value!r}: {len(self.holders):,} active, {most:,} allowed"
            holders = list(islice(sorted(self.holders), MOST_NAMED))
            yield Reason(kind=ReasonKind.LIMIT, text=text, name=self.name, holders=holders)


def ring(p: "Pass", name: str) -> None:
    """Open a rate whose time has come."""
    gate = p.state.gates.get(name)
    if isinstance(gate, RateGate):
        gate.has_alarm = False
        p.state.open_gates[name] = gate
        if name.startswith(LANE_RATE) and (lane := name.removeprefix(LANE_RATE)) in p.state.lanes:
            p.state.stir(lane)


def let_queues_try(p: "Pass") -> None:
    """Let queues behind open gates try again, until these have no room or no queue."""
    state = p.state
    for gate in list(state.open_gates.values()):
        room = gate.room(p.elapsed)
        gate.let_try(state, room)
        if not room or not gate.parked:
            del state.open_gates[gate.name]
        if isinstance(gate, LimitGate) and not gate.holders and not gate.parked:
            del state.gates[gate.name]
        elif isinstance(gate, RateGate) and not room and gate.parked:
            gate.set_alarm(p)


def explain(state: "SchedulerState", run: Run, now: Now) -> Iterator[Reason]:
    """Explain which gates of the run's job are closed."""
    job = state.job_of(run)
    for gate in map(state.gates.get, gate_names(job, run)):
        if isinstance(gate, RateGate) and job.rate is not None:
            yield from gate.explain(job.rate, job.burst, now)
        elif isinstance(gate, LimitGate) and job.limit is not None:
            yield from gate.explain(job.limit.max)
