"""What somebody asks for by hand: start, stop and restart of one child, also by several at once."""

import asyncio

import pytest

from interlock.error import UnknownChild, WrongStatus
from interlock.model.child_info import Status
from interlock.supervision import Backoff, Budget, ChildContext, Function, Group, OnExhausted, ServiceAction
from tests.supervision.stage import AFTER_1, Stage, at, cannot, now, quiet, running, status, supervisor, virtually

run_test = virtually

START, STOP, RESTART = ServiceAction.START, ServiceAction.STOP, ServiceAction.RESTART


async def test_what_is_stopped_stays_down_until_it_is_started(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("b")) as tree:
        assert (await tree.act("a", STOP)).status is Status.STOPPED
        assert (await tree.act("a", STOP)).status is Status.STOPPED
        await at(100)
        assert stage.names() == ["b"]
        assert (await tree.act("a", START)).status is Status.RUNNING
        assert (await tree.act("a", START)).status is Status.RUNNING
        assert len(stage.part("a").lives) == 2
        assert (await tree.act("a", RESTART)).status is Status.RUNNING
        assert len(stage.part("a").lives) == 3


async def test_what_was_stopped_by_hand_comes_back_with_the_next_start_of_everything_and_no_sooner(
    stage: Stage,
) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    children = [stage.child("a"), stage.child("b", budget=budget)]
    async with running(Group(name="g", children=children, backoff=Backoff(initial=0))) as tree:
        await tree.act("g/a", STOP)
        await stage.crash("b")
        await stage.crash("b")
        # The group has been restarted because it failed, which nobody had asked for.
        assert tree.child("g").restarts == 1
        assert stage.names() == ["b"]
        await tree.act("g", RESTART)
        assert stage.names() == ["a", "b"]
        await tree.act("g/a", STOP)
    await tree.start()
    assert stage.names() == ["a", "b"]
    await tree.stop()


async def test_start_ends_a_backoff_and_does_not_call_it_stopped(stage: Stage) -> None:
    async with running(stage.child("a", backoff=Backoff(initial=100))) as tree:
        await stage.crash("a")
        with tree.watch() as watch:
            assert (await tree.act("a", START)).status is Status.RUNNING
            statuses: list[Status] = []
            while not statuses or statuses[-1] is not Status.RUNNING:
                change = await anext(watch)
                assert change.after is not None
                statuses.append(change.after.status)
        assert statuses == [Status.STARTING, Status.RUNNING]
        assert now() == 0


async def test_stop_ends_a_backoff(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1)) as tree:
        await stage.crash("a")
        info = await tree.act("a", STOP)
        assert (info.status, info.next_try_at) == (Status.STOPPED, None)
        await at(10)
        assert stage.names() == []


async def test_start_by_hand_returns_when_it_has_failed_once(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1)) as tree:
        await tree.act("a", STOP)
        stage.part("a").failures = [cannot("a")]
        info = await tree.act("a", START)
        assert (info.status, info.reason) == (Status.PENDING, "it does not want to")
        await at(1)
        assert status(tree, "a") is Status.RUNNING


async def test_only_what_is_known_and_runs_can_be_acted_upon(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), Group(name="g", children=[stage.child("b")], tolerant=True))
    with pytest.raises(WrongStatus, match=r"^a: .*created"):
        await tree.act("a", START)
    await tree.start()
    with pytest.raises(UnknownChild):
        await tree.act("x", START)
    await tree.act("g", STOP)
    with pytest.raises(WrongStatus, match=r"^g/b: .*stopped"):
        await tree.act("g/b", RESTART)
    await tree.act("g", START)
    assert status(tree, "g/b") is Status.RUNNING
    await tree.stop()
    with pytest.raises(WrongStatus, match=r"^a: .*stopped"):
        await tree.act("a", STOP)


# Several at once: what was asked for last counts.


@pytest.mark.parametrize(
    ("first", "second", "expected", "lives"),
    [
        (STOP, STOP, Status.STOPPED, 1),
        (STOP, START, Status.RUNNING, 2),
        (STOP, RESTART, Status.RUNNING, 2),
        (START, STOP, Status.STOPPED, 1),
        (RESTART, STOP, Status.STOPPED, 1),
        (RESTART, START, Status.RUNNING, 2),
        (RESTART, RESTART, Status.RUNNING, 2),
    ],
)
@pytest.mark.parametrize("between", [0, 1])
async def test_two_who_want_different_things_of_one_that_runs(
    stage: Stage, first: ServiceAction, second: ServiceAction, expected: Status, lives: int, between: float
) -> None:
    async with running(stage.child("a", stop_takes=2), stage.child("b")) as tree:
        one = asyncio.ensure_future(tree.act("a", first))
        await at(between)
        two = asyncio.ensure_future(tree.act("a", second))
        await asyncio.gather(one, two)
        await at(10)
        assert status(tree, "a") is expected
        assert len(stage.part("a").lives) == lives
        # One that was stopped and started is not taken for one that has failed.
        assert tree.child("a").restarts == 0


@pytest.mark.parametrize("code", [0, 1])
async def test_start_while_it_is_being_stopped_is_not_taken_for_a_failure(stage: Stage, code: int) -> None:
    """The old instance ends as one that was asked to, though another one is wanted by then."""
    child = stage.child("a", stop_takes=5, restart="never", budget=Budget(max_restarts=1))
    async with running(child) as tree:
        stopping = asyncio.ensure_future(tree.act("a", STOP))
        await at(1)
        starting = asyncio.ensure_future(tree.act("a", START))
        await at(2)
        assert status(tree, "a") is Status.STOPPING
        await stage.end("a", code=code)
        assert (await starting).status is Status.RUNNING
        await stopping
        assert now() == 2


@pytest.mark.parametrize("first", [START, RESTART])
async def test_stop_does_not_wait_for_a_start_that_takes_long(stage: Stage, first: ServiceAction) -> None:
    async with running(stage.child("a")) as tree:
        await tree.act("a", STOP)
        stage.part("a").start_takes = 100
        starting = asyncio.ensure_future(tree.act("a", first))
        await at(1)
        assert (await tree.act("a", STOP)).status is Status.STOPPED
        assert (await starting).status is Status.STOPPED
        assert now() == 1


async def test_a_restart_goes_on_when_whoever_asked_for_it_is_cancelled(stage: Stage) -> None:
    async with running(stage.child("a", stop_takes=2)) as tree:
        acting = asyncio.ensure_future(tree.act("a", RESTART))
        await at(1)
        acting.cancel()
        await at(2)
        assert status(tree, "a") is Status.RUNNING
        assert len(stage.part("a").lives) == 2


@pytest.mark.parametrize("action", [START, STOP, RESTART])
async def test_everything_is_stopped_while_somebody_acts(stage: Stage, action: ServiceAction) -> None:
    tree = supervisor(stage.child("a", stop_takes=2), stage.child("b"))
    await tree.start()
    acting = asyncio.ensure_future(tree.act("a", action))
    await at(1)
    await tree.stop()
    await acting
    assert stage.names() == []
    assert status(tree, "a") is Status.STOPPED
    await at(10)
    assert len(stage.part("a").lives) == 1


async def test_a_child_that_stops_or_removes_itself_or_everything(stage: Stage) -> None:
    """A function on the supervisor's own loop may do that, and is cancelled in the middle of it."""

    async def removes(context: ChildContext) -> None:
        await asyncio.sleep(1)
        await tree.remove(context.path)

    async def restarts(context: ChildContext) -> None:
        if context.previous is None:
            await asyncio.sleep(0.5)
            await tree.act(context.path, RESTART)
        await asyncio.sleep(1.5)
        await tree.stop()

    tree = supervisor(Function(name="x", run=removes), Function(name="y", run=restarts), stage.child("a"))
    await tree.start()
    await at(1.5)
    assert [child.name for child in tree.children()] == ["y", "a"]
    await tree.wait()
    await quiet()
    assert tree.status is Status.STOPPED
    assert now() == 2
