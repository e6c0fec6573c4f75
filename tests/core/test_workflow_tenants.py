"""Workflows of a tenant with limits: what is under way counts for none, and steps count like other runs."""

import pytest

from interlock.core.tenants.limits import runs_of
from interlock.core.tenants.tenant import Tenants
from interlock.error import TenantLimit
from interlock.model.state import HOLDS_SLOT, State
from interlock.model.tenant import OverLimit, TenantSpec
from tests.core.flows import FlowMachine, flow, step

INNER = flow(step("x"), step("y"), id="inner")
OUTER = flow(
    step("a"), step("part", workflow="inner", needs=()), step("each", for_each=[1, 2, 3], with_={"n": "${item}"}),
    step("nap", sleep=60.0, needs=()),
)  # fmt: skip


@pytest.mark.behaviour("WFL-8", "ROU-8")
@pytest.mark.parametrize("over_limit", list(OverLimit))
@pytest.mark.parametrize("restarts", [False, True])
def test_a_workflow_finishes_where_one_run_may_hold_a_slot(over_limit: OverLimit, restarts: bool) -> None:
    acme = TenantSpec(max_running=1, max_waiting=5, over_limit=over_limit)
    machine = FlowMachine(OUTER, INNER, tenants={"acme": acme})
    run_id = machine.begin(tenant="acme")
    done = 0
    while running := [run.id for run in machine.state.runs.values() if run.state in HOLDS_SLOT]:
        assert len(running) == 1
        if restarts:
            held = [machine.held(running[0])]
            machine.restart_with_worker(held=held)
        machine.done(running[0])
        done += 1
    machine.advance(60)
    assert (machine.state_of(run_id), done) == (State.SUCCEEDED, 6)
    assert runs_of(machine.state, machine.state.of(Tenants)["acme"]) == (0, 0)


@pytest.mark.behaviour("WFL-8", "ROU-8")
@pytest.mark.parametrize("restarts", [False, True])
def test_workflows_under_way_and_steps_that_sleep_leave_the_room_to_others(restarts: bool) -> None:
    acme = TenantSpec(max_running=2, max_waiting=1)
    machine = FlowMachine(flow(step("nap", sleep=60.0), step("a")), tenants={"acme": acme})
    flows = [machine.begin(tenant="acme") for _ in range(5)]
    if restarts:
        machine.restart_with_worker()
    assert runs_of(machine.state, machine.state.of(Tenants)["acme"]) == (0, 0)
    for _ in range(3):
        machine.submit(tenant="acme")
    with pytest.raises(TenantLimit):
        machine.submit(tenant="acme")
    machine.advance(60)
    assert runs_of(machine.state, machine.state.of(Tenants)["acme"]) == (2, 6)
    with pytest.raises(TenantLimit):
        machine.begin(tenant="acme")
    assert {machine.state_of(run_id) for run_id in flows} == {State.UNDER_WAY}
