"""An engine that listens for workers over TLS, a worker whose attempts last as long as the test says, and the network
between them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

from interlock.buses.tls import TlsBus, client_context
from interlock.core.state import CoreLimits
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.engine.engine import Engine, EngineSettings
from interlock.model.access import Caller, Grant, Role, digest_of
from interlock.model.cluster import NodeFacts
from interlock.model.job import Job
from interlock.model.pool import DEFAULT_POOL, PoolSpec
from interlock.model.run import Run
from interlock.model.state import State
from interlock.ports.bus import Bus
from interlock.ports.clock import SystemClock
from interlock.ports.executor import Executor, Key, Report
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wiring.worker import ELSEWHERE
from interlock.worker.host import Host, HostSettings
from tests.engine.bench import Link
from tests.helpers.places import until
from tests.remote.certificates import certificates

TOKEN, OF_ACME, OF_GPU = "worker-0123456789abcdef", "acme-0123456789abcdef", "gpu-0123456789abcdef"
OF_GATEWAY = "gateway-0123456789abcdef"
GRANTS = [
    Grant(digest_of(TOKEN), Caller("site", Role.WORKER, "*")),
    Grant(digest_of(OF_GATEWAY), Caller("door", Role.GATEWAY, "*")),
    Grant(digest_of(OF_ACME), Caller("acme", Role.WORKER, "acme")),
    Grant(digest_of(OF_GPU), Caller("gpus", Role.WORKER, "*", ("gpu", "tpu"))),
]
HERE = ("127.0.0.1", 0)
JOBS = ("job", "gpu-job")
POOLS = {
    DEFAULT_POOL: PoolSpec(topics=("job",)),
    "gpu": PoolSpec(topics=("gpu-*",)),
    "tpu": PoolSpec(topics=("tpu-*",)),
}


def listening_bus() -> TlsBus:
    return TlsBus(HERE, certificates()["right"].context(), grants=GRANTS)


def connecting_bus(address: tuple[str, int], token: str = TOKEN) -> TlsBus:
    return TlsBus(address, client_context(str(certificates()["right"].path)), token=token)


class Work(Executor):
    """Attempts that end when the test says so, or when they are stopped."""

    def __init__(self) -> None:
        self.begun: list[Key] = []
        self.payloads: list[bytes] = []
        self.stopped: list[Key] = []
        self.running: set[Key] = set()
        self.ends_at_once = False
        self.report: Report = lambda message: None

    async def open(self, report: Report) -> None:
        self.report = report

    def start(self, attempt: m.Dispatch) -> None:
        key = attempt.key
        self.begun.append(key)
        self.payloads.append(attempt.payload or b"")
        self.running.add(key)
        self.report(m.Started(*key))
        if self.ends_at_once:
            self.end(key)

    def end(self, key: Key) -> None:
        self.running.discard(key)
        self.report(m.Finished(*key, "succeeded", str(key[1]).encode()))

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        if attempt.key in self.running:
            self.running.discard(attempt.key)
            self.stopped.append(attempt.key)
            self.report(m.Finished(*attempt.key, "cancelled"))
        return False

    def kill(self, attempt: m.Dispatch) -> None:
        pass

    async def close(self) -> None:
        pass


class Worker:
    """A host in this process."""

    def __init__(self, bus: Bus, name: str = "worker-1", pool: str = DEFAULT_POOL) -> None:
        self.work = Work()
        self.bus = bus
        settings = HostSettings(worker_id=name, pool=pool, patience=float("inf"), pace=ELSEWHERE)
        self.host = Host(bus, self.work, dict.fromkeys(JOBS, ""), settings, SystemClock())
        self.work.report = self.host.report
        self._task = asyncio.get_running_loop().create_task(self.host.run())

    async def ended(self) -> None:
        """Wait until it ends by itself; raise what made it."""
        await asyncio.wait_for(self._task, 30)

    async def close(self) -> None:
        self.host.abandon()
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task
        await self.bus.close()


class Scheduler:
    """An engine, and the next one on the same store."""

    def __init__(
        self, interval: float, node: NodeFacts | None = None, store: MemoryStore | None = None, lease: float = 10.0
    ) -> None:
        self._store = store or MemoryStore()
        self._node = node
        self._lease = lease
        self._limits = CoreLimits(heartbeat_interval=interval)
        self._requests = 0
        self.address = HERE

    async def start(self) -> None:
        jobs = [CatalogEntry(Job(id=name, max_crashes=10), lambda payload: None) for name in JOBS]
        catalog = Catalog(jobs, pools=POOLS)
        settings = EngineSettings(limits=self._limits, node=self._node, lease_ttl=self._lease)
        clock, rng = SystemClock(), Random(repr(self._node))
        self.engine = Engine(
            store=self._store, leases=self._store, clock=clock, rng=rng, catalog=catalog, settings=settings
        )
        await self.engine.start()
        self._task = asyncio.get_running_loop().create_task(self.engine.run())
        self.bus = TlsBus(self.address, certificates()["right"].context(), grants=GRANTS)
        await self.bus.listen(self.engine.links)
        self.address = self.bus.address
        self._client = Link(self.engine)
        self._client.say(m.Greeting(m.PROTOCOL))

    async def stop(self) -> None:
        await self.bus.close()
        self.engine.stop()
        await self._task

    async def joined(self, *names: str) -> None:
        await until(lambda: set(names) <= self.engine.present.peers.workers.keys(), f"{names} have joined")

    async def submit(self, tenant: str = "default", payload: bytes = b"{}", job: str = "job") -> str:
        self._requests += 1
        number = self._requests
        self._client.say(r.Submit(number, [r.NewRun(job, payload, tenant=tenant)]))
        await until(lambda: any(one.request == number for one in self._client.of(r.Accepted)), "it is submitted")
        (answer,) = (one for one in self._client.of(r.Accepted) if one.request == number)
        return answer.run_ids[0]

    def live(self, run_id: str) -> Run | None:
        return self.engine.state.runs.get(run_id)

    async def states(self, run_id: str) -> list[State]:
        return [entry.after for entry in await self._store.history(run_id)]

    async def ended(self, run_id: str) -> Run:
        await until(lambda: self._store.runs_by_id[run_id].ended_at is not None, f"{run_id} has ended")
        found = await self._store.run(run_id)
        assert found is not None
        return found


class Network:
    """A proxy between worker and scheduler. It can hold everything back, or change what passes."""

    def __init__(self, there: Callable[[], tuple[str, int]]) -> None:
        self._there = there
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        self.connections = 0
        self.passed = 0
        self.change: Callable[[bytes], list[bytes]] = lambda data: [data]
        """pieces to forward of what comes from the worker; an empty piece cuts the connection"""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, *HERE)
        self.address: tuple[str, int] = self._server.sockets[0].getsockname()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._ends.append(writer)
        await self._open.wait()
        try:
            to_reader, to_writer = await asyncio.open_connection(*self._there())
        except OSError:
            writer.close()
            return
        self._ends.append(to_writer)
        for source, target, changes in ((reader, to_writer, True), (to_reader, writer, False)):
            task = asyncio.get_running_loop().create_task(self._pump(source, target, changes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, changes: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._open.wait()
                for piece in self.change(data) if changes else [data]:
                    if not piece:
                        self.cut()
                        return
                    target.write(piece)
                    self.passed += len(piece)
                await target.drain()
        target.close()

    def hold(self) -> None:
        """Let nothing pass; connections stay open, as in a partition."""
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """End every connection, in the middle of whatever it was carrying."""
        for writer in self._ends:
            writer.transport.abort()
        self._ends.clear()

    async def close(self) -> None:
        self._server.close()
        self.heal()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def stage(interval: float = 10.0) -> AsyncIterator[tuple[Scheduler, Network, Worker]]:
    """A scheduler, and a worker that has joined over a network. No task outlives them."""
    before = asyncio.all_tasks()
    scheduler = Scheduler(interval)
    await scheduler.start()
    network = Network(lambda: scheduler.address)
    await network.start()
    worker = Worker(connecting_bus(network.address))
    try:
        await scheduler.joined("site:worker-1")
        yield scheduler, network, worker
    finally:
        await worker.close()
        await network.close()
        await scheduler.stop()
    await until(lambda: asyncio.all_tasks() <= before, "no task is left")
