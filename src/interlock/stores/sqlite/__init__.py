"""The embedded store: one SQLite file, WAL, every commit synced."""

from interlock.stores.sqlite.reader import SqliteReader
from interlock.stores.sqlite.store import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]
