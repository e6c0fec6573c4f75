"""The inspector put together from its parts: store, link to the scheduler, and the process that runs the scanners.

It runs in a process of its own, so that no flood of results slows down the scheduler. With a store in memory, which no
other process can read, it runs in the scheduler's process; the scanners run in another in any case.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from interlock.buses.socket import SocketBus
from interlock.client.connection import Connection
from interlock.config import MEMORY, Settings
from interlock.inspector.inspector import Inspector
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.field import copy_fields
from interlock.ports.store import Reader
from interlock.stores.sqlite import SqliteReader
from interlock.supervision import Child, Function, Process
from interlock.wiring.sender import BACKOFF, PATIENCE, until_stopped

INSPECTOR = "inspector"


class InspectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    database: str
    socket: str  # of the scheduler
    app: str | None
    path: Sequence[str]
    log_level: str
    log_format: str


def inspector_child(settings: Settings, app: str | None, reader: Reader) -> Child:
    """Return the inspector as a child of the tree; `app` has the scanners of one's own."""
    socket, path = settings.socket_path(), [part or os.getcwd() for part in sys.path]
    if settings.database == MEMORY:
        pipe = ScanPipe(app, path)
        return Function(name=INSPECTOR, run=lambda _: run_inside(reader, socket, pipe), backoff=BACKOFF)
    options = copy_fields(InspectorOptions, settings, socket=str(socket), app=app, path=path)
    command = [sys.executable, "-m", "interlock.cli.inspector_process", msgspec.json.encode(options).decode()]
    return Process(name=INSPECTOR, command=command, backoff=BACKOFF, stop_timeout=PATIENCE, capture=False)


async def run_inside(reader: Reader, scheduler: str | Path, pipe: ScanPipe) -> None:
    """Scan until cancelled."""
    connection = Connection(SocketBus(scheduler))
    try:
        await Inspector(reader, connection, pipe).run()
    finally:
        await connection.close()


async def run_inspector(options: InspectorOptions) -> None:
    """Run an inspector until TERM; its guard ends it with the scheduler's process."""
    reader = SqliteReader(options.database)
    await reader.open()
    try:
        await until_stopped(run_inside(reader, options.socket, ScanPipe(options.app, options.path)))
    finally:
        await reader.close()
