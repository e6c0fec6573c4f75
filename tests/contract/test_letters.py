"""Dead letters in a store: in order, filtered, counted, replayed, dropped, and pruned before their runs."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.error import StaleEpoch
from interlock.model.letter import DeadLetter, LetterCode, LetterFilter
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, PruneLimits
from tests.contract.conftest import AnyStore
from tests.contract.samples import LETTER, POISON, created, make_run, take
from tests.helpers.pruning import prune, prune_records
from tests.helpers.records import changes

pytestmark = pytest.mark.behaviour("REC-4")

ALL = LetterFilter()
FOUR = [
    replace(LETTER, id="a", at=1.0, code=LetterCode.FAILED),
    replace(LETTER, id="b", at=2.0, tenant="red"),
    replace(LETTER, id="c", at=3.0, job_id="play", code=LetterCode.TIMEOUT),
    replace(POISON, at=4.0),
]


async def put(store: AnyStore, *letters: DeadLetter, gone: Iterable[str] = ()) -> None:
    lease = await take(store)
    batch = Batch(records=changes(*letters, gone=[(DeadLetter, letter_id) for letter_id in gone]))
    await store.commit(batch, lease)


async def listed(store: AnyStore, wanted: LetterFilter = ALL, limit: int = 2) -> list[str]:
    """The ids of all letters that are wanted, page by page."""
    page = await store.records(DeadLetter, wanted.records, None, limit)
    found = [letter.id for letter in page.records]
    while page.next is not None:
        page = await store.records(DeadLetter, wanted.records, page.next, limit)
        assert page.records, "a page that is announced has something"
        found += [letter.id for letter in page.records]
    return found


async def test_letters_come_newest_first_and_match_the_filter(store: AnyStore) -> None:
    assert await store.records(DeadLetter, limit=5) == await store.records(DeadLetter, before=0, limit=5)
    await put(store, *FOUR)
    await put(store, replace(FOUR[0], error="another"), replace(FOUR[1], replayed_as="new", seq=2))
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
        assert sum((await store.counts(DeadLetter, wanted.records)).values()) == len(found)
    assert await store.counts(DeadLetter, ALL.records) == {"failed": 1, "orphaned": 1, "timeout": 1, "poison": 1}
    assert await store.record(DeadLetter, "a") == FOUR[0], "the first one stays"
    assert await store.record(DeadLetter, "b") == replace(FOUR[1], replayed_as="new", seq=2)
    assert await store.record(DeadLetter, "poison-1") == FOUR[3]
    assert await store.record(DeadLetter, "unknown") is None


async def test_a_batch_that_is_stored_again_changes_nothing(store: AnyStore) -> None:
    for _ in range(2):  # a batch may be stored again
        await put(store, *FOUR)
        await put(store, replace(FOUR[0], replayed_as="n2", seq=2), gone=["b", "unknown"])
    assert await listed(store) == ["poison-1", "c", "a"]
    assert await store.record(DeadLetter, "a") == replace(FOUR[0], replayed_as="n2", seq=2)
    lease = await take(store)
    with pytest.raises(StaleEpoch):
        await store.commit(Batch(records=changes(gone=[(DeadLetter, "a")])), replace(lease, epoch=lease.epoch - 1))
    assert len(await listed(store)) == 3


async def test_old_and_surplus_letters_are_pruned_and_then_their_runs(store: AnyStore) -> None:
    lease = await take(store)
    runs = [make_run(one.id, state=State.FAILED, ended_at=1.0) for one in FOUR[:3]]
    batch = created(*runs, make_run("last"))
    batch.records = changes(*FOUR)
    await store.commit(batch, lease)
    assert await prune_records(store, DeadLetter, 1.0, 4) == 0, "written exactly then"
    assert (await prune(store, PruneLimits(0, 1e9))).runs == 0
    assert await prune_records(store, DeadLetter, 1.5, 4) == 1
    assert (await prune(store, PruneLimits(0, 1e9))).runs == 1
    assert await store.run("a") is None
    await put(store, gone=["c"])
    assert (await prune(store, PruneLimits(0, 1e9))).runs == 1
    assert await prune_records(store, DeadLetter, 0.0, 1) == 1
    assert await listed(store) == ["poison-1"]
    assert await prune_records(store, DeadLetter, 1e9, 1) == 1
    assert await prune_records(store, DeadLetter, 1e9, 0) == 0


async def test_one_call_prunes_so_many(store: AnyStore) -> None:
    await put(store, *(replace(LETTER, id=f"{number:05}") for number in range(MOST_PRUNED + 5)))
    assert await prune_records(store, DeadLetter, 0.0, 3) == MOST_PRUNED
    assert await prune_records(store, DeadLetter, 0.0, 3) == 2
    assert await listed(store) == [f"{number:05}" for number in range(MOST_PRUNED + 4, MOST_PRUNED + 1, -1)]
