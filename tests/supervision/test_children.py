"""Children that come and go, or change, while their supervisor runs."""

import asyncio

import pytest

from interlock.error import BadValue, DuplicateChild, UnknownChild, WrongStatus
from interlock.model.child_info import Status
from interlock.supervision import Backoff, Budget, Group, OnExhausted, ServiceAction, Strategy
from tests.supervision.stage import AFTER_1, Stage, at, cannot, now, quiet, running, status, supervisor, virtually

pytestmark = pytest.mark.behaviour("SUP-6")

run_test = virtually

# Adding.


async def test_a_child_that_is_added_is_up_when_that_returns_and_has_its_place(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("c")) as tree:
        info = await tree.add(stage.child("d", start_takes=1))
        assert (info.status, info.path, now()) == (Status.RUNNING, "d", 1)
        await tree.add(stage.child("b"), before="c")
        assert [child.name for child in tree.children()] == ["a", "b", "c", "d"]
        stage.take()
    assert stage.take() == ["stop d", "stop c", "stop b", "stop a"]
    await tree.start()
    assert stage.take() == ["start a", "start b", "start c", "start d", "up d"]
    await tree.stop()


async def test_a_group_is_added_with_its_children_and_more_can_be_added_to_it(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        info = await tree.add(Group(name="g", children=[stage.child("b")]))
        assert [child.status for child in info.children] == [Status.RUNNING]
        info = await tree.add(stage.child("c"), under="g")
        assert info.path == "g/c"
        await tree.add(Group(name="h"), under="g")
        await tree.add(stage.child("d"), under="g/h")
        assert status(tree, "g/h/d") is Status.RUNNING
        stage.take()
        await tree.remove("g")
        assert stage.take() == ["stop d", "stop c", "stop b"]


async def test_a_child_that_fails_when_it_is_added_is_dealt_with_by_its_policy(stage: Stage) -> None:
    async with running() as tree:
        info = await tree.add(stage.child("a", failures=[cannot("a")], backoff=AFTER_1))
        assert (info.status, info.reason) == (Status.PENDING, "it does not want to")
        await at(1)
        assert status(tree, "a") is Status.RUNNING
        info = await tree.add(stage.child("b", failures=[cannot("b")], restart="never"))
        assert (info.status, info.reason) == (Status.FAILED, "it does not want to")


async def test_a_child_that_is_added_to_one_that_does_not_run_waits_for_its_start(stage: Stage) -> None:
    tree = supervisor(stage.child("a", stop_takes=1))
    assert (await tree.add(stage.child("b"))).status is Status.CREATED
    await tree.start()
    assert stage.take() == ["start a", "start b"]
    stopping = asyncio.ensure_future(tree.stop())
    await quiet()
    assert (await tree.add(stage.child("c"))).status is Status.CREATED
    await stopping
    assert (await tree.add(stage.child("d"))).status is Status.CREATED
    await tree.remove("a")
    stage.take()
    await tree.start()
    assert stage.take() == ["start b", "start c", "start d"]
    await tree.stop()


async def test_a_name_that_is_taken_is_an_error_and_changes_nothing(stage: Stage) -> None:
    async with running(stage.child("a"), Group(name="g", children=[stage.child("b")])) as tree:
        before = tree.info()
        stage.take()
        with pytest.raises(DuplicateChild, match=r"top .*'a'"):
            await tree.add(stage.child("a"))
        with pytest.raises(DuplicateChild, match=r"g .*'b'"):
            await tree.add(stage.child("b"), under="g")
        with pytest.raises(DuplicateChild, match=r"h .*'b'"):
            await tree.add(Group(name="h", children=[stage.child("b"), stage.child("b")]))
        with pytest.raises(UnknownChild, match="'x'"):
            await tree.add(stage.child("c"), before="x")
        with pytest.raises(UnknownChild, match="'x'"):
            await tree.add(stage.child("c"), under="x")
        with pytest.raises(WrongStatus, match=r"^a:"):
            await tree.add(stage.child("c"), under="a")
        with pytest.raises(BadValue, match=r"^child: 'c'"):
            await tree.add("c")  # type: ignore[arg-type]
        assert tree.info() == before
        assert stage.take() == []


async def test_adding_goes_on_when_whoever_asked_for_it_is_cancelled(stage: Stage) -> None:
    async with running() as tree:
        adding = asyncio.ensure_future(tree.add(stage.child("a", start_takes=2)))
        await at(1)
        adding.cancel()
        await at(2)
        assert status(tree, "a") is Status.RUNNING


# Removing.


async def test_a_child_that_is_removed_is_stopped_and_unknown(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("b", stop_takes=1), stage.child("c")) as tree:
        stage.take()
        removing = asyncio.ensure_future(tree.remove("b"))
        await quiet()
        assert status(tree, "b") is Status.STOPPING
        with pytest.raises(DuplicateChild):
            await tree.add(stage.child("b"))
        with pytest.raises(WrongStatus, match=r"^b:"):
            await tree.act("b", ServiceAction.START)
        await removing
        assert stage.take() == ["stop b", "stopped b"]
        for unknown in ("b", "x", "a/x"):
            with pytest.raises(UnknownChild):
                await tree.remove(unknown)
        await tree.add(stage.child("b"))
        assert stage.names() == ["a", "b", "c"]


async def test_a_child_that_is_removed_in_its_backoff_never_starts_again(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1)) as tree:
        await stage.crash("a")
        assert status(tree, "a") is Status.PENDING
        stage.take()
        await tree.remove("a")
        assert now() == 0
        await at(100)
        assert stage.take() == []


async def test_a_child_that_is_removed_while_it_starts(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        adding = asyncio.ensure_future(tree.add(stage.child("b", start_takes=10)))
        await at(1)
        await tree.remove("b")
        assert now() == 1
        assert (await adding).status is Status.STOPPED
        assert stage.take() == ["start a", "start b", "failed b"]
        assert [child.name for child in tree.children()] == ["a"]


async def test_a_child_that_is_removed_while_everything_starts_does_not_fail_the_start(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", start_takes=10), stage.child("c"), stage.child("d"))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    await asyncio.gather(tree.remove("b"), tree.remove("c"))
    await starting
    assert stage.names() == ["a", "d"]
    assert now() == 1
    await tree.stop()


async def test_a_child_that_is_removed_by_two_or_by_one_who_does_not_wait(stage: Stage) -> None:
    async with running(stage.child("a", stop_takes=2)) as tree:
        first, second = (asyncio.ensure_future(tree.remove("a")) for _ in range(2))
        await at(1)
        first.cancel()
        await second
        assert tree.children() == []
        assert now() == 2


async def test_a_child_that_is_removed_while_everything_stops(stage: Stage) -> None:
    tree = supervisor(stage.child("a", stop_takes=1), stage.child("b", stop_takes=1))
    await tree.start()
    stopping = asyncio.ensure_future(tree.stop())
    await quiet()
    await asyncio.gather(tree.remove("a"), tree.remove("b"))
    await stopping
    assert tree.children() == []
    await tree.start()
    await tree.stop()


async def test_a_child_of_a_group_is_removed_while_the_group_fails_and_does_not_come_back_with_it(stage: Stage) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    children = [stage.child("a", stop_takes=1), stage.child("b", budget=budget)]
    async with running(Group(name="g", children=children, backoff=Backoff(initial=0))) as tree:
        await stage.crash("b")
        removing = asyncio.ensure_future(tree.remove("g/a"))
        await stage.crash("b")
        await removing
        await at(5)
        assert stage.names() == ["b"]
        assert [child.name for child in tree.child("g").children] == ["b"]


# Changing.


@pytest.mark.behaviour("SUP-7")
async def test_a_child_that_is_described_anew_is_started_again_under_its_resume_id(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1), stage.child("b")) as tree:
        resume_id = stage.live("a").birth.resume_id
        stage.take()
        await tree.change("a", stage.child("a", restart="never"))
        assert stage.take() == ["stop a", "start a"]
        assert stage.live("a").birth.resume_id == resume_id
        await stage.crash("a")
        assert status(tree, "a") is Status.FAILED
        # What had failed gets another chance, what somebody has stopped does not.
        await tree.change("a", stage.child("a"))
        assert status(tree, "a") is Status.RUNNING
        await tree.act("a", ServiceAction.STOP)
        await tree.change("a", stage.child("a"))
        assert status(tree, "a") is Status.STOPPED


async def test_a_supervisor_takes_on_what_is_said_of_itself_and_its_children_do_not_notice(stage: Stage) -> None:
    async with running(Group(name="g", children=[stage.child("a"), stage.child("b", stop_takes=1)])) as tree:
        stage.take()
        with tree.watch() as watch:
            await tree.change("g", Group(name="g", strategy=Strategy.ONE_FOR_ALL, stop_together=True))
            change = await anext(watch)
            assert change.before is not None
            assert change.after is not None
            assert (change.before.strategy, change.after.strategy) == ("one_for_one", "one_for_all")
        assert stage.take() == []
        await stage.crash("a")
        await at(1)
        assert stage.take() == ["end a", "stop b", "stopped b", "start a", "start b"]
    assert stage.take() == ["stop b", "stop a", "stopped b"]


async def test_a_change_of_what_does_not_run_waits_for_its_start(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), Group(name="g", children=[stage.child("b")]))
    await tree.change("a", stage.child("a", restart="never"))
    await tree.change("g/b", stage.child("b"))
    await tree.start()
    await stage.crash("a")
    assert status(tree, "a") is Status.FAILED
    stage.part("b").stop_takes = 1
    stopping = asyncio.ensure_future(tree.stop())
    await quiet()
    await tree.change("g/b", stage.child("b"))
    await stopping
    await tree.change("g/b", stage.child("b"))
    assert stage.names() == []


async def test_a_change_goes_on_when_whoever_asked_for_it_is_cancelled(stage: Stage) -> None:
    async with running(stage.child("a", stop_takes=2)) as tree:
        changing = asyncio.ensure_future(tree.change("a", stage.child("a")))
        await at(1)
        changing.cancel()
        await at(2)
        assert status(tree, "a") is Status.RUNNING
        assert len(stage.part("a").lives) == 2


async def test_a_change_that_is_none(stage: Stage) -> None:
    async with running(stage.child("a"), Group(name="g")) as tree:
        stage.take()
        with pytest.raises(BadValue, match=r"^child:"):
            await tree.change("a", stage.child("b"))
        with pytest.raises(BadValue, match=r"^child:"):
            await tree.change("a", None)  # type: ignore[arg-type]
        with pytest.raises(BadValue, match=r"^child:"):
            await tree.change("a", Group(name="a"))
        with pytest.raises(BadValue, match=r"^child:"):
            await tree.change("g", stage.child("g"))
        with pytest.raises(UnknownChild):
            await tree.change("x", stage.child("x"))
        assert stage.take() == []


async def test_the_order_of_children_can_be_arranged_at_any_time(stage: Stage) -> None:
    tree = supervisor(Group(name="g", children=[stage.child(name, stop_takes=1) for name in "abcd"]))
    await tree.start()
    tree.arrange("g", ["d", "b", "unknown"])
    assert [child.name for child in tree.child("g").children] == ["d", "b", "a", "c"]
    stage.take()
    stopping = asyncio.ensure_future(tree.stop())
    await at(0.5)
    # Nobody is left out by a change in the middle of a stop.
    tree.arrange("g", ["c", "a", "b", "d"])
    await stopping
    assert [note for note in stage.take() if note.startswith("stop ")] == ["stop c", "stop a", "stop b", "stop d"]
    assert stage.names() == []


@pytest.mark.behaviour("SUP-9")
@pytest.mark.parametrize("first", ["change", "restart"])
async def test_what_is_removed_while_it_is_changed_or_restarted_is_gone(stage: Stage, first: str) -> None:
    async with running(stage.child("a", stop_takes=1)) as tree:
        watch = tree.watch()
        work = tree.change("a", stage.child("a")) if first == "change" else tree.act("a", ServiceAction.RESTART)
        doing = asyncio.ensure_future(work)
        await quiet()
        await tree.remove("a")
        await doing
        await at(5)
    changes = [change async for change in watch]
    assert [change.after and change.after.status for change in changes] == [Status.STOPPING, Status.STOPPED, None]
    assert len(stage.part("a").lives) == 1


@pytest.mark.behaviour("SUP-9")
async def test_nothing_more_is_done_below_a_group_that_is_being_removed(stage: Stage) -> None:
    inner = Group(name="h", children=[stage.child("a", stop_takes=1)])
    async with running(Group(name="g", children=[inner])) as tree:
        watch = tree.watch()
        early = asyncio.ensure_future(tree.remove("g/h/a"))
        await quiet()
        removing = asyncio.ensure_future(tree.remove("g"))
        await quiet()
        for refused in (
            tree.add(stage.child("b"), under="g/h"),
            tree.add(stage.child("b"), under="g"),
            tree.change("g/h", Group(name="h")),
            tree.act("g/h", ServiceAction.START),
            tree.remove("g/h"),
        ):
            with pytest.raises(WrongStatus, match=r"^g(/h)?:"):
                await refused
        await asyncio.gather(early, removing)
    changes = [change async for change in watch]
    assert [change.path for change in changes if change.after is None] == ["g/h/a", "g/h", "g"]


async def test_a_child_that_is_added_for_later_is_started_when_somebody_wants_it(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        for name in "bc":
            assert (await tree.add(stage.child(name), start=False)).status is Status.CREATED
        await at(100)
        assert stage.names() == ["a"]
        assert (await tree.act("b", ServiceAction.START)).status is Status.RUNNING
        assert status(tree, "c") is Status.CREATED
    assert status(tree, "c") is Status.CREATED
    await tree.start()
    assert stage.names() == ["a", "b", "c"]
    await tree.stop()
