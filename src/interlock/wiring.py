"""Where adapters meet the engine: a scheduler, a worker, a client, put together from their parts."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import msgspec
import uvloop

from interlock import config
from interlock.buses.socket import SocketBus
from interlock.client.connection import Connection
from interlock.core.state import Limits
from interlock.engine.catalog import Catalog, Entry
from interlock.engine.clock import SystemClock
from interlock.engine.engine import Engine, EngineSettings
from interlock.model.duration import seconds
from interlock.model.error import BadValue, NotRunning
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteStore
from interlock.supervision.keeper import Keeper
from interlock.worker.definition import Definition
from interlock.worker.host import Host, HostSettings
from interlock.worker.pool import ProcessPool

logger = logging.getLogger("interlock")

MEMORY = ":memory:"
"""as the database: nothing is kept beyond the process"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one scheduler needs to know."""

    database: str = "interlock.db"
    socket: str | None = None
    """None: beside the database"""
    workers: int = 1
    slots: int = 64
    processes: int = 2
    lanes: dict[str, int] | None = None
    """over the defaults and INTERLOCK_LANE_<NAME>"""
    heartbeat: float = 10.0
    drain: float = 5.0
    memory_limit: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    """how the worker processes log; a program that embeds the scheduler sets up its own logging for that"""

    def __post_init__(self) -> None:
        for field, least in (("workers", 0), ("slots", 1), ("processes", 0), ("memory_limit", 0)):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise BadValue(field, value, f"a whole number of {least} or more")
        for name, limit in (self.lanes or {}).items():
            config.check_lane("lanes", name, limit)
        if not self.heartbeat > 0:
            raise BadValue("heartbeat", self.heartbeat, "longer than zero")

    def socket_path(self) -> Path:
        if self.socket is not None:
            return Path(self.socket)
        return Path("interlock.sock" if self.database == MEMORY else f"{self.database}.sock")


def catalog_of(definitions: Mapping[str, Definition]) -> Catalog:
    return Catalog([Entry(definition.job, definition.check) for definition in definitions.values()])


def store_for(database: str) -> MemoryStore | SqliteStore:
    return MemoryStore() if database == MEMORY else SqliteStore(database)


class Scheduler:
    """The engine with its store, its socket and its worker processes."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        target: str,
        settings: Settings,
        store: MemoryStore | SqliteStore | None = None,
    ) -> None:
        self.settings = settings
        self.instance = f"{SystemRandom().getrandbits(48):012x}"
        self.bus = SocketBus(settings.socket_path())
        self.store = store if store is not None else store_for(settings.database)
        self.engine = Engine(
            store=self.store,
            leases=self.store,
            clock=SystemClock(),
            rng=Random(SystemRandom().getrandbits(64)),
            catalog=catalog_of(definitions),
            settings=EngineSettings(
                lanes=config.lanes(os.environ) | (settings.lanes or {}),
                limits=Limits(heartbeat_interval=settings.heartbeat),
                holder=f"process {os.getpid()}",
                instance=self.instance,
            ),
        )
        self.keeper = Keeper(
            [partial(self._worker_command, place, target) for place in range(settings.workers)],
            os.environ | {"PYTHONPATH": os.pathsep.join(part or os.getcwd() for part in sys.path)},
            patience=settings.drain + 12.0,
        )
        self._running: asyncio.Task[None] | None = None

    def _worker_command(self, place: int, target: str) -> list[str]:
        settings = self.settings
        options = WorkerOptions(
            app=target,
            socket=str(settings.socket_path().absolute()),
            name=f"w{place + 1}",
            slots=settings.slots,
            processes=settings.processes,
            heartbeat=settings.heartbeat,
            drain=settings.drain,
            memory_limit=settings.memory_limit,
            log_level=settings.log_level,
            log_format=settings.log_format,
            instance=self.instance,
        )
        return [sys.executable, "-m", "interlock.cli.worker_process", msgspec.json.encode(options).decode()]

    async def start(self) -> None:
        """Open everything, or leave nothing open."""
        try:
            await self.store.open()
            # Before the door opens: whoever comes in finds a scheduler that can answer.
            await self.engine.start()
            await self.bus.listen(self.engine.desk)
        except BaseException:
            await self.bus.close()
            await self.store.close()
            raise
        self._running = asyncio.get_running_loop().create_task(self.engine.run())
        self.keeper.start()

    async def stop(self) -> None:
        """Refuse new work, let workers finish or give back what they have, store the rest, close."""
        self.engine.drain()
        await self.keeper.stop()
        self.engine.stop()
        if self._running is not None:
            await self._running
        await self.engine.desk.finish()
        await self.bus.close()
        await self.store.close()

    def stop_at_once(self) -> None:
        """Make a `stop` that is under way wait for nobody."""
        self.keeper.kill()

    async def wait(self) -> None:
        """Until the engine ends by itself, which it does only by an error."""
        if self._running is not None:
            await asyncio.shield(self._running)


async def connect(path: str | Path) -> Connection:
    connection = Connection(SocketBus(path))
    await connection.open()
    return connection


@asynccontextmanager
async def embedded(app: Any, target: str, database: str, **options: Any) -> AsyncIterator[Path]:
    """A scheduler in a thread of this process, with a loop of its own that the program cannot block."""
    if "heartbeat" in options:
        options["heartbeat"] = seconds(options["heartbeat"], "heartbeat")
    try:
        settings = Settings(database=database, **options)
    except TypeError as error:
        raise BadValue("running()", sorted(options), f"a set of known settings ({error})") from error
    scheduler = Scheduler(app.definitions, target, settings)
    loop = asyncio.get_running_loop()
    started: asyncio.Future[None] = loop.create_future()
    stopped: asyncio.Future[None] = loop.create_future()
    ask: dict[str, Any] = {}

    def settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    async def life() -> None:
        ask["loop"], ask["stop"] = asyncio.get_running_loop(), asyncio.Event()
        await scheduler.start()
        loop.call_soon_threadsafe(settle, started, None)
        await ask["stop"].wait()
        await scheduler.stop()

    def thread() -> None:
        error: BaseException | None = None
        try:
            uvloop.run(life())
        except BaseException as raised:  # noqa: BLE001 - handed to the program that waits
            error = raised
            loop.call_soon_threadsafe(settle, started, error)
        loop.call_soon_threadsafe(settle, stopped, error)

    running = threading.Thread(target=thread, name="interlock", daemon=True)
    running.start()
    try:
        await started
    except BaseException:
        await asyncio.wait([stopped])
        stopped.exception()
        raise
    try:
        yield settings.socket_path()
    finally:
        ask["loop"].call_soon_threadsafe(ask["stop"].set)
        await stopped
        running.join()


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    app: str
    socket: str
    name: str = "worker"
    slots: int = 64
    processes: int = 2
    heartbeat: float = 10.0
    drain: float = 5.0
    memory_limit: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    instance: str = ""


async def run_worker(options: WorkerOptions) -> None:
    """A worker until it is told to stop; raises if there is no scheduler or the app cannot be loaded."""
    bus = SocketBus(options.socket)
    os.environ["INTERLOCK_SOCKET"] = options.socket
    if not options.instance:
        await _check_scheduler(bus)
    pool = ProcessPool(
        target=options.app,
        threads=options.slots,
        processes=options.processes,
        memory_limit=options.memory_limit,
    )
    settings = HostSettings(
        worker_id=f"{options.name}-{os.getpid()}-{SystemRandom().getrandbits(16):04x}",
        slots=options.slots,
        processes=options.processes,
        heartbeat_interval=options.heartbeat,
        instance=options.instance,
        pid=os.getpid(),
    )
    host: Host | None = None
    try:
        await pool.start(lambda message: host.report(message) if host is not None else None)
        host = Host(bus, pool, pool.jobs, settings)
        _stop_on_signals(host, options.drain)
        await host.run()
    finally:
        await pool.close()
        await bus.close()


async def _check_scheduler(bus: SocketBus) -> None:
    """A worker started by a person says at once that nobody is there; later it waits for a scheduler to come back."""
    try:
        _, writer = await asyncio.open_unix_connection(str(bus.path))
    except OSError as error:
        raise NotRunning(str(bus.path)) from error
    writer.close()
    await writer.wait_closed()


def _stop_on_signals(host: Host, drain: float) -> None:
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        if len(signals) == 1:
            host.leave()
            loop.call_later(drain, host.interrupt)
        elif len(signals) == 2:
            host.interrupt()
        else:
            host.abandon()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
