"""Workflows: clients begin them, and what must hold of their steps whoever dies, and when."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.client.connection import Connection
from interlock.core.decisions import Batch
from interlock.error import InterlockError
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import (
    APPROVAL,
    EVENT,
    GROUP,
    PARALLEL,
    ROUND,
    SEND,
    SLEEP,
    TAKEN_OVER,
    Approve,
    OnError,
    Then,
    Workflow,
    WorkflowStep,
)
from interlock.wire.approval_request import ApproveRun, RejectRun
from soak.simulation import executor as e
from soak.simulation.again import check_taken_over, run_again
from soak.simulation.functions import CODE, Functions
from soak.simulation.lanes import Lanes
from soak.simulation.link import AWAY, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.sagas import ERRAND, SAGA, Sagas
from soak.simulation.store import Disk

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

WINDOW = 2
NAP = 2.0
ROUNDING = 1e-3
_WAITS = (SLEEP, EVENT, SEND, ROUND, APPROVAL, PARALLEL, TAKEN_OVER)
_SAGAS = (SAGA, ERRAND, CODE)
_BAD = (State.FAILED, State.TIMEOUT, State.DENIED, State.CANCELLED, State.ORPHANED, State.OUTPUT_QUARANTINED)
FORKED = ("first", "then", "more", "ask", "nap", "inside", "low")
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
    _flow(
        "fork",
        WorkflowStep(
            id="branches",
            parallel=(
                (
                    WorkflowStep(id="first", job="tireless", with_=_plan("first")),
                    WorkflowStep(id="then", job="plain", with_={"plan": "${steps.first.result.plan}"}, if_=False),
                    WorkflowStep(id="more", job="retried", with_=_plan("last"), on_error=OnError(step="mend")),
                ),
                (
                    WorkflowStep(id="ask", approve=Approve(question="Go on?"), timeout=6.0),
                    WorkflowStep(id="nap", sleep=NAP, on_error=OnError(then=Then.CONTINUE)),
                ),
                (WorkflowStep(id="mend", job="plain", with_={"plan": [[e.SUCCEED, 0.5]]}),),
                (WorkflowStep(id="inside", parallel=((WorkflowStep(id="low", workflow="pipe", with_={
                    "first": "${input.first}", "items": "${input.items}", "last": "${input.last}", "wanted": False,
                }),),)),),
            ),
            timeout=40.0, on_error=OnError(step="clean", then=Then.CONTINUE),
        ),
        WorkflowStep(id="last", job="narrow", with_=_plan("last")),
        WorkflowStep(id="clean", job="plain", with_={"plan": [[e.SUCCEED, 0.5]]}),
        result={"branches": "${steps.branches.state}", "first": "${steps.first.result}", "last": "${steps.last.state}"},
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
            process.spawn(self._answer(connection))

    async def _answer(self, connection: Connection) -> None:
        """Approve, or now and then reject, what workflows ask."""
        rng, runs = self._rng, self._cluster.disk.runs_by_id
        while True:
            await asyncio.sleep(rng.expovariate(0.5))
            asked = [run.id for run in runs.values() if run.state is State.APPROVAL_REQUIRED and run.job_id == APPROVAL]
            for run_id in asked:
                kind = ApproveRun if rng.random() < 0.8 else RejectRun
                with suppress(*AWAY, InterlockError):
                    await connection.ask(kind(0, run_id, "looked at").by(actor="ann"))
                    self._cluster.invariants.workflows.was_answered(run_id, kind is ApproveRun)

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
        new = new_run(rng.choice(("pipe", "outer", "fork", "fork")), arguments)
        for handle in await self._clients.submit(connection, [new]):
            process.spawn(self._clients.follow(handle, new))
            process.spawn(run_again(self._clients, rng, connection, handle.id))
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
        self.seen: Counter[str] = Counter()

    def was_answered(self, run_id: str, is_approved: bool) -> None:
        """Check a question whose answer is acknowledged."""
        self.seen["answered"] += 1
        if (run := self._disk.runs_by_id.get(run_id)) is not None:
            wanted = State.SUCCEEDED if is_approved else State.DENIED
            # It may be approved and cancelled in one pass: the approval has not ended it yet.
            is_right = run.state is wanted or (is_approved and self.explains_end(run) and run.state is State.CANCELLED)
            self._require(is_right, f"{run_id} is {run.state}, and was approved: {is_approved}")

    def began_again(self, run_id: str, old: str, name: str) -> None:
        """Check a run that begins with a step of another: what it has taken over is as it was there, and not undone."""
        self.seen["begun again"] += 1
        self._require(run_id in self._disk.runs_by_id and run_id != old, f"{run_id} is answered, and not kept")
        run, before = self._disk.runs_by_id[run_id], self._disk.runs_by_id.get(old)
        if run.job_id == CODE and before is not None:
            check_taken_over(self._disk, self._require, run, before, name)
            self.seen["functions begun again"] += 1
        for step in self._children(run):
            if step.job_id == TAKEN_OVER and step.state is State.SUCCEEDED:
                before = self._disk.found(old + step.id[len(run_id) :])
                is_same = before is None or before.result == step.result
                self._require(is_same, f"{step.id} has {step.result!r}, and was taken over from {before}")
                self.seen["taken over"] += 1

    def before(self, batch: Batch) -> None:
        for row in batch.created:
            run = Run(*row)
            above = self._disk.runs_by_id.get(run.parent or "") if run.is_step else None
            if above is not None:
                text = f"{run.id} starts after its workflow was closed: {above.closing}"
                is_open = above.closing is None or run.is_compensation or self._follows_error(run, above)
                self._require(is_open and above.ended_at is None, text)
                self._check_siblings(run, above)
        self.sagas.before(batch)
        self.functions.before(batch)

    def _follows_error(self, run: Run, above: Run) -> bool:
        workflow = self._job(above).workflow
        return workflow is not None and run.id[len(above.id) + 1 :] in workflow.handlers

    def _check_siblings(self, run: Run, above: Run) -> None:
        """Check that nothing begins beside a branch that has failed."""
        workflow, name = self._job(above).workflow, run.id[len(above.id) + 1 :]
        part = None if workflow is None else workflow.parts.get(workflow.around.get(name, ""))
        if part is None or run.state is State.SKIPPED or name in part.handlers:
            return
        steps = {other.id[len(above.id) + 1 :]: other.state for other in self._children(above)}
        failed = [
            step for step in part.by_id if steps.get(step) in _BAD and part.by_id[step].on_error.then is Then.FAIL
        ]
        self._require(not failed, f"{run.id} begins, and {failed} beside it have failed")

    def after(self, batch: Batch, touched: Iterable[str]) -> None:
        for run_id in touched:
            run = self._disk.runs_by_id.get(run_id)
            if run is None:
                continue
            if run.job_id == SLEEP and run.delay == NAP:
                self._check_sleep(run)
            if run.job_id == TAKEN_OVER and run.attempt:
                self._require(False, f"{run.id} is taken over, and executes")
            if run.job_id == PARALLEL and run.ended_at is not None:
                self._check_branches(run)
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
        if run.previous is State.UNDER_WAY or run.job_id == TAKEN_OVER:
            return True
        if run.job_id == APPROVAL and run.state is not State.CANCELLED:
            return True
        above = self._disk.found(run.parent or "") if run.is_step else None
        if above is None:
            return False
        closing = run.state is State.CANCELLED and (above.closing is not None or self._is_in_closing_part(run, above))
        unbegun = run.state is State.SKIPPED or (run.state is State.FAILED and run.reason == "could not start")
        is_unneeded = run.state is State.CANCELLED and self.functions.cancels(run, above)
        return closing or is_unneeded or (run.previous is State.PRERUN and unbegun)

    def _is_in_closing_part(self, run: Run, above: Run) -> bool:
        workflow = self._job(above).workflow
        part = None if workflow is None else workflow.around.get(run.id[len(above.id) + 1 :])
        around = None if part is None else self._disk.found(f"{above.id}@{part}")
        return around is not None and (around.closing is not None or around.ended_at is not None)

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

    def _check_branches(self, run: Run) -> None:
        """Check that what is inside a parallel step is over when it is, and has an end unless its workflow ends."""
        above = self._disk.runs_by_id[run.parent or ""]
        name = run.id[len(above.id) + 1 :]
        workflow = self._job(above).workflow
        assert workflow is not None
        part, steps = workflow.parts[name], {other.id[len(above.id) + 1 :]: other for other in self._children(above)}
        live = [step for step in part.by_id if step in steps and steps[step].state not in TERMINAL]
        self._require(not live, f"{run.id} is {run.state}, and {live} inside it are not over")
        missing = [] if above.closing is not None else [step for step in part.regular if step not in steps]
        self._require(not missing, f"{run.id} is {run.state}, and {missing} inside it have no end")
        bad = [step for step in part.regular if step in steps and steps[step].state in _BAD]
        stops = [step for step in bad if part.by_id[step].on_error.then is Then.FAIL]
        is_right = run.state is not State.SUCCEEDED or not stops
        self._require(is_right, f"{run.id} is {run.state}, and {stops} inside it have failed")
        self.seen["branched"] += 1
        self.seen["branch failed"] += bool(stops)

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
        withheld = {name for name, step in steps.items() if step.state is State.OUTPUT_QUARANTINED}
        given = {name: None if name in withheld else step.result for name, step in steps.items()}
        results = {name: msgspec.json.decode(result or b"null") for name, result in given.items()}
        if run.job_id == GROUP:
            return [results[str(index)] for index in range(len(msgspec.json.decode(run.payload or b"[]")))]
        if run.job_id == CODE:
            return self.functions.expected(run, steps, results)
        if run.job_id in _SAGAS:
            return self.sagas.expected(run, steps, results)
        if run.job_id == "fork":
            self._require({"branches", "last", *FORKED} <= set(steps), f"{run.id} succeeded with {sorted(steps)}")
            return {"branches": steps["branches"].state, "first": results["first"], "last": steps["last"].state}
        if run.job_id == "outer":
            self._require(set(steps) == {"left", "right", "inner"}, f"{run.id} succeeded with {sorted(steps)}")
            return {"left": steps["left"].state, "inner": results["inner"]}
        self._require(set(steps) == {"first", "all", "nap", "last"}, f"{run.id} succeeded with {sorted(steps)}")
        order = [steps[name] for name in ("first", "all", "nap", "last")]
        times = [time for step in order for time in (step.created_at, step.ended_at or 0.0)]
        self._require(times == sorted(times) or self._jumped(), f"the steps of {run.id} overlap: {times}")
        return {"first": results["first"], "all": results["all"], "last": steps["last"].state}
