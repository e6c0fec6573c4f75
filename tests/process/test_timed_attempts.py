"""What may go wrong with attempts that wait for their time in an executor process: each was found by trying."""

import itertools
import os
import resource
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.model import message as m
from interlock.model.outcome import Outcome
from interlock.model.work import FunctionWork
from tests.helpers.places import lines_of, run_async, tell_to_go, until
from tests.helpers.played import OF_JOBS, dispatch, ends, told, worker_of
from tests.helpers.script import Script

NUMBERS = itertools.count()


def timed(folder: Path, name: str, hold: float, **arguments: Any) -> m.Dispatch:
    payload = msgspec.json.encode({"folder": str(folder), "name": name, **arguments})
    return replace(dispatch(name, "timed.thread", folder), payload=payload, hold=hold)


def threads_of(folder: Path, names: list[str]) -> list[str]:
    """In which thread each was begun; once, or this fails."""
    notes = [lines_of(folder / f"{name}.thread") for name in names]
    assert {len(lines) for lines in notes} == {1}
    return [lines[0] for lines in notes]


async def be_quick(script: Script, folder: Path) -> None:
    """Run it until it is known to be so."""
    while True:
        names = [f"warm {next(NUMBERS)}" for _ in range(3)]
        script.say(*(timed(folder, name, 0.01 * place) for place, name in enumerate(names, start=1)))
        await told(script, "Finished", *names)
        script.say(*(m.Settled(name, 1) for name in names))
        if threads_of(folder, names)[-1] == "timed":
            return


def over(script: Script, name: str) -> bool:
    return not {"Finished", "Lost", "Returned"}.isdisjoint(script.of(name))


@pytest.mark.behaviour("EXE-1")
def test_ends_that_nobody_was_told_of_yet_outlive_their_process(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            done: list[str] = []
            for number in itertools.count():
                await be_quick(script, folder)
                names = [f"over {number} {place}" for place in range(6)]
                quick = [timed(folder, name, 0.1 + 0.005 * place) for place, name in enumerate(names)]
                script.say(*quick, timed(folder, f"crash {number}", 0.13, then="crash"))
                await told(script, "Lost", f"crash {number}")
                # What had its turn in the thread that began the crash is over.
                threads = zip(names, threads_of(folder, names), strict=True)
                done.extend(name for name, thread in threads if thread == "timed")
                if done:
                    break
            await told(script, "Finished", *done)
            assert all("Lost" not in script.of(name) for name in done)

    run_async(body())


@pytest.mark.behaviour("RUN-11")
def test_what_was_to_stop_is_not_begun_though_its_process_dies_before_it_hears(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            script.say(timed(folder, "where", 0.01, then="tell"))
            await told(script, "Finished", "where")
            (process,) = lines_of(folder / "where.process")
            os.kill(int(process), signal.SIGSTOP)
            before = len(script.heard)
            script.say(replace(timed(folder, "held", 2.0), grace=20.0))
            await until(lambda: any("held" in beat for beat in script.beats(before)), "its process has it")
            script.say(m.Stop("held", 1, "cancel"), timed(folder, "mark", 2.0))
            await until(lambda: any("mark" in beat for beat in script.beats(before)), "the stop was heard before that")
            os.kill(int(process), signal.SIGKILL)
            await told(script, "Finished", "held")
            assert ends(script, "held")[0].outcome == Outcome.CANCELLED
            script.say(m.Settled("held", 1), timed(folder, "after", 2.0))
            await told(script, "Finished", "after")
            assert not (folder / "held.thread").exists()

    run_async(body())


@pytest.mark.behaviour("RUN-11")
def test_nothing_that_was_to_stop_is_begun_where_no_grace_is_given(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            names = [f"stopped {number}" for number in range(10)]
            for name in names:
                script.say(replace(timed(folder, name, 0.1), grace=0.0), m.Stop(name, 1, "cancel"))
                await until(partial(over, script, name), "it is over")
                script.say(m.Settled(name, 1))
            script.say(timed(folder, "after", 0.2))
            await told(script, "Finished", "after")
            assert [name for name in names if (folder / f"{name}.thread").exists()] == []

    run_async(body())


@pytest.mark.parametrize("job_id", ["timed.thread", "timed.async"])
def test_a_copy_of_the_process_that_a_handler_makes_begins_nothing_and_ends(folder: Path, job_id: str) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            await be_quick(script, folder)
            names = [f"next {number}" for number in range(8)]
            following = [timed(folder, name, 0.1 + 0.02 * place) for place, name in enumerate(names, start=1)]
            script.say(replace(timed(folder, "forks", 0.1, then="fork"), job_id=job_id), *following)
            await told(script, "Finished", "forks", *names)
            copies = lines_of(folder / "forks.copy")
            assert copies
            await until(lambda: not any(map(lives, copies)), "it is gone")
            threads_of(folder, names)

    run_async(body())


def test_a_copy_of_a_copy_has_what_the_copy_has_opened(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            script.say(dispatch("forks", "forks.twice", folder))
            await until(lambda: lines_of(folder / "forks.open"), "it has looked")
            assert lines_of(folder / "forks.open") == ["30"]

    run_async(body())


@pytest.mark.behaviour("RUN-8")
def test_what_no_process_can_be_started_for_is_given_back(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, worker, _):
            descriptors = Path(f"/proc/{worker.pid}/fd")
            before = len(os.listdir(descriptors))
            resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (before, 4096))
            names = ["first", "second"]
            script.say(
                *(replace(dispatch(name, "echo.process", folder), isolated=True, payload=b"{}") for name in names)
            )
            await told(script, "Returned", *names)
            assert len(os.listdir(descriptors)) == before
            resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (4096, 4096))
            again = replace(dispatch("first", "echo.process", folder), fence=2, isolated=True, payload=b"{}")
            script.say(*(m.Settled(name, 1) for name in names), again)
            await told(script, "Finished", "first")

    run_async(body())


def lives(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.behaviour("TIM-2")
def test_many_that_were_always_quick_and_hang_take_the_thread_that_waits_but_once(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            await be_quick(script, folder)
            names = [f"hangs {number}" for number in range(30)]
            script.say(*(timed(folder, name, 0.1, then="wait") for name in names), timed(folder, "other", 0.1))
            await told(script, "Finished", "other")
            await told(script, "Started", *names)
            assert threads_of(folder, names).count("timed") <= 1
            for name in names:
                tell_to_go(folder, name)
            await told(script, "Finished", *names)

    run_async(body())


@pytest.mark.behaviour("RUN-17")
def test_one_that_waited_for_the_loop_began_when_the_loop_had_time(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            script.say(dispatch("blocks", "block.loop", folder))
            await until(lambda: lines_of(folder / "blocks.started"), "the loop is blocked")
            script.say(replace(dispatch("waits", "count", folder), hold=0.05))
            before = len(script.heard)
            await until(lambda: len(script.beats(before)) >= 4, "its time is long past")
            free = time.monotonic()
            tell_to_go(folder, "blocks")
            await until(lambda: ends(script, "waits"), "it has run")
            end = ends(script, "waits")[0]
            assert time.monotonic() - end.ago - end.took > free

    run_async(body())


def test_secrets_of_a_function_that_was_loaded_meanwhile_are_not_shown(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            work = FunctionWork(function="tests.helpers.jobs:tells_its_secret")
            for name, hold in (("first", 0.05), ("second", 1.0)):
                given = replace(dispatch(name, "named", folder), payload=b'{"value": "hunter2-xyzzy"}', hold=hold)
                script.say(replace(given, work=work))
            await told(script, "Finished", "first", "second")
            said = [one.text for one in script.heard if isinstance(one, m.LogLine)]
            assert len(said) >= 2
            assert not any("hunter2" in text for text in said)

    run_async(body())


@pytest.mark.behaviour("RUN-20")
def test_the_end_of_one_that_has_told_of_its_start_by_what_it_logs_is_told_as_well(folder: Path) -> None:
    async def body() -> None:
        async with worker_of(folder, *OF_JOBS) as (script, _, _):
            tell_to_go(folder, "logs")
            script.say(replace(dispatch("logs", "records", folder), hold=0.05))
            await told(script, "Progress", "logs")
            before = len(script.heard)
            await until(lambda: len(script.beats(before)) >= 3, "nobody looks for its end any more")
            tell_to_go(folder, "logs-more")
            await told(script, "Finished", "logs")
            assert script.of("logs")[:2] == ["Started", "LogLine"]

    run_async(body())
