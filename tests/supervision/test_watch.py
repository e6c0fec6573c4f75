"""Looking on: every change once, old and new, and nobody is held up."""

import asyncio

import pytest

from interlock.error import BadValue
from interlock.model.child_info import Change, ChildInfo, Status
from interlock.supervision import Group, ServiceAction, Supervisor, Watch
from tests.supervision.stage import AFTER_1, Stage, at, cannot, quiet, running, supervisor, virtually

pytestmark = pytest.mark.behaviour("SUP-9")

run_test = virtually


def steps(changes: list[Change]) -> list[tuple[str, str | None, str | None]]:
    def word(info: ChildInfo | None) -> str | None:
        return None if info is None else info.status.value

    return [(change.path, word(change.before), word(change.after)) for change in changes]


async def rest(watch: Watch) -> list[Change]:
    return [change async for change in watch]


async def test_every_change_old_and_new_also_below(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("b", stop_takes=1)], strategy="one_for_all")  # type: ignore[arg-type]
    tree = supervisor(stage.child("a", backoff=AFTER_1), group)
    watch = tree.watch()
    await tree.start()
    await stage.end("a", code=3)
    await at(1)
    await tree.stop()
    changes = await rest(watch)
    assert steps(changes) == [
        ("a", "created", "starting"),
        ("a", "starting", "running"),
        ("g", "created", "starting"),
        ("g/b", "created", "starting"),
        ("g/b", "starting", "running"),
        ("g", "starting", "running"),
        ("a", "running", "pending"),
        ("a", "pending", "starting"),
        ("a", "starting", "running"),
        ("g", "running", "stopping"),
        ("g/b", "running", "stopping"),
        ("g/b", "stopping", "stopped"),
        ("g", "stopping", "stopped"),
        ("a", "running", "stopping"),
        ("a", "stopping", "stopped"),
    ]
    crash = changes[6]
    assert crash.at == 0
    assert crash.before is not None
    assert crash.after is not None
    assert (crash.before.last_exit, crash.before.restarts) == (None, 0)
    assert crash.after.last_exit is not None
    assert (crash.after.last_exit.code, crash.after.restarts, crash.after.next_try_at) == (3, 1, 1)
    assert changes[2].before is not None
    assert changes[2].before.strategy == "one_for_all"
    assert all(change.before != change.after for change in changes)
    assert all(one is None or one.children == [] for change in changes for one in (change.before, change.after))


async def test_what_is_added_was_nothing_before_and_what_is_removed_is_nothing_then(stage: Stage) -> None:
    async with running() as tree:
        watch = tree.watch()
        await tree.add(Group(name="g", children=[stage.child("a", failures=[cannot("a")], restart="never")]))
        await tree.add(stage.child("b"), under="g")
        await tree.remove("g")
    changes = await rest(watch)
    assert [one for one in steps(changes) if None in one] == [
        ("g", None, "created"),
        ("g/a", None, "created"),
        ("g/b", None, "created"),
        ("g/b", "created", None),
        ("g/a", "failed", None),
        ("g", "stopped", None),
    ]


async def test_nothing_is_sent_twice(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        watch = tree.watch()
        for action in (ServiceAction.START, ServiceAction.RESUME):
            await tree.act("a", action)
        await tree.act("a", ServiceAction.STOP)
        await tree.act("a", ServiceAction.STOP)
    assert steps(await rest(watch)) == [("a", "running", "stopping"), ("a", "stopping", "stopped")]


async def test_who_is_too_slow_loses_the_oldest_and_holds_nobody_up(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        slow, quick = tree.watch(size=3), tree.watch()
        for _ in range(10):
            await stage.crash("a")
        assert len(stage.part("a").lives) == 11
    everything = await rest(quick)
    assert await rest(slow) == everything[-3:]
    assert (slow.lost, quick.lost) == (len(everything) - 3, 0)


async def test_it_ends_with_the_tree_when_everything_was_told(stage: Stage) -> None:
    tree = supervisor(stage.child("a"))
    watching = asyncio.ensure_future(rest(tree.watch()))
    await quiet()
    await tree.start()
    await tree.stop()
    assert steps(await watching)[-1] == ("a", "stopping", "stopped")
    # And when the tree could not be started.
    stage.part("a").failures = [cannot("a")]
    watching = asyncio.ensure_future(rest(tree.watch()))
    await quiet()
    with pytest.raises(Exception, match="could not be started"):
        await tree.start()
    assert steps(await watching)[-1] == ("a", "starting", "failed")


async def test_one_that_is_closed_gets_nothing_more(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        with tree.watch() as watch:
            waiting = asyncio.ensure_future(rest(watch))
            await quiet()
            await stage.crash("a")
        await stage.crash("a")
        assert steps(await waiting) == [("a", "running", "starting"), ("a", "starting", "running")]
        watch.close()
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_several_may_take_from_one_and_be_cancelled(stage: Stage) -> None:
    async with running(stage.child("a")) as tree:
        watch = tree.watch()
        first, second, third = (asyncio.ensure_future(anext(watch)) for _ in range(3))
        await quiet()
        second.cancel()
        await stage.crash("a")
        taken = [await first, await third]
        assert sorted(steps(taken)) == [("a", "running", "starting"), ("a", "starting", "running")]
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_whoever_is_called_at_each_change_may_raise(stage: Stage) -> None:
    told: list[Change] = []

    def on_change(change: Change) -> None:
        told.append(change)
        raise ValueError("not interested")

    async with running(stage.child("a"), Group(name="g", children=[stage.child("b")]), on_change=on_change) as tree:
        watch = tree.watch()
        told.clear()
        await stage.crash("b")
        assert tree.child("g/b").status is Status.RUNNING
    assert await rest(watch) == told


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_watch_needs_room_for_a_change(size: int) -> None:
    with pytest.raises(BadValue, match=f"size: {size}"):
        Supervisor("t").watch(size)
