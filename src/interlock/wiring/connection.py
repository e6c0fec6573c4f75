"""A client's link to a scheduler on this machine."""

from pathlib import Path

from interlock.buses.open import open_bus
from interlock.client.connection import Connection


async def connect(path: str | Path) -> Connection:
    connection = Connection(open_bus(path), outlasts_stop=True)
    connection.socket = str(path)
    await connection.open()
    return connection
