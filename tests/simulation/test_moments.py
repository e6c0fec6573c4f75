"""Pauses, partitions and restarts at chosen moments: who is lost, who is adopted, what is ignored."""

import asyncio

import msgspec
import pytest

from interlock.client.handle import RunHandle
from interlock.error import StoreUnavailable
from interlock.model.state import State
from interlock.wire import message as m
from soak.simulation import executor as e
from soak.simulation.executor import Mark
from soak.simulation.scenario import HEARTBEAT
from tests.simulation.stage import Stage

SILENCE = 3 * HEARTBEAT


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    made = Stage()
    request.node.run_test = lambda body: made.play(lambda _: body())
    return made


@pytest.mark.behaviour("LIV-2")
async def test_an_attempt_that_is_silent_for_three_intervals_is_lost_and_its_late_result_ignored(stage: Stage) -> None:
    handle = await stage.submit("plain", (e.SUCCEED, 4.0), (e.SUCCEED, 20.0))
    worker = await stage.executing(handle)
    await asyncio.sleep(HEARTBEAT + 0.5)
    worker.process.pause()
    paused_at = stage.now
    await stage.until(lambda: stage.run(handle).crashes == 1, "it is lost")
    silent_for = stage.now - paused_at
    assert SILENCE - HEARTBEAT - 0.1 <= silent_for <= SILENCE + 0.5
    assert stage.run(handle).fence > 1
    # The work went on while its worker stood still, and has a result for which it is too late.
    first = stage.executions(handle)[0]
    assert first.how == "succeeded"
    await stage.executing(handle, times=2)
    before = stage.run(handle).fence
    worker.process.resume()
    await asyncio.sleep(3.0)
    run = stage.run(handle)
    assert (run.state, run.fence, run.crashes) == (State.RUNNING, before, 1)
    await handle.result()
    mark = msgspec.json.decode(stage.run(handle).result or b"", type=Mark)
    assert mark.fence == before
    assert [one.how for one in stage.executions(handle)] == ["succeeded", "succeeded"]


@pytest.mark.behaviour("LIV-2")
async def test_silence_shorter_than_the_limit_loses_nothing(stage: Stage) -> None:
    handle = await stage.submit("plain", (e.SUCCEED, 15.0))
    worker = await stage.executing(handle)
    worker.process.pause()
    await asyncio.sleep(SILENCE - HEARTBEAT - 0.5)
    worker.process.resume()
    await handle.result()
    assert stage.run(handle).crashes == 0
    assert len(stage.executions(handle)) == 1


@pytest.mark.behaviour("LIV-2", "LIV-3")
@pytest.mark.parametrize("how", ["stopped", "cut off"])
async def test_a_worker_that_comes_back_with_an_old_fence_stops_that_work(stage: Stage, how: str) -> None:
    handle = await stage.submit("plain", (e.SUCCEED, 200.0), (e.SUCCEED, 60.0))
    worker = await stage.executing(handle)
    if how == "stopped":
        worker.process.pause()
    else:
        stage.cluster.network.isolate(worker.process, 3 * SILENCE)
    await stage.executing(handle, times=2)
    old, new = stage.executions(handle)
    assert old.ended is None
    assert old.worker != new.worker
    if how == "stopped":
        worker.process.resume()
        back_at = stage.now
    else:
        await stage.until(lambda: worker.process not in stage.cluster.network.cut_off, "it is back")
        back_at = stage.now
    await stage.until(lambda: old.ended is not None, "the old work stops")
    assert stage.now - back_at < HEARTBEAT + 2.0
    assert old.how == "cancelled"
    assert new.ended is None
    await handle.result()
    assert stage.run(handle).crashes == 1


@pytest.mark.behaviour("LIV-4")
async def test_work_that_runs_while_the_scheduler_is_killed_is_adopted(stage: Stage) -> None:
    handles = [await stage.submit("plain", (e.SUCCEED, 12.0)) for _ in range(4)]
    for handle in handles:
        await stage.executing(handle)
    await stage.until(lambda: all(stage.run(one).state is State.RUNNING for one in handles), "all run")
    for _ in range(2):
        stage.kill_scheduler()
        await stage.scheduler_is_back()
    for handle in handles:
        await handle.result()
        run = stage.run(handle)
        assert (run.state, run.fence, run.attempt, run.crashes) == (State.SUCCEEDED, 1, 1, 0)
        assert len(stage.executions(handle)) == 1


@pytest.mark.behaviour("LIV-4")
async def test_work_that_ends_while_there_is_no_scheduler_is_not_done_again(stage: Stage) -> None:
    handle = await stage.submit("plain", (e.SUCCEED, 2.0))
    await stage.executing(handle)
    stage.kill_scheduler()
    await stage.until(lambda: stage.executions(handle)[0].ended is not None, "it has ended")
    assert stage.run(handle).state is not State.SUCCEEDED
    assert msgspec.convert(await handle.result(), Mark) == Mark(handle.id, 1)
    assert len(stage.executions(handle)) == 1


@pytest.mark.behaviour("LIV-2", "LIV-4")
async def test_a_scheduler_that_stood_still_itself_takes_nobody_for_dead(stage: Stage) -> None:
    handle = await stage.submit("plain", (e.SUCCEED, 90.0))
    await stage.executing(handle)
    assert stage.cluster.scheduler is not None
    for seconds in (0.5, 3.1, SILENCE + 1, 5 * SILENCE):
        stage.cluster.scheduler.process.pause()
        await asyncio.sleep(seconds)
        stage.cluster.scheduler.process.resume()
        await asyncio.sleep(HEARTBEAT)
    await handle.result()
    assert stage.run(handle).crashes == 0
    assert len(stage.executions(handle)) == 1


async def test_a_scheduler_that_stood_still_at_a_commit_gives_its_dispatches_their_time(stage: Stage) -> None:
    stage.cluster.store_faults.longest_write = 1.0
    handles = [await stage.submit("plain", (e.SUCCEED, 3.0)) for _ in range(3)]
    last = handles[-1]
    await stage.until(lambda: stage.run(last).state is State.DISPATCHED, "its dispatch is stored")
    assert stage.cluster.scheduler is not None
    stage.cluster.scheduler.process.pause()
    await asyncio.sleep(2 * SILENCE)
    stage.cluster.scheduler.process.resume()
    await last.result()
    for handle in handles:
        await handle.wait()
        assert stage.run(handle).crashes == 0
        assert [entry.after for entry in stage.history(handle)].count(State.DISPATCHED) == 1


def test_a_runtime_limit_holds_though_the_word_of_the_start_was_lost_with_its_link() -> None:
    async def body(stage: Stage) -> None:
        stage.cluster.network.faults.longest_delay = 0.5
        handle = await stage.submit("bounded_attempt", (e.HANG, 0.0))
        worker = await stage.executing(handle)
        stage.cluster.network.isolate(worker.process, 0.5)
        assert await handle.wait() is State.TIMEOUT
        assert stage.run(handle).started_at is not None

    Stage(workers=1).play(body)


@pytest.mark.parametrize(
    ("lost", "job", "plan", "end"),
    [
        (m.Started, "bounded", (e.HANG, 0.0), State.TIMEOUT),
        (m.Finished, "plain", (e.SUCCEED, 0.1), State.SUCCEEDED),
        (m.Lost, "plain", (e.CRASH, 0.1), State.ORPHANED),
        (m.Returned, "plain", (e.RETURN, 0.1), State.FAILED),
        (m.Dispatch, "plain", (e.SUCCEED, 0.1), State.SUCCEEDED),
        (m.Settled, "plain", (e.SUCCEED, 0.1), State.SUCCEEDED),
        (m.Stop, "bounded", (e.HANG, 0.0), State.TIMEOUT),
    ],
)
def test_a_message_that_is_lost_for_a_while_is_made_up_for(
    lost: type[m.Message], job: str, plan: tuple[str, float], end: State
) -> None:
    async def body(stage: Stage) -> None:
        stage.cluster.network.lose_all = (lost,)
        handle = await stage.submit(job, plan)
        await asyncio.sleep(8.0)
        stage.cluster.network.lose_all = ()
        assert await handle.wait() is end

    Stage(workers=1).play(body)


@pytest.mark.behaviour("RET-4")
@pytest.mark.parametrize("down_when_due", [False, True])
async def test_a_retry_waits_out_its_delay_over_restarts(stage: Stage, down_when_due: bool) -> None:
    handle = await stage.submit("patient", (e.FAIL, 0.5), (e.SUCCEED, 0.5))
    await stage.until(lambda: stage.run(handle).state is State.RETRYING, "it waits for its retry")
    failed_at, due = stage.now, stage.run(handle).due_at
    assert due is not None
    for _ in range(2):
        stage.kill_scheduler()
        await stage.scheduler_is_back()
        assert stage.run(handle).state is State.RETRYING
        assert stage.run(handle).due_at == due
    due_in = due - stage.cluster.clock.now().wall
    assert due_in > 1
    if down_when_due:
        await asyncio.sleep(due_in - 0.2)
        stage.kill_scheduler()
        await asyncio.sleep(0.3)
    await handle.result()
    second = stage.executions(handle)[1]
    waited = second.began - failed_at
    assert waited >= 20.0 - 0.1
    if not down_when_due:
        assert waited <= 20.0 + 1.0
    assert stage.run(handle).failures == 1


def test_a_scheduler_that_was_replaced_takes_no_live_run_for_an_ended_one() -> None:
    async def body(stage: Stage) -> None:
        cluster = stage.cluster
        await (await stage.submit("plain", (e.SUCCEED, 0.1))).result()
        replaced, lease = cluster.scheduler, cluster.disk.leases["main"]
        assert replaced is not None
        await stage.until(lambda: cluster.disk.leases["main"] != lease, "its lease is renewed")
        # By the wall clock the lease is over at once; the one who holds it sees no need to renew it yet.
        replaced.process.pause()
        cluster.clock.offset += 60.0
        cluster.start_scheduler()
        await stage.scheduler_is_back()
        handle = await stage.submit("plain", (e.SUCCEED, 1.0), connection=stage.connect())
        asking = asyncio.create_task(RunHandle(handle.id, stage.connection).wait())
        await asyncio.sleep(0.1)
        replaced.process.resume()
        with pytest.raises(StoreUnavailable):
            await asking
        replaced.process.kill()
        assert await handle.wait() is State.SUCCEEDED

    Stage().play(body)


@pytest.mark.behaviour("SES-3")
async def test_a_session_with_ten_waiting_runs_drops_the_oldest_for_the_next(stage: Stage) -> None:
    first = await stage.submit("plain", (e.SUCCEED, 30.0), session="slow-1")
    await stage.executing(first)
    # Runs of one job would collapse.
    jobs = ["retried", "plain"] * 6
    waiting = [await stage.submit(job, (e.SUCCEED, 0.1), session="slow-1") for job in jobs]
    await first.result()
    await stage.until(lambda: not stage.cluster.invariants.unfinished(), "all have ended")
    ends = [(stage.run(one).state, stage.run(one).reason == "queue_dropped") for one in waiting]
    assert ends == [(State.CANCELLED, True)] * 2 + [(State.SUCCEEDED, False)] * 10
