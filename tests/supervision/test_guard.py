"""The guard: nothing of a child outlives it, and nothing of the children outlives the supervisor."""

import asyncio
import os
import resource
import signal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
import uvloop

from interlock.supervision.guard_client import Ended, NotSpawned, Spawned
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, children_of, descriptors, processes_of
from tests.supervision.conftest import Run, each_loop
from tests.supervision.programs import (
    KIN,
    SLEEP,
    descent,
    gone,
    guarded,
    kin_of,
    spawn,
    with_parent,
)

__all__ = ["folder"]


# ── how a process ends ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_exit_codes_and_signals_are_reported() -> None:
    async with guarded() as guard:
        for code in (0, 3, 255):
            process = await spawn(guard, "sh", "-c", f"exit {code}")
            assert await process.exit == Ended(code=code)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN):
            process = await spawn(guard, *SLEEP)
            guard.signal(process, number)
            assert await process.exit == Ended(signal=number)
            guard.signal(process, number)


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_everything_that_a_child_started_is_gone_when_its_end_is_reported(folder: Path) -> None:
    async with guarded() as guard:
        for how in ("0", "7", "killed", "terminated"):
            (folder / how).mkdir()
            process = await spawn(guard, *descent(folder / how, how if how.isdigit() else ""))
            pids = await kin_of(folder / how, *KIN)
            if how == "killed":
                os.kill(process.pid, signal.SIGKILL)
            elif how == "terminated":
                guard.signal(process, signal.SIGTERM)
            ended = await process.exit
            assert gone(*pids)
            assert children_of(guard.pid or 0) == []
            assert ended.code == (int(how) if how.isdigit() else None)


@each_loop
async def test_what_two_children_left_is_told_apart(folder: Path) -> None:
    for name in ("one", "other"):
        (folder / name).mkdir()
    async with guarded() as guard:
        one = await spawn(guard, *descent(folder / "one"))
        other = await spawn(guard, *descent(folder / "other"))
        first, second = await kin_of(folder / "one", *KIN), await kin_of(folder / "other", *KIN)
        guard.signal(one, signal.SIGKILL)
        await one.exit
        assert gone(*first)
        assert all(map(alive, second))
        assert alive(other.pid)


@each_loop
async def test_orphans_that_die_by_themselves_are_reaped() -> None:
    async with guarded() as guard:
        process = await spawn(guard, "sh", "-c", "for n in 1 2 3 4 5; do (sleep 0.01 &) ; done; exec sleep 1000")
        await until(lambda: with_parent(guard.pid) == [process.pid], "there is no zombie")
        assert not process.exit.done()


@each_loop
async def test_what_cannot_be_told_whose_it_is_ends_with_the_guard(folder: Path) -> None:
    async with guarded() as guard:
        # Without another one it could be told.
        await spawn(guard, *SLEEP)
        process = await spawn(guard, *descent(folder, "nameless"))
        nameless = await kin_of(folder, "nameless", "nameless-child")
        pids = await kin_of(folder)
        guard.signal(process, signal.SIGKILL)
        await process.exit
        assert gone(*pids)
        assert all(map(alive, nameless))
    assert gone(*nameless)


# ── how the guard ends ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10", "SUP-12")
@each_loop
async def test_when_the_guard_is_killed_nothing_is_left_and_a_new_one_starts(folder: Path) -> None:
    for name in ("one", "other"):
        (folder / name).mkdir()
    async with guarded() as guard:
        one = await spawn(guard, *descent(folder / "one"))
        other = await spawn(guard, *descent(folder / "other"), outlives=True)
        pids = await kin_of(folder / "one") + await kin_of(folder / "other")
        before = guard.pid or 0
        os.kill(before, signal.SIGKILL)
        await until(lambda: guard.pid is None, "the loss is noticed")
        again = await spawn(guard, *SLEEP)
        for process in (one, other):
            assert await process.exit == Ended(error="the guard process was killed by signal 9")
        assert gone(before, *pids)
        assert guard.pid != before
        assert alive(again.pid)
        assert not again.exit.done()


@pytest.mark.behaviour("SUP-10")
def test_when_the_guard_is_killed_no_process_sees_the_end_of_one_it_had_started(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            # The pids of parents and their children come in no order.
            begin = f"while [ ! -e {folder}/go ]; do sleep 0.01; done; sleep 1000 & : > {folder}/$$.begun"
            command = ("sh", "-c", f"{begin}; wait; : > {folder}/$$.noticed")
            processes = [await spawn(guard, *command, outlives=True) for _ in range(40)]
            (folder / "go").touch()
            await until(lambda: len(list(folder.glob("*.begun"))) == len(processes), "all have begun")
            os.kill(guard.pid or 0, signal.SIGKILL)
            for process in processes:
                assert await process.exit == Ended(error="the guard process was killed by signal 9")

    run(main())
    assert list(folder.glob("*.noticed")) == []


@each_loop
async def test_a_guard_that_is_killed_while_it_starts_children_leaves_none(folder: Path) -> None:
    async with guarded() as guard:
        guard.open()
        command = ("sh", "-c", "sleep 1000; :", str(folder))
        spawning = [asyncio.ensure_future(spawn(guard, *command, outlives=True)) for _ in range(20)]
        # Some are there, and others are not.
        await asyncio.wait(spawning, return_when=asyncio.FIRST_COMPLETED)
        os.kill(guard.pid or 0, signal.SIGKILL)
        born = await asyncio.gather(*spawning, return_exceptions=True)
        failures = [one for one in born if isinstance(one, NotSpawned)]
        processes = [one for one in born if isinstance(one, Spawned)]
        assert len(failures) + len(processes) == 20
        assert {one.stage for one in failures} <= {"guard"}
        for process in processes:
            assert await process.exit == Ended(error="the guard process was killed by signal 9")
        assert not processes_of(folder)


@each_loop
async def test_only_the_supervisor_can_end_the_guard() -> None:
    async with guarded() as guard:
        process = await spawn(guard, *SLEEP)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            os.kill(guard.pid or 0, number)
        assert os.getsid(guard.pid or 0) == guard.pid
        second = await spawn(guard, "true")
        assert await second.exit == Ended(code=0)
        assert not process.exit.done()


@pytest.mark.behaviour("SUP-12")
@each_loop
async def test_a_report_of_a_process_that_nobody_has_any_more_is_ignored() -> None:
    async with guarded() as guard:
        old = await spawn(guard, "true")
        assert await old.exit == Ended(code=0)
        process = await spawn(guard, *SLEEP)
        for report in (("exited", old.number, 1, None), ("spawned", 999, 1), ("failed", 999, "command", 2)):
            guard.heard(report)
        assert old.exit.result() == Ended(code=0)
        assert not process.exit.done()


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_two_hundred_children_leave_nothing() -> None:
    async with guarded() as guard:
        guard.open()
        first = await spawn(guard, "true")
        await first.exit
        here, there = descriptors(), len(descriptors(guard.pid or 0))
        processes = await asyncio.gather(*(spawn(guard, *SLEEP) for _ in range(200)))
        assert len({process.pid for process in processes}) == 200
        assert len(children_of(guard.pid or 0)) == 200
        assert (descriptors() <= here, len(descriptors(guard.pid or 0))) == (True, there)
        for process in processes[:100]:
            guard.signal(process, signal.SIGTERM)
        for process in processes[100:]:
            os.kill(process.pid, signal.SIGKILL)
        ends = await asyncio.gather(*(process.exit for process in processes))
        assert ends == [Ended(signal=signal.SIGTERM)] * 100 + [Ended(signal=signal.SIGKILL)] * 100
        assert with_parent(guard.pid) == []
        assert (descriptors() <= here, len(descriptors(guard.pid or 0))) == (True, there)


@each_loop
async def test_more_are_started_at_once_than_there_are_descriptors() -> None:
    async with guarded() as guard:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
        try:
            with TemporaryFile() as file:
                options: dict[str, Any] = {"descriptors": {1: file.fileno(), 2: file.fileno()}}
                processes = await asyncio.gather(*(spawn(guard, "true", **options) for _ in range(150)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert await asyncio.gather(*(process.exit for process in processes)) == [Ended(code=0)] * 150


def test_a_thousand_starts_leave_no_descriptor_in_the_guard(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            first = await spawn(guard, "true")
            await first.exit
            before = len(descriptors(guard.pid or 0))
            with (folder / "output").open("wb") as output:
                options: dict[str, Any] = {"descriptors": dict.fromkeys((1, 2, 9), output.fileno())}
                for _ in range(20):
                    some = await asyncio.gather(*(spawn(guard, "echo", **options) for _ in range(45)))
                    wrong = [spawn(guard, "nosuch", **options) for _ in range(5)]
                    failures = await asyncio.gather(*wrong, return_exceptions=True)
                    assert all(isinstance(one, NotSpawned) for one in failures)
                    assert await asyncio.gather(*(one.exit for one in some)) == [Ended(code=0)] * 45
            assert len(descriptors(guard.pid or 0)) == before
            assert (folder / "output").read_bytes() == b"\n" * 900

    uvloop.run(asyncio.wait_for(main(), 60))
