"""The one place that knows which stores there are."""

from typing import TYPE_CHECKING

from interlock.error import MissingLibrary
from interlock.fields.sockets import MEMORY, is_on_server
from interlock.ports.store import Reader
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteReader, SqliteStore

# Each of them keeps the leases too.
if TYPE_CHECKING:
    from interlock.stores.postgres import PostgresReader, PostgresStore
    from interlock.stores.postgres.promises import ServerState
    from interlock.stores.transfer import Moved

    AnyStore = MemoryStore | SqliteStore | PostgresStore
else:
    AnyStore = MemoryStore | SqliteStore


def open_store(database: str) -> AnyStore:
    """Return the scheduler's store of a database."""
    if is_on_server(database):
        return _postgres()[0](database)
    return MemoryStore() if database == MEMORY else SqliteStore(database)


def open_reader(database: str) -> Reader:
    """Return a store that only reads, for any other process."""
    return _postgres()[1](database) if is_on_server(database) else SqliteReader(database)


async def look_at_server(url: str, seconds: float) -> "ServerState":
    """Look at a database on a server without changing it. Raise `InterlockError` if it cannot be used."""
    _postgres()
    from interlock.stores.postgres.promises import look_at

    return await look_at(url, seconds)


def move_to_server(source: str, target: str) -> "Moved":
    """Move a database from a file to an empty schema on a server."""
    _postgres()
    from interlock.stores.transfer import move

    return move(source, target)


def _postgres() -> "tuple[type[PostgresStore], type[PostgresReader]]":
    try:
        from interlock.stores.postgres import PostgresReader, PostgresStore
    except ImportError as error:
        raise MissingLibrary("database", "asyncpg", "postgres") from error
    return PostgresStore, PostgresReader
