"""Workflows that are functions, in the core: a machine whose worker takes their turns with the real driver."""

from collections.abc import Callable
from typing import Any

import msgspec

import interlock as il
from interlock.core.explain import explain
from interlock.model.explanation import ReasonKind
from interlock.model.state import State
from interlock.wire.command import WorkerUp
from interlock.wire.message import Dispatch, LogMessage
from interlock.worker.context import Context
from interlock.worker.workflow_turn import take_turn
from tests.core.flows import FlowMachine

Act = Callable[[str, dict[str, Any]], Any]  # name of a step and its payload → its result


def echo(name: str, payload: dict[str, Any]) -> Any:
    return payload.get("value", name)


class Tools:
    """An app with the jobs `work` and `other`, and a workflow."""

    def __init__(self, workflow: Any, **fields: Any) -> None:
        self.app = il.App()

        @self.app.job("work")
        async def work(value: Any = None) -> Any:
            return value

        @self.app.job("other")
        async def other(value: Any = None) -> Any:
            return value

        @self.app.job("release")
        async def release(result: str) -> None: ...

        self.work, self.other, self.release = work, other, release
        tools = self

        @self.app.workflow("flow", **fields)
        async def flow(ctx: il.WorkflowContext, value: Any = None) -> Any:
            return await workflow(tools, ctx, value)

        self.flow = flow


async def two_steps(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    first = await ctx.run(tools.work.call(1))
    return first + await ctx.run(tools.other.call(first + 1))


async def other_steps(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    first = await ctx.run(tools.other.call(1))
    return first + await ctx.run(tools.other.call(first + 1))


class CodeMachine(FlowMachine):
    """A machine with a worker that has an app, whose workflow is `flow`."""

    def __init__(self, app: il.App, **fields: Any) -> None:
        self.apps = {"one": app}
        self.lines: list[str] = []
        super().__init__(*(definition.job for definition in app.definitions.values()), **fields)

    def join(self, app: il.App, worker_id: str = "one") -> None:
        """A worker comes with this app, in place of an earlier one of its name."""
        self.apps[worker_id] = app
        codes = {name: definition.job.code for name, definition in app.definitions.items()}
        known = {job.id: job.code for job in self.jobs} | codes
        self.step(("", WorkerUp(worker_id, 100, 10, known, [], False)))

    def turns(self, run_id: str) -> list[Dispatch]:
        found = [message for message in self.messages(Dispatch) if message.run_id == run_id]
        return [message for message in found if message.record is not None]

    def orders(self, dispatch: Dispatch, app: il.App) -> bytes:
        assert dispatch.record is not None

        def send(message: object) -> None:
            if isinstance(message, LogMessage):
                self.lines.append(message.text)

        found = take_turn(app.definitions[dispatch.job_id], dispatch.record, Context(dispatch, send)).result
        assert found is not None
        return found

    def turn(self, run_id: str) -> None:
        """The worker takes the turn that it has."""
        run = self.run(run_id)
        dispatch = self.turns(run_id)[-1]
        assert (run.worker_id, run.fence) == (run.worker_id, dispatch.fence)
        self.finished(run_id, result=self.orders(dispatch, self.apps[str(run.worker_id)]))

    def play(self, run_id: str, act: Act = echo) -> State:  # type: ignore[override] # its steps have arguments
        """Carry out all turns and steps until the workflow ends, or nothing moves."""
        while run_id in self.state.runs:
            busy = [run for run in self.state.runs.values() if run.worker_id is not None]
            if not busy:
                break
            if busy[0].state is State.UNDER_WAY:
                self.turn(busy[0].id)
                continue
            name = busy[0].id.removeprefix(run_id)[1:]
            try:
                self.done(busy[0].id, act(name, msgspec.json.decode(busy[0].payload or b"{}")))
            except ValueError as error:
                self.fail(busy[0].id, str(error))
        return self.state_of(run_id)


def reasons(machine: CodeMachine, run_id: str) -> dict[ReasonKind, str]:
    found = explain(machine.state, machine.run(run_id), machine.now)
    return {reason.kind: reason.text for reason in found.reasons}
