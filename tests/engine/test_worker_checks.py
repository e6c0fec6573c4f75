"""What a worker may announce, and what the scheduler makes of its clock."""

import logging
from typing import Any

import pytest

from interlock.model.pool import PoolSpec
from interlock.wire import message as m
from tests.engine.bench import Bench, SlowStore, on_virtual_time, until

run_test = on_virtual_time

POOLS = {"gpu": PoolSpec(topics=("*",), requires=("cuda",))}


@pytest.mark.behaviour("ROU-2", "ROU-10")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"slots": 0}, "slots: 0 is not a whole number from 1 to 100,000"),
        ({"slots": 10**9}, "slots: 1000000000 is not a whole number from 1 to 100,000"),
        ({"processes": 10**9}, "processes: 1000000000 is not a whole number from 1 to 10,000"),
        ({"pool": "a b"}, "pool: 'a b' is not a name"),
        (
            {"pool": "gpuu", "capabilities": ["cuda"]},
            "pool: 'gpuu' is not declared; use one of gpu; did you mean 'gpu'?",
        ),
        ({"pool": "gpu"}, "capabilities: pool 'gpu' requires cuda"),
        ({"labels": {"a b": "x"}}, "labels: 'a b' is not a name"),
        ({"labels": {"a": "x" * 257}}, "labels.a: "),
        ({"labels": {f"n{number}": "" for number in range(101)}}, "labels: 101 given; at most 100 are allowed"),
        ({"capabilities": ["a b"]}, "capabilities[0]: 'a b' is not a name"),
        ({"capabilities": ["cuda"] * 101}, "a list of up to 100 capabilities"),
    ],
)
def test_a_worker_that_announces_something_wrong_is_refused(fields: dict[str, Any], says: str) -> None:
    async def body() -> None:
        bench = Bench(SlowStore(), POOLS)
        await bench.start()
        link = bench.worker("w", **fields)
        (problem,) = link.of(m.Problem)
        assert says in problem.text
        assert not link.open
        assert list(bench.engine.present.peers.workers) == []
        await bench.stop()

    on_virtual_time(body)


async def test_a_worker_with_runs_comes_back_although_its_pool_is_gone() -> None:
    bench = Bench(SlowStore(), POOLS)
    await bench.start()
    link = bench.worker("w", m.Held("run", 1), pool="gone")
    assert link.open
    assert link.of(m.Welcome)
    await bench.stop()


@pytest.mark.behaviour("ROU-10")
def test_the_core_learns_what_a_worker_announces_and_how_busy_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        bench = Bench(SlowStore(), POOLS)
        await bench.start()
        plain = bench.worker("plain")
        link = bench.worker(
            "w", slots=100_000, pool="gpu", capabilities=["CUDA"], labels={"region": "eu"},
            wall=bench.engine.present.now() + 600.0,
        )  # fmt: skip
        near = bench.worker("near", wall=bench.engine.present.now() - 59.0)
        for one in (plain, link, near):
            (welcome,) = one.of(m.Welcome)
            assert welcome.wall == bench.engine.present.now()
        link.say(m.Load(90.0, 20.0, 30.0))
        await until(lambda: bool(link.of(m.Seen)))
        worker = bench.engine.state.workers["w"]
        assert (worker.slots, worker.pool, worker.capabilities, worker.labels) == (
            100_000, "gpu", ["CUDA"], {"region": "eu"},
        )  # fmt: skip
        assert (worker.cpu, worker.memory, worker.gpu) == (90.0, 20.0, 30.0)
        assert {name: round(one.skew) for name, one in bench.engine.state.workers.items()} == {
            "plain": 0, "w": 600, "near": -59,
        }  # fmt: skip
        assert bench.engine.state.workers["plain"].pool == "default"
        await bench.stop()

    with caplog.at_level(logging.WARNING, "interlock.links"):
        on_virtual_time(body)
    assert caplog.messages == ["the clock of worker w is 10 min ahead of the scheduler's; set it right"]
