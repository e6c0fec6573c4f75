"""A scheduler inside the program: its services, and workers that die too often."""

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from interlock.config import Settings
from interlock.config.sources import Loaded, load
from interlock.error import BadConfig, WrongStatus
from interlock.model.child_info import ChildInfo, ServiceAction, Status
from interlock.model.reload_report import Difference, Reloaded
from interlock.model.run import RunFilter
from interlock.ports.store import RunRows
from interlock.stores.memory import MemoryStore
from interlock.supervision import Budget, Group, Process
from interlock.wiring.scheduler import Scheduler
from tests.helpers.places import lines_of, run_async, until
from tests.helpers.processes import alive, processes_of
from tests.helpers.scanning_jobs import app as scanning
from tests.services.apps import app


@pytest.mark.behaviour("SUP-7", "SUP-10")
async def test_a_service_of_the_app_lives_as_long_as_the_block(folder: Path) -> None:
    async with app.running(str(folder / "interlock.db")):
        await until(lambda: lines_of(folder / "notes"), "it runs")
        _, _, pid, _, value = lines_of(folder / "notes")[-1].split()
        assert value == "5"
        assert alive(int(pid))
    assert not alive(int(pid))
    assert processes_of(folder) == []
    assert lines_of(folder / "notes")[-1] == "ticker term"


@pytest.mark.behaviour("TIM-12")
async def test_schedules_of_the_app_and_of_files_hold_inside_a_program(folder: Path) -> None:
    document = "kind: Job\nid: file\nschedule: {once: true}\nrun: {shell: echo 9 >> ticks}\ncwd: .\n"
    (folder / "a.yaml").write_text(document)
    async with app.running(str(folder / "interlock.db"), files=[str(folder / "a.yaml")]):
        await until(lambda: sorted(lines_of(folder / "ticks")) == ["7", "9"], "both have run")
    # Once is once, whoever starts it again.
    async with app.running(str(folder / "interlock.db")):
        assert await (await app.submit("echo", {"value": 1})).result(30) == 1
    assert len(lines_of(folder / "ticks")) == 2


def test_the_policy_of_its_files_finds_the_scanners_of_the_app(folder: Path) -> None:
    (folder / "a.yaml").write_text(
        "kind: Policy\nid: a\noutput: {scanners: [{scanner: python, name: names}, {scanner: python, name: name}]}\n"
    )

    async def body() -> None:
        async with scanning.running(":memory:", files=[str(folder / "a.yaml")]):
            pytest.fail("it has started")

    with pytest.raises(BadConfig) as caught:
        run_async(body())
    assert str(caught.value).endswith(
        "a.yaml:3: output.scanners[1].name: the app has no scanner 'name'; did you mean 'names'?; "
        "declare it with @app.scanner"
    )


@pytest.mark.behaviour("SUP-5")
def test_a_worker_that_dies_too_often_is_given_up_and_the_others_go_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(database=str(folder / "interlock.db"), http="off", workers=2)
    scheduler = Scheduler(
        app.definitions, app.target(), settings, worker_budget=Budget(max_restarts=2, max_duration=600.0)
    )

    def worker(name: str) -> ChildInfo:
        (found,) = [one for one in scheduler.workers if one.name == name]
        return found

    async def body() -> None:
        await scheduler.start()
        try:
            await until(lambda: len(scheduler.engine.present.peers.workers) == 2, "both workers have joined")
            other = worker("w2").pid
            for _ in range(3):
                await until(lambda: worker("w1").status is Status.RUNNING, "it runs")
                pid = worker("w1").pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid: not alive(pid), "it is gone")  # type: ignore[misc] # the default binds the process
                await until(lambda: worker("w1").status is not Status.RUNNING, "that is known")
            assert (worker("w1").status, worker("w1").exhausted) == (Status.FAILED, True)
            assert worker("w1").reason == "signal 9 (SIGKILL); restarted 2 times within 600s"
            assert (worker("w2").status, worker("w2").pid) == (Status.RUNNING, other)
            async with app.connected(str(settings.socket_path())):
                assert await (await app.submit("echo", {"value": 1})).result(30) == 1
            families = {one.name: one for one in scheduler.services.families()}
            given_up = families["interlock_service_exhausted"].samples
            assert [(labels["service"], value) for _, labels, value in given_up] == [
                ("workers/w1", 1),
                ("workers/w2", 0),
            ]
            # Somebody who knows better has it started again.
            assert (await scheduler.services.act("w1", ServiceAction.START, "test")).status is Status.RUNNING
        finally:
            await scheduler.stop()

    with caplog.at_level(logging.ERROR):
        run_async(body())
    assert any("workers/w1" in one and "restarted 2 times within 600s" in one for one in caplog.messages)


@pytest.mark.behaviour("SUP-6")
async def test_a_reload_that_comes_too_early_or_too_late(folder: Path) -> None:
    """Too early it waits for its turn; when everything is over it is refused."""
    declared = [Group(name="shop", children=[Process(name="one", command=["sleep", "1000"], cwd=str(folder))])]
    settings = Settings(database=str(folder / "interlock.db"), http="off")
    scheduler = Scheduler({}, None, settings, load=lambda: Loaded(children=declared))
    reload = asyncio.ensure_future(scheduler.services.reload("test"))
    await scheduler.start()
    try:
        assert await reload == Reloaded(jobs=Difference(), services=Difference(unchanged=["shop", "one"]))
        (shop,) = scheduler.tree.child("services").children
        assert [one.status for one in (shop, *shop.children)] == [Status.RUNNING, Status.RUNNING]
    finally:
        await scheduler.stop()
    with pytest.raises(WrongStatus):
        await scheduler.services.reload("test")


class CountingStore(MemoryStore):
    """Counts the pages of live runs that are read."""

    sweeps = 0

    async def runs(self, wanted: RunFilter, before: int | None, limit: int) -> RunRows:
        self.sweeps += wanted.only_live
        return await super().runs(wanted, before, limit)


@pytest.mark.behaviour("LIV-2", "REC-1")
async def test_missed_heartbeats_and_the_interval_of_sweeps_come_from_the_settings(folder: Path) -> None:
    usual = Settings(database=":memory:")
    assert (usual.missed_heartbeats, usual.sweep_interval) == (3, 30.0)
    options: dict[str, Any] = {"missed_heartbeats": 7, "heartbeat": "100ms", "sweep_interval": "100ms"}
    settings = Settings(database=str(folder / "interlock.db"), http="off", workers=0, **options)
    store = CountingStore()
    scheduler = Scheduler(app.definitions, app.target(), settings, store)
    await scheduler.start()
    try:
        await until(lambda: store.sweeps >= 3, "it sweeps every tenth of a second")
        assert scheduler.engine.state.limits.silence == pytest.approx(0.7)
    finally:
        await scheduler.stop()


@pytest.mark.behaviour("WFL-1")
async def test_a_workflow_with_only_inline_steps_gets_a_worker(folder: Path) -> None:
    document = "kind: Workflow\nid: inline\nsteps: [{id: a, run: {shell: 'true'}}]\n"
    (folder / "a.yaml").write_text(document)
    settings = Settings(database=str(folder / "interlock.db"), http="off", workers=1)
    scheduler = Scheduler({}, None, settings, load=lambda: load([str(folder / "a.yaml")]))
    await scheduler.start()
    try:
        await until(lambda: len(scheduler.engine.present.peers.workers) == 1, "its worker has joined")
    finally:
        await scheduler.stop()
