"""Prune one thing of a store, and return how many are gone."""

from interlock.model.record import Record
from interlock.ports.store import PruneLimits, Store


async def prune_service_log(store: Store, most_lines: int, most_bytes: int) -> int:
    return (await store.prune(PruneLimits(log_lines=most_lines, log_bytes=most_bytes))).lines


async def prune_keys(store: Store, created_before: float, calls_before: float = 0.0) -> int:
    return (await store.prune(PruneLimits(keys_before=created_before, calls_before=calls_before))).keys


async def prune_records(store: Store, kind: type[Record], before: float, most: int) -> int:
    return (await store.prune(PruneLimits(records=((kind, before, most),)))).records
