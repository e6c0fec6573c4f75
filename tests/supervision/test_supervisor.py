"""A supervisor starts its children in order and stops them in reverse order, whatever comes between."""

import asyncio

import pytest

from interlock import supervision
from interlock.error import BadValue, CannotStart, DuplicateChild, UnknownChild, WrongStatus
from interlock.model.child_info import Exit, Status
from interlock.supervision import Group, ServiceAction, Supervisor
from tests.supervision.stage import (
    AFTER_1,
    Stage,
    at,
    cannot,
    now,
    quiet,
    running,
    status,
    supervisor,
    virtually,
)

run_test = virtually

# Starting and stopping.


@pytest.mark.behaviour("SUP-1")
async def test_children_start_in_order_each_when_the_one_before_is_up_and_stop_in_reverse(stage: Stage) -> None:
    children = [stage.child(name, start_takes=2, stop_takes=1) for name in "abc"]
    tree = supervisor(*children)
    assert tree.info().status is Status.CREATED
    assert [child.status for child in tree.children()] == [Status.CREATED] * 3
    await tree.start()
    assert now() == 6
    assert stage.take() == ["start a", "up a", "start b", "up b", "start c", "up c"]
    assert status(tree) is Status.RUNNING
    assert [(child.status, child.since) for child in tree.children()] == [
        (Status.RUNNING, 2),
        (Status.RUNNING, 4),
        (Status.RUNNING, 6),
    ]
    await tree.stop()
    assert now() == 9
    assert stage.take() == ["stop c", "stopped c", "stop b", "stopped b", "stop a", "stopped a"]
    assert status(tree) is Status.STOPPED
    assert [child.status for child in tree.children()] == [Status.STOPPED] * 3


@pytest.mark.behaviour("SUP-1")
async def test_children_without_an_order_are_stopped_together(stage: Stage) -> None:
    children = [stage.child(name, stop_takes=takes) for name, takes in (("a", 3), ("b", 1), ("c", 2))]
    async with running(Group(name="g", children=children, stop_together=True)):
        stage.take()
    assert stage.take() == ["stop c", "stop b", "stop a", "stopped b", "stopped c", "stopped a"]
    assert now() == 3


@pytest.mark.behaviour("SUP-1")
async def test_a_supervisor_is_a_child_with_its_place_in_the_order(stage: Stage) -> None:
    inner = Group(name="inner", children=[stage.child("c"), stage.child("d")])
    outer = Group(name="outer", children=[stage.child("b"), inner, stage.child("e")])
    async with running(stage.child("a"), outer, stage.child("f")) as tree:
        assert stage.take() == [f"start {name}" for name in "abcdef"]
        assert tree.child("outer/inner/d").status is Status.RUNNING
        assert [child.name for child in tree.child("outer").children] == ["b", "inner", "e"]
        assert tree.child("outer").strategy == "one_for_one"
    assert stage.take() == [f"stop {name}" for name in "fedcba"]


@pytest.mark.behaviour("SUP-1")
async def test_a_child_that_ends_is_started_again_and_the_others_do_not_notice(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("b", backoff=AFTER_1), stage.child("c")) as tree:
        stage.take()
        await stage.end("b", signal=11)
        info = tree.child("b")
        assert (info.status, info.next_try_at, info.restarts) == (Status.PENDING, 1, 1)
        assert info.last_exit == Exit(at=0, signal=11)
        assert info.reason == "signal 11 (SIGSEGV)"
        await at(1)
        info = tree.child("b")
        assert (info.status, info.next_try_at, info.reason) == (Status.RUNNING, None, "")
        assert stage.take() == ["end b", "start b"]


@pytest.mark.behaviour("SUP-11")
async def test_a_start_that_fails_stops_what_had_started_in_reverse_order(stage: Stage) -> None:
    inner = Group(name="g", children=[stage.child("b"), stage.child("c", failures=[cannot("g/c")])])
    tree = supervisor(stage.child("a"), inner, stage.child("d"))
    with pytest.raises(CannotStart) as raised:
        await tree.start()
    assert str(raised.value) == "g: could not be started (g/c: could not be started (it does not want to))"
    assert stage.take() == ["start a", "start b", "start c", "failed c", "stop b", "stop a"]
    assert status(tree) is Status.FAILED
    assert [child.status for child in tree.children()] == [Status.STOPPED, Status.FAILED, Status.CREATED]
    assert [child.status for child in tree.child("g").children] == [Status.STOPPED, Status.FAILED]
    assert not (await tree.wait()).ok
    # The next start is one like any other.
    await tree.start()
    assert stage.names() == ["a", "b", "c", "d"]
    await tree.stop()


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize("policy", ["always", "on_failure", "never"])
async def test_a_start_that_fails_is_not_tried_again_whatever_the_policy(stage: Stage, policy: str) -> None:
    tree = supervisor(stage.child("a", failures=[cannot("a"), None], restart=policy))
    with pytest.raises(CannotStart, match=r"^a: .*it does not want to"):
        await tree.start()
    assert stage.take() == ["start a", "failed a"]
    info = tree.child("a")
    assert (info.status, info.reason, info.restarts) == (Status.FAILED, "it does not want to", 0)


@pytest.mark.behaviour("SUP-11")
async def test_a_tolerant_group_goes_on_when_one_cannot_be_started(stage: Stage) -> None:
    bad = stage.child("b", failures=[cannot("b"), cannot("b")], backoff=AFTER_1)
    async with running(Group(name="g", children=[stage.child("a"), bad, stage.child("c")], tolerant=True)) as tree:
        assert stage.names() == ["a", "c"]
        assert status(tree, "g") is Status.RUNNING
        assert status(tree, "g/b") is Status.PENDING
        await at(2)
        assert stage.names() == ["a", "b", "c"]
        assert tree.child("g/b").restarts == 2


@pytest.mark.behaviour("SUP-11")
async def test_starting_twice_is_an_error_and_stopping_twice_is_not(stage: Stage) -> None:
    tree = supervisor(stage.child("a", start_takes=1, stop_takes=1))
    starting = asyncio.ensure_future(tree.start())
    await quiet()
    with pytest.raises(WrongStatus, match=r"^top: .*starting"):
        await tree.start()
    await starting
    with pytest.raises(WrongStatus, match=r"^top: .*running"):
        await tree.start()
    first, second = asyncio.ensure_future(tree.stop()), asyncio.ensure_future(tree.stop())
    await quiet()
    with pytest.raises(WrongStatus, match=r"^top: .*stopping"):
        await tree.start()
    await asyncio.gather(first, second)
    assert now() == 2
    await tree.stop()
    assert stage.take() == ["start a", "up a", "stop a", "stopped a"]
    await tree.start()
    assert status(tree, "a") is Status.RUNNING
    await tree.stop()


@pytest.mark.behaviour("SUP-11")
async def test_stopping_one_that_never_started() -> None:
    tree = supervisor(Stage().child("a"))
    with pytest.raises(WrongStatus):
        await tree.wait()
    watch = tree.watch()
    await tree.stop()
    assert [change async for change in watch] == []
    assert status(tree) is Status.STOPPED
    assert status(tree, "a") is Status.CREATED


# Being stopped in between.


@pytest.mark.behaviour("SUP-11")
async def test_stop_during_start(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", start_takes=5), stage.child("c"))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    await tree.stop()
    with pytest.raises(CannotStart, match=r"^top:"):
        await starting
    assert now() == 1
    assert stage.take() == ["start a", "start b", "failed b", "stop a"]
    assert [child.status for child in tree.children()] == [Status.STOPPED, Status.STOPPED, Status.CREATED]
    assert status(tree) is Status.STOPPED


@pytest.mark.behaviour("SUP-11")
async def test_a_start_that_is_cancelled_leaves_nothing(stage: Stage) -> None:
    inner = Group(name="g", children=[stage.child("b"), stage.child("c", start_takes=5)])
    tree = supervisor(stage.child("a", stop_takes=2), inner)
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert now() == 3
    assert stage.names() == []
    assert status(tree) is Status.STOPPED


@pytest.mark.behaviour("SUP-1", "SUP-11")
async def test_a_group_that_is_stopped_while_it_takes_back_a_start_that_failed(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("a", stop_takes=5), stage.child("b", failures=[cannot("b")])])
    async with running() as tree:
        adding = asyncio.ensure_future(tree.add(group))
        await at(1)
        assert stage.take() == ["start a", "start b", "failed b", "stop a"]
        # Nothing of it may be left when it is called stopped.
        assert (await tree.act("g", ServiceAction.STOP)).status is Status.STOPPED
        assert (stage.names(), now()) == ([], 5)
        await adding
        await tree.act("g", ServiceAction.START)
        assert stage.names() == ["a", "b"]


@pytest.mark.behaviour("SUP-11")
async def test_a_stop_goes_on_when_whoever_asked_for_it_is_cancelled(stage: Stage) -> None:
    tree = supervisor(stage.child("a", stop_takes=2), stage.child("b", stop_takes=2))
    await tree.start()
    stopping = asyncio.ensure_future(tree.stop())
    await at(1)
    stopping.cancel()
    await quiet()
    assert status(tree) is Status.STOPPING
    assert (await tree.wait()).ok
    assert now() == 4
    assert stage.names() == []


@pytest.mark.behaviour("SUP-11")
async def test_stop_during_backoff(stage: Stage) -> None:
    async with running(stage.child("a", backoff=AFTER_1), stage.child("b", stop_takes=10)) as tree:
        await stage.crash("a")
        assert status(tree, "a") is Status.PENDING
        stage.take()
    # The backoff was over long before it was the turn of the one that waited.
    assert now() == 10
    assert stage.take() == ["stop b", "stopped b"]
    assert tree.child("a").status is Status.STOPPED
    assert tree.child("a").next_try_at is None


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(("strategy", "code"), [("one_for_one", 1), ("one_for_all", 1), ("rest_for_one", 0)])
async def test_what_ends_while_everything_is_stopped_is_not_started_again(
    stage: Stage, strategy: str, code: int
) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", stop_takes=10), strategy=strategy)
    await tree.start()
    stopping = asyncio.ensure_future(tree.stop())
    await at(5)
    stage.take()
    await stage.end("a", code=code)
    await stopping
    assert stage.take() == ["end a", "stopped b"]
    assert status(tree, "a") is (Status.FAILED if code else Status.FINISHED)


async def test_kill_ends_a_stop_that_is_under_way(stage: Stage) -> None:
    inner = Group(name="g", children=[stage.child("a", stop_takes=100), stage.child("b", stop_takes=100)])
    tree = supervisor(inner, stage.child("c", stop_takes=100))
    await tree.start()
    stopping = asyncio.ensure_future(tree.stop())
    await at(5)
    tree.kill()
    await stopping
    assert now() == 5
    assert stage.names() == []
    assert [status(tree, path) for path in ("c", "g/a", "g/b")] == [Status.KILLED] * 3
    assert status(tree) is Status.STOPPED


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_kill_starts_nothing_again_and_a_stop_that_follows_is_at_once(stage: Stage, strategy: str) -> None:
    waiting = stage.child("b", backoff=AFTER_1)
    tree = supervisor(stage.child("a", stop_takes=100), waiting, stage.child("c", start_takes=1), strategy=strategy)
    await tree.start()
    await stage.crash("b")
    tree.kill()
    tree.kill()
    await at(50)
    assert stage.names() == []
    await tree.stop()
    assert now() == 50


async def test_kill_during_start(stage: Stage) -> None:
    tree = supervisor(stage.child("a", stop_takes=100), stage.child("b", start_takes=100), stage.child("c"))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    tree.kill()
    with pytest.raises(CannotStart, match=r"^top:"):
        await starting
    assert now() == 1
    assert stage.names() == []


# Bad input.


def test_a_name_that_is_taken_or_a_child_that_is_none(stage: Stage) -> None:
    with pytest.raises(DuplicateChild, match=r"top .*'a'"):
        supervisor(stage.child("a"), stage.child("a"))
    inner = Group(name="h", children=[stage.child("a"), stage.child("a")])
    with pytest.raises(DuplicateChild, match=r"g/h .*'a'"):
        supervisor(Group(name="g", children=[inner]))
    with pytest.raises(BadValue, match=r"^children: 'a'"):
        supervisor("a")
    with pytest.raises(BadValue, match=r"^strategy: 'all_for_one' .*one_for_one, one_for_all"):
        supervisor(strategy="all_for_one")
    with pytest.raises(BadValue, match=r"^name: 'a/b'"):
        Supervisor("a/b")


def test_a_path_that_is_unknown() -> None:
    tree = supervisor(Group(name="shop", children=[Stage().child("web")]))
    for path in ("shop/wob", "shop/web/x", "shop/", "", "/", "shop//web"):
        with pytest.raises(UnknownChild, match=r"^name:"):
            tree.child(path)
    with pytest.raises(UnknownChild, match=r"'shop/wob' .*'shop/web'"):
        tree.child("shop/wob")


# The package.


def test_the_names_of_the_package_and_no_others() -> None:
    everything: dict[str, object] = {}
    exec("from interlock.supervision import *", everything)
    assert set(supervision.__all__) <= everything.keys()
    assert set(supervision.__all__) <= set(dir(supervision))
    for name in ("", "Word", "BadValue", "Duration", "ChildRunner", "supervisors"):
        assert not hasattr(supervision, name), name
