"""Tallies: every run that ends is counted once, whatever is killed when, and after at most ten seconds."""

from collections import Counter
from typing import Any

import pytest

from interlock.model.record import RecordFilter
from interlock.model.tally import JobTally, LaneTally, Sums, Tally, ending_of, info_of, merge, summed
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from tests.contract.samples import make_run
from tests.engine.bench import Bench, Link, SlowStore, on_virtual_time, pass_time, running, until

pytestmark = pytest.mark.behaviour("OBS-4")

run_test = on_virtual_time


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_quantiles_are_at_most_a_fifth_too_high() -> None:
    sums = Sums()
    sums.add(float(number) for number in range(1, 1001))
    assert (sums.count, sums.total, sums.most) == (1000, 500500.0, 1000.0)
    for share in (0.1, 0.5, 0.95):
        found = sums.quantile(share)
        assert found is not None
        assert 1000 * share <= found <= 1000 * share * 1.2
    assert sums.quantile(1.0) == 1000.0
    assert Sums().quantile(0.5) is None
    short = Sums()
    short.add([0.0, -5.0])
    assert short.quantile(0.5) == 0.001, "a clock that was set back makes no span negative"


def run_of(run_id: str, ended_at: float, waited: float | None = 1.0, took: float = 2.0, **fields: Any) -> Any:
    begun = None if waited is None else ended_at - took
    due = ended_at - took - (waited or 0.0)
    return make_run(run_id, ended_at=ended_at, started_at=begun, scheduled_at=due, **fields)


def test_runs_are_summed_by_lane_and_minute_and_by_tenant_job_and_hour() -> None:
    runs = [
        run_of("a", 3600.0, state="succeeded"),
        run_of("b", 3659.9, state="failed", took=30.0),
        run_of("c", 3660.0, state="succeeded", tenant="red"),
        run_of("d", 7200.0, state="cancelled", waited=None),
        run_of("e", 3600.0, state="succeeded", lane="team", job_id="other"),
    ]
    found = summed(map(ending_of, runs))
    lanes = {(tally.lane, tally.at): tally for tally in found.values() if isinstance(tally, LaneTally)}
    jobs = {(tally.tenant, tally.job, tally.at): tally for tally in found.values() if isinstance(tally, JobTally)}
    assert lanes.keys() == {("main", 3600.0), ("main", 3660.0), ("main", 7200.0), ("team", 3600.0)}
    assert lanes["main", 3600.0].states == {"succeeded": 1, "failed": 1}
    assert lanes["main", 3600.0].took == Sums(2, 32.0, 30.0, {4: 1, 20: 1})
    assert lanes["main", 3600.0].waited == Sums(2, 2.0, 1.0, {0: 2})
    assert lanes["main", 7200.0].took == Sums(), "it never began"
    tenant = runs[0].tenant
    assert jobs[tenant, "work", 3600.0].states == {"succeeded": 1, "failed": 1}
    assert jobs["red", "work", 3600.0].states == {"succeeded": 1}
    assert jobs[tenant, "work", 7200.0].states == {"cancelled": 1}


def test_parts_add_up_to_the_whole() -> None:
    runs = [run_of(f"r{number}", 3600.0 + number, took=float(number)) for number in range(50)]
    whole, part = summed(map(ending_of, runs)), summed(map(ending_of, runs[:17]))
    for key, tally in summed(map(ending_of, runs[17:])).items():
        merge(part[key], tally)
    assert part == whole
    shown = info_of(part[JobTally, f"3600:{runs[0].tenant}:work"])
    assert (shown.took.count, shown.took.most, shown.lane, shown.job) == (50, 49.0, None, "work")


# ── in the engine ───────────────────────────────────────────────────────────────────────────────────────────────────


def counted(store: MemoryStore, kind: type[Tally] = LaneTally) -> Counter[str]:
    return sum((Counter(tally.states) for tally in store.all_of(kind).values()), Counter())


async def finish(bench: Bench, worker: Link, count: int) -> None:
    for _ in range(count):
        worker.heard.clear()
        dispatch = await running(bench, worker)
        worker.say(m.Finished(dispatch.run_id, dispatch.fence, "succeeded"))
        await until(lambda: bool(worker.of(m.Settled)))


async def test_they_are_stored_at_most_every_ten_seconds() -> None:
    store = SlowStore()
    bench = Bench(store)
    await bench.start()
    worker = bench.worker("w")
    await finish(bench, worker, 1)
    assert counted(store) == {}
    await until(lambda: counted(store) == {"succeeded": 1}, limit=12.0)
    commits = sum("tallied" in str(batch.records) for batch in store.commits)
    await finish(bench, worker, 20)
    await pass_time(8.0)
    assert sum("tallied" in str(batch.records) for batch in store.commits) == commits
    assert counted(store) == {"succeeded": 1}
    await until(lambda: counted(store) == {"succeeded": 21}, limit=4.0)
    assert counted(store, JobTally) == {"succeeded": 21}
    assert sum("tallied" in str(batch.records) for batch in store.commits) == commits + 1
    await pass_time(30.0)
    assert sum("tallied" in str(batch.records) for batch in store.commits) == commits + 1, "nothing is added"
    await bench.stop()


async def test_after_a_crash_the_rest_is_counted_and_nothing_twice() -> None:
    store = SlowStore()
    total = 0
    for _ in range(4):
        bench = Bench(store)
        await bench.start()
        worker = bench.worker("w")
        await finish(bench, worker, 5)
        total += 5
        bench.task.cancel()  # as a kill: nothing is said to anybody
        await pass_time(20.0)  # its lease ends
    assert counted(store)["succeeded"] < total, "the last ends were not counted yet"
    again = Bench(store)
    await again.start()
    await until(lambda: counted(store)["succeeded"] >= total, limit=15.0)
    await pass_time(30.0)
    assert counted(store) == counted(store, JobTally) == {"succeeded": total}
    await again.stop()


async def test_a_store_that_fails_meanwhile_costs_no_count() -> None:
    store = SlowStore()
    bench = Bench(store)
    await bench.start()
    worker = bench.worker("w")
    total = 0
    for failing in (False, True, False, True, False):
        if failing:
            await pass_time(9.0)  # the next addition is near
            store.failing = True
            await pass_time(4.0)
            store.failing = False
            await until(lambda: bench.engine.present.available, limit=30.0)
            worker = bench.worker("w")
        await finish(bench, worker, 3)
        total += 3
    await until(lambda: counted(store)["succeeded"] >= total, limit=15.0)
    await pass_time(30.0)
    assert counted(store) == {"succeeded": total}
    await bench.stop()


async def test_a_store_answers_by_time_and_name() -> None:
    store = SlowStore()
    bench = Bench(store)
    await bench.start()
    worker = bench.worker("w")
    await finish(bench, worker, 2)
    await pass_time(70.0)
    await finish(bench, bench.worker("w2"), 1)
    await pass_time(20.0)
    tallies = (await store.records(LaneTally, RecordFilter(job="main"))).records
    assert [sum(tally.states.values()) for tally in tallies] == [1, 2], "the newest first"
    since = RecordFilter(since=tallies[0].at)
    assert (await store.records(LaneTally, since)).records == tallies[:1]
    await bench.stop()
