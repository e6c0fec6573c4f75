"""The store port: what goes in comes out, whole or not at all, and twice is once."""

import asyncio
import copy
import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.step import MACHINE
from interlock.model.child_info import Kept
from interlock.model.facets import Facets, Hold
from interlock.model.job import StoredJob
from interlock.model.policy.output import OutputRecord, OutputStatus
from interlock.model.run import UPDATES, Run
from interlock.model.state import State
from interlock.ports import store as ps
from tests.contract import samples
from tests.contract.conftest import AnyStore, WithStore
from tests.helpers.lookups import definition, inputs, known_keys, states
from tests.helpers.pruning import prune, prune_service_log
from tests.helpers.records import kept_services

SEVERAL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fields(run: Run | None) -> list[tuple[str, object, type]]:
    """Values with their types, for 1 is not True and a state is not a text."""
    assert run is not None
    values = ((name, getattr(run, name)) for name in Run.__struct_fields__)
    return [(name, value, str if name == "outcome" and value is not None else type(value)) for name, value in values]


@SEVERAL
@given(run=samples.RUNS)
def test_every_field_of_a_new_run_comes_back(with_store: WithStore, run: Run) -> None:
    async def body(store: AnyStore) -> None:
        lease = await samples.take(store)
        # Examples share one store, and a run that is there already would be kept as it was.
        while await states(store, [run.id]):
            run.id += "'"
        await store.commit(samples.created(run), lease)
        assert fields(await store.run(run.id)) == fields(run)

    with_store(body)


@SEVERAL
@given(run=samples.RUNS, group=st.sampled_from(list(UPDATES)))
def test_an_update_writes_the_fields_of_its_group_and_no_others(with_store: WithStore, run: Run, group: str) -> None:
    async def body(store: AnyStore) -> None:
        lease = await samples.take(store)
        await store.commit(samples.created(samples.make_run(run.id, seq=0)), lease)
        before = await store.run(run.id)
        assert before is not None
        run.seq = max(run.seq, before.seq)
        await store.commit(samples.updated(run, group=group), lease)
        stored = fields(await store.run(run.id))
        assert stored == [
            new if new[0] in UPDATES[group] else old for new, old in zip(fields(run), fields(before), strict=True)
        ]

    with_store(body)


def test_each_field_that_can_change_is_in_a_group_with_the_number_of_the_update() -> None:
    assert UPDATES["all"] == Run.__struct_fields__[Run.CONSTANT :]
    assert all("seq" in columns and len(columns) == len(set(columns)) for columns in UPDATES.values())


@pytest.mark.behaviour("RUN-15")
@pytest.mark.parametrize("group", UPDATES)
async def test_an_old_update_of_any_group_changes_nothing(store: AnyStore, group: str) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("r1", seq=5)), lease)
    before = fields(await store.run("r1"))
    late = samples.make_run("r1", seq=4, reason="late", attempt=7, heartbeats=7, failures=7)
    await store.commit(samples.updated(late, group=group), lease)
    assert fields(await store.run("r1")) == before


async def test_plain_and_whole_rows_are_created_in_one_order(store: AnyStore) -> None:
    lease = await samples.take(store)
    runs = [samples.make_run(f"r{place}", failures=place % 3) for place in range(300)]
    batch = samples.created(*runs)
    assert {len(row) for row in batch.created} == {Run.PLAIN, len(Run.__struct_fields__)}
    await store.commit(batch, lease)
    found = (await store.load(100)).runs
    assert [fields(run) for run in found] == [fields(run) for run in runs]
    assert (await store.runs(ps.RunFilter(), None, 1)).runs[0].id == "r299"


async def test_facets_are_read_with_the_run_and_go_when_they_are_taken_away(store: AnyStore) -> None:
    held = Facets(hold=Hold(by="ann", at=1000.5))
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("r1"), samples.make_run("r2", facets=held)), lease)
    assert [run.facets for run in (await store.load(100)).runs] == [None, held]
    await store.commit(samples.updated(samples.make_run("r1", facets=held), samples.make_run("r2")), lease)
    assert [run.facets for run in (await store.runs(ps.RunFilter(), None, 10)).runs] == [None, held]


async def test_a_store_begins_empty(store: AnyStore) -> None:
    snapshot = await store.load(256, MACHINE.records)
    assert snapshot == ps.Snapshot([], [], 0, {})
    assert await store.runs(ps.RunFilter(), None, 10) == ps.RunRows([], None)
    assert (await store.events(0, 10)).events == []
    assert await store.position() == 0
    assert await definition(store, samples.JOB.version) is None
    assert await kept_services(store) == {}
    assert await store.service_log("web") == []
    assert await prune_service_log(store, 0, 0) == 0
    assert await prune(store, ps.PruneLimits(0, 1e12)) == ps.Pruned(0, False)
    assert await store.run("r1") is None
    assert await store.history("r1") == []
    assert await store.logs("r1") == []
    assert await samples.dead_letters(store) == []
    assert await inputs(store, ["r1"]) == {}
    assert await known_keys(store, [("default", "k")]) == {}
    assert set(await states(store, ["r1"])) == set()
    assert set(await states(store, [])) == set()


async def test_a_batch_with_something_of_everything(store: AnyStore) -> None:
    lease = await samples.take(store)
    first = samples.created(samples.make_run("old", payload=b'{"a":1}'))
    first.history = [("old", [samples.entry(1, None, State.PENDING), samples.entry(2, State.PENDING, State.SCHEDULED)])]
    first.position = 1
    await store.commit(first, lease)
    await store.commit(samples.everything_in_one_batch(), lease)

    snapshot = await store.load(256, MACHINE.records)
    assert sorted(run.id for run in snapshot.runs) == ["keyed", "new"]
    assert snapshot.jobs == [await definition(store, samples.JOB.version)] == [samples.JOB]
    assert snapshot.position == await store.position() == 16
    assert [one.seq for one in await store.history("old")] == [1, 2, 3, 4]
    assert (await store.history("new"))[0] == samples.entry(1, None, State.PENDING)
    assert await store.logs("old") == [
        ps.LogEntry(10, 1001.5, 1, "info", "first", "app"),
        ps.LogEntry(11, 1001.75, 1, "error", "second\nline", "app"),
    ]
    assert await samples.dead_letters(store) == [replace(samples.LETTER, replayed_as="new"), samples.POISON]
    assert await inputs(store, ["old", "new", "unknown"]) == {
        "old": ps.Inputs(b'{"a":1}', b'{"at":7}'),
        "new": ps.Inputs(b"{}", None, (b"{}", b'{"a":1}')),
    }
    assert await known_keys(store, [("blue", "k"), ("red", "k"), ("blue", "other")]) == {
        ("blue", "k"): ("keyed", b"digest")
    }
    assert await states(store, ["old", "new", "unknown"]) == {"old": State.ORPHANED, "new": State.SCHEDULED}
    assert [stored.job for stored in snapshot.of(StoredJob)] == [samples.NIGHTLY, samples.JOB, samples.HOURLY]
    assert sorted(snapshot.schedules) == [samples.HOURLY_ROW, samples.NIGHTLY_ROW]
    assert await kept_services(store) == {"web": Kept(resume_id="1", last_exit=samples.EXIT)}
    assert await store.service_log("web") == [
        ps.ServiceEntry(15, "web", 1002.0, "stdout", "listening"),
        ps.ServiceEntry(16, "web", 1003.0, "status", "running", samples.CHANGE),
    ]


@pytest.mark.behaviour("OUT-3", "OUT-7")
async def test_what_is_to_be_scanned_is_read_of_runs_with_a_pending_record(store: AnyStore) -> None:
    lease = await samples.take(store)
    runs = [
        samples.make_run(status, result=b'"out"', facets=Facets(output=OutputRecord(2, None, 1.0, status=status)))
        for status in OutputStatus
    ]
    await store.commit(samples.created(*runs, samples.make_run("plain", result=b'"out"')), lease)
    found = await store.unscanned([*OutputStatus, "plain", "unknown"])
    assert found == [ps.Unscanned("pending", b'"out"', [])]
    assert await store.unscanned([]) == []


@pytest.mark.behaviour("OUT-2", "RUN-15")
async def test_held_lines_are_read_by_nobody_until_they_are_published(store: AnyStore) -> None:
    lease = await samples.take(store)
    pending = Facets(output=OutputRecord(2, None, 1.0, status=OutputStatus.PENDING))
    first = samples.created(samples.make_run("r1", attempt=1, facets=pending), samples.make_run("r2"))
    first.position = 1
    first.logs.lines = [
        ("r1", 1, 1, 1.0, "info", "one", ""), ("r2", 1, 1, 1.0, "info", "open", ""),
        ("r1", 1, 2, 1.0, "info", "two", "app.mail"),
    ]  # fmt: skip
    first.logs.held = {"r1"}
    for _ in range(2):
        await store.commit(first, lease)
        assert await store.position() == 3, "no position is used twice"
    assert [one.text for after in (0, -5) for one in await store.logs("r1", after)] == []
    for wanted in (ps.EventFilter(), ps.EventFilter(run_id="r1"), ps.EventFilter(job_id="work")):
        events = (await store.events(0, 100, wanted)).events
        assert [one.line.text for one in events if isinstance(one, ps.StoredEvent) and one.line] in ([], ["open"])
    assert await store.unscanned(["r1"]) == [
        ps.Unscanned("r1", None, [(1, 1, "one"), (1, 2, "two")], ["", "app.mail", "info"])
    ]
    assert (await store.load(10)).log_sizes["r1"] == (2, 6, False)
    assert (await store.load(10)).log_marks["r1"] == (1, 2)

    again = Batch(position=4)
    again.logs.published = [("r1", 5)]
    again.logs.redacted = [("TWO", "r1", 1, 2), ("shut", "r2", 1, 1)]
    again.logs.lines = [("r2", 1, 2, 2.0, "info", "later", "")]
    assert again.last_position == 9
    for _ in range(2):
        await store.commit(again, lease)
        assert [(one.position, one.text) for one in await store.logs("r1")] == [(4, "one"), (5, "TWO")]
    assert [(one.position, one.text) for one in await store.logs("r2")] == [(2, "open"), (9, "later")]
    rows = await store.events(3, 100, ps.EventFilter(run_id="r1"))
    assert [one.line.text for one in rows.events if isinstance(one, ps.StoredEvent) and one.line] == ["one", "TWO"]
    assert await store.position() == 9


async def test_a_scan_of_a_run_that_was_pruned_meanwhile_changes_nothing(store: AnyStore) -> None:
    lease = await samples.take(store)
    batch = samples.created(samples.make_run("r1"))
    batch.position = 1
    batch.logs.redacted, batch.logs.published = [("text", "gone", 1, 1)], [("gone", 1)]
    await store.commit(batch, lease)
    assert await store.run("r1") is not None
    assert await store.logs("gone") == []


async def test_a_batch_committed_again_changes_nothing(store: AnyStore) -> None:
    lease = await samples.take(store)
    first = samples.created(samples.make_run("old"))
    await store.commit(first, lease)
    batch = samples.everything_in_one_batch()
    await store.commit(copy.deepcopy(batch), lease)
    before = await samples.everything(store)
    await store.commit(copy.deepcopy(batch), lease)
    assert await samples.everything(store) == before
    await store.commit(first, lease)
    await store.commit(copy.deepcopy(batch), lease)
    assert await samples.everything(store) == before


@pytest.mark.behaviour("RUN-15")
async def test_an_older_update_changes_nothing(store: AnyStore) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("r1")), lease)
    newer = samples.make_run("r1", seq=4, state=State.RUNNING, fence=1, reason="newer")
    older = samples.make_run("r1", seq=3, state=State.DISPATCHED, fence=1, reason="older")
    await store.commit(samples.updated(newer), lease)
    await store.commit(samples.updated(older), lease)
    assert fields(await store.run("r1")) == fields(newer)
    same = samples.make_run("r1", seq=4, state=State.RUNNING, fence=1, reason="newer", stop="cancel")
    await store.commit(samples.updated(same), lease)
    assert fields(await store.run("r1")) == fields(same), "fields may change without a transition"


async def test_an_update_of_a_run_that_is_not_there_makes_none(store: AnyStore) -> None:
    lease = await samples.take(store)
    await store.commit(samples.updated(samples.make_run("r1")), lease)
    assert await store.run("r1") is None


async def test_the_first_use_of_a_key_and_of_an_id_is_the_one_that_counts(store: AnyStore) -> None:
    lease = await samples.take(store)
    for run_id, payload in (("r1", b"1"), ("r2", b"2")):
        batch = samples.created(samples.make_run(run_id, payload=payload))
        batch.keys.taken = [("default", "k", run_id, payload, 1000.0)]
        await store.commit(batch, lease)
    assert await known_keys(store, [("default", "k")]) == {("default", "k"): ("r1", b"1")}
    await store.commit(samples.created(samples.make_run("r1", payload=b"3")), lease)
    run = await store.run("r1")
    assert run is not None
    assert run.payload == b"1"


async def test_a_checkpoint_replaces_the_one_before(store: AnyStore) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("r1")), lease)
    for value in (b"1", b"2"):
        batch = samples.updated(samples.make_run("r1", has_checkpoint=1))
        batch.inputs.checkpoints = [("r1", value)]
        await store.commit(batch, lease)
    assert (await inputs(store, ["r1"]))["r1"].checkpoint == b"2"


async def test_logs_are_in_the_order_they_were_stored_each_line_once(store: AnyStore) -> None:
    lease = await samples.take(store)
    batch = samples.created(samples.make_run("r1"), samples.make_run("r2"))
    batch.logs.lines = [
        ("r1", 1, 9, 9.0, "info", "a", "app"),
        ("r2", 1, 1, 1.0, "info", "other", "app"),
        ("r1", 1, 10, 4.0, "info", "b", "app"),
    ]
    batch.position = 1
    await store.commit(batch, lease)
    again = samples.created()
    again.logs.lines = [("r1", 1, 9, 99.0, "info", "a again", "app"), ("r1", 2, 1, 5.0, "info", "c", "app")]
    again.position = 4
    await store.commit(again, lease)
    lines = await store.logs("r1")
    assert [(line.position, line.attempt, line.text) for line in lines] == [(1, 1, "a"), (3, 1, "b"), (5, 2, "c")]
    for after, limit in itertools.product(range(7), (1, 2, 3, 1000, None)):
        assert await store.logs("r1", after, limit) == [line for line in lines if line.position > after][:limit]


@pytest.mark.parametrize("end", samples.ENDS)
async def test_ended_runs_are_not_loaded_and_still_there(store: AnyStore, end: State) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("live"), samples.make_run("ended")), lease)
    await store.commit(samples.updated(samples.make_run("ended", seq=9, state=end, ended_at=2000.0)), lease)
    assert [run.id for run in (await store.load(256)).runs] == ["live"]
    ended = await store.run("ended")
    assert ended is not None
    assert ended.state is end
    assert set(await states(store, ["ended"])) == {"ended"}


async def test_a_payload_is_loaded_up_to_the_size_asked_for(store: AnyStore) -> None:
    lease = await samples.take(store)
    fits, above, empty = b"x" * 100, b"x" * 101, b""
    runs = [
        samples.make_run("a", payload=fits),
        samples.make_run("b", payload=above),
        samples.make_run("c", payload=empty),
    ]
    await store.commit(samples.created(*runs), lease)
    loaded = {run.id: run.payload for run in (await store.load(100)).runs}
    assert loaded == {"a": fits, "b": None, "c": empty}
    assert {one: found.payload for one, found in (await inputs(store, ["a", "b", "c"])).items()} == {
        "a": fits,
        "b": above,
        "c": empty,
    }
    whole = await store.run("b")
    assert whole is not None
    assert whole.payload == above


async def test_how_far_the_log_of_an_attempt_is_there_is_loaded_for_live_runs(store: AnyStore) -> None:
    lease = await samples.take(store)
    names = ("whole", "gap", "before", "silent")
    batch = samples.created(*(samples.make_run(one, state=State.RUNNING, attempt=2) for one in names))
    batch.logs.lines = [
        ("whole", 1, 1, 1.0, "info", "of another attempt", "app"),
        ("whole", 1, 2, 1.0, "info", "of another attempt", "app"),
        ("whole", 2, 2, 1.0, "info", "second", "app"),
        ("whole", 2, 1, 1.0, "info", "first", "app"),
        ("whole", 2, 0, 1.0, "info", "of the scheduler", "app"),
        ("gap", 2, 1, 1.0, "info", "first", "app"),
        ("gap", 2, 3, 1.0, "info", "third", "app"),
        ("before", 1, 1, 1.0, "info", "of another attempt", "app"),
    ]
    batch.position = 1
    await store.commit(batch, lease)
    assert (await store.load(256)).log_marks == {"whole": (2, 2)}


async def test_the_size_of_logs_is_loaded_for_live_runs_that_have_any(store: AnyStore) -> None:
    lease = await samples.take(store)
    runs = [samples.make_run(one, state=State.RUNNING, attempt=1) for one in ("talks", "silent", "ends")]
    batch = samples.created(*runs)
    batch.logs.lines = [
        ("talks", 1, 1, 1.0, "info", "käse", "app"),
        ("talks", 1, 2, 1.0, "info", "", "app"),
        ("talks", 1, 3, 1.0, "info", "a\0b", "app"),
        ("ends", 1, 1, 1.0, "info", "line", "app"),
        ("ends", 1, -1, 1.0, "warning", "full", ""),
    ]
    batch.position = 1
    await store.commit(batch, lease)
    assert (await store.load(256)).log_sizes == {"talks": (3, 8, False), "ends": (2, 8, True)}
    await store.commit(samples.updated(samples.make_run("ends", seq=9, state=State.FAILED, ended_at=5.0)), lease)
    assert (await store.load(256)).log_sizes == {"talks": (3, 8, False)}


async def first_event(store: AnyStore) -> ps.StoredEvent:
    event = (await store.events(0, 10)).events[0]
    assert isinstance(event, ps.StoredEvent)
    return event


async def test_what_is_handed_out_is_a_copy(store: AnyStore) -> None:
    lease = await samples.take(store)
    batch = samples.created(samples.make_run("r1"))
    batch.history, batch.position = [("r1", [samples.entry(1, None, State.PENDING)])], 1
    await store.commit(batch, lease)
    listed = (await store.runs(ps.RunFilter(), None, 10)).runs[0]
    for run in (await store.run("r1"), (await store.load(256)).runs[0], listed):
        assert run is not None
        run.state, run.seq, run.payload = State.FAILED, 99, b"changed"
    (await store.history("r1")).append(samples.entry(2, None, State.PENDING))
    (await first_event(store)).transitions.append(samples.entry(2, None, State.PENDING))
    stored = await store.run("r1")
    assert stored is not None
    assert (stored.state, stored.seq, stored.payload) == (State.SCHEDULED, 2, b"{}")
    assert await store.history("r1") == [samples.entry(1, None, State.PENDING)]
    assert (await first_event(store)).transitions == [samples.entry(1, None, State.PENDING)]


async def test_an_empty_batch_may_be_committed(store: AnyStore) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(), lease)


def test_what_was_committed_is_there_after_opening_again(with_store: WithStore) -> None:
    async def fill(store: AnyStore) -> dict[str, object]:
        lease = await samples.take(store)
        await store.commit(samples.created(samples.make_run("old")), lease)
        await store.commit(samples.everything_in_one_batch(), lease)
        return await samples.everything(store)

    before = with_store(fill)
    assert with_store(samples.everything) == before


async def test_closing_twice_is_allowed(store: AnyStore) -> None:
    await store.close()
    await store.close()


async def test_many_calls_at_once_are_done_in_order(store: AnyStore) -> None:
    lease = await samples.take(store)
    await store.commit(samples.created(samples.make_run("r1")), lease)
    commits = [
        store.commit(samples.updated(samples.make_run("r1", seq=seq, reason=f"{seq}")), lease) for seq in range(3, 60)
    ]
    reads = [store.run("r1") for _ in range(20)]
    done = await asyncio.gather(*commits, *reads)
    for run in done[len(commits) :]:
        assert isinstance(run, Run)
        assert run.reason in {"cleared", *map(str, range(3, 60))}
        assert run.reason == "cleared" or run.reason == str(run.seq)
    last = await store.run("r1")
    assert last is not None
    assert last.seq == 59


@SEVERAL
@given(text=samples.TEXT)
def test_any_text_survives(with_store: WithStore, text: str) -> None:
    async def body(store: AnyStore) -> None:
        lease = await samples.take(store)
        run_id = f"run {text}"
        batch = samples.created(samples.make_run(run_id, reason=text))
        batch.history = [(run_id, [samples.entry(1, None, State.PENDING, text)])]
        batch.logs.lines = [(run_id, 1, 1, 1.0, text, text, text)]
        batch.position = await store.position() + 1
        await store.commit(batch, lease)
        assert [(line.text, line.logger) for line in await store.logs(run_id)] == [(text, text)]
        assert (await store.history(run_id))[0].reason == text

    with_store(body)
