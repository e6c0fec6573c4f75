"""The names of the sockets of a database: the scheduler's own, and the one for HTTP. Addresses of this machine."""

from ipaddress import ip_address
from pathlib import PurePath

MEMORY = ":memory:"  # the database that is gone with its process


def scheduler_socket(database: str) -> str:
    return "interlock.sock" if database == MEMORY else f"{database}.sock"


def http_socket(socket: str) -> str:
    path = PurePath(socket)
    return str(path.with_suffix(".http") if path.suffix == ".sock" else path.with_name(f"{path.name}.http"))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
