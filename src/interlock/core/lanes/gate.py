"""Gates: the rate of a lane, a job, a session or a tenant, and limits: of a job for each value of an argument, of a
rule of the policy, of a tenant (`core/tenants/tenant.py`).

A queue of a lane waits at the first closed gate, while others pass by. A gate that opens lets its queues try again, as
many as it has room for: the highest priority first, then the oldest. Nothing polls.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

import msgspec

from interlock.core.lanes.lane import Lane, Line, LineKey, RouteKey
from interlock.fields.duration import span
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.run import Now, Run

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass

GATE = "gate"  # the kind of a span that ends when a rate has room again, or may be forgotten
RATE = "rate:"  # prefix of the names of rates, and of their memos
LANE_RATE = "rate:lane:"
TENANT_LIMIT = "tenant:"  # prefix of the names of tenants that are declared
POLICY_LIMIT = "policy:"  # prefix of the names of rules that limit how many runs execute at once
SESSION_RATE = "rate:session:"
TENANT_RATE = "rate:tenant:"
VALUE_RATE = "rate:limit:"  # prefix of the names of rates of a job for each value of an argument
PASSING = (SESSION_RATE, TENANT_RATE, VALUE_RATE)  # rates with any number of names: idle ones are forgotten
UNLIMITED = 10**9  # limit of a job that bounds only the rate of a value, and of a tenant without `max_running`
REST = 60.0  # seconds that such a rate is kept after all its starts are paid for


def session_rate(tenant: str, session: str) -> str:
    return f"{SESSION_RATE}{tenant}:{session}"


def limit_names(run: Run) -> list[str]:
    """Return the limits that a run counts for: of its job for the value of an argument, and of the rule of the policy
    that allowed it."""
    facets = run.facets
    if facets is None:
        return []
    found = [] if facets.limit_value is None else [f"limit:{run.job_id}:{facets.limit_value}"]
    if facets.policy is not None and run.limits.max_concurrent is not None:
        found.append(POLICY_LIMIT + facets.policy.rule)
    return found


class Gate(msgspec.Struct, eq=False, kw_only=True):
    name: str
    parked: list[tuple[int, int, str, LineKey, RouteKey]] = []  # heap: priority, order, lane, line and queue
    known: dict[tuple[str, LineKey, RouteKey], int] = {}  # the queues in it → order of their entry that counts

    def room(self, elapsed: float) -> int:
        """Return how many runs may start now."""
        raise NotImplementedError

    def take(self, p: "Pass", starts: int = 1) -> None:
        """Note starts."""

    def park(self, p: "Pass", lane: Lane, line: Line, key: RouteKey, order: int) -> None:
        queue = (lane.name, line.key, key)
        if order < self.known.get(queue, inf):
            self.known[queue] = order
            heappush(self.parked, (line.key[0], order, *queue))

    def let_try(self, state: "SchedulerState", most: int) -> None:
        """Put queues back into their lanes, until `most` of them are in lanes with a free slot."""
        while self.parked and most > 0:
            rank, order, lane_name, line_key, key = heappop(self.parked)
            place = lane_name, line_key, key
            if self.known.get(place) != order:
                continue  # an earlier run came into the queue
            del self.known[place]
            lane = state.lanes.get(lane_name)
            line = None if lane is None else lane.lines.get(line_key)
            queue = None if line is None else line.queues.get(key)
            if lane is None or line is None or queue is None or not lane.drop_dead(line, key, queue):
                continue
            if (first := queue[0][0]) > order:  # its first run has left
                self.known[place] = first
                heappush(self.parked, (rank, first, *place))
            else:
                state.lanes.mark_startable(lane_name).add_head(line, (first, key))
                most -= lane.has_slot


class RateGate(Gate, eq=False, kw_only=True):
    """At most `burst + T / interval` starts in any span of time T, restarts included: `due` is stored with each."""

    interval: float = 0.0
    burst: int = 1
    due: float = 0.0  # elapsed time at which all starts so far are paid for, one every `interval`
    alarm: float = inf  # elapsed time of the next look

    def room(self, elapsed: float) -> int:
        # More than a whole burst is owed only if the wall clock was set back before a restart.
        self.due = min(self.due, elapsed + self.burst * self.interval)
        return max(0, min(self.burst, int((elapsed - self.due) / self.interval + self.burst + 1e-9)))

    @property
    def opens_at(self) -> float:
        return self.due - (self.burst - 1) * self.interval

    def wait_for(self, starts: int, elapsed: float) -> float:
        """Return the seconds until this many runs may start."""
        due = min(self.due, elapsed + self.burst * self.interval)
        return max(0.0, due - (self.burst - starts) * self.interval - elapsed)

    def explain(self, rate: float, burst: int, now: Now) -> Iterator[Reason]:
        """Explain a wait for this rate until its alarm, to the last bit: the queue tries again then, although `room`
        rounds up a moment earlier. Change nothing, as `room` may."""
        due = min(self.due, now.elapsed + burst / rate)
        left = due - (burst - 1) * (1.0 / rate) - now.elapsed
        if left > 0:
            what, _, name = self.name.removeprefix(RATE).partition(":")
            if what == "session":
                name = name.partition(":")[2]  # without its tenant
            elif what == "limit":
                what, name = "job", "{} for {}".format(*name.split(":", 1))
            text = f"waits for the rate of {what} {name}, which allows the next start in {span(left)}"
            yield Reason(kind=ReasonKind.RATE, text=text, name=self.name, at=now.wall + left)

    def take(self, p: "Pass", starts: int = 1) -> None:
        self.due = max(self.due, p.elapsed) + starts * self.interval
        p.state.gates.open[self.name] = self
        self.keep_debt(p)

    def keep_debt(self, p: "Pass") -> None:
        p.keep_memo(self.name, msgspec.json.encode(p.now + self.due - p.elapsed))

    def park(self, p: "Pass", lane: Lane, line: Line, key: RouteKey, order: int) -> None:
        super().park(p, lane, line, key, order)
        self.set_alarm(p, self.opens_at)

    def set_alarm(self, p: "Pass", at: float) -> None:
        if at < self.alarm:
            self.alarm = at
            p.state.set_alarm(at, GATE, self.name)

    def rest(self, p: "Pass") -> None:
        """Forget the rate of a session, a tenant or a value without runs behind it, at once or later."""
        if self.name.startswith(PASSING) and not self.parked:
            if self.due + REST <= p.elapsed:
                del p.state.gates[self.name]
                if self.due:
                    p.keep_memo(self.name, None)
            else:
                self.set_alarm(p, self.due + REST)


class LimitGate(Gate, eq=False, kw_only=True):
    most: int = 1
    holders: set[str] = set()  # runs that execute

    def room(self, elapsed: float) -> int:
        return max(0, self.most - len(self.holders))

    def explain(self) -> Iterator[Reason]:
        if len(self.holders) >= self.most:
            if self.name.startswith(POLICY_LIMIT):
                what = f"rule {self.name.removeprefix(POLICY_LIMIT)} of the policy"
            else:
                _, job_id, value = self.name.split(":", 2)
                what = f"job {job_id} for {value!r}"
            text = f"waits for the limit of {what}: {len(self.holders):,} active, {self.most:,} allowed"
            holders = list(islice(sorted(self.holders), MOST_NAMED))
            yield Reason(kind=ReasonKind.LIMIT, text=text, name=self.name, holders=holders)


class Gates(dict[str, Gate]):
    """Gates with runs behind them, and rates, by name; without those of tenants."""

    def __init__(self) -> None:
        self.open: dict[str, Gate] = {}  # those that may have room for queues behind them

    def limit(self, name: str) -> LimitGate:
        gate = self.get(name)
        if not isinstance(gate, LimitGate):
            gate = self[name] = self.open[name] = LimitGate(name=name)
        return gate

    def rate(self, name: str, rate: float, burst: int) -> RateGate:
        gate = self.get(name)
        if not isinstance(gate, RateGate):
            gate = self[name] = self.open[name] = RateGate(name=name)
        gate.interval, gate.burst = 1.0 / rate, burst
        return gate
