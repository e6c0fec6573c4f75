"""The events of a scheduler on this machine, for a program that knows its own socket only."""

import os
from collections.abc import AsyncIterator

from interlock.client.http.async_client import AsyncClient
from interlock.client.http.event_stream import EventOptions
from interlock.error import NotRunning
from interlock.fields.sockets import http_socket
from interlock.interface.run_builder import check_options
from interlock.interface.run_view import Event

REMEDY = "events come over HTTP: start the scheduler with --http local, or app.running(http='local')"


def local_events(socket: str, asked: EventOptions) -> AsyncIterator[tuple[str | None, Event]]:
    """Yield the events of the scheduler with this socket; they come from the HTTP socket beside it."""
    check_options(asked, EventOptions)
    path = os.path.abspath(http_socket(socket))
    if not os.path.exists(path):
        raise NotRunning(path, REMEDY)
    return _events(path, asked)


async def _events(path: str, asked: EventOptions) -> AsyncIterator[tuple[str | None, Event]]:
    async with AsyncClient(f"unix:{path}") as client:
        async for event in client.events(**asked):
            yield event
