"""The one place that knows which buses there are."""

from collections.abc import Sequence
from pathlib import Path

from interlock.buses.socket import SocketBus
from interlock.buses.tls import TlsBus, client_context, server_context
from interlock.model.access import Grant

Address = tuple[str, int]


def open_bus(path: str | Path) -> SocketBus:
    """Return the bus of a scheduler on this machine."""
    return SocketBus(path)


def open_listener(address: Address, certificate: str, key: str, grants: Sequence[Grant]) -> TlsBus:
    """Return the bus on which workers elsewhere find a scheduler. Raise OSError if the files cannot be used."""
    return TlsBus(address, server_context(certificate, key), grants=grants)


def open_remote(address: Address, ca: str | None, fingerprint: str | None, token: str) -> TlsBus:
    """Return the bus to a scheduler elsewhere, for its workers. Raise OSError if the file `ca` cannot be used."""
    context = client_context(ca, fingerprint is not None)
    return TlsBus(address, context, token=token, fingerprint=fingerprint or "")
