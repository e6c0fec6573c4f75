"""The sender put together from its parts: store, link to the scheduler, HTTP.

It runs in a process of its own, so that slow receivers cost the scheduler nothing. With a store in memory, which no
other process can read, it runs in the scheduler's process.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from interlock.buses.socket import SocketBus
from interlock.config import MEMORY, Settings
from interlock.model.field import copy_fields
from interlock.ports.clock import SystemClock
from interlock.ports.store import Reader
from interlock.sender.sender import Sender
from interlock.stores.sqlite import SqliteReader
from interlock.supervision import Backoff, Child, Function, Process

SENDING, SENDER = "sending", "sender"  # the group, so that it stops after the engine, and its only child
BACKOFF = Backoff(initial=0.1, max=5.0, reset_after=10.0)
PATIENCE = 5.0  # seconds that its process has to end


class SenderOptions(msgspec.Struct, frozen=True, kw_only=True):
    database: str
    socket: str  # of the scheduler
    webhook_allow: Sequence[str]  # addresses, networks and host names that are never refused
    log_level: str
    log_format: str


def sender_child(settings: Settings, reader: Reader) -> Child:
    """Return the sender as a child of the tree: a process, or a part of this one if no other can read the store."""
    socket = settings.socket_path()
    if settings.database == MEMORY:
        allowed = settings.webhook_allow
        return Function(name=SENDER, run=lambda context: run_inside(reader, socket, allowed), backoff=BACKOFF)
    options = msgspec.json.encode(copy_fields(SenderOptions, settings, socket=str(socket)))
    command = [sys.executable, "-m", "interlock.cli.sender_process", options.decode()]
    return Process(name=SENDER, command=command, backoff=BACKOFF, stop_timeout=PATIENCE, capture=False)


async def run_inside(reader: Reader, scheduler: str | Path, webhook_allow: Sequence[str]) -> None:
    """Send until cancelled."""
    # aiohttp is loaded only where requests are made: it takes long.
    from interlock.sender.http_transport import HttpTransport

    transport = HttpTransport(webhook_allow)
    try:
        await Sender(reader, SocketBus(scheduler), transport, SystemClock(), Random()).run()
    finally:
        await transport.close()


async def run_sender(options: SenderOptions) -> None:
    """Run a sender until TERM; its guard ends it with the scheduler's process."""
    reader = SqliteReader(options.database)
    await reader.open()
    try:
        await until_stopped(run_inside(reader, options.socket, options.webhook_allow))
    finally:
        await reader.close()


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Do the work until TERM or Ctrl-C."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
