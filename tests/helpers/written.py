"""A batch in a database, before a server starts with it."""

import asyncio
from pathlib import Path

from interlock.core.decisions import Batch
from interlock.stores.sqlite import SqliteStore
from tests.contract.samples import take


def write(database: Path, batch: Batch) -> None:
    async def commit() -> None:
        store = SqliteStore(database)
        await store.open()
        lease = await take(store)
        await store.commit(batch, lease)
        await store.release(lease)
        await store.close()

    asyncio.run(commit())
