"""Runs that make runs: the code of attempts submits, and people cancel whole families."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.error import Forbidden, UnknownRun
from interlock.interface.run_builder import new_run
from interlock.wire import request as r
from interlock.wire.claim import Claim
from interlock.wire.message import Dispatch
from interlock.wire.run_request import CancelRun
from soak.simulation import executor as e
from soak.simulation.link import AWAY, SimulatedBus
from soak.simulation.loop import Process

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

TENANTS, PEOPLE = ("red", "blue"), ("ann", "bob", "eve")
MOST_MADE = 30


class Families:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._invariants = self._cluster.invariants
        self._rng = self._cluster.random("families")
        self._process = Process(self._cluster.loop, "client-family")
        self._connection = Connection(SimulatedBus(self._cluster.network, self._process), patience=1000.0)
        self._made = 0

    def start(self) -> None:
        self._invariants.on_execution = self._executes
        for _ in range(4):
            self._process.spawn(self._begin())
            self._process.spawn(self._cancel())

    def _plan(self) -> dict[str, object]:
        return {"plan": [[e.SUCCEED, round(self._rng.expovariate(0.2), 3)]]}

    async def _begin(self) -> None:
        """Submit a run for a person."""
        self._clients.busy += 1
        await asyncio.sleep(self._rng.uniform(0, self._cluster.scenario.duration))
        new = new_run("plain", self._plan(), tenant=self._rng.choice(TENANTS))
        with suppress(*AWAY):
            await self._connection.ask(r.Submit(0, [new], self._rng.choice(PEOPLE)))
        self._clients.busy -= 1

    def _executes(self, dispatch: Dispatch) -> None:
        for _ in range(self._rng.choice((0, 0, 1, 2))):
            if self._made < MOST_MADE and not dispatch.job_id.startswith("check"):
                self._made += 1
                self._process.spawn(self._make(dispatch))

    async def _make(self, dispatch: Dispatch) -> None:
        """Make a run as the code of an attempt does, which may be over by then; now and then claim to be another."""
        self._clients.busy += 1
        await asyncio.sleep(self._rng.expovariate(1.0))
        claim = Claim(dispatch.proof, dispatch.fence, dispatch.tenant, dispatch.run_id)
        tenant = dispatch.tenant
        false = self._rng.choice((0, 0, 0, 0, 0, 0, 1, 2, 3))
        if false == 1:
            claim = replace(claim, fence=claim.fence + self._rng.choice((-1, 1)))
        elif false == 2:
            claim = replace(claim, run_id=self._rng.choice(list(self._invariants.disk.runs_by_id)))
            false = int(claim.run_id != dispatch.run_id)
        elif false == 3:
            tenant = "green"
        new = new_run("plain", self._plan(), tenant=tenant, delay=self._rng.choice((None, 5.0)))
        with suppress(*AWAY, Forbidden):
            report = await self._connection.ask(r.Submit(0, [new], parent=str(claim)))
            made = self._invariants.disk.found(report.run_ids[0])
            parent = None if made is None else made.parent
            self._invariants.check(not false, f"{report.run_ids} was made under a false claim of {dispatch.run_id}")
            self._invariants.check(parent == dispatch.run_id, f"{report.run_ids} of {dispatch.run_id} is of {parent}")
            self._process.spawn(self._clients.follow(RunHandle(report.run_ids[0], self._connection), new))
        self._clients.busy -= 1

    async def _cancel(self) -> None:
        """Cancel a run with all that it has made."""
        self._clients.busy += 1
        await asyncio.sleep(self._rng.uniform(0, self._cluster.scenario.duration))
        roots = [run.root for run in self._invariants.disk.runs_by_id.values() if run.root is not None]
        run_id = self._rng.choice(roots) if roots else ""
        self._invariants.lineages.cancelled.add(run_id)
        while run_id:
            with suppress(*AWAY):
                with suppress(UnknownRun):  # it was pruned
                    await self._connection.ask(CancelRun(0, run_id, "the family", cascade=True))
                break
            await asyncio.sleep(self._rng.uniform(0.05, 1))
        self._clients.busy -= 1
