"""Move a database from a file to a server, in one transaction there.

The server shows nothing of a move before its commit, so a move that was interrupted anywhere is repeated from its
beginning. The file is marked just before the commit, never after it: no scheduler can continue with both. The server
keeps the id of the move, which tells the repetition whether the commit was carried out.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import asyncpg
import msgspec

from interlock import error as e
from interlock.fields.sockets import is_on_server, without_password
from interlock.model.record import Memo
from interlock.stores.postgres import errors
from interlock.stores.postgres.address import Address, read_address
from interlock.stores.postgres.database import CONNECT_SECONDS, connect_writer, migrate, migrations
from interlock.stores.postgres.queries import without_nul
from interlock.stores.sql.lookups import read_position
from interlock.stores.sql.queries import RECORD_VALUES
from interlock.stores.sql.rows import record_row
from interlock.stores.sql.view import Row, at_once
from interlock.stores.sqlite import database
from interlock.stores.sqlite.queries import QUERIES, SqliteView, put_records

ARRIVED = "moved:id"  # name of the server's memo with the id of the move
READ_AT_ONCE = 100  # rows; one may be large

_encode = msgspec.msgpack.Encoder().encode
# A file without a lease has been repaired, or was never used.
_EPOCHS = "SELECT name, epoch FROM leases UNION ALL SELECT 'scheduler', 0 WHERE NOT EXISTS (SELECT 1 FROM leases)"

_COLUMNS = """
SELECT attname, atttypid = 'bool'::regtype, attidentity <> '' FROM pg_attribute WHERE attrelid = $1::regclass
"""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    to: str
    rows: dict[str, int]  # copied, by table; empty if an earlier call had moved it


class Sum(msgspec.Struct):
    """Count and hash of rows in any order."""

    count: int = 0
    hash: int = 0

    def add(self, row: Row) -> None:
        self.count += 1
        self.hash = (self.hash + int.from_bytes(sha256(_encode(row)).digest())) % 2**256


def move(source: str, target: str) -> Moved:
    """Copy the file, which no scheduler uses, into an empty schema; mark it, so that none uses it again."""
    if is_on_server(source):
        raise e.BadUse("--from", f"{without_password(source)} is no file; use the means of the server, such as pg_dump")
    if not is_on_server(target):
        raise e.BadUse("--to", f"{e.shown(target)} is no server; use postgresql://USER@HOST:PORT/DATABASE")
    path, address = Path(source), read_address(target)
    if not path.exists():
        raise e.CannotOpenDatabase(source, "no such file")
    lock = database.FileLock(path)
    lock.take()
    try:
        database.check_header(path)
        if not path.stat().st_size:
            raise e.NotADatabase(source, "the file is empty")
        with closing(database.connect_writer(path, make=False, even_moved=True)) as file:
            return asyncio.run(_Move(path, file, address).transfer(lock.position))
    finally:
        lock.release()


class _Move:
    def __init__(self, path: Path, file: sqlite3.Connection, address: Address) -> None:
        self._path = str(path)
        self._file = file
        self._address = address
        names = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        self._tables = sorted({name for (name,) in names} - {"leases"})

    async def transfer(self, noted: int) -> Moved:
        """`noted` is the highest position that was stored in the file."""
        position = at_once(read_position(SqliteView(self._file)))
        if position < noted:
            raise e.DatabaseBehind(self._path, position, noted)
        if self._file.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise e.DatabaseDamaged(self._path, database.damage(self._file))
        try:
            server = await connect_writer(self._address, lambda *_: None)
        except errors.DRIVER as error:
            raise errors.of_opening(error, self._address.shown, CONNECT_SECONDS) from error
        try:
            transaction = server.transaction()
            await transaction.start()
            rows = await self._fill(server, position)
            await transaction.commit()
        except (*errors.DRIVER, sqlite3.Error) as error:
            raise e.MoveUnfinished(self._path, self._address.shown, errors.why(error)) from error
        finally:
            server.terminate()  # without a commit, this undoes everything
        return Moved(path=self._path, to=self._address.shown, rows=rows)

    async def _fill(self, server: asyncpg.Connection, position: int) -> dict[str, int]:
        """Copy all tables, unless they are there already; return the count of the rows of each."""
        await migrate(server, self._address, migrations())
        await server.execute("LOCK TABLE leases IN EXCLUSIVE MODE")  # no scheduler takes a lease meanwhile
        if await self._has_arrived(server):
            return {}
        await self._check_empty(server)
        self._file.execute(QUERIES["forget_record"], (Memo.kind, database.MOVED))
        rows = {table: await self._copy(server, table) for table in self._tables}
        for name, epoch in self._file.execute(_EPOCHS).fetchall():
            await server.execute("INSERT INTO leases VALUES ($1, '', '', $2, $3, 0, '')", name, epoch, position)
        await self._mark(server)
        return rows

    async def _has_arrived(self, server: asyncpg.Connection) -> bool:
        """Whether an earlier call has moved the file here. Raise if it has moved elsewhere."""
        move = database.read_move(self._file)
        if move is None:
            return False
        arrived = await server.fetchval("SELECT value FROM records WHERE kind = $1 AND id = $2", Memo.kind, ARRIVED)
        if arrived == move.id.encode():
            return True
        if move.to != self._address.shown:
            raise e.DatabaseMoved(self._path, move.to)
        return False

    async def _check_empty(self, server: asyncpg.Connection) -> None:
        tables = (*self._tables, "leases")
        filled = [name for name in tables if await server.fetchval(f'SELECT EXISTS (SELECT 1 FROM "{name}")')]
        if filled:
            where = f"schema {self._address.schema} of {self._address.shown}"
            advice = "give another schema in the URL (?schema=NAME), or drop this one if nobody needs it"
            raise e.BadUse("--to", f"{where} is in use: there are rows in {', '.join(filled)}; {advice}")

    async def _copy(self, server: asyncpg.Connection, table: str) -> int:
        """Copy a table; compare what is there afterwards."""
        columns = [row[1] for row in self._file.execute(f'PRAGMA table_info("{table}")')]
        listed = ", ".join(f'"{column}"' for column in columns)
        found = await server.fetch(_COLUMNS, table)
        truths = {name for name, is_truth, _ in found if is_truth}
        places = [place for place, column in enumerate(columns) if column in truths]
        sent, stored = Sum(), Sum()

        def rows() -> Iterator[Row]:
            for row in self._file.execute(f'SELECT {listed} FROM "{table}"'):
                values = list(without_nul(row))
                for place in places:
                    values[place] = bool(values[place])
                sent.add(tuple(values))
                yield tuple(values)

        # The driver sends half a MiB at a time, and waits for the server between.
        await server.copy_records_to_table(table, records=rows(), columns=columns)
        async for record in server.cursor(f'SELECT {listed} FROM "{table}"', prefetch=READ_AT_ONCE):
            stored.add(tuple(record))
        if stored != sent:
            raise ValueError(
                f"table {table}: {sent.count} rows were sent and {stored.count} stored, with hashes "
                f"{sent.hash:064x} and {stored.hash:064x}"
            )
        for name in (name for name, _, is_identity in found if is_identity):
            following = (
                f'SELECT setval(pg_get_serial_sequence($1, $2), coalesce(max("{name}"), 0) + 1, false) FROM "{table}"'
            )
            await server.execute(following, table, name)
        return sent.count

    async def _mark(self, server: asyncpg.Connection) -> None:
        """Mark both databases with one id: the file at once, the server with the commit that follows."""
        id = token_hex(16)
        arrived = record_row(Memo(ARRIVED, id.encode()))
        await server.copy_records_to_table("records", records=[arrived], columns=("kind", "id", *RECORD_VALUES))
        put_records(self._file, [Memo(database.MOVED, f"{id} {self._address.shown}".encode())])
