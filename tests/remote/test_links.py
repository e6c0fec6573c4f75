"""Work over links that break: an engine and a worker's host, with TLS and a bad network between them."""

import asyncio
from random import Random

import pytest

from interlock.error import Forbidden, InterlockError, Refused, rebuild
from interlock.model.state import State
from interlock.wire import message as m
from tests.helpers.places import until
from tests.remote.stage import OF_ACME, OF_GPU, TOKEN, Scheduler, Worker, connecting_bus, stage
from tests.remote.test_strangers import Recorder, on_loop

run_test = on_loop

SHORT, LONG = (
    0.2,
    2.0,
)  # heartbeat intervals: with the first, silence is noticed soon; with the second, hardly by mistake
EXECUTED_ONCE = [State.PENDING, State.SCHEDULED, State.DISPATCHED, State.RUNNING, State.TERMINATING, State.SUCCEEDED]


async def begun(worker: Worker, count: int = 1) -> None:
    await until(lambda: len(worker.work.begun) >= count, f"attempt {count} has begun")


async def running(scheduler: Scheduler, run_id: str) -> None:
    await until(lambda: (run := scheduler.live(run_id)) and run.state is State.RUNNING, "it is known to run")


async def executed_once(scheduler: Scheduler, worker: Worker, run_id: str) -> None:
    worker.work.end((run_id, 1))
    run = await scheduler.ended(run_id)
    assert (run.state, run.attempt, run.fence, run.result) == (State.SUCCEEDED, 1, 1, b"1")
    assert worker.work.begun == [(run_id, 1)]
    assert await scheduler.states(run_id) == EXECUTED_ONCE


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_run_goes_there_and_comes_back(loop: str) -> None:
    async def body() -> None:
        async with stage() as (scheduler, _, worker):
            run_id = await scheduler.submit(payload=b'{"large": "' + b"x" * 1_000_000 + b'"}')
            await begun(worker)
            assert len(worker.work.payloads[0]) > 1_000_000
            await executed_once(scheduler, worker, run_id)

    on_loop(body, loop)


@pytest.mark.behaviour("LIV-4", "ROU-9")
def test_a_cut_link_costs_no_attempt() -> None:
    """Whichever message it cuts: bytes are cut off at random places until all runs have ended."""

    async def body() -> None:
        async with stage(LONG) as (scheduler, network, worker):
            chance, left = Random(7), 8

            def cut_sometimes(data: bytes) -> list[bytes]:
                nonlocal left
                if left and chance.random() < 0.3:
                    left -= 1
                    return [data[: chance.randrange(len(data)) or 1], b""]
                return [data]

            worker.work.ends_at_once = True
            network.change = cut_sometimes
            run_ids = [await scheduler.submit() for _ in range(30)]
            for run_id in run_ids:
                run = await scheduler.ended(run_id)
                assert (run.state, run.crashes) == (State.SUCCEEDED, 0)
            # An attempt that never reached the worker is dispatched again, under another fence.
            assert sorted({run_id for run_id, _ in worker.work.begun}) == sorted(run_ids)
            assert len(worker.work.begun) == len(run_ids)
            assert network.connections > 3

    on_loop(body)


async def test_repeated_and_changed_bytes_end_the_link_and_no_more() -> None:
    """TLS notices both; the worker comes back and reports what it has."""
    async with stage(LONG) as (scheduler, network, worker):
        for change in (lambda data: [data, data], lambda data: [data[:-1] + bytes([data[-1] ^ 1])]):
            before = network.connections
            run_id = await scheduler.submit()
            await until(lambda run_id=run_id: (run_id, 1) in worker.work.running, "it has begun")  # type: ignore[misc] # the default binds it
            network.change = change
            worker.work.end((run_id, 1))
            await until(lambda before=before: network.connections > before, "it connects again")  # type: ignore[misc] # as above
            network.change = lambda data: [data]
            run = await scheduler.ended(run_id)
            assert (run.state, run.attempt) == (State.SUCCEEDED, 1)


async def test_a_slow_link_only_takes_longer() -> None:
    """It carries one byte in each packet."""
    async with stage(LONG) as (scheduler, network, worker):
        network.change = lambda data: [data[place : place + 1] for place in range(len(data))]
        run_id = await scheduler.submit()
        await begun(worker)
        await executed_once(scheduler, worker, run_id)


@pytest.mark.behaviour("LIV-4")
@pytest.mark.parametrize("ends", ["during the partition", "after it"])
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_partition_shorter_than_the_silence_costs_nothing(ends: str, breaks: bool) -> None:
    async with stage(LONG) as (scheduler, network, worker):
        run_id = await scheduler.submit()
        await begun(worker)
        await running(scheduler, run_id)
        network.hold()
        if breaks:
            network.cut()
            await until(lambda: "site:worker-1" not in scheduler.engine.present.peers.workers, "the link is gone")
        if ends == "during the partition":
            worker.work.end((run_id, 1))
        network.heal()
        await scheduler.joined("site:worker-1")
        if ends == "during the partition":
            run = await scheduler.ended(run_id)
            assert (run.state, run.attempt, worker.work.begun) == (State.SUCCEEDED, 1, [(run_id, 1)])
        else:
            await executed_once(scheduler, worker, run_id)


@pytest.mark.behaviour("LIV-2", "LIV-3")
@pytest.mark.parametrize("ends", ["during the partition", "never"])
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_partition_longer_than_the_silence_costs_an_attempt(ends: str, breaks: bool) -> None:
    """Two attempts, two fences, one result; the first attempt stops by itself when its link is back."""
    async with stage(SHORT) as (scheduler, network, worker):
        run_id = await scheduler.submit()
        await begun(worker)
        await running(scheduler, run_id)
        network.hold()
        if breaks:
            network.cut()
        if ends == "during the partition":
            worker.work.end((run_id, 1))
        await until(lambda: (run := scheduler.live(run_id)) and run.crashes == 1, "the attempt counts as lost")
        network.heal()
        # A busy machine may make it lose more than one.
        await until(lambda: any(fence > 1 for _, fence in worker.work.running), "another attempt has begun")
        assert worker.work.stopped[:1] == ([] if ends == "during the partition" else [(run_id, 1)])
        worker.work.ends_at_once = True
        for key in list(worker.work.running):
            worker.work.end(key)
        run = await scheduler.ended(run_id)
        fences = [fence for _, fence in worker.work.begun]
        assert (run.state, run.attempt >= 2, len(set(fences)) == len(fences)) == (State.SUCCEEDED, True, True)
        assert run.result == str(run.fence).encode() != b"1"
        assert (await scheduler.states(run_id)).count(State.SUCCEEDED) == 1


@pytest.mark.behaviour("LIV-4")
async def test_the_next_scheduler_adopts_running_work() -> None:
    async with stage(LONG) as (scheduler, _, worker):
        run_ids = [await scheduler.submit(), await scheduler.submit()]
        await begun(worker, 2)
        for run_id in run_ids:
            await running(scheduler, run_id)
        await scheduler.stop()
        worker.work.end((run_ids[0], 1))
        await scheduler.start()
        await scheduler.joined("site:worker-1")
        worker.work.end((run_ids[1], 1))
        for run_id in run_ids:
            assert (await scheduler.ended(run_id)).state is State.SUCCEEDED
            assert await scheduler.states(run_id) == EXECUTED_ONCE
        assert sorted(worker.work.begun) == sorted((run_id, 1) for run_id in run_ids)


def hello(name: str, pool: str = "", *held: m.Held) -> m.Hello:
    return m.Hello(name, m.PROTOCOL, 1, 10, 1, {"job": ""}, list(held), "", pool)


async def told(scheduler: Scheduler, token: str, *messages: m.Message) -> list[m.Message]:
    """What a link hears after these messages, until it ends or nothing more is to come."""
    bus, recorder = connecting_bus(scheduler.address, token), Recorder()
    try:
        peer = await bus.connect(recorder)
        peer.send(messages)
        await until(lambda: recorder.heard or recorder.ended, "there is an answer")
        return recorder.heard
    finally:
        await bus.close()


def error_in(answer: list[m.Message]) -> InterlockError:
    (problem,) = answer
    assert isinstance(problem, m.Problem)
    return rebuild(problem.code, problem.text)


@pytest.mark.parametrize(
    "first", [m.Greeting(m.PROTOCOL), m.Unready("w", "", "", ""), m.Credential(TOKEN), m.Heartbeat([])]
)
async def test_a_worker_can_only_be_a_worker(first: m.Message) -> None:
    async with stage() as (scheduler, _, _):
        error = error_in(await told(scheduler, TOKEN, first))
        assert isinstance(error, Refused)
        assert type(first).__name__ in str(error) or "is that of a worker, not of a gateway" in str(error)
        assert TOKEN not in str(error)


async def test_a_token_binds_its_workers_to_pools_and_a_tenant() -> None:
    async with stage() as (scheduler, _, _):
        error = error_in(await told(scheduler, OF_GPU, hello("worker-1")))
        assert isinstance(error, Forbidden)
        assert str(error) == "pool: 'default' is not a pool of the token 'gpus'; it has gpu, tpu"
        assert isinstance((await told(scheduler, OF_GPU, hello("worker-1", "tpu")))[0], m.Welcome)
        worker = Worker(connecting_bus(scheduler.address, OF_ACME))
        await scheduler.joined("acme:worker-1")
        workers = scheduler.engine.state.workers
        await until(lambda: "acme:worker-1" in workers, "it is known")
        assert (workers["acme:worker-1"].tenants, workers["site:worker-1"].tenants) == ({"acme"}, None)
        await worker.close()


async def test_a_worker_of_one_tenant_never_gets_anothers_payload() -> None:
    async with stage() as (scheduler, _, every):
        acme = Worker(connecting_bus(scheduler.address, OF_ACME))
        await scheduler.joined("acme:worker-1")
        every.work.ends_at_once = acme.work.ends_at_once = True
        run_ids = [await scheduler.submit(tenant, f'"{tenant}"'.encode()) for tenant in ("acme", "other") * 20]
        for run_id in run_ids:
            assert (await scheduler.ended(run_id)).state is State.SUCCEEDED
        assert set(acme.work.payloads) == {b'"acme"'}
        await every.close()
        await until(lambda: list(scheduler.engine.present.peers.workers) == ["acme:worker-1"], "the other has left")
        waiting = await scheduler.submit("other", b'"other"')
        mine = await scheduler.submit("acme", b'"acme"')
        await scheduler.ended(mine)
        assert (run := scheduler.live(waiting)) is not None
        assert run.state is State.SCHEDULED
        assert set(acme.work.payloads) == {b'"acme"'}
        await acme.close()


async def test_a_worker_of_one_pool_never_gets_anothers_payload() -> None:
    async with stage() as (scheduler, _, plain):
        gpu = Worker(connecting_bus(scheduler.address, OF_GPU), pool="gpu")
        await scheduler.joined("gpus:worker-1")
        plain.work.ends_at_once = gpu.work.ends_at_once = True
        for job in ("job", "gpu-job") * 20:
            await scheduler.ended(await scheduler.submit("default", f'"{job}"'.encode(), job))
        assert (set(plain.work.payloads), set(gpu.work.payloads)) == ({b'"job"'}, {b'"gpu-job"'})
        await gpu.close()


async def test_nobody_takes_the_name_of_another_tokens_worker() -> None:
    """Neither while it is connected nor while it is not: its attempts and their results stay its own."""
    async with stage(LONG) as (scheduler, network, worker):
        run_id = await scheduler.submit()
        await begun(worker)
        await running(scheduler, run_id)
        forged = [m.Held(run_id, 1, True)], m.Finished(run_id, 1, "succeeded", b'"forged"')
        for away in (False, True):
            if away:
                network.hold()
                network.cut()
                await until(lambda: list(scheduler.engine.present.peers.workers) == [], "it is away")
            await told(scheduler, OF_ACME, hello("worker-1", "", *forged[0]), forged[1])
        network.heal()
        await scheduler.joined("site:worker-1")
        await executed_once(scheduler, worker, run_id)


def test_a_worker_that_finds_its_links_cut_slows_down() -> None:
    """Links that break before they are answered must not follow each other at once."""

    async def body() -> None:
        async with stage() as (scheduler, network, _):
            delays: list[float] = []
            loop = asyncio.get_running_loop()
            last = loop.time()

            def cut(data: bytes) -> list[bytes]:
                nonlocal last
                delays.append(loop.time() - last)
                last = loop.time()
                return [b""]

            network.change = cut
            network.cut()
            await until(lambda: len(delays) >= 5, "it has tried five times")
            # 0, 0.1, 0.2, 0.4, 0.8 seconds, each up to a half less.
            assert all(delay >= least for delay, least in zip(delays[1:], (0.05, 0.1, 0.2, 0.4), strict=False))
            network.change = lambda data: [data]
            await scheduler.joined("site:worker-1")

    on_loop(body)
