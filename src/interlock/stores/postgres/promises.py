"""What a server must promise: that what it confirms is on its disk, and that its tables are ours to write."""

import asyncpg
import msgspec

from interlock import error as e
from interlock.stores.postgres import errors
from interlock.stores.postgres.address import Address, read_address

OLDEST_SERVER = 150000
_WAITS_FOR_DISK = ("on", "remote_apply")


class Promises(msgspec.Struct, frozen=True):
    version: str
    broken: list[tuple[str, str]]  # settings that lose acknowledged runs with the machine, and their values
    synchronous_commit: str

    @property
    def waits_for_disk(self) -> bool:
        """Whether a commit does, without being told to."""
        return self.synchronous_commit in _WAITS_FOR_DISK


async def read_promises(connection: asyncpg.Connection, address: Address) -> Promises:
    """Raise if the server cannot be used at all."""
    row = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), "
        "current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), "
        "current_setting('transaction_read_only')"
    )
    assert row is not None
    number, version, is_replica, fsync, full_pages, synchronous, read_only = row
    if number < OLDEST_SERVER:
        raise e.CannotOpenDatabase(address.shown, f"PostgreSQL {version} is too old; use version 15 or later")
    if is_replica:
        raise e.CannotOpenDatabase(address.shown, "it is a replica; give the address of the primary")
    if read_only != "off":
        why = "its connections are read-only (default_transaction_read_only); give the address of the primary"
        raise e.CannotOpenDatabase(address.shown, why)
    broken = [(name, value) for name, value in (("fsync", fsync), ("full_page_writes", full_pages)) if value != "on"]
    return Promises(version, broken, synchronous)


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """A server as `doctor` finds it."""

    shown: str  # its URL, without the password
    promises: Promises
    schema: str
    layout: int  # version of our tables; 0 if there are none yet
    may_write: bool
    leader: str | None


async def look_at(url: str, seconds: float) -> ServerState:
    """Look at a server without changing it. Raise `InterlockError` if it cannot be used."""
    from interlock.stores.postgres.database import found_version, reading, settings

    address = read_address(url)
    try:
        connection = await asyncpg.connect(
            **address.options, server_settings=settings(address, writes=False), timeout=seconds
        )
        try:
            promises = await read_promises(connection, address)
            async with reading(connection, address):
                layout = await found_version(connection, address)
                may_write, leader = await _rights(connection, address, layout)
        finally:
            connection.terminate()
    except errors.DRIVER as error:
        raise errors.of_opening(error, address.shown, seconds) from error
    return ServerState(
        shown=address.shown, promises=promises, schema=address.schema, layout=layout, may_write=may_write, leader=leader
    )


async def _rights(connection: asyncpg.Connection, address: Address, layout: int) -> tuple[bool, str | None]:
    """Return whether this role may write what is there, or make it, and who leads."""
    if not layout:
        return bool(await connection.fetchval(
            "SELECT CASE WHEN to_regnamespace($1) IS NULL THEN has_database_privilege(current_database(), 'CREATE') "
            "ELSE has_schema_privilege($2, 'CREATE') END",
            f'"{address.schema}"', address.schema,
        )), None  # fmt: skip
    may_write = await connection.fetchval("SELECT has_table_privilege('runs', 'INSERT, UPDATE, DELETE')")
    leader = await connection.fetchval("SELECT holder FROM leases WHERE token <> '' AND to_timestamp(ends_at) > now()")
    return bool(may_write), leader
