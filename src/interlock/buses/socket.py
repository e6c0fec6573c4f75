"""Links over a Unix socket, for everything on one machine. The system notices the ends of processes, whatever
becomes of their links."""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

from interlock.buses.listener import bind_unix
from interlock.buses.stream import StreamPeer
from interlock.error import NotRunning
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.worker.identity import process_of

logger = logging.getLogger("interlock.links")


class ProcessWatch:
    def __init__(self) -> None:
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}

    def watch_worker(self, worker_id: str, call: Callable[[], None]) -> None:
        """Call when the process of a worker without a link ends: at once if it has, never if that cannot be known."""
        pid = process_of(worker_id)
        if pid == 0:
            asyncio.get_running_loop().call_soon(call)
        elif pid is not None and pid not in self._watched:
            self.watch(pid, call)

    def watch(self, pid: int, call: Callable[[], None]) -> None:
        """Call when a process ends. A new link of the same process replaces its earlier watch."""
        loop = asyncio.get_running_loop()
        known = self._watched.get(pid)
        try:
            pidfd = known[0] if known is not None else os.pidfd_open(pid)
        except ProcessLookupError:
            loop.call_soon(call)
            return
        except OSError as error:
            logger.warning("process %d cannot be watched; its end is noticed only by its silence: %s", pid, error)
            return
        self._watched[pid] = (pidfd, call)
        if known is None:
            loop.add_reader(pidfd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        _, call = self._watched[pid]
        self._forget(pid)
        call()

    def _forget(self, pid: int) -> None:
        pidfd, _ = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)

    def close(self) -> None:
        for pid in list(self._watched):
            self._forget(pid)


LAST_WORDS = 2.0  # seconds after the end of a process in which its link should end too
MOST_KNOCKING = 1024  # links that may wait to be accepted: after a restart all workers come at once


class _SocketPeer(StreamPeer):
    def __init__(self, bus: "SocketBus", endpoint: Endpoint) -> None:
        super().__init__(bus.peers, endpoint)
        self._processes = bus.processes
        self._when_closed: list[Callable[[], None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if (pid := _process_of(transport)) > 0:
            self.identity = str(pid)
            if self._processes is not None:
                self.on_process_end = partial(self._watch, self._processes, pid)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for call in self._when_closed:
            call()
        self._when_closed.clear()

    def _watch(self, processes: ProcessWatch, pid: int, call: Callable[[], None]) -> None:
        processes.watch(pid, lambda: self._process_ended(call))

    def _process_ended(self, call: Callable[[], None]) -> None:
        """Call after the last messages of an ended process: its link ends behind them."""
        if self._transport is None:
            call()
        else:
            self._when_closed.append(call)
            # Another process may have inherited the dead one's end, and would keep it open.
            self._loop.call_later(LAST_WORDS, self._transport.abort)


def _process_of(transport: asyncio.BaseTransport) -> int:
    """Return the process id of the other end, as the system knows it; 0 if it does not."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "SO_PEERCRED"):
        return 0
    size = struct.calcsize("3i")
    return cast(int, struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])


class SocketBus(Bus):
    def __init__(self, path: str | Path, processes: ProcessWatch | None = None) -> None:
        """With `processes`, peers know the processes at their other ends."""
        self.path = Path(path)
        self.peers: set[StreamPeer] = set()
        self.processes = processes
        self._server: asyncio.AbstractServer | None = None

    def __str__(self) -> str:
        return str(self.path)

    async def listen(self, endpoint: Endpoint) -> None:
        make = partial(_SocketPeer, self, endpoint)
        listener, loop = bind_unix(self.path), asyncio.get_running_loop()
        self._server = await loop.create_unix_server(make, sock=listener, backlog=MOST_KNOCKING)

    async def connect(self, endpoint: Endpoint) -> Peer:
        make = partial(_SocketPeer, self, endpoint)
        try:
            _, peer = await asyncio.get_running_loop().create_unix_connection(make, str(self.path))
        except OSError as error:
            raise NotRunning(str(self.path)) from error
        return peer

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(FileNotFoundError):
                self.path.unlink()
        for peer in list(self.peers):
            peer.close()
        # One turn of the loop lets the transports finish closing.
        await asyncio.sleep(0)
