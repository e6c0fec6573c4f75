"""What may go wrong with attempts in an executor process, occurrences among them: each was found by trying."""

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

from interlock.model.work import FunctionWork
from interlock.wire import message as m
from tests.helpers.places import lines_of, tell_to_go, until
from tests.helpers.played import OF_JOBS, dispatch, ends, told, worker_of
from tests.helpers.processes import wait_until
from tests.helpers.script import Script
from tests.process.stage import executing


def timed(folder: Path, name: str, hold: float, **arguments: Any) -> m.Dispatch:
    payload = msgspec.json.encode({"folder": str(folder), "name": name, **arguments})
    return replace(dispatch(name, "timed.thread", folder), payload=payload, hold=hold)


def over(script: Script, name: str) -> bool:
    return not {"Finished", "Lost", "Returned"}.isdisjoint(script.of(name))


@pytest.mark.behaviour("EXE-1", "RET-5")
async def test_ends_that_the_host_has_not_read_outlive_their_process(folder: Path) -> None:
    """Not even a write to the dead process, before what it sent is read, loses them."""
    work = FunctionWork(function="tests.helpers.jobs:hold")
    async with executing() as stage:
        runs = {name: stage.begin(work, {"folder": str(folder), "name": name}) for name in ("a", "b", "c")}
        for name, run_id in runs.items():
            await stage.started(run_id)
            await until(lambda name=name: lines_of(folder / f"{name}.started"), "it runs")  # type: ignore[misc] # the default binds the name
        process = int(lines_of(folder / "a.started")[0].split()[1])
        # From here on the host reads nothing until the process is dead.
        for name in ("a", "b"):
            tell_to_go(folder, name)
            wait_until(lambda name=name: lines_of(folder / f"{name}.ended"), "it ends, those before it are sent")  # type: ignore[misc] # as above
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not lives(str(process)), "the process is dead")
        stage.ask(runs["c"])
        assert isinstance(await stage.end(runs["a"]), m.Finished)
        assert isinstance(await stage.end(runs["c"]), m.Lost)


@pytest.mark.behaviour("RUN-18")
@pytest.mark.parametrize("hold", [0.0, 0.05])
async def test_however_short_an_attempt_is_its_report_says_how_long_it_took(folder: Path, hold: float) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        for kind in ("async", "thread"):
            script.say(replace(dispatch(kind, f"naps.{kind}", folder), hold=hold, payload=b"{}"))
            await told(script, "Finished", kind)
            assert 0.002 <= ends(script, kind)[0].took < 10


@pytest.mark.behaviour("RUN-11")
async def test_nothing_that_was_to_stop_is_begun_where_no_grace_is_given(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        names = [f"stopped {number}" for number in range(10)]
        for name in names:
            script.say(replace(timed(folder, name, 0.1), grace=0.0), m.Stop(name, 1, "cancel"))
            await until(partial(over, script, name), "it is over")
            script.say(m.Settled(name, 1))
        script.say(timed(folder, "after", 0.2))
        await told(script, "Finished", "after")
        assert [name for name in names if (folder / f"{name}.thread").exists()] == []


@pytest.mark.parametrize("job_id", ["timed.thread", "timed.async"])
async def test_a_copy_of_the_process_that_a_handler_makes_begins_nothing_and_ends(folder: Path, job_id: str) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        names = [f"next {number}" for number in range(8)]
        following = [timed(folder, name, 0.1 + 0.02 * place) for place, name in enumerate(names, start=1)]
        script.say(replace(timed(folder, "forks", 0.1, then="fork"), job_id=job_id), *following)
        await told(script, "Finished", "forks", *names)
        copies = lines_of(folder / "forks.copy")
        assert copies
        await until(lambda: not any(map(lives, copies)), "it is gone")
        assert {len(lines_of(folder / f"{name}.thread")) for name in names} == {1}, "each is begun once"


async def test_a_copy_of_a_copy_has_what_the_copy_has_opened(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(dispatch("forks", "forks.twice", folder))
        await until(lambda: lines_of(folder / "forks.open"), "it has looked")
        assert lines_of(folder / "forks.open") == ["30"]


@pytest.mark.behaviour("RUN-8")
async def test_what_no_process_can_be_started_for_is_given_back(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, worker, _):
        descriptors = Path(f"/proc/{worker.pid}/fd")
        before = len(os.listdir(descriptors))
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (before, 4096))
        names = ["first", "second"]
        script.say(*(replace(dispatch(name, "echo.process", folder), isolated=True, payload=b"{}") for name in names))
        await told(script, "Returned", *names)
        assert len(os.listdir(descriptors)) == before
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        again = replace(dispatch("first", "echo.process", folder), fence=2, isolated=True, payload=b"{}")
        script.say(*(m.Settled(name, 1) for name in names), again)
        await told(script, "Finished", "first")


def lives(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.behaviour("RUN-17")
async def test_one_that_waited_for_the_loop_began_when_the_loop_had_time(folder: Path) -> None:
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


async def test_secrets_of_a_function_that_was_loaded_meanwhile_are_not_shown(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        work = FunctionWork(function="tests.helpers.jobs:tells_its_secret")
        for name, hold in (("first", 0.05), ("second", 1.0)):
            given = replace(dispatch(name, "named", folder), payload=b'{"value": "hunter2-xyzzy"}', hold=hold)
            script.say(replace(given, work=work))
        await told(script, "Finished", "first", "second")
        said = [one.text for one in script.heard if isinstance(one, m.LogMessage)]
        assert len(said) >= 2
        assert not any("hunter2" in text for text in said)


@pytest.mark.behaviour("RUN-20")
async def test_the_end_of_one_that_has_told_of_its_start_by_what_it_logs_is_told_as_well(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        tell_to_go(folder, "logs")
        script.say(replace(dispatch("logs", "records", folder), hold=0.05))
        await told(script, "Progress", "logs")
        before = len(script.heard)
        await until(lambda: len(script.beats(before)) >= 3, "nobody looks for its end any more")
        tell_to_go(folder, "logs-more")
        await told(script, "Finished", "logs")
        assert script.of("logs")[:2] == ["Started", "LogMessage"]
