"""The engine with a slow or failing store, and how it recovers."""

from collections.abc import Callable, Sequence
from traceback import walk_tb

import pytest

from interlock.core.decisions import Batch
from interlock.core.state import CoreLimits
from interlock.error import DatabaseDamaged, DatabaseGone, StoreUnavailable
from interlock.model.record import Record
from interlock.model.state import State
from interlock.ports.leases import Lease
from interlock.ports.store import Snapshot
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.effect import LIMIT
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, running, until

run_test = on_virtual_time


@pytest.mark.behaviour("LIV-2")
async def test_a_silent_worker_is_found_however_slow_the_store_is() -> None:
    store = SlowStore()
    bench = Bench(store, limits=CoreLimits(heartbeat_interval=1.0))
    await bench.start()
    silent = bench.worker("silent")
    run = await running(bench, silent)
    store.takes = 3.2
    for _ in range(4):
        bench.submit()
        await pass_time(3.0)
    await until(lambda: store.runs_by_id[run.run_id].crashes == 1, 20.0)
    await bench.stop()


@pytest.mark.behaviour("LIV-2", "LIV-4")
async def test_a_worker_that_dies_while_the_store_fails_is_known_to_be_gone_when_it_works_again() -> None:
    store = SlowStore()

    def watch_worker(worker_id: str, call: Callable[[], None]) -> None:
        if worker_id == "w":
            call()

    bench = Bench(store, watch_worker=watch_worker, limits=CoreLimits(heartbeat_interval=1000.0))
    await bench.start()
    worker = bench.worker("w")
    run = await running(bench, worker)
    await until(lambda: store.runs_by_id[run.run_id].state is State.RUNNING)
    store.failing = True
    worker.close()
    bench.engine.links.worker_died("w")
    await until(lambda: not bench.engine.present.available)
    store.failing = False
    await until(lambda: store.runs_by_id[run.run_id].crashes == 1, 20.0)
    await bench.stop()


@pytest.mark.behaviour("LIV-2")
async def test_a_dispatch_that_waits_for_a_slow_store_is_not_yet_silent() -> None:
    store = SlowStore()
    bench = Bench(store, limits=CoreLimits(heartbeat_interval=1.0), batch_runs=13)
    await bench.start()
    worker = bench.worker("w", slots=30)
    await until(lambda: bool(worker.of(m.Welcome)))
    store.takes = 8.0
    for _ in range(29):  # more than one batch, so that passes happen while the first is being written
        bench.submit()
    while len(worker.of(m.Dispatch)) < 29:
        held = [m.Held(one.run_id, one.fence) for one in worker.of(m.Dispatch)]
        worker.say(m.Load(), m.Heartbeat(held))
        await pass_time(2.0)
    assert {one.fence for one in worker.of(m.Dispatch)} == {1}
    await bench.stop()


@pytest.mark.behaviour("RUN-7")
async def test_a_dispatch_decided_before_a_worker_rejoined_does_not_go_to_its_new_link(
    bench: Bench, store: SlowStore
) -> None:
    bench.submit()
    await until(lambda: len(bench.client.of(r.Accepted)) == 1)
    store.takes = 3.0
    first = bench.worker("w")
    await pass_time(1.0)  # the dispatch is decided, and being stored
    first.close()
    second = bench.worker("w")
    await until(lambda: len(second.of(m.Dispatch)) == 1)
    await pass_time(10.0)
    (run,) = bench.engine.state.runs.values()
    assert [one.fence for one in second.of(m.Dispatch)] == [run.fence]


@pytest.mark.behaviour("RUN-17")
async def test_a_submit_that_is_stored_is_acknowledged_though_its_payload_cannot_be_read_back(
    bench: Bench, store: SlowStore
) -> None:
    bench.submit(b'{"text": "' + b"x" * 1000 + b'"}')
    await until(lambda: len(bench.client.of(r.Accepted)) == 1)
    store.unreadable = True
    worker = bench.worker("w")
    bench.submit()  # decided on in the same pass as the large one is handed out
    await until(lambda: len(bench.client.of(r.Accepted)) == 2)
    await until(lambda: len(worker.of(m.Dispatch)) == 1)
    await pass_time(LIMIT * 2)
    assert [one.payload for one in worker.of(m.Dispatch)] == [b"{}"], "nobody waits for what cannot be read"
    store.unreadable = False
    await until(lambda: len(worker.of(m.Dispatch)) == 2, limit=LIMIT)
    assert [(len(one.payload or b""), one.fence) for one in worker.of(m.Dispatch)] == [(2, 1), (1012, 1)]
    assert not bench.client.of(m.Problem)


async def test_a_surprise_while_recovering_is_survived(bench: Bench, store: SlowStore) -> None:
    store.failing = True
    bench.submit()
    await until(lambda: not bench.engine.present.available)
    store.surprise = RuntimeError("can't start new thread")
    store.failing = False
    await until(lambda: bench.engine.present.available)
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))


async def test_a_scheduler_that_drains_still_drains_after_trouble(bench: Bench, store: SlowStore) -> None:
    await until(lambda: bool(store.commits))
    store.takes = 0.3
    store.failing = True
    bench.submit()
    await pass_time(0.1)
    bench.engine.drain()
    bench.client.say(r.Ask(77, "nothing", False))
    await until(lambda: not bench.engine.present.available)
    store.failing = False
    await until(lambda: bench.engine.present.available)
    refused = bench.submit()
    await until(lambda: bench.client.of(m.Problem)[-1].request == refused)
    assert bench.client.of(m.Problem)[-1].code == "draining"
    assert not store.runs_by_id


@pytest.mark.behaviour("RUN-17")
@pytest.mark.parametrize("error", [DatabaseGone("file.db"), DatabaseDamaged("file.db", "page 7")])
async def test_trouble_that_lasts_is_told_to_everybody_as_it_is(
    bench: Bench, store: SlowStore, error: StoreUnavailable
) -> None:
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    (accepted,) = bench.client.of(r.Accepted)
    store.failing = error
    bench.submit()
    await until(lambda: len(bench.client.of(m.Problem)) == 1)
    await pass_time(5)
    for _ in range(20):
        bench.submit()
    bench.client.say(r.Ask(90, accepted.run_ids[0], True))
    await pass_time(5)
    told = [(one.code, one.text) for one in bench.client.of(m.Problem)]
    assert told == [(error.code, str(error))] * 22
    raised = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
    assert raised.count("_take") <= 1, "it grows with every request"


MANY = 80  # loads of a minute


class NeverWritten(SlowStore):
    """Can be read, and refuses every write."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0
        self.refuses = True

    async def commit(self, batch: Batch, lease: Lease) -> None:
        if self.refuses:
            raise StoreUnavailable("a table is gone")
        await super().commit(batch, lease)

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        self.loads += 1
        self.refuses = self.refuses and self.loads < MANY
        return await super().load(small_payload, kinds)


async def test_a_store_that_refuses_every_write_is_not_loaded_without_rest() -> None:
    """Each load is followed by the declared jobs, which are to be stored."""
    store = NeverWritten()
    bench = Bench(store)
    await bench.start()
    await pass_time(60.0)
    assert store.loads < MANY
    store.refuses = False
    await until(lambda: bool(store.commits))
    bench.submit()
    await until(lambda: bool(store.runs_by_id))
    await bench.stop()
