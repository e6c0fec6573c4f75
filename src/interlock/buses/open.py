"""The one place that knows which buses there are."""

from collections.abc import Sequence
from pathlib import Path

from interlock.buses.several import SeveralPlaces
from interlock.buses.socket import ProcessWatch, SocketBus
from interlock.buses.tls import TlsBus, client_context, server_context
from interlock.model.access import Grant
from interlock.ports.bus import Bus

Address = tuple[str, int]


def open_bus(path: str | Path, processes: ProcessWatch | None = None) -> Bus:
    """Return the bus of a scheduler on this machine, which watches the `processes` at the other ends."""
    return SocketBus(path, processes)


def open_listener(address: Address, certificate: str, key: str, grants: Sequence[Grant]) -> Bus:
    """Return the bus on which workers and gateways elsewhere find a scheduler. Raise OSError if the files cannot be
    used."""
    return TlsBus(address, server_context(certificate, key), grants=grants)


def open_nodes(addresses: Sequence[Address], ca: str | None, fingerprint: str | None, token: str) -> Bus:
    """Return the bus to the scheduler that leads, at one of these addresses. Raise OSError if the file `ca` cannot be
    used."""
    context = client_context(ca, fingerprint is not None)
    places = [TlsBus(address, context, token=token, fingerprint=fingerprint or "") for address in addresses]
    return places[0] if len(places) == 1 else SeveralPlaces(places)
