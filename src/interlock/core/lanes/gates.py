"""The gates of a run, and queues that wait at one."""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from interlock.core.facts import Snapshot
from interlock.core.lanes import gate as g
from interlock.core.lanes.lane import RouteKey
from interlock.core.sessions.session import Sessions
from interlock.core.tenants.tenant import Tenant, Tenants
from interlock.model.explanation import Reason
from interlock.model.facets import Facets
from interlock.model.run import Now, Run

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass


def ring(p: "Pass", name: str, at: float) -> None:
    """Look at a rate whose time has come."""
    gate = p.state.gates.get(name)
    if isinstance(gate, g.RateGate) and gate.alarm == at:
        gate.alarm = inf
        p.state.gates.open[name] = gate
        if name.startswith(g.LANE_RATE) and (lane := name.removeprefix(g.LANE_RATE)) in p.state.lanes:
            p.state.lanes.mark_startable(lane)


class Bound(NamedTuple):
    """A bound on the starts of a run: a rate with its burst, or a limit on how many execute at once."""

    name: str
    rate: float | None = None
    burst: int = 1
    most: int = 0  # 0 for the limit that its gate has
    tenant: Tenant | None = None  # the gate itself, if it is one


def bounds_of(state: "SchedulerState", run: Run) -> Iterator[Bound]:
    """Yield the bounds that a run obeys to start: those of its session, its job, its verdict and its tenant."""
    job, facets, session = state.job_of(run), run.facets, state.of(Sessions).of(run)
    if session is not None and session.rate is not None:
        yield Bound(g.session_rate(run.tenant, session.name), *session.rate)
    if job.rate is not None:
        yield Bound(f"{g.RATE}job:{job.id}", job.rate, job.burst)
    if facets is not None:
        limit = job.limit
        if facets.limit_value is not None and limit is not None and limit.rate is not None:
            yield Bound(f"{g.VALUE_RATE}{job.id}:{facets.limit_value}", limit.rate, limit.burst)
        for name in g.limit_names(run):
            of_job = 0 if limit is None else limit.max or g.UNLIMITED
            yield Bound(name, most=run.limits.max_concurrent or 0 if name.startswith(g.POLICY_LIMIT) else of_job)
    if (tenant := state.of(Tenants).get(run.tenant)) is not None:
        if tenant.rate is not None and not tenant.refuses:
            yield Bound(g.TENANT_RATE + tenant.id, *tenant.rate)
        if tenant.spec.max_running is not None:
            yield Bound(tenant.name, tenant=tenant)


def gates_of(state: "SchedulerState", run: Run, key: RouteKey) -> list[g.Gate]:
    """Return the gates of a queue with this run; the bounds may have changed since it came there."""
    return [_gate(state, bound) for bound in bounds_of(state, run) if bound.name in key[2]]


def _gate(state: "SchedulerState", bound: Bound) -> g.Gate:
    if bound.tenant is not None:
        return bound.tenant
    if bound.rate is not None:
        return state.gates.rate(bound.name, bound.rate, bound.burst)
    gate = state.gates.limit(bound.name)
    gate.most = bound.most or gate.most
    return gate


def note_value(p: "Pass", run: Run) -> None:
    """Note the value of a new run for which its job has a limit."""
    limit = p.state.versions[run.job_version].limit
    if limit is not None:
        run.facets = replace(run.facets or Facets(), limit_value=limit.value_of(run.payload))


def load(state: "SchedulerState", snapshot: Snapshot, now: Now) -> None:
    """Continue with the debts of rates."""
    for name, memo in snapshot.memos.items():
        if name.startswith(g.RATE):
            left = msgspec.json.decode(memo, type=float) - now.wall
            state.gates[name] = state.gates.open[name] = g.RateGate(name=name, due=now.elapsed + left)


def follow_wall_clock(p: "Pass") -> None:
    for gate in p.state.gates.values():
        if isinstance(gate, g.RateGate) and gate.due > p.elapsed:
            gate.keep_debt(p)


def let_queues_try(p: "Pass") -> bool:
    """Let queues behind open gates try again, until these have no room or no queue; return whether any does."""
    state, tries = p.state, False
    for gate in list(state.gates.open.values()):
        room = gate.room(p.elapsed) if gate.parked else 0
        gate.let_try(state, room)
        tries = tries or room > 0
        if not room or not gate.parked:
            del state.gates.open[gate.name]
        if isinstance(gate, g.LimitGate) and not gate.holders and not gate.parked:
            state.gates.pop(gate.name, None)  # a tenant is not among them
        elif isinstance(gate, g.RateGate) and gate.parked:
            if not room:
                gate.set_alarm(p, gate.opens_at)
        elif isinstance(gate, g.RateGate):
            gate.rest(p)
    return tries


def explain(state: "SchedulerState", run: Run, now: Now) -> Iterator[Reason]:
    """Explain which gates of the run are closed."""
    for bound in bounds_of(state, run):
        gate = bound.tenant or state.gates.get(bound.name)
        if isinstance(gate, g.LimitGate):
            yield from gate.explain()
        elif isinstance(gate, g.RateGate) and bound.rate is not None:
            yield from gate.explain(bound.rate, bound.burst, now)
