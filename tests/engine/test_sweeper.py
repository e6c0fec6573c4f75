"""Sweeps beside the loop: when they happen, how much they read, and that work under way does not look lost."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from interlock.engine.sweeper import Sweeper
from interlock.model.run import RunFilter
from interlock.ports.store import RunRows
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, running, until

pytestmark = pytest.mark.behaviour("REC-1")

EVERY = 30.0


class ReadStore(SlowStore):
    """Counts the pages that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[tuple[float, int]] = []
        """time, and number of runs"""

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        assert wanted.only_live
        page = await super().runs(wanted, before, limit)
        self.pages.append((asyncio.get_running_loop().time(), len(page.runs)))
        return page


def with_sweeps(
    body: Callable[[Bench, ReadStore], Coroutine[Any, Any, None]],
    make: type[ReadStore] = ReadStore,
    every: float = EVERY,
) -> None:
    async def whole() -> None:
        store = make()
        bench = Bench(store)
        await bench.start()
        await until(lambda: bench.engine.present.is_settled)
        sweeps = asyncio.ensure_future(Sweeper(bench.engine.present, store, every).run())
        await body(bench, store)
        sweeps.cancel()
        await bench.stop()

    on_virtual_time(whole)


def value(bench: Bench, name: str) -> dict[str, float]:
    families = bench.engine.metrics.families(available=True, position=0)
    samples = next(one.samples for one in families if one.name == f"interlock_{name}")
    return {next(iter(labels.values())): value for _, labels, value in samples}


@pytest.mark.behaviour("REC-2", "REC-3", "OBS-1")
def test_a_lost_run_is_found_within_a_period_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        bench.submit()
        await until(lambda: len(bench.client.of(r.Accepted)) == 1)
        (run_id,) = bench.client.of(r.Accepted)[0].run_ids
        del bench.engine.state.runs[run_id]
        await until(lambda: run_id in bench.engine.state.runs, EVERY + 2.0)
        await pass_time(3 * EVERY)
        assert value(bench, "stale_runs_total") == {"scheduled": 1.0}
        assert value(bench, "orphan_replayed_total") == {"job": 1.0}
        worker = bench.worker("w")
        await until(lambda: len(worker.of(m.Dispatch)) == 1)

    with caplog.at_level(logging.WARNING, "interlock.runs"):
        with_sweeps(body)
    assert [one.getMessage().split("(")[1] for one in caplog.records] == [
        "scheduled, unknown to the scheduler); it was put back"
    ]


def test_a_sweep_begins_at_the_start_and_every_30_seconds() -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        await until(lambda: len(store.pages) == 4, 91.0)
        first = store.pages[0][0]
        assert [at - first for at, _ in store.pages] == pytest.approx([0, 30, 60, 90])

    with_sweeps(body)


class EndlessStore(ReadStore):
    """Has another page after every page."""

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        assert limit == 200
        self.pages.append((asyncio.get_running_loop().time(), before or 0))
        return RunRows([], (before or 0) + 1)


def test_a_sweep_reads_100_pages_of_200_runs_and_the_next_one_continues() -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        await until(lambda: len(store.pages) == 300, 70.0)
        assert [number for _, number in store.pages] == list(range(300))
        times = [at for at, _ in store.pages]
        pauses = [number for number in range(1, 300) if times[number] - times[number - 1] > 10]
        assert pauses == [100, 200]

    with_sweeps(body, EndlessStore)


def test_runs_whose_end_is_being_stored_are_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        worker = bench.worker("w")
        run = await running(bench, worker)
        await pass_time(EVERY - 0.3 - asyncio.get_running_loop().time())
        store.takes = 0.5
        worker.say(m.Finished(run.run_id, run.fence, "succeeded", result=b"1"))
        await until(lambda: len(store.pages) == 2)
        assert not bench.engine.state.runs, "only the store has it, which does not know yet that it has ended"
        assert store.pages[-1][1] == 1
        commits = len(store.commits)
        await pass_time(3.0)
        tallied = sum(("memo", "tallied") in batch.records for batch in store.commits[commits:])
        assert len(store.commits) == commits + 1 + tallied
        assert value(bench, "stale_runs_total") == {}

    with_sweeps(body)
    assert "missed" not in caplog.text


@pytest.mark.behaviour("REC-3")
def test_a_scheduler_without_its_lease_does_not_sweep() -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        await until(lambda: len(store.pages) == 1)
        store.failing = True
        bench.submit()
        await until(lambda: not bench.engine.present.available)
        await pass_time(3 * EVERY)
        assert len(store.pages) == 1
        store.failing = False
        await until(lambda: len(store.pages) == 2, EVERY + 2.0)

    with_sweeps(body)


def test_the_interval_of_sweeps_is_a_setting() -> None:
    async def body(bench: Bench, store: ReadStore) -> None:
        await pass_time(11.0)
        assert [at // 1 for at, _ in store.pages] == [0, 5, 10]

    with_sweeps(body, every=5.0)
