"""The shell on virtual time: batches, flushing, failing writes, the lease."""

import asyncio
import logging

import pytest

from interlock.engine.ownership import LEADER
from interlock.model.bulk import ActedOn
from interlock.model.state import State
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.run_request import CancelRun
from tests.engine.bench import Bench, LoopClock, SlowStore, on_virtual_time, pass_time, running, until

run_test = on_virtual_time


@pytest.mark.behaviour("RUN-16")
async def test_what_arrives_during_a_write_is_the_next_write(bench: Bench, store: SlowStore) -> None:
    await until(lambda: len(store.commits) == 1)
    store.takes = 0.4
    bench.submit()
    await pass_time(0.1)
    for _ in range(300):
        bench.submit()
    asked = asyncio.get_running_loop().time()
    await until(lambda: len(bench.client.of(r.Accepted)) == 301)
    assert asyncio.get_running_loop().time() - asked <= 1.0
    assert [len(batch.created) for batch in store.commits[1:]] == [1, 300]


@pytest.mark.behaviour("RUN-16")
async def test_an_idle_writer_writes_at_once(bench: Bench) -> None:
    await pass_time(5)
    begin = asyncio.get_running_loop().time()
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    assert asyncio.get_running_loop().time() - begin <= 0.01


@pytest.mark.behaviour("RUN-16")
async def test_a_stop_flushes_everything() -> None:
    store = SlowStore()
    store.takes = 0.3
    bench = Bench(store)
    await bench.start()
    for _ in range(50):
        bench.submit()
    bench.engine.stop()
    for _ in range(50):
        bench.submit()
    await bench.stop()
    assert len(store.runs_by_id) == 100
    assert len(bench.client.of(r.Accepted)) == 100


@pytest.mark.behaviour("RUN-16", "RUN-17")
async def test_a_failing_write_refuses_submits_and_recovers_by_itself(bench: Bench, store: SlowStore) -> None:
    kept = bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    store.failing = True
    refused = bench.submit()
    await until(lambda: len(bench.client.of(m.Problem)) == 1)
    while_down = bench.submit()
    await pass_time(5)
    assert [(one.request, one.code) for one in bench.client.of(m.Problem)] == [
        (refused, "store_unavailable"),
        (while_down, "store_unavailable"),
    ]
    store.failing = False
    await until(lambda: bench.engine.present.available)
    again = bench.submit()
    await until(lambda: len(bench.client.of(r.Accepted)) == 2)
    accepted = {one.request: one.run_ids[0] for one in bench.client.of(r.Accepted)}
    assert list(accepted) == [kept, again]
    assert set(store.runs_by_id) == set(accepted.values())


@pytest.mark.behaviour("RUN-16", "RUN-12")
async def test_an_outcome_that_could_not_be_written_is_written_later(bench: Bench, store: SlowStore) -> None:
    worker = bench.worker("w")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    (dispatch,) = worker.of(m.Dispatch)
    store.failing = True
    outcome = m.Finished(dispatch.run_id, dispatch.fence, "succeeded", b"7")
    worker.say(outcome)
    await until(lambda: not worker.open)
    assert not worker.of(m.Settled)
    store.failing = False
    await until(lambda: bench.engine.present.available)
    back = bench.worker("w", m.Held(dispatch.run_id, dispatch.fence))
    back.say(outcome)
    await until(lambda: bool(back.of(m.Settled)))
    run = store.runs_by_id[dispatch.run_id]
    assert (run.state, run.result, run.attempt) == (State.SUCCEEDED, b"7", 1)


@pytest.mark.behaviour("LEA-1")
async def test_an_idle_scheduler_renews_its_lease_every_third_of_its_term() -> None:
    store = SlowStore()
    bench = Bench(store, lease_ttl=9.0)
    await bench.start()
    await until(lambda: store.renewals == 1)
    await pass_time(30)
    assert store.renewals == 11
    await bench.stop()


@pytest.mark.behaviour("LEA-2")
async def test_three_failed_renewals_in_a_row_stop_the_scheduler_from_writing() -> None:
    store = SlowStore()
    bench = Bench(store, lease_ttl=9.0)
    await bench.start()
    await until(lambda: store.renewals == 1)
    store.failing = True
    await pass_time(7)  # two renewals fail
    store.failing = False
    await until(lambda: store.renewals == 2)
    assert bench.engine.present.available
    store.failing = True
    await pass_time(7)  # two more: the success between them has reset the count
    assert bench.engine.present.available
    await pass_time(3)
    assert not bench.engine.present.available
    store.failing = False
    await until(lambda: bench.engine.present.available)
    await bench.stop()


@pytest.mark.behaviour("LEA-1", "LEA-2", "OBS-1")
async def test_a_scheduler_that_lost_its_lease_writes_nothing_and_takes_it_back_when_it_is_free() -> None:
    store = SlowStore()
    bench = Bench(store, lease_ttl=9.0)
    await bench.start()
    first = store.leases[LEADER]
    now = LoopClock().now().wall
    await store.renew(first, 0.0)
    thief = await store.take(LEADER, "another", "its-token", 20.0)
    assert thief is not None
    assert thief.epoch == first.epoch + 1
    before = len(store.commits)
    refused = bench.submit()
    await until(lambda: bool(bench.client.of(m.Problem)))
    assert bench.client.of(m.Problem)[0].request == refused
    assert len(store.commits) == before
    assert not store.runs_by_id
    await until(lambda: bench.engine.present.available)
    assert LoopClock().now().wall >= now + 20
    assert store.leases[LEADER].epoch == thief.epoch + 1
    counts = {one.name: one.samples[0][2] for one in bench.engine.present.families() if len(one.samples) == 1}
    assert counts["interlock_leases_lost_total"] == 1
    assert counts["interlock_lease_waits_total"] >= 20, "tried at least once a second"
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    await bench.stop()


async def test_a_fault_of_our_own_is_answered_and_survived(bench: Bench, store: SlowStore) -> None:
    bench.engine.inbox.post("", object())  # nothing the core knows
    refused = bench.submit()
    await until(lambda: bool(bench.client.of(m.Problem)))
    assert [(one.request, one.code) for one in bench.client.of(m.Problem)] == [(refused, "store_unavailable")]
    assert not store.runs_by_id
    await until(lambda: bench.engine.present.available)
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))


@pytest.mark.behaviour("RUN-10")
async def test_a_cancel_that_meets_the_end_returns_the_state_the_run_has(bench: Bench, store: SlowStore) -> None:
    worker = bench.worker("w")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    (dispatch,) = worker.of(m.Dispatch)
    store.takes = 0.5
    worker.say(m.Finished(dispatch.run_id, dispatch.fence, "succeeded"))
    await pass_time(0.1)
    assert store.runs_by_id[dispatch.run_id].state is State.DISPATCHED
    bench.client.say(CancelRun(99, dispatch.run_id, "too late"))
    await until(lambda: bool(bench.client.values(ActedOn)))
    assert [answer.state for answer in bench.client.values(ActedOn)] == [State.SUCCEEDED]


@pytest.mark.behaviour("RUN-17", "RUN-2")
async def test_nobody_hears_of_what_is_not_stored() -> None:
    store = SlowStore()
    bench = Bench(store, batch_runs=4)
    await bench.start()
    await until(lambda: len(store.commits) == 1)
    store.takes = 0.5
    worker = bench.worker("w")
    for _ in range(12):  # several batches, so that some are decided while others are being written
        bench.submit()
    while len(bench.client.of(r.Accepted)) < 12:
        told = {run_id for one in bench.client.of(r.Accepted) for run_id in one.run_ids}
        assert told <= set(store.runs_by_id)
        for dispatch in worker.of(m.Dispatch):
            assert store.runs_by_id[dispatch.run_id].fence >= dispatch.fence
        await pass_time(0.01)
    sizes = [len(batch.created) for batch in store.commits if batch.created]
    assert sum(sizes) == 12
    assert max(sizes) <= 4
    await bench.stop()


@pytest.mark.behaviour("ROU-9")
async def test_a_dispatch_is_stored_before_it_is_sent_and_taken_back_if_its_worker_is_gone_by_then(
    bench: Bench, store: SlowStore
) -> None:
    worker = bench.worker("w")
    await until(lambda: "w" in bench.engine.state.workers)
    store.takes = 1.0
    bench.submit()
    await until(lambda: State.DISPATCHED in [run.state for run in bench.engine.state.runs.values()])
    assert not store.runs_by_id
    assert worker.of(m.Dispatch) == []
    worker.close()
    await until(lambda: State.DISPATCHED in [run.state for run in store.runs_by_id.values()])
    await until(lambda: State.SCHEDULED in [run.state for run in store.runs_by_id.values()])
    (run,) = store.runs_by_id.values()
    assert [one.after for one in await store.history(run.id)][-2:] == [State.DISPATCHED, State.SCHEDULED]
    assert (run.crashes, run.failures) == (0, 0)
    assert worker.of(m.Dispatch) == []
    again = bench.worker("x")
    await until(lambda: [one.run_id for one in again.of(m.Dispatch)] == [run.id])


@pytest.mark.behaviour("RUN-2", "RUN-3")
async def test_a_cancel_of_running_work_is_recorded_with_its_reason_and_actor(bench: Bench, store: SlowStore) -> None:
    worker = bench.worker("w")
    run = await running(bench, worker)
    bench.client.say(CancelRun(50, run.run_id, "ticket 4711"))
    await until(lambda: bool(worker.of(m.Stop)))
    worker.say(m.Finished(run.run_id, run.fence, "cancelled"))
    await until(lambda: store.runs_by_id[run.run_id].state is State.CANCELLED)
    last = (await store.history(run.run_id))[-1]
    assert (last.reason, last.actor) == ("ticket 4711", "client-1")


@pytest.mark.behaviour("RUN-19")
def test_a_run_that_ends_in_a_batch_decided_ahead_is_logged_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        store = SlowStore()
        bench = Bench(store, batch_runs=4)
        await bench.start()
        worker = bench.worker("w")
        for _ in range(3):
            bench.submit()
        await until(lambda: len(worker.of(m.Dispatch)) == 3)
        store.takes = 0.5
        first, *others = worker.of(m.Dispatch)
        worker.say(m.Started(first.run_id, first.fence))
        await pass_time(0.1)
        worker.say(m.Finished(first.run_id, first.fence, "succeeded"))
        for other in others:
            worker.say(m.Finished(other.run_id, other.fence, "succeeded"))
        await until(lambda: len(worker.of(m.Settled)) == 3)
        assert bench.engine.present.available
        await bench.stop()
        logged = [
            record.getMessage().split(":")[0]
            for record in caplog.records
            if getattr(record, "run_id", "") == first.run_id and record.levelno == logging.INFO
        ]
        assert logged == [
            "new → pending",
            "pending → scheduled",
            "scheduled → dispatched",
            "dispatched → running",
            "running → terminating",
            "terminating → succeeded",
        ]

    with caplog.at_level(logging.INFO, "interlock.runs"):
        on_virtual_time(body)
