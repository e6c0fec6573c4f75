"""Workflows: clients begin them, and what must hold of their steps whoever dies, and when."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.client.connection import Connection
from interlock.core.decisions import Batch
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import EVENT, GROUP, ROUND, SEND, SLEEP, OnError, Then, Workflow, WorkflowStep
from soak.simulation import executor as e
from soak.simulation.functions import CODE, Functions
from soak.simulation.lanes import Lanes
from soak.simulation.link import SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.sagas import ERRAND, SAGA, Sagas
from soak.simulation.store import Disk

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

WINDOW = 2
NAP = 2.0
ROUNDING = 1e-3
_WAITS = (SLEEP, EVENT, SEND, ROUND)
_SAGAS = (SAGA, ERRAND, CODE)
_ENDS = (e.SUCCEED, e.SUCCEED, e.SUCCEED, e.SUCCEED, e.SUCCEED, e.FAIL, e.FATAL, e.CRASH, e.LATER)


def _plan(name: str) -> dict[str, Any]:
    return {"plan": f"${{input.{name}}}"}


def _flow(job_id: str, *steps: WorkflowStep, result: Any, **fields: Any) -> Job:
    return Job(id=job_id, workflow=Workflow(steps=steps, result=result), **fields)


WORKFLOW_JOBS = (
    _flow(
        "pipe",
        WorkflowStep(id="first", job="tireless", with_=_plan("first")),
        WorkflowStep(
            id="all", job="retried", for_each="${input.items}", max_parallel=WINDOW, with_={"plan": "${item}"},
            on_error=OnError(step="clean"),
        ),
        WorkflowStep(id="nap", sleep=NAP),
        WorkflowStep(id="last", job="narrow", with_=_plan("last"), if_="${input.wanted}"),
        WorkflowStep(id="clean", job="plain", with_={"plan": [[e.SUCCEED, 0.5]]}),
        result={"first": "${steps.first.result}", "all": "${steps.all.result}", "last": "${steps.last.state}"},
        lane="narrow",
    ),
    _flow(
        "outer",
        WorkflowStep(id="left", job="plain", needs=(), with_=_plan("first"), on_error=OnError(then=Then.CONTINUE)),
        WorkflowStep(id="right", job="urgent", needs=(), with_=_plan("last"), timeout=20.0),
        WorkflowStep(id="inner", workflow="pipe", needs=("left", "right"), with_={
            "first": "${input.first}", "items": "${input.items}", "last": "${input.last}", "wanted": True,
        }),
        result={"left": "${steps.left.state}", "inner": "${steps.inner.result}"},
        deadline=60.0,
    ),
)  # fmt: skip


class WorkflowClients:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._rng = self._cluster.random("workflows")

    def start(self) -> None:
        for number in range(2):
            process = Process(self._cluster.loop, f"client-flow-{number}")
            connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
            for _ in range(3):
                process.spawn(self._begin(connection, process))

    def _steps(self) -> list[list[object]]:
        rng = self._rng
        return [[rng.choice(_ENDS), round(rng.expovariate(0.7), 3)], [e.SUCCEED, 0.3]]

    async def _begin(self, connection: Connection, process: Process) -> None:
        self._clients.busy += 1
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        arguments = {
            "first": self._steps(),
            "last": self._steps(),
            "items": [self._steps() for _ in range(rng.choice((0, 1, 3, 5)))],
            "wanted": rng.random() < 0.7,
            "padding": "x" * rng.choice((0, 300)),
        }
        new = new_run(rng.choice(("pipe", "outer")), arguments)
        for handle in await self._clients.submit(connection, [new]):
            process.spawn(self._clients.follow(handle, new))
        self._clients.busy -= 1


class Workflows:
    """The checker: it knows the graphs, and believes nothing but the disk."""

    def __init__(self, disk: Disk, lanes: Lanes, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._lanes = lanes
        self._require = require
        self.sagas = Sagas(disk, require)
        self.functions = Functions(disk, require)
        self.ended = self.groups = self.closed = 0  # seen so far

    def before(self, batch: Batch) -> None:
        for row in batch.created:
            run = Run(*row)
            above = self._disk.runs_by_id.get(run.parent or "") if run.is_step else None
            if above is not None:
                text = f"{run.id} starts after its workflow was closed: {above.closing}"
                is_open = above.closing is None or run.is_compensation or self._follows_error(run, above)
                self._require(is_open and above.ended_at is None, text)
        self.sagas.before(batch)
        self.functions.before(batch)

    def _follows_error(self, run: Run, above: Run) -> bool:
        workflow = self._job(above).workflow
        return workflow is not None and run.id[len(above.id) + 1 :] in workflow.handlers

    def after(self, batch: Batch, touched: Iterable[str]) -> None:
        for run_id in touched:
            run = self._disk.runs_by_id.get(run_id)
            if run is None:
                continue
            if run.job_id == SLEEP and run.delay == NAP:
                self._check_sleep(run)
            self.sagas.after(run)
            self.functions.after(run)
            if run.is_step:
                above = self._disk.runs_by_id.get(run.parent or "")
                self._require(above is not None, f"step {run.id} is there without its workflow {run.parent}")
                if above is not None and above.job_id == GROUP:
                    self._check_window(above)
            if run.ended_at is not None and run.previous is State.UNDER_WAY and run.job_id not in _WAITS:
                self._check_end(run)

    def explains_end(self, run: Run) -> bool:
        """Whether a run ended because of the workflow that it is, or belongs to; other checks know nothing of that."""
        if run.previous is State.UNDER_WAY:
            return True
        above = self._disk.found(run.parent or "") if run.is_step else None
        if above is None:
            return False
        closing = above.closing is not None and run.state is State.CANCELLED
        unbegun = run.state is State.SKIPPED or (run.state is State.FAILED and run.reason == "could not start")
        is_unneeded = run.state is State.CANCELLED and self.functions.cancels(run, above)
        return closing or is_unneeded or (run.previous is State.PRERUN and unbegun)

    def _job(self, run: Run) -> Job:
        return self._disk.job_versions[run.job_version]

    def _check_sleep(self, run: Run) -> None:
        if run.state is State.SUCCEEDED and run.ended_at is not None and not self._jumped():
            lasted = run.ended_at - run.created_at
            self._require(lasted >= NAP - ROUNDING, f"{run.id} slept {lasted:.3f}s of {NAP}s")

    def _jumped(self) -> bool:
        return self._lanes.jumped > 0

    def _check_window(self, group: Run) -> None:
        live = [run for run in self._children(group) if run.state not in TERMINAL]
        self.groups += 1
        self._require(len(live) <= WINDOW, f"{len(live)} items of {group.id} are live, {WINDOW} may be")

    def _children(self, run: Run) -> list[Run]:
        return [other for other in self._disk.runs_by_id.values() if other.parent == run.id and other.is_step]

    def _check_end(self, run: Run) -> None:
        self.ended += 1
        self.closed += run.closing is not None
        live = [other.id for other in self._children(run) if other.state not in TERMINAL]
        self._require(not live, f"{run.id} is {run.state}, and {live} are not over")
        if run.job_id in _SAGAS:
            self.sagas.check_end(run)
            if run.job_id == CODE:
                self.functions.check_end(run)
        if run.state is State.SUCCEEDED:
            expected = self._expected(run)
            found = msgspec.json.decode(run.result or b"null")
            self._require(found == expected, f"{run.id} has the result {found}, and its steps give {expected}")

    def _expected(self, run: Run) -> Any:
        """Return the result that the steps of a run on the disk give."""
        steps = {other.id[len(run.id) + 1 :]: other for other in self._children(run)}
        results = {name: msgspec.json.decode(step.result or b"null") for name, step in steps.items()}
        if run.job_id == GROUP:
            return [results[str(index)] for index in range(len(msgspec.json.decode(run.payload or b"[]")))]
        if run.job_id == CODE:
            return self.functions.expected(run, steps, results)
        if run.job_id in _SAGAS:
            return self.sagas.expected(run, steps, results)
        if run.job_id == "outer":
            self._require(set(steps) == {"left", "right", "inner"}, f"{run.id} succeeded with {sorted(steps)}")
            return {"left": steps["left"].state, "inner": results["inner"]}
        self._require(set(steps) == {"first", "all", "nap", "last"}, f"{run.id} succeeded with {sorted(steps)}")
        order = [steps[name] for name in ("first", "all", "nap", "last")]
        times = [time for step in order for time in (step.created_at, step.ended_at or 0.0)]
        self._require(times == sorted(times) or self._jumped(), f"the steps of {run.id} overlap: {times}")
        return {"first": results["first"], "all": results["all"], "last": steps["last"].state}
