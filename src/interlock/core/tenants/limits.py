"""Tenants: adopt their declarations, and refuse new runs that they may not have."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NoReturn

from interlock.core.lanes.gate import TENANT_LIMIT, TENANT_RATE
from interlock.core.routing.dispatch import route_key
from interlock.core.state import SchedulerState
from interlock.core.tenants.tenant import Tenant, Tenants
from interlock.core.transition import Pass
from interlock.error import Forbidden, TenantLimit, TooMany
from interlock.fields.field import copy_fields
from interlock.model.lane import shown_rate
from interlock.model.run import Now
from interlock.model.tenant import EVERYBODY, TenantInfo, TenantList, TenantSpec
from interlock.wire.lane_request import AskTenants
from interlock.wire.request import ValueAnswer

SOON = 1.0  # seconds after which to submit again, if nobody knows when a run will have ended


def adopt_tenants(p: Pass, declared: Mapping[str, TenantSpec]) -> None:
    """Let the declared limits count from now on, for runs that wait already too. A lowered limit stops nothing."""
    state, tenants = p.state, p.state.of(Tenants)
    known, before = dict(tenants), {name: tenant.gate_names for name, tenant in tenants.items()}
    tenants.clear()
    specs = dict(declared)
    if (usual := declared.get(EVERYBODY)) is not None:
        specs |= {run.tenant: usual for run in state.runs.values() if run.tenant not in declared}
    for name, spec in specs.items():
        tenant = known.get(name) or Tenant(name=TENANT_LIMIT + name, spec=spec)
        tenant.is_declared = name in declared
        tenant.adopt(spec)
        tenants[name] = state.gates.open[tenant.name] = tenant
    if new := specs.keys() - known.keys():
        for run in state.runs.values():
            if run.tenant in new:
                tenants[run.tenant].add(run)
    _adopt_rates(p)
    state.roster.plain_keys.clear()
    after = {name: tenant.gate_names for name, tenant in tenants.items()}
    changed = {name for name in before | after if before.get(name, ()) != after.get(name, ())}
    for lane in state.lanes.values() if changed else ():
        for line in lane.lines.values():
            if line.key[1] in changed:
                state.lanes.mark_startable(lane.name).requeue(line, partial(route_key, state))


def _adopt_rates(p: Pass) -> None:
    """Let new rates count for runs that wait for the ones before, and forget those no longer declared."""
    for name in [gate for gate in p.state.gates if gate.startswith(TENANT_RATE)]:
        tenant = p.state.of(Tenants).find(name.removeprefix(TENANT_RATE))
        if tenant is not None and (gate := tenant.rate_gate(p.state.gates)) is not None:
            p.state.gates.open[name] = gate
        else:
            del p.state.gates[name]
            p.state.gates.open.pop(name, None)
            p.keep_memo(name, None)


def check_tenants(p: Pass, wanted: Iterable[tuple[str, str]], *, submitted: bool = True) -> None:
    """Refuse new runs, given by tenant and lane, if a tenant may not have them all. Only submitted ones count for the
    limits of a tenant that refuses instead of waiting."""
    counts, found = Counter[str](), dict[str, Tenant]()
    for name, lane in wanted:
        tenant = found.get(name) or p.state.of(Tenants).find(name)
        if tenant is not None:
            found[name] = tenant
            counts[name] += 1
            _check_lane(tenant, lane)
    for name, count in counts.items():
        _check_room(p, found[name], count, submitted)
    for name, count in counts.items():
        tenant = found[name]
        if submitted and tenant.refuses and (gate := tenant.rate_gate(p.state.gates)) is not None:
            gate.take(p, count)


def check_lane(p: Pass, name: str, lane: str) -> None:
    """Refuse a run in a lane that its tenant may not use."""
    tenants = p.state.of(Tenants)
    if tenants and (tenant := tenants.find(name)) is not None:
        _check_lane(tenant, lane)


def _check_lane(tenant: Tenant, lane: str) -> None:
    if tenant.spec.lanes and lane not in tenant.spec.lanes:
        allowed = ", ".join(tenant.spec.lanes)
        raise Forbidden(f"lane: {lane!r} is not a lane of tenant {tenant.id!r}; use one of {allowed}")


def _check_room(p: Pass, tenant: Tenant, count: int, submitted: bool) -> None:
    spec, gate, pause = tenant.spec, tenant.rate_gate(p.state.gates), SOON
    if submitted and tenant.refuses:
        if gate is not None and gate.room(p.elapsed) < count:
            _refuse(p, tenant, "rate", shown_rate(spec.rate), count, gate.burst, gate.wait_for(count, p.elapsed))
        if spec.max_running is not None and len(tenant.live) + count > spec.max_running:
            _refuse(p, tenant, "max_running", spec.max_running, count, spec.max_running, SOON)
    elif gate is not None:
        pause = max(SOON, gate.wait_for(count, p.elapsed))
    if spec.max_waiting is not None and tenant.waiting + count > spec.max_waiting:
        _refuse(p, tenant, "max_waiting", spec.max_waiting, count, spec.max_waiting, pause)


def _refuse(p: Pass, tenant: Tenant, field: str, value: object, count: int, most: int, pause: float) -> NoReturn:
    if count > most:
        raise TooMany("runs", count, most, f"the {field} of tenant {tenant.id!r} lets no more in at once; submit fewer")
    (tenant if tenant.is_declared else p.state.of(Tenants)[EVERYBODY]).refused += 1
    raise TenantLimit(tenant.id, field, value, pause)


def tenants(question: AskTenants, state: SchedulerState, now: Now) -> ValueAnswer:
    only = question.only_tenant
    shown = state.of(Tenants).values() if only is None else filter(None, [state.of(Tenants).find(only)])
    return ValueAnswer(question.request, TenantList(tenants=[_info(state, tenant) for tenant in shown]))


def runs_of(state: SchedulerState, tenant: Tenant) -> tuple[int, int]:
    """Return how many runs of a tenant hold a slot, and how many wait; for `*`, those of all that are not declared."""
    each = (
        [tenant] if tenant.id != EVERYBODY else [other for other in state.of(Tenants).values() if not other.is_declared]
    )
    return sum(len(other.holders) for other in each), sum(other.waiting for other in each)


def _info(state: SchedulerState, tenant: Tenant) -> TenantInfo:
    running, waiting = runs_of(state, tenant)
    return copy_fields(
        TenantInfo,
        tenant.spec,
        id=tenant.id,
        running=running,
        waiting=waiting,
        refused=tenant.refused,
        rate=shown_rate(tenant.spec.rate),
        burst=tenant.spec.burst or 1,
        lanes=list(tenant.spec.lanes),
        labels=dict(tenant.spec.labels),
    )
