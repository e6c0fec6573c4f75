"""Programs that change lanes while they are used, and floods of runs for those with rates, limits and priorities."""

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.error import UnknownLane
from interlock.interface.run_builder import new_run
from interlock.model.lane import LaneAction
from interlock.model.session import SessionAction
from interlock.wire import request as r
from interlock.wire.lane_request import ActOnLane, CreateLane, LaneChangeBody, SetLane
from interlock.wire.session_request import ActOnSession
from soak.simulation import executor as e
from soak.simulation.link import AWAY, IN_DOUBT, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.scenario import LANES
from soak.simulation.sessions import NAMES

if TYPE_CHECKING:
    from soak.simulation.clients import Clients

CREATED = "made"
"""the lane that is created at run time"""


class Operators:
    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._cluster = clients.cluster
        self._rng = self._cluster.random("operators")  # of its own, so that other clients do as without it

    def start(self) -> None:
        process = Process(self._cluster.loop, "client-operator")
        connection = Connection(SimulatedBus(self._cluster.network, process), patience=1000.0)
        process.spawn(self._change_lanes(connection))
        for _ in range(3):
            process.spawn(self._flood(connection))
        if self._cluster.scenario.sessions:
            process.spawn(self._act_on_sessions(connection))

    async def _ask(self, connection: Connection, request: r.Request[Any]) -> None:
        while True:
            try:
                await connection.ask(request)
                return
            except AWAY:
                await asyncio.sleep(self._rng.uniform(0.05, 1))
            except UnknownLane:
                return  # it was not created yet

    async def _change_lanes(self, connection: Connection) -> None:
        """Do one thing after the other, and in the end open every lane."""
        self._clients.busy += 1
        rng, lanes = self._rng, (*LANES, CREATED)
        end = self._cluster.loop.time() + self._cluster.scenario.duration
        while self._cluster.loop.time() < end:
            await asyncio.sleep(rng.expovariate(0.5))
            lane, chance = rng.choice(lanes), rng.random()
            if chance < 0.2:
                await self._ask(connection, CreateLane(0, CREATED, 2))
            elif chance < 0.5:
                await self._ask(connection, SetLane(0, lane, LaneChangeBody(limit=rng.randint(1, 4))))
            elif chance < 0.7:
                rate = rng.choice((None, "0.5/s", "2/s"))
                await self._ask(connection, SetLane(0, lane, LaneChangeBody(rate=rate, burst=rng.randint(1, 3))))
            else:
                action = rng.choice((LaneAction.PAUSE, LaneAction.DRAIN, LaneAction.RESUME, LaneAction.RESUME))
                await self._ask(connection, ActOnLane(0, lane, action))
        for lane in lanes:
            await self._ask(connection, ActOnLane(0, lane, LaneAction.RESUME))
        self._clients.busy -= 1

    async def _flood(self, connection: Connection) -> None:
        """Submit many short runs of one lane: some of a rate, some of a limit, and one that all others overtake."""
        self._clients.busy += 1
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, self._cluster.scenario.duration))
        lane = rng.choice((*LANES, CREATED))
        plain = rng.random() < 0.5
        runs = [new_run("quick", _plan(0.05), lane=lane, priority="batch", tenant="patient")]
        for _ in range(24):
            job = "quick" if plain else rng.choice(("rated", "limited", "metered", "both"))
            options: dict[str, Any] = {"lane": lane, "priority": "critical", "tenant": rng.choice("ab")}
            runs.append(new_run(job, _plan(0.05 if plain else 0.5) | {"customer": rng.choice("xy")}, **options))
        while True:
            try:
                await submit(connection, runs)
                break
            except IN_DOUBT:
                break  # they may or may not be there
            except AWAY:
                await asyncio.sleep(rng.uniform(0.05, 1))
        self._clients.busy -= 1

    async def _act_on_sessions(self, connection: Connection) -> None:
        self._clients.busy += 1
        end = self._cluster.loop.time() + self._cluster.scenario.duration
        while self._cluster.loop.time() < end:
            await asyncio.sleep(self._rng.expovariate(0.3))
            name = self._rng.choice(NAMES)
            action = self._rng.choice([one for one in SessionAction if one is not SessionAction.RESET])
            self._cluster.invariants.sessions.acted = True
            await self._ask(connection, ActOnSession(0, name, action))
        for name in NAMES:
            await self._ask(connection, ActOnSession(0, name, SessionAction.RESUME))
        self._clients.busy -= 1


def _plan(seconds: float) -> dict[str, Any]:
    return {"plan": [[e.SUCCEED, seconds]]}
