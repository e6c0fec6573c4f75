"""Links between a scheduler and workers on other machines: from settings to a bus."""

import logging
import os
from pathlib import Path

from interlock.buses.open import open_listener, open_remote
from interlock.config import ClientSettings, Settings
from interlock.config.settings import Address, variable_of
from interlock.config.tokens import SECRET
from interlock.error import BadConfig, BadUse, BadValue
from interlock.model.access import Role
from interlock.ports.bus import Bus

logger = logging.getLogger("interlock.settings")

WORKER_TOKEN = variable_of("worker_token")
MAKE = "interlock worker-token NAME"


def bus_for_workers(settings: Settings) -> Bus | None:
    """Return the bus on which a scheduler listens for workers elsewhere; None if it does not."""
    if settings.listen_workers is None:
        return None
    grants = [token.grant() for token in settings.tokens if token.role is Role.WORKER]
    if not grants:
        raise BadConfig(f"listen_workers: there is no token of the role worker; make one with: {MAKE}")
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


def bus_to_scheduler(settings: ClientSettings) -> Bus | None:
    """Return the bus over which a worker reaches a scheduler elsewhere; None if it has one on this machine."""
    if settings.connect is None:
        return None
    if settings.ca is not None and settings.fingerprint is not None:
        raise BadUse("fingerprint", "cannot be combined with ca: a pinned certificate needs none")
    try:
        return open_remote(Address.checked(settings.connect), settings.ca, settings.fingerprint, _token(settings))
    except OSError as error:
        raise BadValue("ca", settings.ca, f"a file with certificates ({_reason(error)})") from error


def _token(settings: ClientSettings) -> str:
    if settings.worker_token is not None:
        return settings.worker_token
    if settings.worker_token_file is None:
        raise BadUse("worker_token", f"missing, but connect needs it; set {WORKER_TOKEN} or --worker-token-file")
    try:
        text = Path(settings.worker_token_file).read_text(errors="replace").strip()
    except OSError as error:
        raise BadValue("worker_token_file", settings.worker_token_file, f"a file ({_reason(error)})") from error
    if not SECRET.pattern.fullmatch(text):
        raise BadValue("worker_token_file", settings.worker_token_file, f"a file with {SECRET.expected}")
    return text


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
