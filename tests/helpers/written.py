"""A batch in a database, before a server starts with it."""

import asyncio
from pathlib import Path

from interlock.core.decisions import Batch
from interlock.stores.sqlite import SqliteStore
from tests.contract.samples import NAME, take


def write(database: Path, batch: Batch, now: float) -> None:
    async def commit() -> None:
        store = SqliteStore(database)
        await store.open()
        lease = await take(store, now=now)
        await store.commit(batch, NAME, lease.epoch)
        await store.release(lease)
        await store.close()

    asyncio.run(commit())
