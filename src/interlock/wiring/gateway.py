"""The gateway put together from its parts: store, link to the scheduler, HTTP server.

It runs in a process of its own, reading the database file beside the scheduler, so that whatever comes in over HTTP
takes nothing from the scheduler but the submits themselves. A store in memory can only be read where it is: then it
runs in the scheduler's process.
"""

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from interlock.api.backend import Backend
from interlock.api.server import HttpServer, application
from interlock.api.settings import GatewaySettings
from interlock.buses.socket import SocketBus
from interlock.client.connection import Connection
from interlock.config.job_documents import read_job
from interlock.model.error import NotRunning
from interlock.ports.store import Reader
from interlock.stores.sqlite import SqliteReader
from interlock.wiring.front import GatewayOptions

RESERVED = 256
"""descriptors that are not for connections"""


KNOCKING = 5.0
"""seconds in which a gateway has to be let in by its scheduler"""


class Gateway:
    def __init__(self, reader: Reader, scheduler: str | Path, settings: GatewaySettings) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # Whoever connects must not take what the process needs for itself.
        connections = max(1, min(settings.max_connections, most - RESERVED))
        settings = msgspec.structs.replace(settings, max_connections=connections)
        self._connection = Connection(SocketBus(scheduler))
        self._backend = Backend(reader, self._connection, settings.secret_names, read_job)
        self._server = HttpServer(application(self._backend, settings), settings)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        await self._connect()
        await self._server.start(sockets)

    async def _connect(self) -> None:
        """The scheduler is there, or there would be no gateway; but as it starts more may knock than it has let in."""
        end = asyncio.get_running_loop().time() + KNOCKING
        while True:
            try:
                await self._connection.open()
                return
            except NotRunning:
                if asyncio.get_running_loop().time() > end:
                    raise
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        await self._backend.close()
        await self._server.stop()
        await self._connection.close()


async def run_gateway(options: GatewayOptions) -> None:
    """A gateway until it is told to stop; whoever started it ends it with the scheduler's process."""
    reader = SqliteReader(options.database)
    await reader.open()
    gateway = Gateway(reader, options.socket, options.settings)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await gateway.start([socket.socket(fileno=one) for one in options.listeners])
    await stopping.wait()
    await gateway.stop()
    await reader.close()


def read_options(descriptor: int) -> GatewayOptions:
    """What the scheduler wrote for its gateways; each of them reads it from the start."""
    options = msgspec.json.decode(os.pread(descriptor, os.fstat(descriptor).st_size, 0), type=GatewayOptions)
    os.close(descriptor)
    return options
