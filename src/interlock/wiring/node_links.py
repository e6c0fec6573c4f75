"""Links between a scheduler, and workers and gateways on other machines: from settings to a bus."""

import logging
import os
from pathlib import Path

import msgspec

from interlock.buses.open import open_bus, open_listener, open_nodes
from interlock.config import Settings
from interlock.config.settings import Address, variable_of
from interlock.config.tokens import SECRET
from interlock.error import BadConfig, BadUse, BadValue
from interlock.model.access import LINK_ROLES, Role
from interlock.ports.bus import Bus

logger = logging.getLogger("interlock.settings")

WORKER_TOKEN, GATEWAY_TOKEN = variable_of("worker_token"), variable_of("gateway_token")
MAKE = "interlock worker-token NAME"


def bus_for_nodes(settings: Settings) -> Bus | None:
    """Return the bus on which a scheduler listens for workers and gateways elsewhere; None if it does not."""
    if settings.listen_workers is None:
        return None
    grants = [token.grant() for token in settings.tokens if token.role in LINK_ROLES]
    if not grants:
        raise BadConfig(f"listen_workers: there is no token of the role worker or gateway; make one with: {MAKE}")
    certificate, key = settings.worker_files()
    for field, name in (("worker_cert", certificate), ("worker_key", key)):
        if not Path(name).is_file():
            raise BadConfig(f"{field}: there is no file {name}; make it with: {MAKE}")
    try:
        bus = open_listener(Address.checked(settings.listen_workers), certificate, key, grants)
    except OSError as error:
        raise BadConfig(f"worker_cert, worker_key: {certificate} and {key} cannot be used: {_reason(error)}") from error
    if os.stat(key).st_mode & 0o007:
        logger.warning("worker_key: every user of this machine can read %s; its mode should be 0600", key)
    return bus


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scheduler that leads may be: on this machine, or at one of several addresses."""

    socket: str = ""
    nodes: list[str] = []
    ca: str | None = None
    fingerprint: str | None = None
    token: str = ""

    def bus(self) -> Bus:
        if self.socket:
            return open_bus(self.socket)
        addresses = [Address.checked(node) for node in self.nodes]
        try:
            return open_nodes(addresses, self.ca, self.fingerprint, self.token)
        except OSError as error:
            raise BadValue("ca", self.ca, f"a file with certificates ({_reason(error)})") from error


def reach_of(settings: Settings, role: Role) -> Reach:
    """Return where a worker or a gateway finds its scheduler: at the `nodes` if there are any, else on this machine.
    Never at both: a worker has the name of its token before its id over TLS alone, and attempts belong to its id."""
    if not settings.nodes:
        return Reach(socket=str(settings.socket_path()))
    if settings.ca is not None and settings.fingerprint is not None:
        raise BadUse("fingerprint", "cannot be combined with ca: a pinned certificate needs none")
    return Reach(
        nodes=settings.nodes,
        ca=settings.ca,
        fingerprint=settings.fingerprint,
        token=_token(settings, f"{role}_token"),
    )


def _token(settings: Settings, field: str) -> str:
    token, file = getattr(settings, field), getattr(settings, f"{field}_file")
    if token is not None:
        return str(token)
    if file is None:
        option = f"--{field.replace('_', '-')}-file"
        raise BadUse(field, f"missing, but node needs it; set {variable_of(field)} or {option}")
    try:
        text = Path(file).read_text(errors="replace").strip()
    except OSError as error:
        raise BadValue(f"{field}_file", file, f"a file ({_reason(error)})") from error
    if not SECRET.pattern.fullmatch(text):
        raise BadValue(f"{field}_file", file, f"a file with {SECRET.expected}")
    return text


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
