"""Halted workflows, in the core: resume and abandon."""

from typing import Any

import pytest

import interlock as il
from interlock.core.decisions import Failed
from interlock.error import InterlockError, NotHalted, UnknownRun
from interlock.model.explanation import ReasonKind
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow_info import WorkflowAction
from interlock.wire.run_request import CancelRun
from interlock.wire.workflow_request import ActOnWorkflow
from tests.core.code_flows import CodeMachine, Tools, reasons, two_steps
from tests.core.machine import acted_on
from tests.core.policies import audited

RESUME, ABANDON = WorkflowAction.RESUME, WorkflowAction.ABANDON


async def undone(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.work.call("paid"), undo=tools.release)
    await ctx.gather(ctx.run(tools.work.call(2)), ctx.run(tools.other.call(3)))


async def undone_otherwise(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    await ctx.run(tools.other.call("paid"))


def halted() -> tuple[CodeMachine, str]:
    """A run that new code has halted, with a step to undo and two that are live."""
    machine = CodeMachine(Tools(undone).app)
    run_id = machine.begin(tenant="red")
    machine.turn(run_id)
    machine.done(f"{run_id}@work", "paid")
    machine.turn(run_id)
    machine.apps["one"] = Tools(undone_otherwise).app
    machine.done(f"{run_id}@work-2", 2)
    machine.turn(run_id)
    assert ReasonKind.HALTED in reasons(machine, run_id)
    return machine, run_id


def act(machine: CodeMachine, action: WorkflowAction, run_id: str, **caller: Any) -> Any:
    command = ActOnWorkflow(7, run_id, action, "old").by(**{"actor": "ann", **caller})
    return machine.step(("client", command)).answers[-1][1]


def error_of(answer: Any) -> InterlockError:
    assert isinstance(answer, Failed)
    return answer.error


@pytest.mark.behaviour("WFL-9")
def test_a_resumed_run_gets_another_turn_on_the_same_worker() -> None:
    machine, run_id = halted()
    before = len(machine.turns(run_id))
    machine.apps["one"] = Tools(undone).app
    machine.advance(3600.0)
    assert len(machine.turns(run_id)) == before
    assert acted_on(act(machine, RESUME, run_id)).state is State.UNDER_WAY
    assert len(machine.turns(run_id)) == before + 1
    assert machine.run(run_id).notes[-1].text == "resumed by ann: old"
    assert machine.play(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-9")
def test_a_resumed_run_whose_code_does_not_fit_halts_again() -> None:
    machine, run_id = halted()
    act(machine, RESUME, run_id)
    act(machine, RESUME, run_id)
    machine.turn(run_id)
    assert ReasonKind.HALTED in reasons(machine, run_id)
    assert machine.live(run_id) == ["other"]


def test_a_run_whose_turn_crashed_is_counted_anew_once_it_is_resumed() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    for _ in range(3):
        machine.lost(run_id, "its process was killed by SIGSEGV")
    act(machine, RESUME, run_id)
    machine.lost(run_id, "its process was killed by SIGSEGV")
    assert machine.run(run_id).worker_id == "one", "one crash of three"
    assert machine.play(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-12", "WFL-5", "SEC-7")
def test_an_abandoned_run_ends_without_further_steps() -> None:
    machine, run_id = halted()
    steps = set(machine.store.runs_by_id)
    assert acted_on(act(machine, ABANDON, run_id)).state is State.UNDER_WAY
    assert machine.run(f"{run_id}@other").stop == "cancel", "its live step is asked to stop"
    machine.done(f"{run_id}@other", outcome="cancelled")
    run: Run = machine.store.runs_by_id[run_id]
    assert (run.state, run.reason) == (State.CANCELLED, "abandoned: old")
    assert run.error is not None
    assert run.error.startswith("nondeterministic_workflow: the function asks for step 'other'")
    assert set(machine.store.runs_by_id) == steps, "nothing is undone"
    (entry,) = audited(machine, "abandoned")
    assert (entry.actor, entry.tenant, entry.subject) == ("ann", "red", run_id)
    assert entry.detail == {"job": "flow", "reason": "old", "halt": "nondeterministic_workflow"}


def test_a_cancel_can_undo_the_steps_of_a_halted_run() -> None:
    machine, run_id = halted()
    machine.step(("client", CancelRun(7, run_id, compensate=True)))
    machine.done(f"{run_id}@other", outcome="cancelled")
    machine.done(f"{run_id}@comp-work")
    assert machine.state_of(run_id) is State.CANCELLED


@pytest.mark.parametrize("action", WorkflowAction)
def test_only_halted_runs_are_resumed_or_abandoned(action: WorkflowAction) -> None:
    machine, run_id = halted()
    fresh, plain = machine.begin(), machine.submit("work")
    for other in (fresh, plain):
        assert isinstance(error_of(act(machine, action, other)), NotHalted)
    refused = error_of(act(machine, action, run_id, only_tenant="blue"))
    assert isinstance(refused, UnknownRun)
    assert str(refused) == str(error_of(act(machine, action, "nothing"))).replace("nothing", run_id)
    act(machine, ABANDON, run_id)
    assert isinstance(error_of(act(machine, action, run_id)), NotHalted), "its end is decided"
    machine.done(f"{run_id}@other", outcome="cancelled")
    assert isinstance(error_of(act(machine, action, run_id)), NotHalted)
    assert len(audited(machine, "abandoned")) == 1
