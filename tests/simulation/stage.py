"""A simulated cluster without chaos, on which a test lets things happen at the moments it chooses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.client.submission import submit
from interlock.interface.run_builder import new_run
from interlock.model.run import Run, Transition
from soak.simulation.cluster import Cluster, Worker
from soak.simulation.executor import Execution, Plan
from soak.simulation.link import SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.scenario import Faults, Sabotage, Scenario
from soak.simulation.simulate import run_quietly

LIMIT = 1000.0
"""virtual seconds a test may take"""


class Stage:
    def __init__(self, workers: int = 2, slots: int = 4) -> None:
        scenario = Scenario(
            runs=0,
            clients=0,
            workers=workers,
            slots=slots,
            processes=2,
            duration=0.0,
            fault_every=1.0,
            batch_runs=2000,
            named_workers=False,
            own_workers=False,
            faults=Faults.only(),
        )
        self.cluster = Cluster(1, scenario, Sabotage())
        self.connection = self.connect()

    def connect(self) -> Connection:
        """Another client."""
        process = Process(self.cluster.loop, "client")
        return Connection(SimulatedBus(self.cluster.network, process), patience=1000.0)

    @property
    def now(self) -> float:
        return self.cluster.loop.time()

    def play(self, body: Callable[["Stage"], Awaitable[None]]) -> None:
        """Run the test's body with everything started; the invariants are watched, and hold at the end."""

        async def all_of_it() -> None:
            self.cluster.start_scheduler()
            for place in range(self.cluster.scenario.workers):
                self.cluster.start_worker(place)
            await asyncio.sleep(1.0)
            await asyncio.wait_for(body(self), LIMIT)
            await self.until(lambda: not self.cluster.invariants.unfinished(), "every run has ended")
            await self.until(
                lambda: not any(worker.host.running for worker in self.cluster.workers.values()), "all are idle"
            )
            self.cluster.invariants.check_rest()

        violation = run_quietly(self.cluster, all_of_it())
        assert violation is None, "\n".join([violation, *self.cluster.trace.tail(60)])

    async def until(self, condition: Callable[[], bool], what: str, limit: float = 300.0) -> None:
        begun = self.now
        while not condition():
            assert self.now - begun < limit, f"not within {limit}s: {what}"
            await asyncio.sleep(0.01)

    async def submit(
        self, job: str, *plan: tuple[str, float], connection: Connection | None = None, session: str | None = None
    ) -> RunHandle[Any]:
        new = new_run(job, msgspec.to_builtins(Plan(plan)), now=self.cluster.clock.now().wall, session=session)
        return (await submit(connection or self.connection, [new]))[0]

    def run(self, handle: RunHandle[Any]) -> Run:
        return self.cluster.disk.runs_by_id[handle.id]

    def history(self, handle: RunHandle[Any]) -> list[Transition]:
        return self.cluster.disk.entries[handle.id]

    def executions(self, handle: RunHandle[Any]) -> list[Execution]:
        return [one for one in self.cluster.invariants.executions if one.run_id == handle.id]

    async def executing(self, handle: RunHandle[Any], times: int = 1) -> Worker:
        """Wait until it executes for the so-manieth time; the worker it is on."""
        await self.until(lambda: len(self.executions(handle)) >= times, f"{handle.id} executes")
        name = self.executions(handle)[-1].worker
        return next(worker for worker in self.cluster.workers.values() if worker.process.name == name)

    def kill_scheduler(self) -> None:
        assert self.cluster.scheduler is not None
        self.cluster.scheduler.process.kill()

    async def scheduler_is_back(self) -> None:
        await self.until(
            lambda: self.cluster.scheduler is not None and self.cluster.scheduler.engine.present.available, "it is back"
        )
