"""Payloads of runs that were collapsed into another: copied in order, each once, and kept as long as that run."""

import copy

from interlock.core.decisions import Batch, InputChanges
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from tests.contract.conftest import AnyStore
from tests.contract.samples import created, make_run, take
from tests.helpers.lookups import inputs
from tests.helpers.pruning import prune

EVERYTHING = PruneLimits(0, 1e12)


async def further(store: AnyStore, run_id: str) -> tuple[bytes, ...]:
    return (await inputs(store, [run_id]))[run_id].further


async def put(store: AnyStore, *pairs: tuple[str, str], runs: str = "", ended: str = "") -> None:
    """Store these runs, each with its id as its payload, and collapse them."""
    lease = await take(store)
    live = [make_run(one, payload=one.encode()) for one in runs.split()]
    ends = [make_run(one, payload=one.encode(), state=State.SKIPPED, ended_at=1001.0) for one in ended.split()]
    batch = created(*live, *ends)
    batch.inputs.copied = [(*pair, True) for pair in pairs]
    await store.commit(copy.deepcopy(batch), lease)
    await store.commit(batch, lease)


async def test_they_come_in_order_from_this_batch_and_earlier_ones_each_once(store: AnyStore) -> None:
    await put(store, runs="a z")
    await put(store, ("a", "z"), ("a", "c"), ("other", "z"), ended="c", runs="other")
    await put(store, ("a", "b"), ("a", "z"), ("a", "unknown"), ("unknown", "b"), ended="b")
    assert await further(store, "a") == (b"z", b"c", b"b")
    assert await further(store, "other") == (b"z",)
    assert await further(store, "z") == ()
    assert set(await inputs(store, ["a", "unknown"])) == {"a"}


async def test_a_run_that_has_collected_some_gives_all_of_them_away(store: AnyStore) -> None:
    await put(store, ("b", "d"), ("b", "c"), runs="a b", ended="c d e")
    await put(store, ("a", "b"), ("a", "e"))
    assert await further(store, "a") == (b"b", b"d", b"c", b"e")


async def test_a_retry_inherits_the_further_payloads(store: AnyStore) -> None:
    await put(store, ("old", "c"), ("old", "b"), runs="old", ended="b c")
    lease = await take(store)
    batch = created(make_run("new"))
    batch.inputs.copied = [("new", "old", False)]
    for one in (copy.deepcopy(batch), batch, Batch(inputs=InputChanges(copied=[("unknown", "old", False)]))):
        await store.commit(one, lease)
    assert await further(store, "new") == await further(store, "old") == (b"c", b"b")


async def test_they_outlive_the_run_they_came_from(store: AnyStore) -> None:
    await put(store, ("a", "b"), ended="b", runs="a")
    await put(store, runs="last")
    assert (await prune(store, EVERYTHING)).runs == 1
    assert await further(store, "a") == (b"b",)


async def test_they_are_pruned_with_the_run_that_has_them(store: AnyStore) -> None:
    await put(store, ended="a b")
    await put(store, ("a", "b"), ("last", "b"), runs="last")
    assert (await prune(store, EVERYTHING)).runs == 2
    # The same run again, as a batch that is repeated later would make it.
    await put(store, runs="a")
    assert await further(store, "a") == ()
    assert await further(store, "last") == (b"b",)
