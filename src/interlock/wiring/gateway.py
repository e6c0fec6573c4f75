"""The gateway put together from its parts: store, link to the scheduler, HTTP server.

It runs in a process of its own and reads the database file itself, so that HTTP requests cost the scheduler nothing but
the submits. With a store in memory, which no other process can read, it runs in the scheduler's process.
"""

import asyncio
import resource
import socket
from collections.abc import Callable, Sequence

import msgspec

from interlock.api.application import Application
from interlock.api.backend import Backend
from interlock.api.refusals import Refusals
from interlock.api.server import HttpServer
from interlock.api.settings import GatewaySettings
from interlock.client.connection import Connection
from interlock.config.job_documents import read_job
from interlock.error import NotRunning
from interlock.ports.store import Reader
from interlock.wiring.gateway_sockets import GatewayOptions
from interlock.wiring.node_links import Reach

RESERVED = 256  # descriptors not available for connections
KNOCKING = 5.0  # seconds in which the scheduler must accept its gateway


class Gateway:
    def __init__(self, reader: Reader, reach: Reach, settings: GatewaySettings, silence: float | None = None) -> None:
        """With `silence`, the scheduler may come later, and another one may lead after it was silent for so long."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # Connections must leave descriptors for the process itself.
        connections = max(1, min(settings.max_connections, most - RESERVED))
        settings = msgspec.structs.replace(settings, max_connections=connections)
        self._connection = Connection(reach.bus(), silence=silence)
        self._must_run = silence is None
        self._backend = Backend(reader, self._connection, settings, read_job)
        self._refusals = Refusals(self._connection)
        application = Application(self._backend.handlers, self._backend.sessions.caller, settings, self._refusals.note)
        self._server = HttpServer(application, settings)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        if self._must_run:
            await self._connect()
        await self._server.start(sockets)

    async def _connect(self) -> None:
        """Connect to the scheduler, which may accept only after other connections during its start."""
        end = asyncio.get_running_loop().time() + KNOCKING
        while True:
            try:
                await self._connection.open()
                return
            except NotRunning:
                if asyncio.get_running_loop().time() > end:
                    raise
            await asyncio.sleep(0.02)

    async def run(self, sockets: Sequence[socket.socket], ready: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled; call `ready` once it does."""
        try:
            await self.start(sockets)
            ready()
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()

    async def stop(self) -> None:
        await self._backend.close()
        await self._server.stop()
        self._refusals.close()
        await self._connection.close()


async def serve(reader: Reader, options: GatewayOptions) -> None:
    """Serve until cancelled."""
    gateway = Gateway(reader, options.reach, options.settings, options.silence)
    await gateway.run([socket.socket(fileno=descriptor) for descriptor in options.listeners])
