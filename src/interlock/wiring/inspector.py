"""The inspector put together from its parts: store, link to the scheduler, and the process that runs the scanners."""

import os
import sys
from collections.abc import Sequence

from interlock.buses.open import open_bus
from interlock.client.connection import Connection
from interlock.config import Settings
from interlock.fields.field import copy_fields
from interlock.inspector.inspector import Inspector
from interlock.inspector.scan_pipe import ScanPipe
from interlock.ports.store import Reader
from interlock.supervision import Child
from interlock.wiring.child import ChildOptions, child_of

INSPECTOR = "inspector"


class InspectorOptions(ChildOptions, frozen=True, kw_only=True):
    app: str | None  # with scanners of one's own
    path: Sequence[str]


def inspector_child(settings: Settings, app: str | None, reader: Reader) -> Child:
    socket, path = str(settings.socket_path()), [part or os.getcwd() for part in sys.path]
    options = copy_fields(InspectorOptions, settings, socket=socket, app=app, path=path)
    return child_of(INSPECTOR, inspect, options, reader)


async def inspect(reader: Reader, options: InspectorOptions) -> None:
    """Scan until cancelled."""
    connection = Connection(open_bus(options.socket))
    try:
        await Inspector(reader, connection, ScanPipe(options.app, options.path, options.log_format)).run()
    finally:
        await connection.close()
