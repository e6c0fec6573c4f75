"""The gates of a run, and queues that wait at one."""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from interlock.core.facts import Snapshot
from interlock.core.lanes import gate as g
from interlock.core.lanes.lane import RouteKey
from interlock.core.sessions.session import Sessions
from interlock.core.tenants.tenant import Tenants
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


def gates_of(state: "SchedulerState", run: Run, key: RouteKey) -> list[g.Gate]:
    """Return the gates of a queue with this run."""
    job, gates = state.job_of(run), list[g.Gate]()
    session = state.of(Sessions).of(run)
    if (
        session is not None
        and session.rate is not None
        and key[2][0] == (name := g.session_rate(run.tenant, session.name))
    ):
        gates.append(state.gates.rate(name, *session.rate))
    if job.rate is not None:
        gates.append(state.gates.rate(f"{g.RATE}job:{job.id}", job.rate, job.burst))
    if (rated_value := g.value_rate(job, run)) is not None and job.limit is not None and job.limit.rate is not None:
        gates.append(state.gates.rate(rated_value, job.limit.rate, job.limit.burst))
    for name in g.limit_names(run):
        limit, allowed = state.gates.limit(name), run.limits.max_concurrent
        if not name.startswith(g.POLICY_LIMIT):
            limit.most = limit.most if job.limit is None else job.limit.max or g.UNLIMITED
        elif allowed is not None:
            limit.most = allowed
        gates.append(limit)
    if (tenant := state.of(Tenants).get(run.tenant)) is not None:
        rated = tenant.rate_gate(state.gates)
        gates += [gate for gate in (rated, tenant) if gate is not None and gate.name in tenant.gate_names]
    return gates


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
    """Explain which gates of the run's session, job and tenant are closed."""
    job = state.job_of(run)
    session = state.of(Sessions).of(run)
    rate = None if session is None else session.rate
    gate = None if rate is None else state.gates.get(g.session_rate(run.tenant, str(run.session)))
    if rate is not None and isinstance(gate, g.RateGate):
        yield from gate.explain(*rate, now)
    for gate in map(state.gates.get, g.gate_names(job, run)):
        if isinstance(gate, g.RateGate) and gate.name.startswith(g.VALUE_RATE) and job.limit is not None:
            yield from gate.explain(job.limit.rate or inf, job.limit.burst, now)
        elif isinstance(gate, g.RateGate) and job.rate is not None:
            yield from gate.explain(job.rate, job.burst, now)
        elif isinstance(gate, g.LimitGate):
            yield from gate.explain(gate.most)
    tenant = state.of(Tenants).get(run.tenant)
    if tenant is None:
        return
    gate = state.gates.get(g.TENANT_RATE + run.tenant)
    if isinstance(gate, g.RateGate) and tenant.rate is not None and gate.name in tenant.gate_names:
        yield from gate.explain(*tenant.rate, now)
    if tenant.name in tenant.gate_names:
        yield from tenant.explain(tenant.most)
