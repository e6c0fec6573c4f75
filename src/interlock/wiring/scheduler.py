"""A scheduler put together from its parts: engine, store, socket, worker processes, gateway."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random, SystemRandom

import msgspec

from interlock import config
from interlock.buses.socket import SocketBus
from interlock.config import MEMORY, Settings
from interlock.core.state import Limits
from interlock.engine.catalog import Catalog, Entry
from interlock.engine.clock import SystemClock
from interlock.engine.engine import Engine, EngineSettings
from interlock.model.error import CannotImport
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteStore
from interlock.supervision.keeper import Keeper
from interlock.wiring.front import Front
from interlock.wiring.worker import WorkerOptions
from interlock.worker.definition import Definition


def catalog_of(definitions: Mapping[str, Definition], secret_names: Sequence[str]) -> Catalog:
    return Catalog(
        [
            Entry(
                definition.job,
                partial(definition.check, secret_names=secret_names),
                definition.mark if definition.job.secrets else None,
            )
            for definition in definitions.values()
        ]
    )


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
            catalog=catalog_of(definitions, settings.secret_names),
            settings=EngineSettings(
                lanes=config.lanes(os.environ) | (settings.lanes or {}),
                limits=Limits(
                    heartbeat_interval=settings.heartbeat, log_lines=settings.log_lines, log_bytes=settings.log_bytes
                ),
                holder=f"process {os.getpid()}",
                instance=self.instance,
            ),
        )
        self.front = Front(settings, self.store)
        self.keeper = Keeper(
            "worker",
            [partial(self._worker_command, place, target) for place in range(settings.workers)],
            patience=settings.drain + 12.0,
            # Tokens are for those outside; what runs here has no use for them.
            environment={token.env: None for token in settings.tokens if token.env is not None},
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
            secret_names=settings.secret_names,
        )
        return [sys.executable, "-m", "interlock.cli.worker_process", msgspec.json.encode(options).decode()]

    async def start(self) -> None:
        """Open everything, or leave nothing open."""
        try:
            await self.store.open()
            # Before the door opens: whoever comes in finds a scheduler that can answer.
            await self.engine.start()
            await self.front.open()
            await self.bus.listen(self.engine.desk)
        except BaseException:
            self.front.close()
            await self.bus.close()
            await self.store.close()
            raise
        self._running = asyncio.get_running_loop().create_task(self.engine.run())
        self.keeper.start()
        try:
            await self.front.start()
        except BaseException:
            await self.stop()
            raise

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
            # To the last, people can look at what is still running.
            await self.keeper.stop()
            await self.front.stop()
            self.engine.stop()
            if self._running is not None:
                await self._running
            await self.engine.desk.finish()
        finally:
            self.front.close()
            await self.bus.close()
            await self.store.close()

    def stop_at_once(self) -> None:
        """Make a `stop` that is under way wait for nobody."""
        self.keeper.kill()
        self.front.kill()

    async def wait(self) -> None:
        """Until the engine ends by itself, which it does only by an error."""
        if self._running is not None:
            await asyncio.shield(self._running)
