"""Programs that retry ended runs, one or many, and that submit under keys which are unique while their runs live."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.error import TenantLimit, UnknownJob, UnknownRun
from interlock.interface.run_builder import new_run
from interlock.model.bulk import RunAction
from interlock.model.run import RunFilter
from interlock.model.state import TERMINAL, State
from interlock.wire import request as r
from interlock.wire.run_request import RetryRun
from soak.simulation import executor as e
from soak.simulation.link import AWAY, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.scenario import JOBS

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

Act = Callable[[Connection, str], Awaitable[None]]


class Retriers:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._invariants = self._cluster.invariants
        self._rng = self._cluster.random("retriers")  # of its own, so that other clients do as without it

    def start(self) -> None:
        process = Process(self._cluster.loop, "client-retrier")
        connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
        for place in range(self._cluster.scenario.retries):
            for act, name in ((self._unique, "u"), (self._retry, "one"), (self._retry_many, "again")):
                process.spawn(self._at_some_time(act, connection, f"{name}-{place}"))

    async def _at_some_time(self, act: Act, connection: Connection, name: str) -> None:
        self._clients.busy += 1
        self._clients.wait_for(name)
        await asyncio.sleep(self._rng.uniform(0, self._cluster.scenario.duration))
        await act(connection, name)
        self._clients.wait_for(name, False)
        self._clients.busy -= 1

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, 1))

    async def _unique(self, connection: Connection, name: str) -> None:
        """Submit under one of few keys, again and again; an answer that is lost is not asked for again."""
        for _ in range(6):
            key = f"u{self._rng.randint(0, 1)}"
            plan = {"plan": [[e.SUCCEED if key == "u0" else e.FATAL, 2.0]], "padding": key}
            new = new_run("plain", plan, idempotency_key=key, unique="while_live")
            with suppress(*AWAY):
                await submit(connection, [new])
            await asyncio.sleep(self._rng.expovariate(0.5))

    async def _retry(self, connection: Connection, name: str) -> None:
        """Retry an ended run, and ask twice, as after a lost answer."""
        ended = [run.id for run in self._invariants.disk.runs_by_id.values() if run.state in TERMINAL]
        if not ended:
            return
        request = RetryRun(0, self._rng.choice(ended), name).by(key=name)
        found: set[str] = set()
        for _ in range(2):
            while True:
                try:
                    found.add((await connection.ask(request)).id)
                    break
                except (*AWAY, TenantLimit):  # a run of a tenant that is at its limit is retried later
                    await self._pause()
                except (UnknownRun, UnknownJob):
                    return  # it was pruned, or the timetable has ended
        if len(found) > 1:
            self._invariants.fail(f"{request.run_id} is retried twice by {name}: {sorted(found)}")

    async def _retry_many(self, connection: Connection, name: str) -> None:
        """Retry by filter, with the id as the reason, and ask again until that has finished."""
        wanted = RunFilter(job_id=self._rng.choice(JOBS).id) if self._rng.random() < 0.4 else RunFilter()
        if self._rng.random() < 0.3:
            wanted = RunFilter(states=frozenset({State.FAILED, State.SUCCEEDED}))
        while True:
            with suppress(*AWAY):
                report = await connection.ask(r.StartBulk(0, name, RunAction.RETRY, wanted, name))
                if report.ended_at is not None:
                    return
            await self._pause()
