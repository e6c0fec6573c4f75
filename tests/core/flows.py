"""Workflows in tests: short definitions, and a machine that carries out their steps."""

from collections.abc import Callable
from typing import Any

import msgspec

from interlock.core.workflows.flow import Flows
from interlock.model.job import Job
from interlock.model.state import State
from interlock.model.workflow import OnError, Then, Workflow, WorkflowStep
from tests.core.machine import Machine

JOBS = tuple(Job(id=name) for name in ("probe", "encode", "join", "clean", "work"))


def step(name: str, **fields: Any) -> WorkflowStep:
    """A step that runs the job `work`, unless it says something else."""
    if not {"job", "run", "workflow", "sleep", "until", "event", "send", "approve", "parallel"} & fields.keys():
        fields["job"] = "work"
    return WorkflowStep(id=name, **fields)


def flow(*steps: WorkflowStep, id: str = "flow", result: Any = None, **fields: Any) -> Job:
    return Job(id=id, workflow=Workflow(steps=steps, result=result), **fields)


def chain(**fields: Any) -> Job:
    return flow(step("a"), step("b", with_={"text": "got ${steps.a.result.n} of ${input.all}"}), **fields)


CONTINUE = OnError(then=Then.CONTINUE)
MEDIA = flow(
    step("probe", job="probe", with_={"url": "${input.url}"}),
    step(
        "encode", job="encode", for_each="${steps.probe.result.chunks}", max_parallel=2, with_={"chunk": "${item}"},
        on_error=OnError(step="clean"),
    ),
    step("join", job="join", with_={"parts": "${steps.encode.result}"}),
    step("clean", job="clean", with_={"path": "${steps.probe.result.path}"}),
    result={"file": "${steps.join.result}"},
)  # fmt: skip
PROBED = {"chunks": ["a", "b", "c"], "path": "/tmp/x"}


class FlowMachine(Machine):
    """A machine with a worker, and a workflow `flow`."""

    def __init__(self, *jobs: Job, **fields: Any) -> None:
        super().__init__(*jobs, *JOBS, **fields)
        self.worker_up()

    def begin(self, payload: object = None, **fields: Any) -> str:
        return self.submit("flow", msgspec.json.encode({} if payload is None else payload), **fields)

    def live(self, run_id: str) -> list[str]:
        """The names of all live steps below a run, in order."""
        return sorted(other.removeprefix(run_id)[1:] for other in self.state.runs if other.startswith(f"{run_id}@"))

    def payload_of(self, run_id: str) -> Any:
        return msgspec.json.decode(self.store.runs_by_id[run_id].payload or b"null")

    def result_of(self, run_id: str) -> Any:
        return msgspec.json.decode(self.store.runs_by_id[run_id].result or b"null")

    def done(self, run_id: str, value: object = None, outcome: str = "succeeded", **fields: Any) -> None:
        """The worker ends a step."""
        result = None if value is None else msgspec.json.encode(value)
        self.finished(run_id, outcome, result=result, **fields)

    def fail(self, run_id: str, error: str = "boom") -> None:
        self.finished(run_id, "failed_fatal", error=error)

    def play(self, run_id: str, act: Callable[[str], Any]) -> State:
        """Carry out every step that a worker has until the workflow ends; an exception of `act` fails the step."""
        while run_id in self.state.runs:
            waiting = [run for run in self.state.runs.values() if run.worker_id is not None]
            assert waiting, f"nothing runs: {self.live(run_id)}"
            name = waiting[0].id.removeprefix(run_id)[1:]
            try:
                self.done(waiting[0].id, act(name))
            except ValueError as error:
                self.fail(waiting[0].id, str(error))
        assert run_id not in self.state.of(Flows)
        return self.state_of(run_id)
