"""The names of the files beside a database: the scheduler's socket, and the one for HTTP. Addresses of this machine."""

import re
from ipaddress import ip_address
from pathlib import PurePath

MEMORY = ":memory:"  # the database that is gone with its process


def file_of(database: str) -> str | None:
    """Return the file of a database; None if it is in memory, or on a server."""
    return None if database == MEMORY or is_on_server(database) else database


def is_on_server(database: str) -> bool:
    """Return whether several schedulers can share a database, of which one leads."""
    return "://" in database


def without_password(database: str) -> str:
    """Return a database as messages show it."""
    if not is_on_server(database):
        return database
    without = re.sub(r"(://[^:@/?#]*):.*@", r"\1@", database)
    return re.sub(r"([?&])password=[^&#]*&?", r"\1", without).rstrip("?&")


def beside(database: str) -> str:
    """Return the name that the other files of a scheduler begin with."""
    return file_of(database) or "interlock"


def scheduler_socket(database: str) -> str:
    return f"{beside(database)}.sock"


def http_socket(socket: str) -> str:
    path = PurePath(socket)
    return str(path.with_suffix(".http") if path.suffix == ".sock" else path.with_name(f"{path.name}.http"))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
