"""The sender put together from its parts: store, link to the scheduler, HTTP."""

from collections.abc import Sequence
from random import Random

from interlock.buses.open import open_bus
from interlock.config import Settings
from interlock.fields.field import copy_fields
from interlock.ports.clock import SystemClock
from interlock.ports.store import Reader
from interlock.sender.sender import Sender
from interlock.supervision import Child
from interlock.wiring.child import ChildOptions, child_of

SENDER = "sender"


class SenderOptions(ChildOptions, frozen=True, kw_only=True):
    webhook_allow: Sequence[str]  # addresses, networks and host names that are never refused


def sender_child(settings: Settings, reader: Reader) -> Child:
    options = copy_fields(SenderOptions, settings, socket=str(settings.socket_path()))
    return child_of(SENDER, send, options, reader)


async def send(reader: Reader, options: SenderOptions) -> None:
    """Send until cancelled."""
    # aiohttp is loaded only where requests are made: it takes long.
    from interlock.sender.http_transport import HttpTransport

    transport = HttpTransport(options.webhook_allow)
    try:
        await Sender(reader, open_bus(options.socket), transport, SystemClock(), Random()).run()
    finally:
        await transport.close()
