"""Programs that submit runs for some workers only and for tenants with limits, and people who drain workers and change
pools and tenants. In the end, every run has a worker that it can go to."""

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.error import (
    TenantLimit,
    UnknownWorker,
    WrongStatus,
)
from interlock.interface.run_builder import new_run
from interlock.model.pool import WorkerAction
from interlock.wire.request import NewRun
from interlock.wire.worker_request import ActOnWorker
from soak.simulation import executor as e
from soak.simulation.link import AWAY, IN_DOUBT, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.routes import (
    POOLS,
    ROUTED_JOBS,
    SUBMITTING,
    TENANTS,
    WITHOUT_GPU,
    overloaded,
    without_gpu,
)

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

MOST_REFUSED = 20
CALM = 10.0  # seconds after the faults in which every worker has been replaced
_ENDS = (e.SUCCEED, e.SUCCEED, e.SUCCEED, e.FAIL, e.CRASH, e.RETURN)


class Dispatchers:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._rng = self._cluster.random("dispatchers")  # of its own, so that other clients do as without it
        self._end = self._cluster.loop.time() + self._cluster.scenario.duration

    def start(self) -> None:
        process = Process(self._cluster.loop, "client-dispatchers")
        connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
        for _ in range(10):
            process.spawn(self._burst(connection, process))
        process.spawn(self._change_workers(connection))
        process.spawn(self._go_dry() if self._cluster.scenario.drought else self._reload())

    # ── submits ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _burst(self, connection: Connection, process: Process) -> None:
        """Submit runs of one tenant, more than it may have."""
        self._clients.busy += 1
        rng = self._rng
        if self._cluster.scenario.drought:  # early, so that runs wait for as long as they may
            await asyncio.sleep(rng.uniform(40, 140))
        else:
            await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        tenant = rng.choice(SUBMITTING)
        for _ in range(rng.randint(2, 6)):
            run = self._run(tenant)
            for handle in await self._submit(connection, run):
                process.spawn(self._clients.follow(handle, run))
            await asyncio.sleep(rng.expovariate(3.0))
        self._clients.busy -= 1

    def _run(self, tenant: str | None) -> NewRun:
        rng = self._rng
        job = rng.choice(ROUTED_JOBS)
        plan = [(rng.choice(_ENDS), round(rng.expovariate(0.7), 3)) for _ in range(rng.randint(1, 2))]
        labels: dict[str, str] = {"color": rng.choice("ab")}  # which constrains nothing
        if rng.random() < 0.4:
            prefix = "placement" if tenant == "placed" else rng.choice(("placement", "constraint", "node"))
            labels[f"{prefix}.zone"] = rng.choice("ab")
        if rng.random() < 0.1:
            labels["constraint.big"] = "true"
        if rng.random() < 0.2:
            labels["preferred_pool"] = "main" if job.id == "anywhere" else rng.choice(("main", "gpu"))
        if rng.random() < 0.3 and self._cluster.workers:
            labels["preferred_worker_id"] = rng.choice(list(self._cluster.workers.values())).name
        arguments = {"plan": [*plan, (e.SUCCEED, 0.5)], "padding": "x" * rng.choice((0, 0, 300))}
        options: dict[str, Any] = {"labels": labels, "tenant": tenant, "delay": rng.choice((None, None, 2.0))}
        return new_run(job.id, arguments, now=self._cluster.clock.now().wall, **options)

    async def _submit(self, connection: Connection, run: NewRun) -> list[Any]:
        refused = 0
        while True:
            try:
                return await submit(connection, [run])
            except IN_DOUBT:
                return []  # it may or may not be there
            except TenantLimit as error:
                refused += 1
                if refused == MOST_REFUSED:
                    return []
                await asyncio.sleep((error.retry_after or 1.0) * self._rng.uniform(0.5, 1.5))
            except AWAY:
                await asyncio.sleep(self._rng.uniform(0.05, 1))

    # ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _act(self, connection: Connection, worker: str, action: WorkerAction) -> None:
        while True:
            try:
                await connection.ask(ActOnWorker(0, worker, action))
                return
            except AWAY:
                await asyncio.sleep(self._rng.uniform(0.05, 1))
            except (UnknownWorker, WrongStatus):
                return  # it is not there yet, or about to leave

    async def _change_workers(self, connection: Connection) -> None:
        """Drain, resume and remove workers, and in the end resume all."""
        self._clients.busy += 1
        rng, cluster = self._rng, self._cluster
        actions = [WorkerAction.DRAIN, WorkerAction.RESUME] * 2
        if not cluster.scenario.drought:  # which a new worker would end
            actions.append(WorkerAction.REMOVE)
        while cluster.loop.time() < self._end:
            await asyncio.sleep(rng.expovariate(0.02 if cluster.scenario.drought else 0.4))
            if cluster.workers:
                name = rng.choice(list(cluster.workers.values())).name
                await self._act(connection, name, rng.choice(actions))
        await asyncio.sleep(CALM)
        for worker in list(cluster.workers.values()):
            await self._act(connection, worker.name, WorkerAction.RESUME)
        self._clients.busy -= 1

    async def _reload(self) -> None:
        self._clients.busy += 1
        rng, cluster = self._rng, self._cluster
        while cluster.loop.time() < self._end:
            await asyncio.sleep(rng.expovariate(0.15))
            cluster.pools, cluster.tenants = rng.choice(POOLS), rng.choice(TENANTS)
            await cluster.declare()
        await self._settle()
        self._clients.busy -= 1

    async def _settle(self) -> None:
        self._cluster.pools, self._cluster.tenants = POOLS[0], TENANTS[0]
        await self._declare()

    async def _declare(self) -> None:
        while True:
            if await self._cluster.declare():
                return
            await asyncio.sleep(0.5)

    async def _go_dry(self) -> None:
        """Let topics have no pool, or nobody who fits, or only workers that are busy, until runs are given up."""
        self._clients.busy += 1
        rng, cluster = self._rng, self._cluster
        await asyncio.sleep(rng.uniform(1, 20))
        kind = rng.choice(("no pool", "no worker", "overload"))
        cluster.trace.add(f"fault: a drought begins: {kind}")
        if kind == "no pool":
            cluster.pools = WITHOUT_GPU
            await self._declare()
        else:
            cluster.replace_workers(without_gpu if kind == "no worker" else overloaded)
        await asyncio.sleep(max(0.0, self._end - cluster.loop.time()))
        await self._settle()
        self._clients.busy -= 1
