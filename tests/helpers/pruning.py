"""Prune a store under a lease of its own."""

from interlock.model.record import Record
from interlock.ports.store import Pruned, PruneLimits
from interlock.stores.memory import MemoryStore
from interlock.stores.postgres import PostgresStore
from interlock.stores.sqlite import SqliteStore
from soak.simulation.store import FaultyStore

AnyStore = MemoryStore | SqliteStore | PostgresStore | FaultyStore


async def prune(store: AnyStore, limits: PruneLimits) -> Pruned:
    lease = await store.take("pruning", "tester", "pruner", 0.0)
    assert lease is not None
    return await store.prune(limits, lease)


async def prune_service_log(store: AnyStore, most_lines: int, most_bytes: int) -> int:
    return (await prune(store, PruneLimits(log_lines=most_lines, log_bytes=most_bytes))).lines


async def prune_keys(store: AnyStore, created_before: float, calls_before: float = 0.0) -> int:
    return (await prune(store, PruneLimits(keys_before=created_before, calls_before=calls_before))).keys


async def prune_records(store: AnyStore, kind: type[Record], before: float, most: int) -> int:
    return (await prune(store, PruneLimits(records=((kind, before, most),)))).records
