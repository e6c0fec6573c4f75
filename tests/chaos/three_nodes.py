"""Three nodes that may lead, two more gateways and one more worker, on PostgreSQL; all of them are harmed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

import interlock as il
from tests.chaos import jobs
from tests.chaos.faults import Doors, Fault, Faults, Refuse
from tests.chaos.people import TOKEN
from tests.chaos.postgres_database import PostgresDatabase
from tests.cluster.nodes import GATEWAY, SCHEDULER, WORKER, Cluster, Node
from tests.helpers.postgres import own_server, with_options
from tests.helpers.processes import processes_of, wait_until
from tests.remote.elsewhere import free_port

EXECUTOR = "interlock.worker.executor_process"
SCHEMA = "chaos"
ROLES = {"d": ["gateway"], "e": ["gateway"], "f": ["worker"]}
"""of the nodes that cannot lead"""
LEADER = f"SELECT holder FROM {SCHEMA}.leases"
ITS_SESSION = f"SELECT split_part(session, ' ', 1)::int FROM {SCHEMA}.leases"
END = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'interlock'"
BRIEF, LONG = (0.3, 1.0, 4.0), (0.3, 4.0, 14.0)
"""seconds: within the lease, and beyond it"""
START = 90.0


class ThreeNodes(Faults):
    def __init__(self, folder: Path, seed: int, environment: dict[str, str]) -> None:
        super().__init__(folder, seed)
        self._exits = AsyncExitStack()
        self._postgres = self._exits.enter_context(own_server("max_connections=120"))
        approver = {"name": "ann", "role": "approver", "tenant": "*", "token": TOKEN}
        nodes = folder / "nodes"
        nodes.mkdir()
        given: dict[str, Any] = {
            "app": "tests.chaos.jobs:app", "files": [str(jobs.lay_out(folder))], "tokens": [approver],
            "lanes": jobs.LANES, "heartbeat": "4s", "slots": 16, "keep_runs": 5, "webhook_allow": ["127.0.0.1"],
        }  # fmt: skip
        database = with_options(self._postgres.url, schema=SCHEMA)
        self._cluster = Cluster(nodes, database, "abc", **given)
        self._nodes = dict(self._cluster.nodes)
        for name, roles in ROLES.items():
            own = {**self._cluster.settings, "roles": roles, "listen_workers": None}
            self._nodes[name] = Node(nodes / name, name, 0, own)
        self._ports = {name: free_port() for name in "abcde"}
        for name, node in self._nodes.items():
            node.extra = (
                environment | {"INTERLOCK_HTTP": f"127.0.0.1:{self._ports[name]}"}
                if name in self._ports
                else environment
            )
        self._away: set[str] = set()
        """nodes that were ended on purpose"""
        self.database = PostgresDatabase(self._postgres.url, SCHEMA)

    def kinds(self, burst: Fault, refuse: Refuse) -> dict[str, tuple[int, Fault]]:
        return {
            "kill leader": (5, self._kill_leader),
            "stop leader": (4, self._stop_leader),
            "kill scheduler": (2, lambda: self.kill(self.find(_named(SCHEDULER)))),
            "stop scheduler": (2, lambda: self.pause(self.find(_named(SCHEDULER)), LONG)),
            "kill gateway": (2, lambda: self.kill(self.find(_named(GATEWAY)))),
            "stop gateway": (2, lambda: self.pause(self.find(_named(GATEWAY)), BRIEF)),
            "kill worker": (4, lambda: self.kill(self.find(_named(WORKER)))),
            "stop worker": (4, lambda: self._stop_worker(burst)),
            "kill executor": (3, lambda: self.kill(self.find(EXECUTOR))),
            "stop executor": (3, lambda: self.pause(self.find(EXECUTOR), BRIEF)),
            "kill node": (3, self._kill_node),
            "stop node": (1, lambda: self.pause(self._some_node().pid, LONG)),
            "restart node": (1, self._restart_node),
            "hand over": (2, self._hand_over),
            "end backend of leader": (3, lambda: self._ask(f"SELECT pg_terminate_backend(({ITS_SESSION}))")),
            "end every backend": (2, lambda: self._ask(END)),
            "stop backend of leader": (3, self._stop_backend),
            "kill backend of leader": (2, self._kill_backend),
            "kill PostgreSQL": (3, lambda: self._restart_postgres(signal.SIGKILL)),
            "restart PostgreSQL": (1, lambda: self._restart_postgres(signal.SIGINT)),
            "stop PostgreSQL": (2, self._stop_postgres),
            "webhooks refused": (2, lambda: self.last(refuse(self._chance.choice((0.5, 2))))),
        }

    async def begin(self) -> None:
        for node in self._nodes.values():
            node.begin()
        await asyncio.to_thread(
            wait_until,
            lambda: all(self._nodes[name].leader() for name in self._ports),
            "every gateway knows a leader",
            START,
        )

    @asynccontextmanager
    async def doors(self) -> AsyncIterator[Doors]:
        async with AsyncExitStack() as stack:
            found = [
                await stack.enter_async_context(
                    il.AsyncClient(f"unix:{self._nodes[name].folder}/interlock.http", timeout="3s")
                )
                for name in self._ports
            ]
            address = f"http://127.0.0.1:{self._ports['d']}"
            approver = await stack.enter_async_context(il.AsyncClient(address, token=TOKEN, timeout="3s"))
            yield Doors([*found], found[-1], approver)

    # ── schedulers, nodes, workers ──────────────────────────────────────────────────────────────────────────────────

    async def _leader(self) -> Node:
        name = await self._ask(LEADER)
        return self._cluster.nodes.get(name or "") or self._chance.choice(list(self._cluster.nodes.values()))

    def _scheduler_of(self, node: Node) -> int | None:
        with suppress(ValueError):
            return node.process_of(SCHEDULER)
        return None

    async def _kill_leader(self) -> None:
        await self.kill(self._scheduler_of(await self._leader()))

    async def _stop_leader(self) -> None:
        await self.pause(self._scheduler_of(await self._leader()), LONG)

    async def _stop_worker(self, burst: Fault) -> None:
        """Stop it mostly for so long that it counts as lost, with runs on their way to it."""
        await self.pause(self.find(_named(WORKER)), (0.3, 5, 18))
        await self.last(burst())

    def _some_node(self) -> Node:
        there = [node for name, node in self._nodes.items() if name not in self._away]
        return self._chance.choice(there)

    async def _kill_node(self) -> None:
        """Lose a machine, with everything on it; it comes back while other harm is done."""
        node = self._some_node()
        self._away.add(node.name)
        for process in processes_of(node.folder):
            self.note_killed(process.pid)
        node.kill()
        await self.last(self._bring_back(node))

    async def _restart_node(self) -> None:
        node = self._some_node()
        self._away.add(node.name)
        await self.last(self._restart(node))

    async def _restart(self, node: Node) -> None:
        with suppress(ProcessLookupError):
            os.kill(node.pid, signal.SIGCONT)
        node.send(signal.SIGINT)
        code = await asyncio.to_thread(node.ended, 60.0)
        if code != 0:
            self.deaths.append(f"{node.name}: exit {code} after Ctrl-C: {node.said[-500:]}")
        await self._bring_back(node)

    async def _bring_back(self, node: Node) -> None:
        await asyncio.sleep(self._chance.choice((0, 1, 5)))
        node.begin()
        self._away.discard(node.name)

    async def _hand_over(self) -> None:
        door = self._nodes[self._chance.choice(list(self._ports))]
        with suppress(OSError):
            await asyncio.to_thread(door.http.post, "/api/v1/cluster/hand-over")

    async def revive(self) -> None:
        for name, node in self._nodes.items():
            if name not in self._away and node.process is not None and node.process.poll() is not None:
                self.deaths.append(f"{name}: exit {node.process.returncode}: {node.said[-500:]}")
                node.kill()
                node.begin()

    # ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, query: str) -> Any:
        """Ask the server, if it answers."""
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            async with asyncio.timeout(3):
                connection = await asyncpg.connect(self._postgres.url)
                try:
                    return await connection.fetchval(query)
                finally:
                    connection.terminate()

    async def _stop_backend(self) -> None:
        if pid := await self._ask(ITS_SESSION):
            await self.pause(pid, LONG)

    async def _kill_backend(self) -> None:
        """The server ends all the others too, and recovers."""
        if pid := await self._ask(ITS_SESSION):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _restart_postgres(self, how: signal.Signals) -> None:
        if self._postgres.process is not None:
            for pid in self._postgres.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            await asyncio.to_thread(self._postgres.stop, how)
            await asyncio.sleep(self._chance.choice((0, 0, 1, 12)))
            await asyncio.to_thread(self._postgres.start)

    async def _stop_postgres(self) -> None:
        if self._postgres.process is not None:
            await self.pause(self._postgres.process.pid, LONG)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> list[str]:
        left: list[str] = []
        for node in reversed(self._nodes.values()):
            if node.process is not None and (code := node.stop()) != 0:
                left.append(f"{node.name}: exit {code}: {node.said[-500:]}")
            left += [
                f"{node.name}: {line}"
                for line in node.said.splitlines()
                if any(word in line for word in ("internal error", "Traceback", "has failed", "never retrieved"))
            ]
        try:
            wait_until(lambda: not processes_of(self._folder), "every process has ended", 20.0)
        except AssertionError as error:
            left += [str(error), *map(str, processes_of(self._folder))]
        for node in self._nodes.values():
            # A scheduler that was killed leaves its socket to the next one that leads there.
            (node.folder / "interlock.sock").unlink(missing_ok=True)
        return left

    def close(self) -> None:
        for process in processes_of(self._folder):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for node in self._nodes.values():
            node.kill()
        self._postgres.remove()

    def said(self) -> list[str]:
        led = sum(node.said.count(" leads, epoch ") for node in self._nodes.values())
        return [f"{led} times a scheduler took the lead"]


def _named(part: str) -> str:
    return f"interlock.{part}"
