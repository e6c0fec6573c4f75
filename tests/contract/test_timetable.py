"""The store's part in the timetable: where each schedule stands, and the jobs that are defined here alone."""

import copy

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.timetable.table import ScheduleRow
from interlock.error import StaleEpoch, StoreUnavailable
from interlock.model.job import Job, StoredJob
from interlock.model.run import CATCH_UP, SCHEDULE, backfill
from interlock.model.state import State
from tests.contract.conftest import AnyStore, WithStore
from tests.contract.samples import (
    HOURLY,
    HOURLY_ROW,
    JOB,
    NIGHTLY,
    NIGHTLY_ROW,
    TEXT,
    TIMES,
    created,
    entry,
    everything,
    make_run,
    take,
    updated,
)
from tests.helpers.lookups import definition, states
from tests.helpers.records import put_jobs

ROWS = st.tuples(TEXT, TEXT, TIMES, TIMES, st.none() | TIMES, st.booleans(), st.booleans(), TIMES)


async def schedules(store: AnyStore) -> dict[str, ScheduleRow]:
    return {row[0]: row for row in (await store.load(0)).schedules}


async def put(store: AnyStore) -> list[Job]:
    return [stored.job for stored in (await store.load(0, [StoredJob])).of(StoredJob)]


# ── schedules ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-14")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, unique_by=lambda row: row[0], max_size=4))
def test_any_schedule_comes_back_as_it_was(with_store: WithStore, rows: list[ScheduleRow]) -> None:
    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(
            Batch(schedules=dict.fromkeys(await schedules(store)) | {row[0]: row for row in rows}), lease
        )

    async def again(store: AnyStore) -> None:
        # By what they look like, for 1 is not True.
        assert sorted(map(repr, (await store.load(0)).schedules)) == sorted(map(repr, rows))

    with_store(fill)
    with_store(again)


async def test_a_row_replaces_that_of_its_job_until_it_is_dropped(store: AnyStore) -> None:
    lease = await take(store)
    moved = (*NIGHTLY_ROW[:3], 5000.0, 6000.0, False, False, 5000.0)
    for nightly in (NIGHTLY_ROW, moved):
        await store.commit(Batch(schedules={"nightly": nightly, "hourly": HOURLY_ROW}), lease)
    assert await schedules(store) == {"nightly": moved, "hourly": HOURLY_ROW}
    await store.commit(Batch(schedules={"hourly": None, "nightly": NIGHTLY_ROW}), lease)
    assert await schedules(store) == {"nightly": NIGHTLY_ROW}
    await store.commit(Batch(schedules={"nightly": None, "never there": None}), lease)
    assert await schedules(store) == {}


@pytest.mark.behaviour("TIM-18")
async def test_a_cursor_moves_with_the_runs_of_its_commit_or_not_at_all(store: AnyStore) -> None:
    lease = await take(store)
    first = created(make_run("nightly:1", job_id="nightly", origin=SCHEDULE))
    first.history, first.position = [("nightly:1", [entry(1, None, State.PRERUN)])], 1
    first.schedules, first.records = {"nightly": NIGHTLY_ROW}, put_jobs(NIGHTLY)
    await store.commit(first, lease)
    before = await everything(store)
    second = created(make_run("nightly:2", job_id="nightly", origin=SCHEDULE))
    second.history, second.position = [("nightly:2", [entry(1, None, State.PRERUN)])], 1
    moved = (*NIGHTLY_ROW[:3], 3000.0, 4000.0, True, False, 3000.0)
    second.schedules = {"nightly": moved, "hourly": None}
    second.records = put_jobs(HOURLY, gone=["nightly"])
    with pytest.raises(StoreUnavailable):
        await store.commit(copy.deepcopy(second), lease)
    second.position = 2
    with pytest.raises(StaleEpoch):
        await store.commit(copy.deepcopy(second), replace(lease, epoch=lease.epoch + 1))
    assert await everything(store) == before
    await store.commit(second, lease)
    assert (await schedules(store))["nightly"][3] == 3000.0
    assert await store.run("nightly:2") is not None


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-12")
def test_jobs_that_were_put_keep_their_order_and_their_place(with_store: WithStore) -> None:
    first, last = Job(id="zero"), Job(id="alpha")

    async def body(store: AnyStore) -> None:
        lease = await take(store)
        await store.commit(Batch(records=put_jobs(first, NIGHTLY, HOURLY)), lease)
        await store.commit(Batch(records=put_jobs(last)), lease)
        assert await put(store) == [first, NIGHTLY, HOURLY, last]
        changed = replace(NIGHTLY, lane="cron", version="")
        await store.commit(Batch(records=put_jobs(NIGHTLY, changed)), lease)
        assert await put(store) == [first, changed, HOURLY, last], "replaced where it was, and the last counts"
        await store.commit(Batch(records=put_jobs(gone=["hourly", "alpha", "never there"])), lease)
        await store.commit(Batch(records=put_jobs(HOURLY)), lease)

    async def again(store: AnyStore) -> None:
        found = await put(store)
        assert [job.id for job in found] == ["zero", "nightly", "hourly"]
        assert found[2] == HOURLY
        assert found[1].version != NIGHTLY.version

    with_store(body)
    with_store(again)


async def test_a_job_that_is_dropped_and_put_at_once_stays_where_it_is_however_often(store: AnyStore) -> None:
    lease = await take(store)
    await store.commit(Batch(records=put_jobs(NIGHTLY, JOB)), lease)
    for _ in range(3):
        await store.commit(Batch(records=put_jobs(HOURLY, NIGHTLY, gone=["nightly"])), lease)
        assert await put(store) == [NIGHTLY, JOB, HOURLY]


async def test_only_versions_that_live_runs_refer_to_are_loaded_and_every_one_can_be_asked_for(
    store: AnyStore,
) -> None:
    lease = await take(store)
    newer = replace(JOB, lane="main", version="")
    runs = [make_run("a", job_version=JOB.version), make_run("b", job_id="nightly", job_version=NIGHTLY.version)]
    batch = created(*runs)
    batch.jobs = [JOB, NIGHTLY, HOURLY, newer]
    await store.commit(batch, lease)
    assert {job.version for job in (await store.load(0)).jobs} == {JOB.version, NIGHTLY.version}
    end = make_run("a", seq=9, state=State.FAILED, ended_at=1.0)
    adopted = make_run("b", seq=3, job_version=newer.version)
    await store.commit(updated(end, adopted), lease)
    snapshot = await store.load(0, [StoredJob])
    assert snapshot.jobs == [newer]
    assert snapshot.records == [], "a version that a run refers to is not a job that was put"
    for job in (JOB, NIGHTLY, HOURLY, newer):
        assert await definition(store, job.version) == job
    assert await definition(store, "nightly") is None
    assert await definition(store, "") is None


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_states_are_told_of_those_that_exist_ended_or_not(store: AnyStore) -> None:
    lease = await take(store)
    runs = [make_run(state.value, state=state, ended_at=None) for state in State]
    await store.commit(created(*runs), lease)
    end = make_run("scheduled", seq=9, state=State.SKIPPED, ended_at=1.0)
    await store.commit(updated(end), lease)
    found = await states(store, [*State, "unknown", "", "skipped"])
    assert found == {**{state.value: state for state in State}, "scheduled": State.SKIPPED}
    assert all(type(state) is State for state in found.values())


@pytest.mark.behaviour("TIM-9")
async def test_where_a_run_comes_from_is_kept_and_may_change(store: AnyStore) -> None:
    lease = await take(store)
    runs = [make_run("a"), make_run("b", origin=SCHEDULE), make_run("c", origin=backfill(7))]
    await store.commit(created(*runs), lease)
    await store.commit(updated(make_run("b", seq=3, origin=CATCH_UP)), lease)
    await store.commit(updated(make_run("c", seq=1, origin=None)), lease)
    loaded = {run.id: run.origin for run in (await store.load(0)).runs}
    assert loaded == {"a": None, "b": CATCH_UP, "c": "backfill:7"}, "an older update changes nothing"
