"""The HTTP sockets of a scheduler, and the gateway that serves them.

The sockets are made once and live as long as the scheduler. When a gateway process dies, new connections wait for the
next one instead of being refused.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from interlock.api.settings import GatewaySettings
from interlock.buses.listener import bind_tcp, bind_unix
from interlock.config import Settings
from interlock.error import PortTaken, SocketInUse, TokensNeeded
from interlock.fields.field import copy_fields
from interlock.fields.sockets import is_loopback
from interlock.model.access import LINK_ROLES
from interlock.ports.store import Reader
from interlock.supervision import Child, ChildContext, Function, Process
from interlock.wiring.child import BACKOFF, PATIENCE, ReaderOptions, command_of, hidden_options
from interlock.wiring.node_links import Reach

T = TypeVar("T")
GATEWAY = "interlock.wiring.gateway:serve"  # not imported here: the scheduler needs nothing of HTTP
LEFTOVER = 2.0  # seconds in which the gateway of a killed scheduler ends and releases its sockets


class GatewayOptions(ReaderOptions, frozen=True, kw_only=True):
    reach: Reach
    silence: float | None  # seconds after which another scheduler may lead; None if only one can
    listeners: list[int]  # descriptors of the sockets to serve on
    settings: GatewaySettings


class Front:
    def __init__(
        self, settings: Settings, reader: Reader, reach: Reach | None = None, silence: float | None = None
    ) -> None:
        """`reach` and `silence` are those of a gateway of a cluster."""
        self._settings = settings
        self._reader = reader
        self._reach = reach or Reach(socket=str(settings.socket_path()))
        self._silence = silence
        self._sockets: list[socket.socket] = []
        self._options: int | None = None  # descriptor of the file with the options of gateway processes
        self.url: str | None = None  # where HTTP is served over TCP, once it is
        address = settings.http_address()
        # Tokens of links open nothing here, and must not close what is open to the owner without tokens.
        grants = [token.grant() for token in settings.tokens if token.role not in LINK_ROLES]
        if address is not None and not grants and not is_loopback(address[0]):
            raise TokensNeeded(settings.http)
        self._gateway = copy_fields(GatewaySettings, settings, grants=grants)

    async def open(self) -> None:
        """Open the sockets, all or none."""
        settings = self._settings
        if settings.http == "off":
            return
        address = settings.http_address()
        try:
            if address is not None:
                tcp = await _once_free(lambda: bind_tcp(*address))
                self._sockets.append(tcp)
                host, port = tcp.getsockname()[:2]
                self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            self._sockets.append(await _once_free(lambda: bind_unix(settings.http_socket_path())))
        except BaseException:
            self.close()
            raise

    def children(self) -> list[Child]:
        """Return the gateway, if there are sockets: a process, or a part of this one if no other can read the store."""
        if not self._sockets:
            return []
        if self._reader.is_private:
            return [Function(name="gateway", run=self._serve_inside, announces=True, stop_timeout=PATIENCE)]
        listeners = [listener.fileno() for listener in self._sockets]
        options = self._options = self._write_options(listeners)
        return [
            Process(
                name="gateway",
                command=command_of(GATEWAY, str(options)),
                pass_fds=(*listeners, options),
                backoff=BACKOFF,
                stop_timeout=PATIENCE,
                capture=False,
            )
        ]

    async def _serve_inside(self, context: ChildContext) -> None:
        from interlock.wiring.gateway import Gateway

        gateway = Gateway(self._reader, self._reach, self._gateway)
        await gateway.run([listener.dup() for listener in self._sockets], context.ready)

    def _write_options(self, listeners: list[int]) -> int:
        """Return the descriptor of a file with the options of gateway processes."""
        own = {"reach": self._reach, "silence": self._silence, "listeners": listeners, "settings": self._gateway}
        return hidden_options(copy_fields(GatewayOptions, self._settings, **own))

    def close(self) -> None:
        for listener in self._sockets:
            if listener.family == socket.AF_UNIX:
                with suppress(FileNotFoundError):
                    self._settings.http_socket_path().unlink()
            listener.close()
        self._sockets.clear()
        if self._options is not None:
            os.close(self._options)
            self._options = None


async def _once_free(make: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    end = loop.time() + LEFTOVER
    while True:
        try:
            return make()
        except (PortTaken, SocketInUse):
            if loop.time() > end:
                raise
        await asyncio.sleep(0.05)
