"""The store on a server: PostgreSQL 15 or later, through asyncpg.

One connection writes. A write is one call of a function (`migrations/`), so the server never waits for its client
inside a transaction; the first statement of each is the fence. A call that does not come back as expected may still
have been carried out: `OutcomeUnknown`. A few connections read; an answer of several statements sees the tables as one
commit left them (REPEATABLE READ).
"""

from interlock.stores.postgres.reader import PostgresReader
from interlock.stores.postgres.store import PostgresStore

__all__ = ["PostgresReader", "PostgresStore"]
