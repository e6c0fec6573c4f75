"""A bulk request in the engine's loop: others have their turn, a stop does not wait for it, and a failure ends none."""

import pytest

from interlock.core.state import CoreLimits
from interlock.error import StoreUnavailable
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.ports.store import RunRows
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, until

pytestmark = pytest.mark.behaviour("RUN-25")

run_test = on_virtual_time

RUNS = 60


async def begun(store: SlowStore) -> Bench:
    """A bench with a request under way that takes a second for each of the sixty runs it ends."""
    bench = Bench(store, limits=CoreLimits(bulk_runs=1))
    await bench.start()
    bench.client.say(r.Submit(1, [r.NewRun("job", b"{}")] * RUNS))
    await until(lambda: bool(bench.client.of(r.Accepted)))
    store.takes = 1.0
    bench.client.say(r.StartBulk(2, "b1", RunAction.CANCEL, RunFilter(job_id="job"), "not needed"))
    await until(lambda: bool(bench.client.values(BulkRequest)))
    return bench


def stored(store: SlowStore) -> BulkRequest:
    return store.all_of(BulkRequest)["b1"]


async def test_others_have_their_turn_while_a_request_is_under_way() -> None:
    store = SlowStore()
    bench = await begun(store)
    assert [bulk.id for bulk in bench.client.values(BulkRequest)] == ["b1"]
    assert stored(store).done == 1, "it is answered with the commit that accepts it, not when it is done"
    for _ in range(3):
        bench.client.heard.clear()
        bench.submit()
        await until(lambda: bool(bench.client.of(r.Accepted)), limit=3.0)
    assert stored(store).ended_at is None
    await until(lambda: stored(store).ended_at is not None, limit=2 * RUNS)
    assert (stored(store).done, stored(store).left) == (RUNS, 0)
    await until(lambda: len(bench.engine.state.runs) == 3)
    await bench.stop()


async def test_a_stop_does_not_wait_for_a_request_and_the_next_start_finishes_it() -> None:
    store = SlowStore()
    bench = await begun(store)
    bench.engine.drain()
    await bench.stop()
    assert stored(store).ended_at is None
    assert stored(store).done < 10
    store.takes = 0.0
    again = Bench(store)
    await again.start()
    await until(lambda: stored(store).ended_at is not None)
    assert stored(store).done == RUNS
    await again.stop()


async def test_a_store_that_fails_in_between_loses_no_request() -> None:
    store = SlowStore()
    bench = await begun(store)
    store.failing = True
    bench.client.say(r.StartBulk(3, "b2", RunAction.CANCEL, RunFilter(), "not stored"))
    await until(lambda: bool(bench.client.of(m.Problem)))
    assert [(one.request, one.code) for one in bench.client.of(m.Problem)] == [(3, "store_unavailable")]
    store.failing, store.takes = False, 0.0
    await until(lambda: stored(store).ended_at is not None)
    assert (stored(store).done, list(store.all_of(BulkRequest))) == (RUNS, ["b1"])
    await bench.stop()


class UnlistedStore(SlowStore):
    """Can fail to list runs, as one that is too slow for its time limit."""

    unlisted = False
    asked = 0

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        self.asked += 1
        if self.unlisted:
            raise StoreUnavailable("no answer within 2 s")
        return await super().runs(wanted, before, limit)


def retried(bench: Bench) -> int:
    return sum(run.facets is not None and run.facets.retry_of is not None for run in bench.engine.state.runs.values())


async def cancelled(store: UnlistedStore) -> Bench:
    """A bench with ten cancelled runs, which a bulk request retries one by one."""
    bench = Bench(store, limits=CoreLimits(bulk_runs=1))
    await bench.start()
    bench.client.say(r.Submit(1, [r.NewRun("job", b"{}")] * 10))
    await until(lambda: bool(bench.client.of(r.Accepted)))
    bench.client.say(r.StartBulk(2, "b1", RunAction.CANCEL, RunFilter(job_id="job"), "not needed"))
    await until(lambda: any(one.ended_at for one in store.all_of(BulkRequest).values()))
    return bench


async def test_a_page_that_cannot_be_read_is_read_again_later_and_refuses_no_one() -> None:
    store = UnlistedStore()
    bench = await cancelled(store)
    store.takes = 0.1
    wanted = RunFilter(states=frozenset({State.CANCELLED}))
    bench.client.say(r.StartBulk(3, "b2", RunAction.RETRY, wanted, "needed"))
    await until(lambda: store.all_of(BulkRequest).get("b2") is not None)
    store.unlisted, store.asked = True, 0
    state = bench.engine.state
    await pass_time(10)
    assert 5 <= store.asked <= 12, "about once a second"
    bench.client.heard.clear()
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)), limit=0.5)
    assert not bench.client.of(m.Problem)
    assert bench.engine.state is state, "the scheduler went on with the state it had"
    store.unlisted = False
    await until(lambda: store.all_of(BulkRequest)["b2"].ended_at is not None)
    assert (store.all_of(BulkRequest)["b2"].done, retried(bench)) == (10, 10)
    await bench.stop()


async def test_a_request_whose_first_page_cannot_be_read_is_refused() -> None:
    store = UnlistedStore()
    bench = await cancelled(store)
    store.unlisted = True
    bench.client.say(
        r.StartBulk(3, "b2", RunAction.RETRY, RunFilter(), "needed"), r.Submit(4, [r.NewRun("job", b"{}")])
    )
    await until(lambda: bool(bench.client.of(m.Problem)) and len(bench.client.of(r.Accepted)) == 2)
    assert [(one.request, one.code) for one in bench.client.of(m.Problem)] == [(3, "store_unavailable")]
    assert list(store.all_of(BulkRequest)) == ["b1"]
    await bench.stop()
