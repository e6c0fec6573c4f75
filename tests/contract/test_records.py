"""Records of a kind that no store has heard of: found by their columns, replaced by newer ones, paged and pruned."""

import pytest

from interlock.core.decisions import Batch
from interlock.model.record import Columns, Record, RecordFilter
from interlock.ports.store import Lookup, every_record
from interlock.stores.sql import lookups
from interlock.stores.sqlite import SqliteStore
from tests.contract.conftest import AnyStore
from tests.contract.samples import take
from tests.helpers.pruning import prune_records
from tests.helpers.records import changes


class Note(Record, frozen=True):
    kind = "note"

    text: str
    seq: int = 0
    colour: str = "red"
    at: float = 0.0

    @property
    def columns(self) -> Columns:
        return Columns(self.seq, job=self.text, state=self.colour, at=self.at)


class Other(Note, frozen=True):
    kind = "other"


async def put(store: AnyStore, *notes: Note) -> None:
    lease = await take(store)
    await store.commit(Batch(records=changes(*notes)), lease)


async def test_a_record_is_replaced_by_one_with_a_higher_seq_or_none(store: AnyStore) -> None:
    for note, left in (
        (Note("a", "first", seq=2), "first"),
        (Note("a", "same", seq=2), "first"),
        (Note("a", "older", seq=1), "first"),
        (Note("a", "newer", seq=3), "newer"),
        (Note("a", "plain"), "plain"),
    ):
        await put(store, note)
        stored = await store.record(Note, "a")
        assert stored is not None
        assert stored.text == left
    assert await store.record(Other, "a") is None, "another kind has its own ids"
    wanted: list[tuple[type[Record], str]] = [(Note, "a"), (Other, "a"), (Note, "b")]
    assert (await store.look_up(Lookup(records=wanted))).records == {("note", "a"): Note("a", "plain")}


async def test_kinds_are_listed_counted_loaded_and_pruned_apart(store: AnyStore) -> None:
    notes = [Note(f"n{number}", "x", at=float(number), colour="red" if number % 2 else "blue") for number in range(6)]
    await put(store, *notes, *(Other(note.id, "y") for note in notes))
    assert [note async for note in every_record(store, Note)] == notes[::-1]
    red = RecordFilter(state="red", since=2.0)
    assert (await store.records(Note, red)).records == [notes[5], notes[3]]
    assert await store.counts(Note, RecordFilter(until=4.0)) == {"red": 2, "blue": 2}
    assert (await store.load(0, [Note])).of(Note) == notes
    assert (await store.load(0)).records == []
    assert await prune_records(store, Note, 2.0, 3) == 3
    assert (await store.records(Note)).records == notes[:2:-1]
    assert len((await store.records(Other)).records) == 6


async def test_a_page_has_so_many_bytes_and_the_next_goes_on(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "MOST_RECORD_BYTES", 500)
    await put(sqlite, *(Note(f"n{number}", "x" * 300) for number in range(5)))
    page = await sqlite.records(Note)
    assert [note.id for note in page.records] == ["n4", "n3"]
    assert page.next is not None
    assert [note.id async for note in every_record(sqlite, Note)] == ["n4", "n3", "n2", "n1", "n0"]
