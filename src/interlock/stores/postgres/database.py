"""Connect to the server; check what it promises; make the schema and bring it up to date."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg

from interlock import error as e
from interlock.stores.postgres import errors
from interlock.stores.postgres.address import Address
from interlock.stores.postgres.promises import read_promises
from interlock.stores.sql.queries import scripts

logger = logging.getLogger("interlock.store")


CONNECT_SECONDS = 10.0
OLDEST_READER = 1  # schema version of the oldest Interlock that may still use the schema
_LOCK = 0x494C434B  # 'ILCK', of one migration at a time

_SETTINGS = {
    "application_name": "interlock",
    "default_transaction_isolation": "read committed",
    "jit": "off",
    "lock_timeout": "0",
}
_READER_SETTINGS = {"client_connection_check_interval": "1s"}  # the end of a statement whose reader has given up
# Every statement of a write finds its rows by an index. The planner must not choose by sizes: a plan is kept for as
# long as the connection, and the tables may have been empty when it was made.
_WRITER_SETTINGS = {"plan_cache_mode": "force_generic_plan"} | dict.fromkeys(
    ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"), "off"
)


def migrations() -> list[str]:
    return scripts("interlock.stores.postgres")


def settings(address: Address, writes: bool) -> dict[str, str]:
    if address.has_pooler:
        return {}  # they would be those of whichever connection is free
    return _SETTINGS | (_WRITER_SETTINGS if writes else _READER_SETTINGS) | {"search_path": f'"{address.schema}"'}


@asynccontextmanager
async def reading(connection: asyncpg.Connection, address: Address) -> AsyncIterator[None]:
    """See the tables as one commit left them."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        if address.has_pooler:
            await connection.execute(f'SET LOCAL search_path = "{address.schema}"')
        yield


async def connect_writer(address: Address, on_message: Callable[..., None]) -> asyncpg.Connection:
    """Connect to the primary. `on_message` hears warnings of the server."""
    if address.has_pooler:
        raise e.CannotOpenDatabase(address.shown, f"pooler: a scheduler needs a session of its own; {errors.NO_POOLER}")
    connection = await asyncpg.connect(
        **address.options, server_settings=settings(address, writes=True), timeout=CONNECT_SECONDS
    )
    try:
        connection.add_log_listener(on_message)
        await _check_server(connection, address)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _check_server(connection: asyncpg.Connection, address: Address) -> None:
    promises = await read_promises(connection, address)
    for name, value in promises.broken:
        logger.warning(
            "%s: %s is %s on the server: acknowledged runs can be lost with its machine; turn it on",
            address.shown, name, value,
        )  # fmt: skip
    if not promises.waits_for_disk:
        value = promises.synchronous_commit
        logger.warning("%s: synchronous_commit is %s; set to on for this scheduler", address.shown, value)
        await connection.execute("SET synchronous_commit = on")


async def migrate(connection: asyncpg.Connection, address: Address, scripts: list[str]) -> None:
    """Apply the missing scripts, all in one transaction; others wait for it."""
    schema = address.schema
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", _LOCK, schema)
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'):
            await connection.execute(f'CREATE SCHEMA "{schema}"')
        version = await found_version(connection, address)
        if version < len(scripts):
            await connection.execute("SET LOCAL client_min_messages = error")
            for script in scripts[version:]:
                await connection.execute(script)
            await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version int, oldest_reader int)")
            await connection.execute("DELETE FROM schema_version")
            await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", len(scripts), OLDEST_READER)


async def found_version(connection: asyncpg.Connection, address: Address) -> int:
    """Return the version of the schema, 0 if it is empty. Raise if it is not ours, or made for a later Interlock."""
    path = f'"{address.schema}"'
    row = await connection.fetchrow(
        "SELECT current_setting('search_path'), array_agg(relname::text) FROM pg_class "
        "WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
        path,
    )
    assert row is not None
    found, tables = row
    if found.strip('"') != address.schema:
        why = f"search_path is {found} instead of {address.schema}: what Interlock sets for its connections is lost"
        raise e.CannotOpenDatabase(address.shown, f"{why}; {errors.NO_POOLER}")
    if not tables:
        return 0
    where, known = f"schema {address.schema}", len(migrations())
    other = "give another schema in the URL: ?schema=NAME"
    if "schema_version" not in tables:
        raise e.NotADatabase(address.shown, f"{where} has tables of another program", other)
    row = await connection.fetchrow("SELECT * FROM schema_version")
    if row is None or list(row.keys()) != ["version", "oldest_reader"]:
        raise e.NotADatabase(address.shown, f"{where} has a table schema_version of another program", other)
    version: int = row["version"]
    if row["oldest_reader"] > known:
        raise e.DatabaseTooNew(address.shown, version, known)
    if gone := {"runs", "history", "records", "leases", "audit", "logs"} - set(tables):
        why = f"{where} says version {version}, but has no table {', '.join(sorted(gone))}"
        raise e.NotADatabase(address.shown, why, f"restore a backup, or {other}")
    return version
