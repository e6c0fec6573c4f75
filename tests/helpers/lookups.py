"""Single questions to a store."""

from collections.abc import Collection

from interlock.model.job import Job
from interlock.model.state import State
from interlock.ports.store import Inputs, Lookup, Reader


async def known_keys(store: Reader, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
    return (await store.look_up(Lookup(keys=keys))).keys


async def digests(store: Reader, run_ids: Collection[str]) -> dict[str, bytes]:
    return (await store.look_up(Lookup(digests=run_ids))).digests


async def states(store: Reader, run_ids: Collection[str]) -> dict[str, State]:
    return (await store.look_up(Lookup(states=run_ids))).states


async def inputs(store: Reader, run_ids: Collection[str]) -> dict[str, Inputs]:
    return (await store.look_up(Lookup(inputs=run_ids))).inputs


async def previous(store: Reader, run_id: str) -> tuple[str, State, bool] | None:
    return (await store.look_up(Lookup(previous=[run_id]))).previous.get(run_id)


async def first_times(store: Reader, job_ids: Collection[str]) -> dict[str, float]:
    return (await store.look_up(Lookup(first_times=job_ids))).first_times


async def tenant_of_pruned(store: Reader, run_id: str) -> str | None:
    return (await store.look_up(Lookup(pruned=[run_id]))).pruned.get(run_id)


async def definition(store: Reader, version: str) -> Job | None:
    return (await store.look_up(Lookup(versions=[version]))).versions.get(version)
