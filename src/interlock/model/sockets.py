"""Which sockets belong to a database: the scheduler's own, and beside it the one that speaks HTTP."""

from pathlib import PurePath

MEMORY = ":memory:"
"""as the database: nothing is kept beyond the process"""


def scheduler_socket(database: str) -> str:
    return "interlock.sock" if database == MEMORY else f"{database}.sock"


def http_socket(socket: str) -> str:
    path = PurePath(socket)
    return str(path.with_suffix(".http") if path.suffix == ".sock" else path.with_name(f"{path.name}.http"))
