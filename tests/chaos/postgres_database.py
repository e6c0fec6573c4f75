"""What a database on a server says."""

import asyncio
import re
import threading
from itertools import count
from typing import Any

import asyncpg

from interlock.stores.postgres.errors import DRIVER
from tests.chaos.record import Away, Database

ASIDE = """
CREATE TABLE chaos_runs (LIKE runs);
CREATE TABLE chaos_history (LIKE history);
CREATE INDEX chaos_positions ON chaos_history (position);
CREATE VIEW chaos_entries AS SELECT * FROM chaos_history UNION ALL SELECT * FROM history;
CREATE FUNCTION chaos_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO chaos_%s SELECT ($1).*', TG_TABLE_NAME) USING old;
  RETURN old;
END $$;
CREATE TRIGGER chaos_keep BEFORE DELETE ON runs FOR EACH ROW EXECUTE FUNCTION chaos_keep();
CREATE TRIGGER chaos_keep BEFORE DELETE ON history FOR EACH ROW EXECUTE FUNCTION chaos_keep();
"""
BEHIND = "SELECT max(position) FROM chaos_entries HAVING max(position) > (SELECT position FROM leases)"
LIMIT = 5.0


class PostgresDatabase(Database):
    """Its connection lives on a loop of its own, so that any thread may ask."""

    def __init__(self, url: str, schema: str) -> None:
        self._url = url
        self._schema = schema
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def prepare(self) -> None:
        self._do("execute", ASIDE)

    def rows(self, query: str, *values: Any) -> list[Any]:
        numbers = count(1)
        return list(map(tuple, self._do("fetch", re.sub(r"\?", lambda _: f"${next(numbers)}", query), *values)))

    def damage(self) -> list[str]:
        return [f"position {position} is not that of a lease" for (position,) in self.rows(BEHIND)]

    def _do(self, what: str, *values: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self._ask(what, *values), self._loop).result()

    async def _ask(self, what: str, *values: Any) -> Any:
        async with self._lock:
            try:
                async with asyncio.timeout(LIMIT):
                    if self._connection is None or self._connection.is_closed():
                        path = {"search_path": self._schema}
                        self._connection = await asyncpg.connect(self._url, server_settings=path)
                    return await getattr(self._connection, what)(*values)
            except DRIVER as error:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise Away(repr(error)) from error
