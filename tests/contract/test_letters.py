"""Dead letters in a store: in order, filtered, counted, replayed, dropped, and pruned before their runs."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.error import StaleEpoch
from interlock.model.letter import DeadLetter, LetterCode, LetterFilter
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, PruneLimits
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import LETTER, NAME, POISON, created, make_run, take

ALL = LetterFilter()
FOUR = [
    replace(LETTER, id="a", at=1.0, code=LetterCode.FAILED),
    replace(LETTER, id="b", at=2.0, tenant="red"),
    replace(LETTER, id="c", at=3.0, job_id="play", code=LetterCode.TIMEOUT),
    replace(POISON, at=4.0),
]


async def put(store: AnyStore, *letters: DeadLetter, **batch: Any) -> None:
    lease = await take(store)
    await store.commit(Batch(dead_letters=list(letters), **batch), NAME, lease.epoch)


async def listed(store: AnyStore, wanted: LetterFilter = ALL, limit: int = 2) -> list[str]:
    """The ids of all letters that are wanted, page by page."""
    page = await store.letters(wanted, None, limit)
    found = [one.id for one in page.letters]
    while page.next is not None:
        page = await store.letters(wanted, page.next, limit)
        assert page.letters, "a page that is announced has something"
        found += [one.id for one in page.letters]
    return found


@pytest.mark.behaviour("REC-4")
def test_letters_come_newest_first_and_match_the_filter(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        assert await store.letters(ALL, None, 5) == await store.letters(ALL, 0, 5)
        await put(store, *FOUR)
        await put(store, replace(FOUR[0], error="another"), replayed=[("new", "b"), ("new", "unknown")])
        for limit in (1, 2, 3, 4, 5):
            assert await listed(store, limit=limit) == ["poison-1", "c", "b", "a"]
        for wanted, found in (
            (LetterFilter(code=LetterCode.TIMEOUT), ["c"]),
            (LetterFilter(code=LetterCode.NO_WORKERS), []),
            (LetterFilter(job_id="work"), ["b", "a"]),
            (LetterFilter(tenant="blue"), ["c", "a"]),
            (LetterFilter(since=2.0), ["poison-1", "c", "b"]),
            (LetterFilter(until=2.0), ["a"]),
            (LetterFilter(since=2.0, until=3.0, tenant="red"), ["b"]),
            (LetterFilter(replayed=True), ["b"]),
            (LetterFilter(replayed=False), ["poison-1", "c", "a"]),
        ):
            assert await listed(store, wanted) == found, wanted
            assert sum((await store.letter_counts(wanted)).values()) == len(found)
        assert await store.letter_counts(ALL) == {"failed": 1, "orphaned": 1, "timeout": 1, "poison": 1}
        assert await store.letter("a") == FOUR[0], "the first one stays"
        assert await store.letter("b") == replace(FOUR[1], replayed_as="new")
        assert await store.letter("poison-1") == FOUR[3]
        assert (await store.letters(ALL, None, 1)).letters == [replace(FOUR[3], raw=None)], "a list has no raw bytes"
        assert await store.letter("unknown") is None

    with_store(body)


@pytest.mark.behaviour("REC-4")
def test_a_batch_writes_replays_and_drops_in_this_order(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        for _ in range(2):  # a batch may be stored again
            await put(store, *FOUR, replayed=[("n1", "a"), ("n2", "a"), ("n3", "b")], dropped_letters=["b", "unknown"])
        assert await listed(store) == ["poison-1", "c", "a"]
        assert await store.letter("a") == replace(FOUR[0], replayed_as="n2")
        lease = await take(store)
        with pytest.raises(StaleEpoch):
            await store.commit(Batch(dropped_letters=["a"]), NAME, lease.epoch - 1)
        assert len(await listed(store)) == 3

    with_store(body)


@pytest.mark.behaviour("REC-4")
def test_old_and_surplus_letters_are_pruned_and_then_their_runs(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        lease = await take(store)
        runs = [make_run(one.id, state=State.FAILED, ended_at=1.0) for one in FOUR[:3]]
        batch = created(*runs, make_run("last"))
        batch.dead_letters = list(FOUR)
        await store.commit(batch, NAME, lease.epoch)
        assert await store.prune_letters(1.0, 4) == 0, "written exactly then"
        assert (await store.prune_runs(PruneLimits(0, 1e9))).runs == 0
        assert await store.prune_letters(1.5, 4) == 1
        assert (await store.prune_runs(PruneLimits(0, 1e9))).runs == 1
        assert await store.run("a") is None
        await put(store, dropped_letters=["c"])
        assert (await store.prune_runs(PruneLimits(0, 1e9))).runs == 1
        assert await store.prune_letters(0.0, 1) == 1
        assert await listed(store) == ["poison-1"]
        assert await store.prune_letters(1e9, 1) == 1
        assert await store.prune_letters(1e9, 0) == 0

    with_store(body)


def test_one_call_prunes_so_many(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        await put(store, *(replace(LETTER, id=f"{number:05}") for number in range(MOST_PRUNED + 5)))
        assert await store.prune_letters(0.0, 3) == MOST_PRUNED
        assert await store.prune_letters(0.0, 3) == 2
        assert await listed(store) == [f"{number:05}" for number in range(MOST_PRUNED + 4, MOST_PRUNED + 1, -1)]

    with_store(body)
