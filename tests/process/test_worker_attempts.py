"""A real worker that is given work ahead of its time: it begins when it is time, and not if it is to stop before."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.wire import message as m
from tests.helpers.places import lines_of, tell_to_go, until
from tests.helpers.played import OF_JOBS, dispatch, ends, worker_of


def moody(folder: Path, name: str, hold: float, **arguments: Any) -> m.Dispatch:
    payload = msgspec.json.encode({"folder": str(folder), "name": name, **arguments})
    return replace(dispatch(name, "moody.thread", folder), payload=payload, hold=hold)


@pytest.mark.behaviour("TIM-2")
async def test_what_comes_ahead_of_its_time_is_kept_until_then_and_can_be_stopped_before(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        begun = time.monotonic()
        for name, hold in (("last", 0.5), ("first", 0.2), ("stopped", 0.3)):
            script.say(replace(dispatch(name, "hold", folder), hold=hold))
        script.say(m.Stop("stopped", 1, "cancel"))
        await until(lambda: script.of("stopped"), "it is over before it has begun")
        await until(lambda: "Started" in script.of("first"), "the first begins")
        assert time.monotonic() - begun >= 0.2
        assert script.of("last") == []
        await until(lambda: "Started" in script.of("last"), "then the last")
        assert time.monotonic() - begun >= 0.5
        tell_to_go(folder, "first")
        tell_to_go(folder, "last")
        await until(lambda: "Finished" in script.of("first") and "Finished" in script.of("last"), "they end")
        assert set(script.of("stopped")) == {"Returned"}, "it is said again until it is settled"


async def test_of_what_is_soon_over_only_the_end_is_told_and_how_long_ago_it_is(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        quick = replace(dispatch("quick", "echo.thread", folder), payload=b'{"value": 1}', hold=0.05)
        script.say(quick, replace(dispatch("long", "hold", folder), hold=0.05))
        await until(lambda: len(ends(script, "quick")) >= 3, "it is told until it is settled")
        assert set(script.of("quick")) == {"Finished"}
        ages = [one.ago for one in ends(script, "quick")]
        assert ages == sorted(ages)
        assert ages[-1] - ages[0] > 0.02, "as time passes"
        await until(lambda: "Started" in script.of("long"), "of what goes on the start is told")
        tell_to_go(folder, "long")
        await until(lambda: ends(script, "long"), "and then the end")
        assert ends(script, "long")[0].took > 0


@pytest.mark.behaviour("TIM-2")
async def test_a_process_that_dies_before_their_time_loses_none_of_those_that_have_not_begun(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(moody(folder, "begun", 0.01, waits=True), moody(folder, "later", 1.5))
        await until(lambda: lines_of(folder / "begun.started"), "one has begun")
        begun = time.monotonic()
        (pid,) = lines_of(folder / "begun.started")
        os.kill(int(pid), signal.SIGKILL)
        await until(lambda: "Lost" in script.of("begun"), "what had begun is lost")
        assert not (folder / "later.started").exists()
        await until(lambda: "Finished" in script.of("later"), "the other runs in another process")
        assert time.monotonic() - begun >= 1.0
        assert lines_of(folder / "later.started") != [pid]
        assert "Lost" not in script.of("later")


@pytest.mark.behaviour("TIM-2")
async def test_what_comes_while_the_loop_of_its_process_is_blocked_begins_in_time(folder: Path) -> None:
    """In a thread there; and what needs the loop is taken back, and begins in another process."""
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(dispatch("blocks", "block.loop", folder))
        await until(lambda: lines_of(folder / "blocks.started"), "the loop is blocked")
        script.say(moody(folder, "thread", 0.1), replace(dispatch("loop", "count", folder), hold=0.1))
        await until(lambda: "Finished" in script.of("thread"), "the one in a thread has begun")
        assert lines_of(folder / "thread.started") == lines_of(folder / "blocks.started")
        await until(lambda: "Finished" in script.of("loop"), "the other as well")
        assert lines_of(folder / "loop") == ["loop 1"]
        assert "Finished" not in script.of("blocks")
        tell_to_go(folder, "blocks")
        await until(lambda: "Finished" in script.of("blocks"), "it ends")
