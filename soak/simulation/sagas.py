"""Sagas and events: graphs whose steps are undone, people and workflows that send them events, and what must hold."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.core.decisions import Batch
from interlock.error import EventRefused, UnknownRun
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.run import COMPENSATION, Run
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import EVENT, SEND, Compensate, OnError, Send, Then, Workflow, WorkflowStep
from interlock.wire.event_request import SendEvent
from soak.simulation import executor as e
from soak.simulation.again import run_again
from soak.simulation.functions import CODE, CODE_JOB, STEPS, WINDOW
from soak.simulation.link import AWAY, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.store import Disk

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

SAGA, ERRAND = "saga", "errand"
_ENDS = (e.SUCCEED,) * 7 + (e.FAIL, e.FATAL, e.CRASH, e.LATER)
_UNDOES = ((e.SUCCEED, 0.3), (e.SUCCEED, 2.0), (e.SUCCEED, 0.1), (e.FATAL, 0.2), (e.FAIL, 0.2))


def _step(name: str, job: str, plan: str, undo: str, **fields: Any) -> WorkflowStep:
    given = {"plan": f"${{input.{plan}}}", "undo": "${input.undo}"}
    return WorkflowStep(
        id=name, job=job, with_=given, compensate=Compensate(job=undo, with_={"plan": "${input.undo}"}), **fields
    )


SAGA_JOBS = (
    Job(
        id=SAGA,
        deadline=90.0,
        workflow=Workflow(
            steps=(
                _step("book", "tireless", "first", "plain"),
                WorkflowStep(id="pair", parallel=(
                    (_step("left", "retried", "left", "narrow"),),
                    (_step("right", "plain", "right", "plain", on_error=OnError(then=Then.CONTINUE)),),
                )),
                WorkflowStep(
                    id="all", job="retried", for_each="${input.items}", max_parallel=WINDOW,
                    with_={"plan": "${item}"}, compensate=Compensate(job="plain", with_={"plan": [[e.SUCCEED, 0.2]]}),
                ),
                WorkflowStep(id="go", event="go", timeout=30.0),
                WorkflowStep(id="also", event="go", timeout=30.0, on_error=OnError(then=Then.CONTINUE)),
                _step("last", "narrow", "last", "plain", on_error=OnError(step="tidy")),
                WorkflowStep(
                    id="tidy", job="plain", with_={"plan": "${input.undo}"}, on_error=OnError(step="report"),
                ),
                WorkflowStep(id="report", job="plain", with_={"plan": [[e.SUCCEED, 0.5]]}),
            ),
            result={"go": "${steps.go.result}", "also": "${steps.also.result}", "last": "${steps.last.result}"},
        ),
    ),
    Job(
        id=ERRAND,
        workflow=Workflow(
            steps=(
                WorkflowStep(
                    id="tell", send=Send(to="${input.to}", name="go", value="${run.id}"),
                    on_error=OnError(then=Then.CONTINUE),
                ),
                WorkflowStep(id="rest", job="plain", with_={"plan": "${input.first}"}),
            ),
            result={"tell": "${steps.tell.state}", "rest": "${steps.rest.result}"},
        ),
    ),
    CODE_JOB,
)  # fmt: skip


class SagaClients:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._rng = self._cluster.random("sagas")
        self._checks = self._cluster.invariants.workflows.sagas

    def start(self) -> None:
        for number in range(2):
            process = Process(self._cluster.loop, f"client-saga-{number}")
            connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
            for _ in range(3):
                process.spawn(self._begin(connection, process))
        Process(self._cluster.loop, "client-halts").spawn(self._let_halted_go_on())

    def _plan(self) -> list[list[object]]:
        rng = self._rng
        return [[rng.choice(_ENDS), round(rng.expovariate(0.9), 3)], [e.SUCCEED, 0.3]]

    async def _begin(self, connection: Connection, process: Process) -> None:
        self._clients.busy += 1
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        arguments = {
            **{name: self._plan() for name in ("first", "left", "right", "last")},
            "items": [self._plan() for _ in range(rng.choice((0, 1, 3)))],
            "undo": [rng.choice(_UNDOES)],
        }
        job_id = rng.choice((SAGA, CODE))
        if job_id == CODE:
            arguments["rounds"] = rng.choice((1, 1, 2))
            if rng.random() < 0.4:  # it succeeds, so it can be run again from any step
                good = [[e.SUCCEED, 0.5]]
                arguments |= {"first": good, "left": good, "right": good, "last": good, "rounds": 1}
                arguments["items"] = [good] * rng.choice((0, 1, 3))
        new = new_run(job_id, arguments)
        for handle in await self._clients.submit(connection, [new]):
            process.spawn(self._clients.follow(handle, new))
            if rng.random() < 0.15:
                process.spawn(self._cancel(handle))
            process.spawn(self._send(connection, handle.id))
            if job_id == CODE:
                process.spawn(self._again(connection, process, handle.id))
            errand = new_run(ERRAND, {"to": handle.id, "first": self._plan()})
            for own in await self._clients.submit(connection, [errand]):
                process.spawn(self._clients.follow(own, errand))
        self._clients.busy -= 1

    async def _again(self, connection: Connection, process: Process, run_id: str) -> None:
        again = await run_again(self._clients, self._rng, connection, run_id, STEPS)
        if again is not None:
            process.spawn(self._send(connection, again))

    async def _cancel(self, handle: RunHandle[Any]) -> None:
        self._clients.busy += 1
        await asyncio.sleep(self._rng.expovariate(0.2))
        while True:
            try:
                await handle.cancel(compensate=True)
                break
            except AWAY:
                await asyncio.sleep(self._rng.uniform(0.05, 1))
            except UnknownRun:
                break
        self._clients.busy -= 1

    async def _send(self, connection: Connection, run_id: str) -> None:
        """Send events one after the other, each until it is acknowledged."""
        self._clients.busy += 1
        rng = self._rng
        for number in range(rng.randint(1, 4)):
            await asyncio.sleep(rng.choice((0.0, 0.0, rng.expovariate(0.2))))
            value = f"{run_id} {number}"
            request = SendEvent(0, "go", msgspec.json.encode(value), run_id=run_id, own_key=f"k{number}")
            while True:
                try:
                    self._checks.acknowledged(run_id, value, (await connection.ask(request)).id)
                    break
                except AWAY:
                    await asyncio.sleep(rng.uniform(0.05, 1))
                except (EventRefused, UnknownRun):
                    self._clients.busy -= 1
                    return
        self._clients.busy -= 1

    async def _let_halted_go_on(self) -> None:
        """Replace a worker while workflows are halted: they go on when one joins."""
        cluster = self._cluster
        while True:
            await asyncio.sleep(20.0)
            live = [run for run in cluster.disk.runs_by_id.values() if run.state not in TERMINAL]
            if any(run.workflow_facet.halt is not None for run in live) and cluster.workers:
                cluster.invariants.workflows.functions.halted += 1
                next(iter(cluster.workers.values())).process.kill()


class Sagas:
    """The checker of compensations and events: it believes nothing but the disk."""

    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self._values: dict[str, str] = {}  # value of an event → its run
        self._latest: dict[str, int] = {}  # workflow → number of the event that its sender heard of last
        self.seen: Counter[str] = Counter()

    def before(self, batch: Batch) -> None:
        for row in batch.created:
            run = Run(*row)
            if run.is_compensation and run.id.rpartition(COMPENSATION)[0] == run.parent:
                self._check_compensation(run)

    def _below(self, run_id: str) -> list[Run]:
        """Return the steps of a workflow, and the items of its groups."""
        below = f"{run_id}@"
        runs = (run for run in self._disk.runs_by_id.values() if run.id.startswith(below))
        return [run for run in runs if "@" not in run.id[len(below) :]]

    def _check_compensation(self, run: Run) -> None:
        above, _, name = run.id.rpartition(COMPENSATION)
        workflow, below = self._disk.runs_by_id[above], self._below(above)
        self.seen["undone"] += 1
        closing = workflow.closing
        is_asked = closing is not None and closing.compensate
        self._require(is_asked, f"{run.id} starts, and its workflow does not roll back: {closing}")
        live = [other.id for other in below if other.state not in TERMINAL]
        self._require(not live, f"{run.id} starts, and {live} have not stopped")
        step = next((other for other in below if other.id == f"{above}@{name}"), None)
        place = None if step is None or step.step_facet is None else step.step_facet.completed
        self._require(place is not None, f"{run.id} undoes {step}, which has not succeeded")
        begun = {other.id.rpartition(COMPENSATION)[2] for other in below if other.is_compensation}
        later = [
            other.id
            for other in below
            if (facet := other.step_facet) is not None
            and (facet.completed or 0) > (place or 0)
            and other.id[len(above) + 1 :] not in begun
        ]
        self._require(not later, f"{run.id} starts before {later} are undone, which completed later")

    def check_end(self, run: Run) -> None:
        """Check a workflow that has ended: all is undone, or nothing."""
        below = self._below(run.id)
        with_undo = [
            other
            for other in below
            if other.state is State.SUCCEEDED and other.step_facet is not None and other.step_facet.undo is not None
        ]
        unplaced = [other.id for other in with_undo if other.step_facet is None or other.step_facet.completed is None]
        self._require(not unplaced, f"{unplaced} have succeeded, and are not on the saga of {run.id}")
        undone = {other.id.rpartition(COMPENSATION)[2] for other in below if other.is_compensation}
        rolls_back = run.closing is not None and run.closing.compensate and run.state is not State.SUCCEEDED
        wanted = {other.id[len(run.id) + 1 :] for other in with_undo} if rolls_back else set()
        text = f"{run.id} is {run.state}, it has undone {sorted(undone)}, and was to undo {sorted(wanted)}"
        self._require(undone == wanted, text)
        self.seen["rolled back"] += rolls_back and bool(wanted)

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def after(self, run: Run) -> None:
        if run.job_id == EVENT and run.state is State.SUCCEEDED:
            value = msgspec.json.decode(run.result or b"null")
            first = self._values.setdefault(str(value), run.id)
            self._require(first == run.id, f"event {value} was sent once, and is {first} and {run.id}")
        elif run.job_id == SEND and run.state is State.SUCCEEDED:
            value = msgspec.json.encode(run.parent)
            is_kept = any(other.job_id == EVENT and other.result == value for other in self._disk.runs_by_id.values())
            self._require(is_kept, f"{run.id} has sent an event, and nobody has it")
            self.seen["sent"] += 1

    def acknowledged(self, run_id: str, value: str, event_id: str) -> None:
        self.seen["acknowledged"] += 1
        self._require(self._values.get(value) == event_id, f"event {value} is acknowledged as {event_id}, and not kept")
        number = int(event_id.rpartition(".")[2])
        earlier = self._latest.get(run_id, 0)
        self._require(number > earlier, f"event {value} is number {number}, and the one before it {earlier}")
        self._latest[run_id] = number

    def expected(self, run: Run, steps: dict[str, Run], results: dict[str, Any]) -> Any:
        """Return the result of a workflow by its steps: the n-th wait reads the n-th event."""
        if run.job_id == ERRAND:
            return {"tell": steps["tell"].state, "rest": results["rest"]}
        waits = run.workflow_facet.waits
        in_order = {"go": "event.go.1", "also": "event.go.2"}
        self._require(waits == in_order, f"the waits of {run.id} are {waits}")
        return {"go": results["event.go.1"], "also": results["event.go.2"], "last": results["last"]}
