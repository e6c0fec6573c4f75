"""A real worker that is given work ahead of its time: it begins when it is time, and not if it is to stop before."""

import time
from pathlib import Path

import msgspec
import pytest

from interlock.buses.socket import SocketBus
from interlock.model import message as m
from tests.helpers.places import run_async, tell_to_go, until
from tests.helpers.script import Script
from tests.process.test_worker_link import dispatch, worker_command


@pytest.mark.behaviour("TIM-2")
def test_what_comes_ahead_of_its_time_is_kept_until_then_and_can_be_stopped_before(folder: Path) -> None:
    async def body() -> None:
        script, bus = Script(), SocketBus(folder / "s")
        await bus.listen(script)
        worker = worker_command(folder)
        worker.begin()
        try:
            await until(lambda: script.heard, "the worker says hello")
            begun = time.monotonic()
            for name, hold in (("last", 0.5), ("first", 0.2), ("stopped", 0.3)):
                script.say(msgspec.structs.replace(dispatch(name, "hold", folder), hold=hold))
            script.say(m.Stop("stopped", 1, "cancel"))
            await until(lambda: "Finished" in script.of("stopped"), "it is over before it has begun")
            await until(lambda: "Started" in script.of("first"), "the first begins")
            assert time.monotonic() - begun >= 0.2
            assert script.of("last") == []
            await until(lambda: "Started" in script.of("last"), "then the last")
            assert time.monotonic() - begun >= 0.5
            tell_to_go(folder, "first")
            tell_to_go(folder, "last")
            await until(lambda: "Finished" in script.of("first") and "Finished" in script.of("last"), "they end")
            assert set(script.of("stopped")) == {"Finished"}, "it is said again until it is settled"
        finally:
            worker.kill()
            await bus.close()

    run_async(body())


def test_of_what_is_soon_over_only_the_end_is_told_and_how_long_ago_it_is(folder: Path) -> None:
    async def body() -> None:
        script, bus = Script(), SocketBus(folder / "s")
        await bus.listen(script)
        worker = worker_command(folder)
        worker.begin()

        def ends(run_id: str) -> list[m.Finished]:
            return [one for one in script.heard if isinstance(one, m.Finished) and one.run_id == run_id]

        try:
            await until(lambda: script.heard, "the worker says hello")
            quick = msgspec.structs.replace(
                dispatch("quick", "echo.thread", folder), payload=b'{"value": 1}', hold=0.05
            )
            script.say(quick, msgspec.structs.replace(dispatch("long", "hold", folder), hold=0.05))
            await until(lambda: len(ends("quick")) >= 3, "it is told until it is settled")
            assert set(script.of("quick")) == {"Finished"}
            ages = [one.ago for one in ends("quick")]
            assert ages == sorted(ages)
            assert ages[-1] - ages[0] > 0.02, "as time passes"
            await until(lambda: "Started" in script.of("long"), "of what goes on the start is told")
            tell_to_go(folder, "long")
            await until(lambda: ends("long"), "and then the end")
            assert ends("long")[0].took > 0
        finally:
            worker.kill()
            await bus.close()

    run_async(body())
