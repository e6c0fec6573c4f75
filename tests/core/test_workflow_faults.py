"""Workflows in odd company: names like those of compensations, cancels and events before the start, stale records."""

from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.core.decisions import Failed
from interlock.error import InterlockError
from interlock.model.job import Job
from interlock.model.pool import WorkerAction
from interlock.model.state import State
from interlock.model.work import ProcessWork
from interlock.model.workflow import OnError, Send, Then
from interlock.wire.command import Put
from interlock.wire.run_request import CancelRun, RetryRun
from interlock.wire.turn import StartStep
from interlock.wire.worker_request import ActOnWorker
from tests.core.code_flows import CodeMachine, Tools, other_steps, two_steps
from tests.core.flows import FlowMachine, flow, step
from tests.core.test_workflow_events import EventMachine

WAITS = flow(step("w", event="go"))


@pytest.mark.behaviour("WFL-9")
def test_a_job_named_like_a_compensation_can_be_a_step_twice() -> None:
    app = il.App()

    @app.job("pay.comp")
    async def comp(value: int) -> int:
        return value

    @app.workflow("flow")
    async def twice(ctx: il.WorkflowContext, value: Any = None) -> list[int]:
        first = await ctx.run(comp.call(1))
        second = await ctx.run(comp.call(2))
        return [first, second, *await ctx.map(comp, [3]), *await ctx.map(comp, [4])]

    machine = CodeMachine(app)
    run_id = machine.begin()
    machine.play(run_id)
    assert machine.state_of(run_id) is State.SUCCEEDED
    assert not any(run.is_compensation for run in machine.store.runs_by_id.values())


@pytest.mark.parametrize(
    "order",
    [
        {"name": "comp-2", "job": "work"},
        {"name": "r2", "job": "work"},
        {"name": "a", "job": "a b\n@"},
    ],
)
def test_an_order_with_a_name_that_is_taken_or_no_job_cannot_be_read(order: dict[str, str]) -> None:
    with pytest.raises((msgspec.ValidationError, InterlockError)):
        msgspec.convert({"order": "StartStep", "payload": msgspec.Raw(b"{}"), **order}, StartStep)


@pytest.mark.behaviour("WFL-7", "WFL-10")
def test_an_event_for_a_run_again_that_has_not_begun_starts_no_step_twice() -> None:
    machine = EventMachine(
        flow(step("a"), step("b", job="encode"), step("w", event="go"), lane="one"),
        Job(id="busy", lane="one"),
        lanes={"main": 100, "one": 1},
    )
    run_id = machine.submit("flow", b"{}")
    machine.done(f"{run_id}@a", "A")
    machine.fail(f"{run_id}@b")
    busy = machine.submit("busy", b"{}")
    machine.step(("client", RetryRun(8, run_id, "", from_step="b").by(actor="ann")))
    (again,) = [run.id for run in machine.state.runs.values() if run.job_id == "flow"]
    machine.send(again, "go", 1)
    machine.done(busy)
    assert machine.live(again) == ["b"]


@pytest.mark.behaviour("WFL-5", "RUN-10")
def test_a_workflow_that_has_an_event_and_has_not_begun_is_cancelled_at_once() -> None:
    machine = EventMachine(WAITS)
    run_id = machine.submit("flow", b"{}", delay=86_400.0)
    machine.send(run_id, "go", 1)
    machine.step(("client", CancelRun(6, run_id, "stop", compensate=True).by(actor="ann")))
    assert machine.state_of(run_id) is State.CANCELLED


@pytest.mark.behaviour("WFL-9")
def test_a_halted_run_goes_on_when_the_worker_with_its_code_is_resumed() -> None:
    machine = CodeMachine(Tools(two_steps).app)
    run_id = machine.begin()
    machine.turn(run_id)
    machine.join(Tools(other_steps).app, "two")
    machine.step(("client", ActOnWorker(9, action=WorkerAction.DRAIN, worker_id="one")))
    machine.done(f"{run_id}@work", 1)
    machine.turn(run_id)
    assert machine.run(run_id).workflow_facet.halt is not None
    machine.step(("client", ActOnWorker(10, action=WorkerAction.RESUME, worker_id="one")))
    assert machine.run(run_id).worker_id == "one"


@pytest.mark.behaviour("WFL-2", "WFL-10")
def test_a_step_after_an_error_sends_its_event_when_the_record_of_the_target_is_read() -> None:
    fails = flow(
        step("a", on_error=OnError(step="tell", then=Then.FAIL)),
        step("tell", send=Send(to="${input.to}", name="go", value=1)),
        id="sender",
    )
    machine = FlowMachine(fails, WAITS)
    target = machine.begin()
    sender = machine.submit("sender", msgspec.json.encode({"to": target}))
    held = [machine.held(run.id) for run in machine.state.runs.values() if run.worker_id is not None]
    machine.holds_answers = True
    machine.restart_with_worker(held=held)
    of_sender = [answer for answer in machine.answers if getattr(answer[0], "run_id", None) == sender]
    of_target = [answer for answer in machine.answers if answer not in of_sender]
    machine.answers = []
    machine.answered(of_sender)
    machine.fail(f"{sender}@a")
    machine.holds_answers = False
    machine.answers += of_target
    machine.step()
    assert (machine.state_of(sender), machine.state_of(target)) == (State.FAILED, State.SUCCEEDED)


def test_a_job_that_is_put_has_no_id_of_a_built_in_job() -> None:
    machine = FlowMachine()
    ((_, answer),) = machine.step(
        ("client", Put(1, [Job(id="interlock.sleep", work=ProcessWork(command=("true",)))], "ann"))
    ).answers
    assert isinstance(answer, Failed)
    assert (
        str(answer.error) == "id: 'interlock.sleep' begins with 'interlock.', as only built-in jobs do; choose another"
    )
    assert "interlock.sleep" not in machine.state.jobs
