"""Routing that is careless: the real one with one function exchanged for as long as a pass takes."""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

from interlock.core import step
from interlock.core.decisions import Decisions
from interlock.core.lanes.gate import LimitGate
from interlock.core.routing import roster
from interlock.core.routing.roster import DemandKey, Roster, Worker, WorkerGroup
from interlock.core.tenants.tenant import Tenant
from interlock.model.explanation import Obstacle
from soak.simulation.scenario import Sabotage

_decide, _misfit, _offer, _room = step.step, Roster.misfit, Roster._offer, LimitGate.room


def careless_routing_step(sabotage: Sabotage) -> Callable[..., Decisions]:
    exchanged: dict[str, Any] = {
        "route_ignores_tenants": patch.object(Roster, "misfit", _for_any_tenant),
        "route_ignores_labels": patch.object(Roster, "misfit", _with_any_labels),
        "route_ignores_drain": patch.object(Worker, "takes_work", property(lambda self: self.connected)),
        "route_forgets_parked": patch.object(Roster, "_offer", _wake_nobody),
        "route_counts_less": patch.object(LimitGate, "room", _one_more),
        "route_gives_up_soon": patch.object(roster, "MOST_TRIES", 1),
    }
    chosen = next(change for name, change in exchanged.items() if getattr(sabotage, name))

    def careless(*arguments: Any) -> Decisions:
        with chosen:
            return _decide(*arguments)

    return careless


def _for_any_tenant(roster: Roster, worker: Worker, key: DemandKey) -> tuple[Obstacle, str] | None:
    found = _misfit(roster, worker, key)
    return None if found is not None and found[0] is Obstacle.TENANT else found


def _with_any_labels(roster: Roster, worker: Worker, key: DemandKey) -> tuple[Obstacle, str] | None:
    job_id, (topic, capabilities, _, pool), tenant = key
    return _misfit(roster, worker, (job_id, (topic, capabilities, (), pool), tenant))


def _wake_nobody(roster: Roster, group: WorkerGroup, worker: Worker, rng: Random) -> None:
    before, roster.open = roster.open, {}
    _offer(roster, group, worker, rng)
    roster.open = before


def _one_more(gate: LimitGate, elapsed: float) -> int:
    return _room(gate, elapsed) + isinstance(gate, Tenant)
