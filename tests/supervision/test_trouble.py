"""What is around a child goes wrong: whoever gets its lines, the guard, the loop, the dice. No child is lost by it."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import pytest

from interlock.model.child_info import ServiceAction, Status
from interlock.model.error import BadValue
from interlock.supervision import Backoff, Function, Process, Supervisor, guard_client
from tests.helpers.places import until
from tests.helpers.processes import alive
from tests.supervision.programs import SLEEP
from tests.supervision.stage import AT_ONCE, at, running, status, virtually


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


@pytest.mark.behaviour("SUP-11")
def test_whoever_raises_at_a_line_does_not_keep_its_child_from_being_restarted() -> None:
    def refuse(path: str, stream: str, line: str, at: float) -> None:
        raise ValueError(line)

    async def body() -> None:
        says = Process(name="says", command=["/bin/sh", "-c", "printf last; exit 3"], backoff=Backoff(initial=0.01))
        tree = Supervisor("t", [says], on_line=refuse)
        await tree.start()
        await until(lambda: tree.child("says").restarts > 2, "it was restarted again and again")
        await tree.stop()
        info = tree.child("says").last_exit
        assert info is not None
        assert info.code in (3, None)

    run(body())


@pytest.mark.behaviour("SUP-10")
def test_a_guard_that_does_not_answer_is_killed_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_client, "PATIENCE", 0.5)

    async def body() -> None:
        tree = Supervisor("t", [Process(name="a", command=SLEEP, stop_timeout=0.1)])
        await tree.start()
        pid = tree.child("a").pid
        guard = tree._around.guard.pid
        assert pid is not None
        assert guard is not None
        os.kill(guard, signal.SIGSTOP)
        await tree.stop()
        await until(lambda: not alive(pid) and not alive(guard), "both are gone")

    run(body())


@pytest.mark.behaviour("SUP-2")
def test_a_supervisor_that_runs_again_on_another_loop_restarts_groups_there() -> None:
    tree = Supervisor(
        "t",
        [Process(name=name, command=SLEEP, backoff=AT_ONCE) for name in "ab"],
        strategy="one_for_all",
    )

    async def body() -> None:
        await tree.start()
        before = {one.name: one.pid for one in tree.children()}
        assert before["a"] is not None
        os.kill(before["a"], signal.SIGKILL)
        await until(
            lambda: all(one.status is Status.RUNNING and one.pid != before[one.name] for one in tree.children()),
            "both are others",
        )
        await tree.stop()

    run(body())
    run(body())


@pytest.mark.behaviour("SUP-10")
def test_a_function_that_goes_on_though_it_was_cancelled_is_not_started_beside_itself() -> None:
    async def body() -> None:
        lives: list[float] = []
        end = asyncio.Event()

        async def deaf() -> None:
            lives.append(asyncio.get_running_loop().time())
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    continue

        child = Function(name="deaf", run=deaf, stop_timeout=1, backoff=Backoff(initial=1, multiplier=1, jitter=0))
        async with running(child) as tree:
            await tree.act("deaf", ServiceAction.RESTART)
            assert status(tree, "deaf") is Status.PENDING
            assert "goes on" in tree.child("deaf").reason
            assert lives == [0.0]
            end.set()
            await at(10)
            # The new one ends at once as well, again and again: what matters is that it has begun after the old one.
            assert lives[1] > 1.0

    virtually(body)


@pytest.mark.behaviour("SUP-11")
def test_dice_that_break_leave_a_child_failed_and_say_so() -> None:
    async def body() -> None:
        async def ends() -> None:
            await asyncio.sleep(1)

        async with running(Function(name="a", run=ends), chance=lambda: 1 / 0) as tree:
            await at(2)
            assert status(tree, "a") is Status.FAILED
            assert tree.child("a").reason == "ZeroDivisionError: division by zero"

    virtually(body)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_watch_needs_room_for_a_change(size: int) -> None:
    with pytest.raises(BadValue, match=f"size: {size}"):
        Supervisor("t").watch(size)
