"""A bulk request in the engine's loop: others have their turn, a stop does not wait for it, and a failure ends none."""

import pytest

from interlock.core.state import CoreLimits
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.run import RunFilter
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, until

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
