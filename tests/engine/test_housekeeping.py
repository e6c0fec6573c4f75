"""Pruning beside the work: what is kept, that it keeps up with the runs that end, and what it says if it does not."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from interlock.core.decisions import Batch, KeyChanges
from interlock.engine.housekeeping import BEHIND, EVERY, LOOK, MANY_ENDED, SAID_AGAIN, STAY, Housekeeping, Keep
from interlock.engine.metrics import Metrics
from interlock.model.letter import DeadLetter, LetterCode
from interlock.model.run import SCHEDULE, Now
from interlock.model.state import State
from interlock.ports.clock import Clock
from interlock.ports.store import HURRIED, MOST_PRUNED
from interlock.stores.memory import MemoryStore
from soak.simulation.loop import VirtualLoop
from tests.contract.samples import created, make_run
from tests.core.machine import at_once
from tests.helpers.records import changes

WALL = 1_000_000.0


class Stage(Clock):
    """A store, runs that end, and a clock that is moved by hand or by the loop."""

    def __init__(self, keep: Keep) -> None:
        self.store = MemoryStore()
        lease = at_once(self.store.take("main", "stage", "token", 0.0))
        self.metrics = Metrics()
        self.elapsed = 0.0
        self.house = Housekeeping(self.store, lambda: lease, keep, self.metrics, self)
        self._numbers = iter(range(10**9))

    def now(self) -> Now:
        try:
            elapsed = asyncio.get_running_loop().time()
        except RuntimeError:
            elapsed = self.elapsed
        return Now(WALL + elapsed, elapsed)

    def end(self, count: int, counted: bool = True, **fields: Any) -> None:
        at = self.now().wall
        times = {"created_at": at, "ended_at": at, "state": State.SUCCEEDED}
        runs = [make_run(f"r{next(self._numbers)}", **(times | fields)) for _ in range(count)]
        self.store.apply(created(*runs))
        if counted:
            self.metrics.ended_total += count

    def once(self) -> bool:
        return _result(self.house.once())

    def value(self, name: str) -> float:
        families = self.metrics.families(available=True, position=0)
        return next(one.samples[0][2] for one in families if one.name == f"interlock_{name}")


def _result(work: Coroutine[Any, Any, bool]) -> bool:
    try:
        work.send(None)
    except StopIteration as done:
        return bool(done.value)
    raise AssertionError("it waits for something")


@pytest.mark.behaviour("TIM-16", "RUN-6")
def test_each_limit_is_kept() -> None:
    stage = Stage(Keep(keep_runs=4, keep_runs_total=5, keep_for=100.0, keep_keys=50.0))
    stage.end(3, job_id="old", ended_at=WALL - 101)
    stage.end(6, job_id="many")
    stage.end(3, job_id="few")
    stage.store.apply(Batch(keys=KeyChanges([("default", f"k{at}", f"x{at}", b"d", WALL - at) for at in (60, 50, 40)])))
    assert stage.once() is False
    left = [run.job_id for run in stage.store.runs_by_id.values()]
    assert left == ["many", "many", "few", "few", "few"]
    assert [key for _, key in stage.store.keys] == ["k50", "k40"]
    assert stage.value("runs_pruned_total") == 7


@pytest.mark.behaviour("REC-4")
@pytest.mark.parametrize(("kept", "left"), [(0.0, 3), (100.0, 2), (99.0, 1)])
def test_old_letters_go_and_their_runs_with_them(kept: float, left: int) -> None:
    stage = Stage(Keep(keep_for=1.0, keep_dead_letters=kept))
    stage.end(4, ended_at=WALL - 200)
    *ids, _ = stage.store.runs_by_id
    ages = zip(ids, (101.0, 100.0, 1.0), strict=True)
    letters = [DeadLetter(run_id, WALL - age, LetterCode.FAILED, "no") for run_id, age in ages]
    stage.store.apply(Batch(records=changes(*letters)))
    stage.once()
    assert len(stage.store.all_of(DeadLetter)) == left
    assert [run_id for run_id in ids if run_id in stage.store.runs_by_id] == ids[3 - left :]


@pytest.mark.behaviour("TIM-16", "RUN-5")
def test_what_a_schedule_created_stays_as_long_as_a_clock_may_be_set_back() -> None:
    stage = Stage(Keep(keep_runs=1))
    stage.end(3, origin=SCHEDULE, created_at=WALL - STAY - 1)
    stage.end(3, origin=SCHEDULE, created_at=WALL - STAY)
    stage.end(1)
    stage.once()
    assert len(stage.store.runs_by_id) == 4


@pytest.mark.behaviour("TIM-16")
def test_a_surplus_goes_gently_and_faster_when_more_runs_end_than_are_pruned() -> None:
    stage = Stage(Keep(keep_runs=1))
    stage.end(4 * MOST_PRUNED, counted=False)
    assert stage.once() is True
    assert not stage.house.falls_behind, "it had that to do when it began"
    stage.end(MOST_PRUNED)
    assert not stage.house.falls_behind
    stage.end(1)
    assert stage.house.falls_behind
    stage.end(2 * HURRIED * MOST_PRUNED)
    before = stage.value("runs_pruned_total")
    assert stage.once() is True
    assert stage.value("runs_pruned_total") == before + HURRIED * MOST_PRUNED
    while stage.once():
        assert stage.house.falls_behind
    assert (len(stage.store.runs_by_id), stage.house.falls_behind) == (1, False)


@pytest.mark.behaviour("TIM-16")
def test_pruning_that_does_not_keep_up_says_so(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(Keep(keep_runs=1))
    stage.end(3 * MOST_PRUNED, counted=False)
    said = []
    with caplog.at_level(logging.WARNING, "interlock"):
        for stage.elapsed in (0.0, BEHIND - 1, BEHIND, BEHIND + 5, BEHIND + SAID_AGAIN):
            stage.end(HURRIED * MOST_PRUNED)
            assert stage.once() is True
            assert stage.value("pruning_behind_seconds") == stage.elapsed
            said.append(len(caplog.records))
    assert said == [0, 0, 1, 1, 2]
    assert "pruning has been behind for 60s: 40000 runs ended" in caplog.messages[0]
    assert all(name in caplog.messages[0] for name in ("keep_runs", "keep_runs_total", "keep_for"))
    while stage.once():
        pass
    assert stage.value("pruning_behind_seconds") == 0


def test_it_looks_now_and_then_and_sooner_when_many_runs_have_ended() -> None:
    stage = Stage(Keep(keep_runs=1))
    loop = VirtualLoop()
    left: list[int] = []

    async def live() -> None:
        running = loop.create_task(stage.house.run())
        await asyncio.sleep(0.5)
        for seconds, ended in ((EVERY - 1, MANY_ENDED - 1), (EVERY / 2, 0), (2 * LOOK, MANY_ENDED)):
            stage.end(ended)
            await asyncio.sleep(seconds)
            left.append(len(stage.store.runs_by_id))
        running.cancel()

    loop.run_until_complete(live())
    loop.close()
    assert left == [MANY_ENDED - 1, 1, 1]
