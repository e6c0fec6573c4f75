"""The HTTP server: offers an application on listening sockets, TCP and Unix alike."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn

from interlock.api.protocol import SWEEP, HttpLimits, limited
from interlock.api.settings import GatewaySettings

KEEP_ALIVE = 60
GOODBYE = 2.0  # seconds that requests under way have to be answered when the server stops


class HttpServer:
    def __init__(self, app: Any, settings: GatewaySettings) -> None:
        limits = HttpLimits(connections=settings.max_connections, request=settings.request_timeout)
        self._connections = limited(limits, looks_for_owner=not settings.grants)
        self._config = uvicorn.Config(
            app,
            http=self._connections,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._config.load()
        self._state = uvicorn.server.ServerState()
        self._servers: list[asyncio.AbstractServer] = []
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            protocol: Any = self._config.http_protocol_class
            made: asyncio.Protocol = protocol(config=self._config, server_state=self._state, app_state={}, _loop=loop)
            return made

        for sock in sockets:
            listen = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            self._servers.append(await listen(connection, sock=sock, backlog=4096))
        self._sweeping = loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP)
            self._connections.load.relieve()  # a reader of events may fall further behind
            for connection in list(self._state.connections):
                connection.sweep(loop.time())  # type: ignore[union-attr] # all are our own

    async def stop(self) -> None:
        """Accept nothing more, answer the requests under way, and close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=GOODBYE)
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=GOODBYE)
        await asyncio.sleep(0)
