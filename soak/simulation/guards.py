"""Jobs with constraints, actions and hooks; the systems that their requests go to; and what must hold of them.

No more runs of a job are live than may be, nothing begins that a hook refused, every delivery that is owed arrives at
least once, and a request that is repeated has the same id and the same content.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.client.connection import Connection
from interlock.core.decisions import Batch
from interlock.core.guards.job_guard import KILLED
from interlock.interface.run_builder import new_run
from interlock.model.delivery import Delivery, Outgoing
from interlock.model.guard import Action, Check, Constraints, Hook
from interlock.model.job import Job, Retry
from interlock.model.run import Run
from interlock.model.state import HOLDS_SLOT, State
from interlock.sender.transport import ReceivedAnswer, Transport
from soak.simulation import executor as e
from soak.simulation.executor import Execution
from soak.simulation.link import SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.store import Disk

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

OK = range(200, 300)
PASSED = HOLDS_SLOT | {State.SCHEDULED, State.RETRYING}
TELL = Action(action="webhook", url="https://tell.example/x", ordered=True, give_up_after="30d")
ALSO = Action(action="webhook", url="https://also.example/x", give_up_after="30d")
BEFORE, AFTER = "https://before.example/x", "https://after.example/x"
AGAIN = Retry(max_retries=2, initial_delay=0.5)
CHECKER = Job(id=e.CHECKER, lane="wide", max_crashes=2)

GUARDED_JOBS = (
    Job(id="one_by_one", constraints=Constraints(max_concurrent_runs=1), retry=AGAIN, on_failure=TELL, grace=1.0),
    Job(
        id="killing",
        lane="wide",
        constraints=Constraints(max_concurrent_runs=1),
        on_constraint_violation="kill_old",
        grace=1.0,
    ),
    Job(
        id="later",
        lane="wide",
        constraints=Constraints(max_concurrent_runs=2),
        on_constraint_violation=[TELL, Action(action="retry_later", delay="2s", limit="60s", on_error="skip")],
        grace=1.0,
    ),
    Job(
        id="hooked",
        lane="wide",
        constraints=Constraints(
            pre_run_hook=Hook(url=BEFORE, timeout="3s"),
            post_run_hook=Hook(url=AFTER, timeout="3s", on_error="allow"),
            recheck_on_retry=["pre_run_hook"],
        ),
        on_constraint_violation=Action(action="retry_later", delay="1s"),
        on_success=[TELL, ALSO],
        on_failure=[TELL, Action(action="trigger_job", job="plain", payload={"plan": [[e.SUCCEED, 0.2]]})],
        retry=AGAIN,
        grace=1.0,
    ),
    Job(
        id="checked",
        lane="wide",
        constraints=Constraints(checks=[Check(job="checker", on_error="skip")], max_expected_run_time=1.0),
        on_constraint_violation=Action(action="call", job="checker", then="skip", on_error="skip"),
        on_late=ALSO,
        grace=1.0,
    ),
    CHECKER,
)
_JOBS = {job.id: job for job in GUARDED_JOBS}


class Receivers(Transport):
    """The systems that requests go to. While there are faults they refuse, fail and are silent."""

    def __init__(self, rng: Random, require: Callable[[bool, str], None]) -> None:
        self._rng = rng
        self._require = require
        self.well = False  # whether they answer everything
        self.got: dict[str, bytes] = {}  # id → the content of the request
        self.taken: set[str] = set()  # ids of requests that were answered well
        self.subjects: dict[str, set[str]] = {}  # run → ids of requests about it that were answered well

    async def post(self, id: str, outgoing: Outgoing, now: float, fresh: bool = False) -> ReceivedAnswer:
        await asyncio.sleep(self._rng.uniform(0.001, 0.3))
        content = msgspec.json.decode(outgoing.body)
        self._require(content["id"] == id, f"request {content['id']} was made as {id}")
        first = self.got.setdefault(id, outgoing.body)
        self._require(first == outgoing.body, f"request {id} was repeated with other content")
        chance = 0.0 if self.well else self._rng.random()
        if chance > 0.9:
            await asyncio.sleep(outgoing.timeout)
            return ReceivedAnswer(None, "", "timed out")
        status = 200 if chance < 0.6 else self._rng.choice((409, 500, 503))
        if status in OK:
            self.taken.add(id)
            self.subjects.setdefault(f"{content['subject']} {outgoing.url}", set()).add(id)
        await asyncio.sleep(self._rng.uniform(0.001, 0.3))
        return ReceivedAnswer(status, "", "" if status in OK else f"answered {status}")


class ForgetfulReceivers(Transport):
    """Says that every request was answered, and makes none."""

    async def post(self, id: str, outgoing: Outgoing, now: float, fresh: bool = False) -> ReceivedAnswer:
        return ReceivedAnswer(200)


class Guards:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self.receivers: Receivers | None = None
        self._passed: dict[str, set[str]] = {}  # job → runs that have passed and not ended
        self._owed: dict[str, Delivery] = {}
        self.waited = self.killed = 0

    def after(self, batch: Batch, touched: Iterable[str]) -> None:
        for run_id in touched:
            run = self._disk.runs_by_id.get(run_id)
            if run is not None and run.job_id in _JOBS:
                passed = self._passed.setdefault(run.job_id, set())
                (passed.add if run.state in PASSED else passed.discard)(run_id)
        for job_id, passed in self._passed.items():
            most = _JOBS[job_id].constraints.max_concurrent_runs
            self._require(most is None or len(passed) <= most, f"{len(passed)} runs of {job_id} passed, {most} may")
        new = [delivery for delivery in batch.of(Delivery) if delivery.seq == 1]
        self._owed |= {delivery.id: delivery for delivery in new}
        owed = {(delivery.run_id, delivery.event) for delivery in new}
        for run_id, entries in batch.history:
            run = self._disk.runs_by_id.get(run_id)
            job = None if run is None else _JOBS.get(run.job_id)
            for entry in entries if job is not None else ():
                self.waited += entry.after is State.ACTION_RUNNING
                self.killed += entry.reason == KILLED
                kinds = {State.SUCCEEDED: ("on_success", "run.succeeded"), State.FAILED: ("on_failure", "run.failed")}
                actions, event = kinds.get(entry.after, ("", ""))
                if actions and job is not None and any(action.action == "webhook" for action in job.actions(actions)):
                    self._require((run_id, event) in owed, f"{run_id} became {entry.after}, and owes no webhook")

    def began(self, execution: Execution, run: Run | None) -> None:
        hook = None if run is None or run.job_id not in _JOBS else _JOBS[run.job_id].constraints.pre_run_hook
        if hook is not None and self.receivers is not None:
            answered = self.receivers.subjects.get(f"{execution.run_id} {BEFORE}", ())
            self._require(bool(answered), f"{execution.run_id} begins, and its hook has not agreed")

    def explains_end(self, run: Run) -> bool:
        """Whether constraints explain an end that no attempt does."""
        if run.state is State.CANCELLED:
            return run.reason.startswith((KILLED, "run "))
        violated = bool(run.guarded.violations) and run.job_id in _JOBS
        return run.job_id == CHECKER.id or (violated and run.state in (State.SKIPPED, State.FAILED))

    async def pending(self) -> int:
        return sum(delivery.ended_at is None for delivery in self._disk.all_of(Delivery).values())

    def check_rest(self) -> None:
        sent = set() if self.receivers is None else self.receivers.taken
        for one in self._owed.values():
            self._require(one.id in sent, f"delivery {one.id} ({one.event} of {one.run_id}) never arrived")


class GuardClients:
    """Programs that submit runs of guarded jobs, in bursts, and cancel some."""

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._rng = self._cluster.random("guards")  # of its own, so that other clients do as without it

    def start(self) -> None:
        process = Process(self._cluster.loop, "client-guards")
        connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
        for _ in range(8):
            process.spawn(self._burst(connection, process))

    async def _burst(self, connection: Connection, process: Process) -> None:
        self._clients.busy += 1
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        job = rng.choice(GUARDED_JOBS[:-1])
        for _ in range(rng.randint(1, 4)):
            plan: list[tuple[str, float]] = [
                (rng.choice((e.SUCCEED, e.SUCCEED, e.FAIL, e.CRASH, e.IGNORE)), round(rng.expovariate(0.7), 3))
            ]
            options: dict[str, Any] = (
                {"session": rng.choice((None, "guarded"))} if self._cluster.scenario.sessions else {}
            )
            run = new_run(job.id, {"plan": [*plan, (e.SUCCEED, 0.5)]}, **options)
            for handle in await self._clients.submit(connection, [run]):
                process.spawn(self._clients.follow(handle, run))
            await asyncio.sleep(rng.expovariate(2.0))
        self._clients.busy -= 1
