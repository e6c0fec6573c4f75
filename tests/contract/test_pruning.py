"""Deleting old runs: which go, that all of them goes, and that nobody who reads or writes beside it notices."""

import asyncio
import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from interlock.core.decisions import Batch, KeyChanges, LogChanges
from interlock.error import StoreUnavailable
from interlock.model.bulk import RunAction
from interlock.model.letter import DeadLetter, LetterFilter
from interlock.model.run import CALL_KEY, CATCH_UP, SCHEDULE, TRIGGER, Run, backfill
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, EventFilter, Inputs, Pruned, PruneLimits, RunFilter
from interlock.stores.memory import MemoryStore
from interlock.stores.sql.pruning import MOST_IN_A_CALL
from interlock.stores.sqlite import SqliteReader, SqliteStore
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.pruning import PARTS
from interlock.stores.sqlite.queries import QUERIES
from tests.contract import samples
from tests.contract.conftest import AnyStore, WithStore, run_with
from tests.contract.test_sqlite_failures import files_no_larger_than
from tests.helpers.lookups import definition, digests, first_times, inputs, known_keys, states, tenant_of_pruned
from tests.helpers.pruning import prune, prune_keys, prune_records
from tests.helpers.records import changes

ALL = 1_000_000
"""more than any job has"""
LATER = 1e12


def ended(run_id: str, at: float = 1001.0, job_id: str = "work", **fields: Any) -> Run:
    times = {"created_at": 900.0, "ended_at": at}
    return samples.make_run(run_id, job_id=job_id, state=State.SUCCEEDED, **times, **fields)


async def put(store: AnyStore, *runs: Run, letters: Sequence[str] = ()) -> None:
    """Each run with something of all that a run can have."""
    lease = await samples.take(store)
    batch = samples.created(*runs)
    batch.history = [(run.id, [samples.entry(1, None, State.PENDING)]) for run in runs]
    batch.logs.lines = [
        (run.id, 1, number, 1.0, "info", f"{run.id} {number}", "app") for run in runs for number in (1, 2)
    ]
    batch.inputs.checkpoints = [(run.id, b"1") for run in runs]
    batch.inputs.copied = [(run.id, run.id, True) for run in runs]
    batch.records = changes(
        *(replace(samples.DELIVERY, id=f"of {run.id}", run_id=run.id, ended_at=1.0) for run in runs)
    )
    batch.keys.taken = [
        (run.tenant, run.idempotency_key, run.id, b"d", 900.0) for run in runs if run.idempotency_key is not None
    ]
    batch.records |= changes(*(replace(samples.LETTER, id=run_id) for run_id in letters))
    batch.jobs = [samples.JOB]
    batch.position = await store.position() + 1
    await store.commit(batch, lease)


async def prune_all(store: AnyStore, most: int, ended_before: float, **limits: Any) -> int:
    found = [await prune(store, PruneLimits(most, ended_before, **limits))]
    while found[-1].more:
        found.append(await prune(store, PruneLimits(most, ended_before, **limits)))
    return sum(one.runs for one in found)


@pytest.mark.behaviour("TIM-16")
async def test_a_run_pruned_before_a_batch_about_it_is_stored_leaves_nothing(store: AnyStore) -> None:
    await put(store, ended("gone"), ended("marked"), ended("here", LATER), ended("newest", LATER))
    batch = samples.updated(*(ended(run_id, seq=2) for run_id in ("gone", "here")))
    batch.updated["facets"] = samples.updated(ended("marked", seq=2), group="facets").updated["facets"]
    moved = [samples.entry(2, State.SUCCEEDED, State.OUTPUT_QUARANTINED)]
    batch.history = [("here", moved), ("gone", moved)]
    batch.records = changes(*(replace(samples.LETTER, id=run_id) for run_id in ("gone", "marked", "here")))
    batch.position = await store.position() + 1
    assert (await prune(store, PruneLimits(ALL, LATER))).runs == 2
    lease = await samples.take(store)
    await store.commit(batch, lease)
    assert await store.history("gone") == []
    assert [letter.id for letter in await samples.dead_letters(store) if letter] == ["here"]
    assert (await store.history("here"))[-1:] == moved
    if isinstance(store, SqliteStore):
        await store.close()
        await store.open()  # raises if the lock file names a position that is not stored


# ── which ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-16")
@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, ALL])
@pytest.mark.parametrize("ended_before", [0.0, 1003.0, 1003.5, LATER])
async def test_what_is_too_old_or_too_much_of_its_job_goes(store: AnyStore, most: int, ended_before: float) -> None:
    runs = [ended(f"{job} {number}", 1000.0 + number, job) for number in range(1, 7) for job in ("work", "play")]
    runs = [run for run in runs if run.id not in ("play 2", "play 4", "play 5")]
    await put(store, *runs)
    await put(store, samples.make_run("live", job_id="other"))
    newest = {job: [run for run in runs if run.job_id == job][-most:] if most else [] for job in ("work", "play")}
    left = [run.id for run in runs if run in newest[run.job_id] and (run.ended_at or 0) >= ended_before]
    assert await prune(store, PruneLimits(most, ended_before)) == Pruned(len(runs) - len(left), False)
    assert await samples.listed(store) == ["live", *reversed(left)]
    assert await prune(store, PruneLimits(most, ended_before)) == Pruned(0, False)


async def test_one_goes_after_the_other_as_the_limit_passes_them(store: AnyStore) -> None:
    runs = [samples.make_run(f"{at}", created_at=float(at), ended_at=float(at), state=State.FAILED) for at in range(49)]
    lease = await samples.take(store)
    await store.commit(samples.created(*runs), lease)
    assert await prune(store, PruneLimits(ALL, 0.0)) == Pruned(0, False)
    first = 0
    for count in range(1, 9):
        first += count
        assert await prune(store, PruneLimits(ALL, float(first))) == Pruned(count, False)
        assert (await samples.listed(store))[-1] == f"{first}"
    for most in range(12, 0, -1):
        assert await prune(store, PruneLimits(most, 0.0)) == Pruned(1, False)
        assert len(await samples.listed(store)) == most


@pytest.mark.behaviour("TIM-16")
async def test_live_runs_and_dead_letters_stay_and_only_ended_runs_count(store: AnyStore) -> None:
    old = [samples.make_run("live 1"), ended("dead 1"), ended("done 1"), samples.make_run("live 2"), ended("dead 2")]
    await put(store, *old, ended("done 2"), letters=["dead 1", "dead 2"])
    await put(store, samples.make_run("other", job_id="other"))
    assert (await prune(store, PruneLimits(3, 0.0))).runs == 0, "beyond the newest three is a dead letter"
    assert (await prune(store, PruneLimits(2, 0.0))).runs == 1
    assert (await states(store, ["done 1", "done 2"])).keys() == {"done 2"}
    assert (await prune(store, PruneLimits(0, LATER))).runs == 1
    assert await samples.listed(store) == ["other", "dead 2", "live 2", "dead 1", "live 1"]
    assert [letter.id for letter in await samples.dead_letters(store) if letter] == ["dead 1", "dead 2"]
    lease = await samples.take(store)
    await store.commit(samples.updated(ended("live 1", seq=9)), lease)
    assert (await prune(store, PruneLimits(0, LATER))).runs == 1
    assert await store.run("live 1") is None


@pytest.mark.behaviour("TIM-16")
@pytest.mark.parametrize("total", [0, 1, 3, 5, 7, 8, 9, 10])
async def test_beyond_the_total_the_oldest_of_all_jobs_go(store: AnyStore, total: int) -> None:
    runs = [ended(f"r{number}", 1000.0 + number, job_id=f"job {number % 4}") for number in range(9)]
    await put(store, *runs[:2], letters=["r0"])
    await put(store, samples.make_run("live", job_id="job 1"), *runs[2:])
    # One is too old by itself, and counts no more.
    pruned = await prune(store, PruneLimits(ALL, 1001.5, total))
    newest = [f"r{number}" for number in range(2, 9)][-max(1, total) :]
    assert await samples.listed(store) == [*newest[::-1], "live", "r0"]
    assert pruned == Pruned(8 - len(newest), False)
    assert await prune(store, PruneLimits(ALL, 1001.5, total)) == Pruned(0, False)


@pytest.mark.behaviour("TIM-16")
@pytest.mark.parametrize("limits", [(3, 0.0), (ALL, 0.0, 3)], ids=["of its job", "of all"])
async def test_nothing_that_stays_for_another_reason_pushes_a_result_out(
    store: AnyStore, limits: tuple[int, float, int]
) -> None:
    """However many runs wait, are dead letters or owe a webhook, the newest ended ones keep their results."""
    owing = [ended(f"owing {number}") for number in range(5)]
    await put(store, *owing, *(ended(f"dead {number}") for number in range(5)), letters=[f"dead {n}" for n in range(5)])
    lease = await samples.take(store)
    owed = [replace(samples.DELIVERY, id=f"owed by {run.id}", run_id=run.id, ended_at=None) for run in owing]
    await store.commit(Batch(records=changes(*owed)), lease)
    await put(store, *(ended(f"done {number}") for number in range(4)))
    await put(store, *(samples.make_run(f"waits {number}") for number in range(20)))
    assert await prune(store, PruneLimits(*limits)) == Pruned(1, False)
    left = await samples.listed(store)
    assert [run_id for run_id in left if run_id.startswith("done")] == ["done 3", "done 2", "done 1"]
    assert len(left) == 5 + 5 + 3 + 20


@pytest.mark.behaviour("RUN-25")
async def test_a_bulk_retry_finds_every_run_that_it_has_not_reached(store: AnyStore) -> None:
    retry = replace(samples.BULK, action=RunAction.RETRY, wanted=RunFilter(live=False), left=None)
    await put(store, *(ended(f"r{number}") for number in range(6)))
    await put(store, samples.make_run("last"))
    page = await store.runs(retry.wanted, None, 2)
    assert [run.id for run in page.runs] == ["r5", "r4"]
    lease = await samples.take(store)
    await store.commit(Batch(records=changes(replace(retry, before=page.next))), lease)
    for limits in (PruneLimits(0, LATER), PruneLimits(ALL, 0.0, 0)):
        await prune(store, limits)
        assert await samples.listed(store) == ["last", "r3", "r2", "r1", "r0"]
    page = await store.runs(retry.wanted, page.next, 2)
    await store.commit(Batch(records=changes(replace(retry, before=page.next, seq=2))), lease)
    assert (await prune(store, PruneLimits(0, LATER))).runs == 2
    await store.commit(Batch(records=changes(replace(retry, before=page.next, ended_at=1.0, seq=3))), lease)
    assert (await prune(store, PruneLimits(0, LATER))).runs == 2
    assert await samples.listed(store) == ["last"]


@pytest.mark.behaviour("RUN-25")
async def test_a_retry_of_dead_letters_finds_every_letter_that_it_has_not_reached(store: AnyStore) -> None:
    wanted = LetterFilter()
    retry = replace(samples.BULK, action=RunAction.RETRY, wanted=RunFilter(letters=wanted), left=None)
    names = [f"r{number}" for number in range(4)]
    await put(store, *map(ended, names), samples.make_run("last"), letters=names)
    page = await store.records(DeadLetter, limit=2)
    lease = await samples.take(store)
    await store.commit(Batch(records=changes(replace(retry, before=page.next))), lease)
    assert await prune_records(store, DeadLetter, LATER, 0) == 2
    assert [letter.id for letter in (await store.records(DeadLetter, before=page.next)).records] == ["r1", "r0"]
    await store.commit(Batch(records=changes(replace(retry, ended_at=1.0, seq=2))), lease)
    assert await prune_records(store, DeadLetter, LATER, 0) == 2


async def test_new_runs_count_in_the_total_from_one_call_to_the_next(store: AnyStore) -> None:
    for number in range(30):
        await put(store, *(ended(f"{number}-{one}", job_id=f"job {number}") for one in range(number % 4)))
        await prune(store, PruneLimits(ALL, 0.0, 7))
        assert len(await samples.listed(store)) <= 7
    assert len(await samples.listed(store)) == 7


@pytest.mark.behaviour("TIM-16", "RUN-5")
async def test_what_a_schedule_created_lately_stays(store: AnyStore) -> None:
    origins = {"at once": None, "triggered": TRIGGER, "in time": SCHEDULE, "late": CATCH_UP, "made up": backfill(2)}
    runs = [
        samples.make_run(f"{name} {at}", created_at=float(at), ended_at=at + 1.0, origin=origin)
        for at in (100, 200)
        for name, origin in origins.items()
    ]
    await put(store, *runs)
    await put(store, samples.make_run("last", created_at=300.0))
    await prune_all(store, 0, LATER, occurrences_before=200.0)
    assert await samples.listed(store) == ["last", "late 200", "in time 200"]
    await prune_all(store, 0, LATER, total=0, occurrences_before=200.5)
    assert await samples.listed(store) == ["last"]


RUNS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.none() | st.integers(0, 5), st.booleans()), max_size=25
)


@settings(max_examples=20, deadline=None)
@given(given_runs=RUNS, most=st.integers(0, 8), ended_before=st.integers(0, 16), in_order=st.booleans())
def test_whatever_the_clock_did_nothing_goes_too_early_and_everything_goes_in_the_end(
    tmp_path_factory: pytest.TempPathFactory,
    given_runs: list[tuple[str, int, int | None, bool]],
    most: int,
    ended_before: int,
    in_order: bool,
) -> None:
    if in_order:
        given_runs = sorted(given_runs, key=lambda one: one[1])
    runs: list[Run] = []
    letters = set()
    for number, (job, at, length, is_dead) in enumerate(given_runs):
        end = None if length is None else float(at + length)
        runs.append(samples.make_run(f"{number}", job_id=job, created_at=float(at), ended_at=end))
        if is_dead and end is not None:
            letters.add(f"{number}")
    done = [(place, run) for place, run in enumerate(runs) if run.ended_at is not None]
    newer = [sum(one.job_id == run.job_id and at > place for at, one in done) for place, run in enumerate(runs)]
    may_go = [run.id not in letters and run.ended_at is not None for run in runs]
    surplus = {run.id for run, count, may in zip(runs, newer, may_go, strict=True) if may and count >= most}
    old = {run.id for run, may in zip(runs, may_go, strict=True) if may and (run.ended_at or 0.0) < ended_before}

    async def body(store: AnyStore) -> None:
        if runs:
            await put(store, *runs, letters=sorted(letters))
        await put(store, samples.make_run("last", job_id="c"))
        await prune_all(store, most, float(ended_before))
        gone = {run.id for run in runs} - set(await samples.listed(store))
        if in_order or isinstance(store, MemoryStore):
            assert gone == surplus | old
        assert surplus <= gone <= surplus | old
        await prune_all(store, ALL, LATER)
        assert set(await samples.listed(store)) == {
            run.id for run, may in zip(runs, may_go, strict=True) if not may
        } | {"last"}

    run_with(MemoryStore(), body)
    run_with(SqliteStore(tmp_path_factory.mktemp("pruning") / "runs.db"), body)


# ── all of it ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-16")
async def test_nothing_is_left_of_a_run_and_nothing_of_others_is_touched(store: AnyStore) -> None:
    key: dict[str, Any] = {"tenant": "blue", "idempotency_key": "k"}
    # "r1" uses a key that is that of "new" already.
    await put(store, samples.make_run("new", **key), ended("r2", 2000.0))
    before = await samples.everything(store)
    await put(store, ended("old", tenant="default", idempotency_key="k"), ended("r1", **key))
    await put(store, samples.make_run("keyed"))
    await put(store, ended("unknown"))
    last = await samples.everything(store)
    assert await prune(store, PruneLimits(ALL, 1500.0)) == Pruned(2, False)
    left = await samples.everything(store)
    assert left["keys"] == last["keys"] == {("blue", "k"): ("new", b"d"), ("default", "k"): ("old", b"d")}
    for part in ("runs", "histories", "logs"):
        assert left[part] == last[part] | {one: before[part][one] for one in ("old", "r1")}
    for part in ("states", "inputs"):
        assert left[part] == {one: found for one, found in last[part].items() if one not in ("old", "r1")}
    pruned = {one.position for one in last["events"] if one.run_id in ("old", "r1")}
    assert left["events"] == [one for one in last["events"] if one.position not in pruned]
    assert len(pruned) == 6
    for run_id in ("old", "r1"):
        assert (await store.events(0, 100, EventFilter(run_id))).events == []
    assert await definition(store, samples.JOB.version) == samples.JOB

    await put(store, ended("old", 3000.0, tenant="default", idempotency_key="k"))
    assert len(await store.logs("old")) == 2
    assert await inputs(store, ["old"]) == {"old": Inputs(b"{}", b"1", (b"{}",))}


@pytest.mark.behaviour("RUN-6", "RUN-5")
async def test_keys_and_occurrences_outlive_their_runs_and_say_so(store: AnyStore) -> None:
    lease = await samples.take(store)
    batch = samples.created(ended("keyed", tenant="blue", idempotency_key="k"), ended("work:7"), ended("plain"))
    batch.keys.taken = [("blue", "k", "keyed", b"1", 50.0), ("default", None, "work:7", b"2", 60.0)]
    await store.commit(batch, lease)
    await put(store, samples.make_run("last"))
    ids = ["keyed", "work:7", "plain", "unknown"]
    assert [await tenant_of_pruned(store, one) for one in ids] == [None] * 4
    assert (await prune(store, PruneLimits(0, LATER))).runs == 3
    await store.commit(Batch(keys=batch.keys), await samples.take(store))
    assert await known_keys(store, [("blue", "k")]) == {("blue", "k"): ("keyed", b"1")}
    assert await digests(store, ids) == {"keyed": b"1", "work:7": b"2"}
    assert [await tenant_of_pruned(store, one) for one in ids] == ["blue", "default", None, None]


@pytest.mark.behaviour("RUN-6")
async def test_keys_go_by_their_age_but_not_while_their_runs_are_live(store: AnyStore) -> None:
    count = MOST_PRUNED + 5
    assert await prune_keys(store, LATER) == 0
    lease = await samples.take(store)
    batch = samples.created(samples.make_run("live"), ended("done"))
    ids = ["live", "done", *(f"gone {number}" for number in range(count))]
    batch.keys.taken = [("default", f"k{at}", run_id, b"d", float(at)) for at, run_id in enumerate(ids)]
    await store.commit(batch, lease)
    assert await prune_keys(store, 0.0) == 0
    assert await prune_keys(store, 3.0) == 2
    assert (await digests(store, ids)).keys() == {"live", *ids[3:]}
    assert await known_keys(store, [("default", "k1"), ("default", "k3")]) == {("default", "k3"): ("gone 1", b"d")}
    assert await prune_keys(store, LATER) == MOST_PRUNED
    assert await prune_keys(store, LATER) == count - 1 - MOST_PRUNED
    assert (await digests(store, ids)).keys() == {"live"}
    assert await tenant_of_pruned(store, "gone 1") is None
    calls = [("default", f"{key}{at}", f"{key} {at}", b"d", at) for key in (CALL_KEY, "k") for at in (8.0, 9.0)]
    await store.commit(Batch(keys=KeyChanges([*calls])), lease)
    assert await prune_keys(store, 0.0, 9.0) == 1
    assert await known_keys(store, [("default", key) for _, key, *_ in calls]) == {
        ("default", key): (run_id, b"d") for _, key, run_id, *_ in calls[1:]
    }
    again = Batch(keys=KeyChanges([("default", "k1", "new", b"e", 9.0)]))
    await store.commit(again, lease)
    assert await known_keys(store, [("default", "k1")]) == {("default", "k1"): ("new", b"e")}


async def test_the_first_time_of_a_schedule_is_that_of_its_oldest_run(store: AnyStore) -> None:
    await put(
        store,
        ended("submitted", scheduled_at=1.0),
        ended("of another", scheduled_at=2.0, origin=SCHEDULE, tenant="blue"),
        ended("first", scheduled_at=5.0, origin=CATCH_UP),
        ended("second", scheduled_at=4.0, origin=SCHEDULE),
        ended("other", scheduled_at=3.0, job_id="play"),
    )
    assert await first_times(store, ["work", "play", "unknown"]) == {"work": 5.0}
    assert await first_times(store, []) == {}


async def test_no_table_has_a_row_of_it(sqlite: SqliteStore, database: Path) -> None:
    await put(sqlite, ended("old", idempotency_key="k"), ended("older", idempotency_key="m"))
    await put(sqlite, samples.make_run("live", idempotency_key="l"))
    assert (await prune(sqlite, PruneLimits(0, LATER))).runs == 2
    with closing(sqlite3.connect(database)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found: dict[str, set[str]] = {}
        for table in tables:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for column in columns & {"run_id", "run"} | ({"id"} if table == "runs" else set()):
                found[table] = {row[0] for row in connection.execute(f"SELECT {column} FROM {table}")}
        assert found.pop("idempotency_keys") == {"old", "older", "live"}, "keys outlive their runs"
        tables_of_runs = ("runs", "history", "logs", "checkpoints", "further_payloads", "records")
        assert found == {table: {"live"} for table in tables_of_runs}
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


# ── beside others ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_position_and_no_place_in_the_list_is_given_out_twice(with_store: WithStore) -> None:
    async def body(store: AnyStore) -> None:
        await put(store, ended("a"), ended("b"), ended("c"))
        lease = await samples.take(store)
        line = Batch(logs=LogChanges([("a", 1, 3, 9.0, "info", "the newest of all", "app")]), position=10)
        await store.commit(line, lease)
        assert await prune_all(store, 0, LATER) == 1
        assert await samples.listed(store) == ["c", "a"], "created last, and spoke last"
        assert await store.position() == 10

    async def again(store: AnyStore) -> None:
        assert await store.position() == (await store.load(0)).position == 10
        behind_c = (await store.runs(RunFilter(), None, 1)).next
        await put(store, ended("d"))
        assert await prune(store, PruneLimits(0, LATER)) == Pruned(2, False)
        await put(store, ended("e"))
        assert await store.runs(RunFilter(), behind_c, 10) == await store.runs(RunFilter(job_id="none"), None, 1)
        assert [one.position for one in (await store.events(0, 10)).events] == [*range(11, 17)]
        lease = await samples.take(store)
        said = Batch(service_log=[("web", 1, 1.0, "stdout", "said", None)], position=17)
        await store.commit(said, lease)
        assert await prune_all(store, 0, LATER) == 1
        assert await samples.listed(store) == ["e"], "the newest position is that of a service"
        assert await store.position() == 17

    with_store(body)
    with_store(again)


@pytest.mark.parametrize("jobs", [1, 2 * MOST_PRUNED])
async def test_one_call_deletes_so_many_and_says_whether_there_are_more(store: AnyStore, jobs: int) -> None:
    lease = await samples.take(store)
    runs = [ended(f"r{number}", job_id=f"job {number % jobs}") for number in range(2 * MOST_PRUNED + 1)]
    await store.commit(samples.created(*runs), lease)
    for limits in ((0, 0.0), (ALL, LATER)):
        assert await prune(store, PruneLimits(*limits)) == Pruned(MOST_PRUNED, True)
        assert await prune(store, PruneLimits(*limits)) == Pruned(MOST_PRUNED, False)
        assert await samples.listed(store) == [runs[-1].id], "the last of all stays"
        # From here on it is by age.
        await store.commit(samples.created(*runs[: 2 * MOST_PRUNED]), lease)
        runs = [*runs[-1:], *runs[: 2 * MOST_PRUNED]]


async def test_in_a_hurry_one_call_deletes_more(store: AnyStore) -> None:
    lease = await samples.take(store)
    runs = [ended(f"r{number}") for number in range(2 * MOST_PRUNED + 1)]
    await store.commit(samples.created(*runs), lease)
    assert await prune(store, PruneLimits(0, 0.0, hurry=True)) == Pruned(2 * MOST_PRUNED, False)


@pytest.mark.parametrize("wanted", [RunFilter(), RunFilter(job_id="work"), RunFilter(live=False)])
async def test_pages_and_events_go_on_over_what_was_deleted_between_them(store: AnyStore, wanted: RunFilter) -> None:
    await put(store, *(ended(f"r{number}", 1000.0 + number % 2 * 100) for number in range(20)))
    await put(store, samples.make_run("last", job_id="other"))
    first = await store.runs(wanted, None, 4)
    some = await store.events(0, 7)
    assert (await prune(store, PruneLimits(ALL, 1050.0))).runs == 10
    assert first.next is not None
    found, before = [], first.next
    while page := await store.runs(wanted, before, 4):
        found += [run.id for run in page.runs]
        if page.next is None:
            break
        before = page.next
    seen = [run.id for run in first.runs]
    assert not set(found) & set(seen)
    odd = [f"r{number}" for number in range(19, 0, -2)]
    assert found == [one for one in odd if one not in seen]
    rest = await store.events(some.reached, 1000)
    assert {one.run_id for one in rest.events if not hasattr(one, "service")} == {*odd, "last"}
    assert (rest.reached, rest.more) == (await store.position(), False)


async def test_runs_to_which_much_belongs_are_deleted_a_few_at_a_time_and_others_write_between(
    sqlite: SqliteStore, database: Path
) -> None:
    lines, count = 1000, 30
    lease = await samples.take(sqlite)
    names = [f"r{number:02}" for number in range(count)]
    batch = samples.created(*(ended(name) for name in names), samples.make_run("live"))
    batch.logs.lines = [(name, 1, number, 1.0, "info", "x", "app") for name in names for number in range(lines)]
    batch.position = 1
    await sqlite.commit(batch, lease)
    await put(sqlite, samples.make_run("last"))
    lease = await samples.take(sqlite)
    reader = SqliteReader(database)
    await reader.open()
    seen: list[int] = []
    pruning = asyncio.ensure_future(prune(sqlite, PruneLimits(0, LATER)))
    for seq in itertools.count(3):
        if pruning.done():
            break
        await sqlite.commit(samples.updated(samples.make_run("live", seq=seq)), lease)
        with closing(sqlite3.connect(database)) as other:
            left = other.execute("SELECT count(*) FROM logs GROUP BY run_id HAVING run_id <> 'last'").fetchall()
        assert set(left) <= {(lines,)}, "a run is deleted as a whole or not at all"
        seen.append(len(left))
    pruned = await pruning
    assert pruned == Pruned(-(-MOST_IN_A_CALL // (lines + 1)), True)
    assert seen == sorted(seen, reverse=True)
    assert set(seen) & set(range(count - pruned.runs + 1, count)), "nobody could write before it was done"
    assert len((await reader.runs(RunFilter(live=False), None, 100)).runs) == count - pruned.runs
    assert await prune_all(sqlite, 0, LATER) == count - pruned.runs
    assert len((await samples.pages(sqlite))[0].runs) == 2
    await reader.close()


async def test_where_nothing_can_be_written_nothing_is_deleted_and_it_works_again_later(sqlite: SqliteStore) -> None:
    await put(sqlite, ended("r1"), ended("r2"), samples.make_run("new"))
    before = await samples.everything(sqlite)
    with files_no_larger_than(0):
        with pytest.raises(StoreUnavailable):
            await prune(sqlite, PruneLimits(0, LATER))
        assert await samples.everything(sqlite) == before
    assert (await prune(sqlite, PruneLimits(0, LATER))).runs == 2


def test_looking_for_them_and_deleting_them_goes_through_no_table(database: Path) -> None:
    values = {
        "most": 1,
        "limit": 1,
        "first": 1,
        "last": 1,
        "ended_before": 1.0,
        "position": 1,
        "numbers": "[1]",
        "number": 1,
    }
    values |= {
        "occurrences_before": 1.0,
        "created_before": 1.0,
        "run_id": "r",
        "unreached": 0,
        "surplus": 1,
        "found": "[]",
    }
    names = ["get_number_range", "get_number_at", "get_created", "find_old_runs", "find_surplus_runs", "weigh_runs"]
    names += ["find_oldest_runs", "get_key_range", "get_key_created", "find_old_keys", "find_old_calls", "prune_keys"]
    names += ["get_digest", "get_tenant_of_pruned", "get_first_time"]
    with closing(connect_writer(database)) as connection:
        for name in [*names, *PARTS]:
            given_values = (1,) if "?" in QUERIES[name] else values
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", given_values)]
            scans = {step.split()[1] for step in plan if step.startswith("SCAN")}
            assert scans <= {"found", "oldest", "weights", "json_each", "CONSTANT"}, (name, plan)
