"""Read the store on the server, in any process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import asyncpg
import msgspec

from interlock import error as e
from interlock.stores.postgres import errors
from interlock.stores.postgres.address import read_address
from interlock.stores.postgres.database import CONNECT_SECONDS, found_version, migrations, reading, settings
from interlock.stores.postgres.queries import PostgresView
from interlock.stores.sql.reader import SqlReader, Work

T = TypeVar("T")

READ_SECONDS = 2.0
LONG_SECONDS = 60.0  # for what grows with the store: loading the state, and finding what to prune


class PostgresReader(SqlReader):
    def __init__(self, url: str, connections: int = 4) -> None:
        self._address = read_address(url)
        self._most = connections
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        self._pool = pool = await self._made_pool()
        try:
            async with pool.acquire(timeout=CONNECT_SECONDS):
                pass
        except errors.DRIVER as error:
            if not errors.may_pass(error):
                await self.close()
                raise errors.of_opening(error, self._address.shown, CONNECT_SECONDS) from error
        except e.StoreUnavailable:
            pass
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._stop_reading()

    async def _made_pool(self) -> asyncpg.Pool:
        return await asyncpg.create_pool(
            **self._address.options, server_settings=settings(self._address, writes=False),
            min_size=0, max_size=self._most, init=self._check, reset=_nothing,
            timeout=CONNECT_SECONDS,
        )  # fmt: skip

    async def _stop_reading(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), CONNECT_SECONDS)
            except TimeoutError:
                pool.terminate()

    async def _check(self, connection: asyncpg.Connection) -> None:
        async with reading(connection, self._address):
            version = await found_version(connection, self._address)
        if version < len(migrations()):
            where = f"{self._address.shown}: schema {self._address.schema}"
            why = f"{where} is not up to date; the scheduler brings it up to date when it starts"
            raise e.StoreUnavailable(why, asked=True)

    @asynccontextmanager
    async def _connected(self, seconds: float) -> AsyncIterator[asyncpg.Connection]:
        if self._pool is None:
            raise e.StoreUnavailable("it is closed", asked=True)
        end = asyncio.get_running_loop().time() + seconds
        try:
            async with self._pool.acquire(timeout=seconds) as connection:
                with _ended_at(end, connection):
                    yield connection
        except errors.DRIVER as error:
            if errors.is_read_only(error):
                await self._drop_connections()
            raise errors.of_reading(error, seconds) from error
        except (e.NotADatabase, e.DatabaseTooNew, e.CannotOpenDatabase) as error:
            raise e.StoreUnavailable(str(error), asked=True) from error
        except msgspec.MsgspecError as error:
            raise e.DatabaseDamaged(self._address.shown, f"a stored value cannot be read: {error}") from error

    async def _drop_connections(self) -> None:
        """Use no connection again: the server is no longer the one that takes writes."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def _read(self, work: Work[T], whole: bool = True, seconds: float = READ_SECONDS) -> T:
        async with self._connected(seconds) as connection:
            if not whole and not self._address.has_pooler:
                return await work(PostgresView(connection, whole=False))
            async with reading(connection, self._address):
                return await work(PostgresView(connection, whole=True))


@contextmanager
def _ended_at(end: float, connection: asyncpg.Connection) -> Iterator[None]:
    """End the connection at this time. To cancel a statement would be to wait for a server that stands still."""
    loop = asyncio.get_running_loop()
    limit = loop.call_at(end, connection.terminate)
    try:
        yield
    except errors.DRIVER as error:
        if loop.time() >= end:
            raise TimeoutError from error
        raise
    finally:
        limit.cancel()


async def _nothing(connection: asyncpg.Connection) -> None:
    """Leave the connection as it is: no call leaves a setting or a lock behind."""
