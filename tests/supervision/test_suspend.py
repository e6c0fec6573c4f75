"""Suspending and resuming: in order, those that can, and what comes between."""

import asyncio

import pytest

from interlock.error import WrongStatus
from interlock.model.child_info import Status
from interlock.supervision import Backoff, Budget, Function, Group, OnExhausted, ServiceAction
from tests.supervision.stage import AFTER_1, Stage, at, now, quiet, running, status, supervisor, virtually

pytestmark = pytest.mark.behaviour("SUP-8")

run_test = virtually

SUSPEND, RESUME = ServiceAction.SUSPEND, ServiceAction.RESUME


async def test_those_that_can_are_suspended_in_reverse_order_and_resumed_in_order(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("b"), stage.child("c", can_suspend=False), stage.child("d")])
    async with running(stage.child("a"), group, stage.child("e")) as tree:
        stage.take()
        await tree.suspend()
        assert stage.take() == ["suspend e", "suspend d", "suspend b", "suspend a"]
        assert status(tree) is Status.SUSPENDED
        assert [status(tree, path) for path in ("a", "g", "g/b", "g/c", "g/d", "e")] == [
            *["suspended", "suspended", "suspended", "running", "suspended", "suspended"]
        ]
        # Twice is once.
        await tree.suspend()
        assert stage.take() == []
        await tree.resume()
        assert stage.take() == ["resume a", "resume b", "resume d", "resume e"]
        assert status(tree) is Status.RUNNING
        assert {info.status for info in tree.children()} == {Status.RUNNING}
        await tree.resume()
        assert stage.take() == []


async def test_one_child_by_hand(stage: Stage) -> None:
    children = [stage.child("a"), stage.child("b", can_suspend=False), stage.child("c", restart="never")]
    async with running(*children) as tree:
        assert (await tree.act("a", SUSPEND)).status is Status.SUSPENDED
        assert (await tree.act("a", SUSPEND)).status is Status.SUSPENDED
        assert (await tree.act("a", RESUME)).status is Status.RUNNING
        assert (await tree.act("a", RESUME)).status is Status.RUNNING
        with pytest.raises(WrongStatus, match=r"^b: .*custom"):
            await tree.act("b", SUSPEND)
        await stage.end("c")
        with pytest.raises(WrongStatus, match=r"^c: .*finished"):
            await tree.act("c", SUSPEND)
        assert status(tree) is Status.RUNNING


async def test_a_child_that_crashes_while_suspended_comes_back_suspended(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1), stage.child("b")) as tree:
        await tree.act("a", SUSPEND)
        stage.take()
        await stage.crash("a")
        assert status(tree, "a") is Status.PENDING
        await at(1)
        assert stage.take() == ["end a", "start a", "suspend a"]
        assert status(tree, "a") is Status.SUSPENDED
        await stage.crash("a")
        await at(3)
        assert status(tree, "a") is Status.SUSPENDED
        assert (await tree.act("a", RESUME)).status is Status.RUNNING
        await stage.crash("a")
        await at(7)
        assert status(tree, "a") is Status.RUNNING


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_all_that_are_restarted_together_come_back_suspended(stage: Stage, strategy: str) -> None:
    children = [stage.child("a"), stage.child("b"), stage.child("c", restart="never")]
    async with running(*children, strategy=strategy) as tree:
        await stage.end("c")
        await tree.suspend()
        stage.take()
        await stage.crash("a")
        # Also the one that was not there when it was suspended.
        assert stage.take() == [
            *["end a", "stop b", "start a", "suspend a", "start b", "suspend b", "start c", "suspend c"]
        ]
        assert {info.status for info in tree.children()} == {Status.SUSPENDED}
        await tree.resume()
        assert {info.status for info in tree.children()} == {Status.RUNNING}


async def test_a_group_that_fails_while_suspended_comes_back_suspended(stage: Stage) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    group = Group(name="g", children=[stage.child("a"), stage.child("b", budget=budget)], backoff=AFTER_1)
    async with running(group) as tree:
        await tree.act("g", SUSPEND)
        await stage.crash("b")
        await stage.crash("b")
        assert status(tree, "g") is Status.PENDING
        await at(1)
        assert [status(tree, path) for path in ("g", "g/a", "g/b")] == ["suspended"] * 3
        # Whatever is added to it is suspended as well, and comes back with the rest.
        assert (await tree.add(stage.child("c"), under="g")).status is Status.SUSPENDED
        await tree.act("g", RESUME)
        assert [status(tree, path) for path in ("g", "g/a", "g/b", "g/c")] == ["running"] * 4


async def test_errors_are_joined_and_nobody_is_left_out(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("b"), stage.child("c")])
    async with running(stage.child("a"), group, stage.child("d")) as tree:
        stage.part("b").shift_raises = [ValueError("b cannot")]
        stage.part("d").shift_raises = [OSError("d cannot")]
        stage.take()
        with pytest.raises(ExceptionGroup, match=r"^top:") as raised:
            await tree.suspend()
        first, second = raised.value.exceptions
        assert isinstance(first, OSError)
        assert isinstance(second, ExceptionGroup)
        assert second.message.startswith("g:")
        assert [str(one) for one in second.exceptions] == ["b cannot"]
        assert stage.take() == ["suspend d", "suspend c", "suspend b", "suspend a"]
        statuses = [status(tree, path) for path in ("a", "g", "g/b", "g/c", "d")]
        assert statuses == ["suspended", "suspended", "running", "suspended", "running"]
        # One that could not be suspended comes back as it was.
        await stage.crash("d")
        assert status(tree, "d") is Status.RUNNING
        stage.part("a").shift_raises = [ValueError("a cannot")]
        stage.part("c").shift_raises = [ValueError("c cannot")]
        stage.take()
        with pytest.raises(ExceptionGroup, match=r"^top:") as raised:
            await tree.resume()
        assert len(raised.value.exceptions) == 2
        assert stage.take() == ["resume a", "resume c"]
        statuses = [status(tree, path) for path in ("a", "g", "g/b", "g/c", "d")]
        assert statuses == ["suspended", "running", "running", "suspended", "running"]
        # The second try gets the rest.
        await tree.resume()
        assert stage.take() == ["resume a", "resume c"]
        assert {status(tree, path) for path in ("a", "g", "g/b", "g/c", "d")} == {Status.RUNNING}


async def test_one_that_cannot_be_suspended_again_when_it_comes_back_has_failed(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1)) as tree:
        await tree.act("a", SUSPEND)
        stage.part("a").shift_raises = [ValueError("not now")]
        await stage.crash("a")
        stage.take()
        await at(1)
        # It must not run, being suspended; so it does not.
        assert stage.take() == ["start a", "suspend a", "stop a"]
        info = tree.child("a")
        assert (info.status, info.reason, info.restarts) == (Status.PENDING, "exit 0, ValueError: not now", 2)
        await at(2)
        assert status(tree, "a") is Status.SUSPENDED


async def test_suspended_while_it_starts_or_waits(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1)) as tree:
        stage.part("a").start_takes = 2
        await stage.crash("a")
        assert (await tree.act("a", SUSPEND)).status is Status.PENDING
        await at(1.5)
        assert status(tree, "a") is Status.STARTING
        await at(3)
        assert status(tree, "a") is Status.SUSPENDED
        await tree.act("a", RESUME)
        await stage.crash("a")
        await at(5)
        assert status(tree, "a") is Status.STARTING
        assert (await tree.act("a", SUSPEND)).status is Status.SUSPENDED
        assert now() == 6


async def test_suspended_while_everything_starts(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", start_takes=2), stage.child("c"))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    await tree.suspend()
    await starting
    assert status(tree) is Status.SUSPENDED
    assert {info.status for info in tree.children()} == {Status.SUSPENDED}
    await tree.resume()
    assert {info.status for info in tree.children()} == {Status.RUNNING}
    await tree.suspend()
    await tree.stop()
    # A start of everything is one without any history.
    await tree.start()
    assert {info.status for info in tree.children()} == {Status.RUNNING}
    assert status(tree) is Status.RUNNING
    await tree.stop()


async def test_what_is_wanted_last_counts_when_suspending_takes_a_while(stage: Stage) -> None:
    async with running(stage.child("a", shift_takes=1)) as tree:
        first = asyncio.ensure_future(tree.act("a", SUSPEND))
        await at(0.5)
        second = asyncio.ensure_future(tree.act("a", RESUME))
        await asyncio.gather(first, second)
        assert status(tree, "a") is Status.RUNNING
        assert stage.take() == ["start a", "suspend a", "resume a"]
        # Also on the way back after a crash.
        await tree.act("a", SUSPEND)
        stage.take()
        await stage.crash("a")
        assert stage.take() == ["end a", "start a", "suspend a"]
        assert (await tree.act("a", RESUME)).status is not Status.SUSPENDED
        await quiet()
        assert status(tree, "a") is Status.RUNNING
        assert stage.take() == ["resume a"]


async def test_one_that_ends_while_it_is_being_suspended(stage: Stage) -> None:
    async with running(stage.child("a", shift_takes=1000)) as tree:
        suspending = asyncio.ensure_future(tree.act("a", SUSPEND))
        await at(1)
        stage.part("a").shift_takes = 0
        await stage.crash("a")
        await suspending
        assert now() == 1
        assert status(tree, "a") is Status.SUSPENDED


@pytest.mark.parametrize("stop", ["child", "everything"])
async def test_stopped_while_it_is_suspended_or_being_suspended(stage: Stage, stop: str) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", shift_takes=1000))
    await tree.start()
    await tree.act("a", SUSPEND)
    suspending = asyncio.ensure_future(tree.act("b", SUSPEND))
    await at(1)
    if stop == "child":
        for name in "ab":
            assert (await tree.act(name, ServiceAction.STOP)).status is Status.STOPPED
        # Started by hand it is not suspended any more.
        assert (await tree.act("a", ServiceAction.START)).status is Status.RUNNING
    await tree.stop()
    await suspending
    assert now() == 1
    assert stage.names() == []


async def test_started_by_hand_under_a_supervisor_that_is_suspended(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("b", backoff=Backoff(initial=0))) as tree:
        await tree.act("a", ServiceAction.STOP)
        await tree.suspend()
        assert (await tree.act("a", ServiceAction.START)).status is Status.SUSPENDED
        assert (await tree.act("b", ServiceAction.RESTART)).status is Status.SUSPENDED
        assert (await tree.add(stage.child("c"))).status is Status.SUSPENDED
        await tree.resume()
        assert {info.status for info in tree.children()} == {Status.RUNNING}


async def test_a_function_is_suspended_by_what_it_was_given_for_that() -> None:
    done: list[str] = []

    async def run() -> None:
        await asyncio.Event().wait()

    async def suspend() -> None:
        done.append("suspend")

    async def resume() -> None:
        done.append("resume")

    plain = Function(name="plain", run=run)
    async with running(Function(name="a", run=run, suspend=suspend, resume=resume), plain) as tree:
        await tree.suspend()
        assert [status(tree, name) for name in ("a", "plain")] == ["suspended", "running"]
        await tree.resume()
        assert done == ["suspend", "resume"]
