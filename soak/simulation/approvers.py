"""Programs that submit runs for the policy to judge, people who approve and reject them, and changes of the policy."""

import asyncio
from typing import TYPE_CHECKING

from interlock.client.connection import Connection
from interlock.interface.run_builder import new_run
from interlock.model.facets import seen
from interlock.model.run import Run
from interlock.model.state import State
from interlock.wire.approval_request import ApproveRun, RejectRun
from interlock.wire.request import NewRun
from interlock.wire.run_request import CancelRun
from soak.simulation import executor as e
from soak.simulation.link import SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.policies import APPROVER, KIND, KINDS, POLICIES, Answer
from soak.simulation.scenario import APPROVAL_TIMEOUT
from soak.simulation.sessions import DEBOUNCED, NAMES

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

_JOBS = ("retried", "tireless", "narrow", "isolated", "plain")


class Approvers:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._policies = self._cluster.invariants.policies
        self._rng = self._cluster.random("approvers")  # of its own, so that other clients do as without it
        self._shown: list[str] = []  # what approvers have seen
        self._count = 0
        self._sessions = (None, *NAMES[:2], DEBOUNCED) if self._cluster.scenario.sessions else (None,)

    def start(self) -> None:
        process = Process(self._cluster.loop, "client-approvers")
        connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
        for _ in range(8):
            process.spawn(self._burst(connection, process))
        for _ in range(2):
            process.spawn(self._look(process))
        process.spawn(self._reload())

    async def _burst(self, connection: Connection, process: Process) -> None:
        """Submit runs of one kind."""
        self._clients.busy += 1
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        kind = rng.choice(KINDS)
        ends = [e.SUCCEED, e.SUCCEED, e.FAIL, e.CRASH, e.RETURN]
        if kind == "small" and not self._policies.fails_open:
            ends.append(e.HANG)  # which only the limit of the policy ends
        for _ in range(rng.randint(1, 5)):
            self._count += 1
            plan = [(rng.choice(ends), round(rng.expovariate(0.7), 3)) for _ in range(rng.randint(1, 3))]
            arguments = {"plan": [*plan, (e.SUCCEED, 0.5)], "padding": "x" * rng.choice((0, 0, 300))}
            session, labels = rng.choice(self._sessions), {KIND: kind, "number": str(self._count)}
            delay = rng.choice((None, None, 3.0))
            runs = [new_run(rng.choice(_JOBS), arguments, labels=labels, delay=delay, session=session)]
            if session == DEBOUNCED:
                runs = [self._alike(size) for size in rng.sample((0, 1, 2, 300), 3)]
            for handle, run in zip(await self._clients.submit(connection, runs), runs, strict=False):
                process.spawn(self._clients.follow(handle, run))
            await asyncio.sleep(rng.expovariate(2.0))
        self._clients.busy -= 1

    def _alike(self, size: int) -> NewRun:
        """Return a run that joins others of its session, if the policy allows both."""
        return new_run(
            _JOBS[0], {"plan": [(e.SUCCEED, 0.5)], "padding": "x" * size}, labels={KIND: "free"}, session=DEBOUNCED
        )

    # ── approvers ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, process: Process) -> None:
        """Answer some of what is asked: also late, twice, for something else, and as the submitter."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.expovariate(1.0))
            asked = [run for run in self._cluster.disk.runs_by_id.values() if run.state is State.APPROVAL_REQUIRED]
            if asked:
                process.spawn(self._answer(rng.choice(asked)))

    async def _answer(self, run: Run) -> None:
        rng, judged = self._rng, run.judged
        if judged is None:
            return
        shown, owner = seen(judged), run.created_by
        self._shown.append(shown)
        if rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0, 2 * APPROVAL_TIMEOUT))
        if rng.random() < 0.2:
            self._cluster.invariants.cancels[run.id] = None
            self._post(CancelRun(0, run.id, "the approver says so"))
        for _ in range(rng.choice((1, 1, 1, 2))):
            actor = rng.choice(("ann", "ann", "bob", "bob", owner))
            given = rng.choice(("", shown, shown, shown, rng.choice(self._shown)))
            self._count += 1
            kind = ApproveRun if rng.random() < 0.7 else RejectRun
            command = kind(self._count, run.id, "looked at", given).by(actor=actor)
            self._policies.sent[self._count] = Answer(command, is_stale=_request(given) not in ("", _request(shown)))
            self._post(command)
        if rng.random() < 0.1:
            await self._change()

    def _post(self, command: ApproveRun | RejectRun | CancelRun) -> None:
        if (scheduler := self._cluster.scheduler) is not None:
            scheduler.process.call_soon(scheduler.engine.inbox.post, APPROVER, command)

    # ── another policy ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _reload(self) -> None:
        end = self._cluster.loop.time() + self._cluster.scenario.duration
        while self._cluster.loop.time() < end:
            await asyncio.sleep(self._rng.expovariate(0.12))
            await self._change()

    async def _change(self) -> None:
        self._cluster.policy = self._rng.randrange(len(POLICIES))
        if self._policies.service is not None:
            self._policies.service.current = self._cluster.policy
        else:
            await self._cluster.declare()


def _request(shown: str) -> str:
    """The hash of the request, without that of the policy, which may come back."""
    return shown.partition(":")[0]
