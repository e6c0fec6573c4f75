"""The one place that knows which stores there are."""

from interlock.fields.sockets import MEMORY
from interlock.ports.store import Reader
from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteReader, SqliteStore

AnyStore = MemoryStore | SqliteStore  # each of them keeps the leases too


def open_store(database: str) -> AnyStore:
    """Return the scheduler's store of a database."""
    return MemoryStore() if database == MEMORY else SqliteStore(database)


def open_reader(database: str) -> Reader:
    """Return a store that only reads, for any other process."""
    return SqliteReader(database)
