"""Where adapters meet the engine: a scheduler, a worker, a client, put together from their parts."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
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
from interlock.model.error import BadValue, CannotImport, NotRunning
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteStore
from interlock.supervision.keeper import Keeper
from interlock.worker.definition import Definition
from interlock.worker.host import Host, HostSettings
from interlock.worker.pool import ProcessPool

logger = logging.getLogger("interlock")

WORKER_NUMBERS = {"slots": (1, 100_000), "processes": (1, 10_000), "memory_limit": (0, 2**60)}
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
        config.check_numbers(self, workers=(0, 1000), **WORKER_NUMBERS)
        for name, limit in (self.lanes or {}).items():
            config.check_lane("lanes", name, limit)
        if not self.heartbeat > 0:
            raise BadValue("heartbeat", self.heartbeat, "longer than zero")

    def socket_path(self) -> Path:
        """Absolute, so that it is the same socket for processes that were started elsewhere."""
        if self.socket is not None:
            return Path(self.socket).absolute()
        return Path("interlock.sock" if self.database == MEMORY else f"{self.database}.sock").absolute()


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
            patience=settings.drain + 12.0,
        )
        self._target = target
        self._running: asyncio.Task[None] | None = None

    def _worker_command(self, place: int, target: str) -> list[str]:
        settings = self.settings
        options = WorkerOptions(
            app=target,
            socket=str(settings.socket_path()),
            name=f"w{place + 1}",
            slots=settings.slots,
            processes=settings.processes,
            drain=settings.drain,
            memory_limit=settings.memory_limit,
            log_level=settings.log_level,
            log_format=settings.log_format,
            path=[part or os.getcwd() for part in sys.path],
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

    async def ready(self, given_up: asyncio.Event) -> None:
        """Until a worker has joined, where there are to be any; raises if they cannot load the app."""
        while self.settings.workers and not self.engine.desk.worker_names() and not given_up.is_set():
            if self.keeper.broken:
                raise CannotImport(self._target, "a worker could not load it; its message says why")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Refuse new work, let workers finish or give back what they have, store the rest, close."""
        self.engine.drain()
        try:
            await self.keeper.stop()
            self.engine.stop()
            if self._running is not None:
                await self._running
            await self.engine.desk.finish()
        finally:
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


class _Thread:
    """A scheduler in a thread of this process, with a loop of its own that the program cannot block."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._outside = asyncio.get_running_loop()
        self._inside: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interlock", daemon=True)
        self.started: asyncio.Future[None] = self._outside.create_future()
        self.stopped: asyncio.Future[None] = self._outside.create_future()

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            uvloop.run(self._live())
        except BaseException as raised:  # noqa: BLE001 - handed to the program that waits
            error = raised
        for future in (self.started, self.stopped):
            self._outside.call_soon_threadsafe(_settle, future, error)

    async def _live(self) -> None:
        self._inside = asyncio.get_running_loop()
        if self._asked.is_set():
            return
        await self._scheduler.start()
        try:
            await self._scheduler.ready(self._ending)
            self._outside.call_soon_threadsafe(_settle, self.started, None)
            if not self._asked.is_set():
                ending = asyncio.ensure_future(self._ending.wait())
                broken = asyncio.ensure_future(self._scheduler.wait())
                await asyncio.wait([ending, broken], return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
        finally:
            await self._scheduler.stop()

    async def end(self) -> None:
        """Stop it wherever it is, also while it still starts; wait until nothing of it is left."""
        self._asked.set()
        if self._inside is not None and not self.stopped.done():
            with suppress(RuntimeError):  # its loop has just ended by itself
                self._inside.call_soon_threadsafe(self._ending.set)
        await asyncio.wait([self.stopped])
        self._thread.join()


@asynccontextmanager
async def embedded(app: Any, target: str, database: str, **options: Any) -> AsyncIterator[Path]:
    """Run a scheduler beside the program, until the block ends."""
    if "heartbeat" in options:
        options["heartbeat"] = seconds(options["heartbeat"], "heartbeat")
    try:
        settings = Settings(database=database, **options)
    except TypeError as error:
        raise BadValue("running()", sorted(options), f"a set of known settings ({error})") from error
    thread = _Thread(Scheduler(app.definitions, target, settings))
    thread.start()
    try:
        await asyncio.shield(thread.started)
        yield settings.socket_path()
    finally:
        await thread.end()
        thread.started.exception()
        failure = thread.stopped.exception()
        if failure is not None:
            raise failure


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    app: str
    socket: str
    name: str = "worker"
    slots: int = 64
    processes: int = 2
    drain: float = 5.0
    memory_limit: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    path: list[str] = []
    """where the app is imported from, besides where Python looks anyway"""
    instance: str = ""

    def __post_init__(self) -> None:
        config.check_numbers(self, **WORKER_NUMBERS)


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
        path=options.path,
    )
    settings = HostSettings(
        worker_id=f"{options.name}-{os.getpid()}-{SystemRandom().getrandbits(16):04x}",
        slots=options.slots,
        processes=options.processes,
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
