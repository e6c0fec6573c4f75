"""Who is restarted with a child that ended: exact orders, also when something comes between."""

import asyncio

import pytest

from interlock.model.child_info import Status
from interlock.supervision import Backoff, Budget, Group, ServiceAction
from tests.supervision.stage import AFTER_1, Stage, at, cannot, now, quiet, running, status, virtually

pytestmark = pytest.mark.behaviour("SUP-2")

run_test = virtually


async def test_one_for_all_stops_the_others_in_reverse_order_and_starts_all_in_order(stage: Stage) -> None:
    children = [stage.child(name, backoff=AFTER_1, start_takes=1, stop_takes=1) for name in "abcd"]
    async with running(*children, strategy="one_for_all") as tree:
        stage.take()
        begun = now()
        await stage.crash("b")
        assert tree.child("b").next_try_at == begun + 1
        await at(begun + 0.5)
        assert [status(tree, name) for name in "abcd"] == ["running", "pending", "running", "stopping"]
        await at(begun + 3)
        infos = [tree.child(name) for name in "acd"]
        assert [(info.status, info.restarts) for info in infos] == [("starting", 1), ("pending", 1), ("pending", 1)]
        assert infos[1].reason.endswith(" b")
        await at(begun + 7)
        down = ["stop d", "stopped d", "stop c", "stopped c", "stop a", "stopped a"]
        up = [f"{word} {name}" for name in "abcd" for word in ("start", "up")]
        assert stage.take() == ["end b", *down, *up]
        # What it stopped itself did not make it begin again, and counts against no budget but b's.
        assert [tree.child(name).restarts for name in "abcd"] == [1, 1, 1, 1]


async def test_rest_for_one_leaves_alone_those_that_were_started_before(stage: Stage) -> None:
    async with running(*[stage.child(name) for name in "abcd"], strategy="rest_for_one") as tree:
        stage.take()
        await stage.crash("c")
        assert stage.take() == ["end c", "stop d", "start c", "start d"]
        await stage.crash("d")
        assert stage.take() == ["end d", "start d"]
        await stage.crash("a")
        assert stage.take() == ["end a", *[f"stop {name}" for name in "dcb"], *[f"start {name}" for name in "abcd"]]
        assert [tree.child(name).restarts for name in "abcd"] == [1, 1, 2, 3]


@pytest.mark.behaviour("SUP-3")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_the_policy_of_the_child_that_ended_decides(stage: Stage, strategy: str) -> None:
    policies = {"a": "never", "b": "on_failure", "c": "always"}
    children = [stage.child(name, restart=policy) for name, policy in policies.items()]
    async with running(*children, strategy=strategy) as tree:
        stage.take()
        await stage.end("b")
        await stage.crash("a")
        assert stage.take() == ["end b", "end a"]
        assert [status(tree, name) for name in "abc"] == ["failed", "finished", "running"]
        # Now the others are restarted whatever their own policies are.
        await stage.end("c")
        all_of_them = [f"start {name}" for name in "abc"]
        assert stage.take() == ["end c", *(all_of_them if strategy == "one_for_all" else ["start c"])]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_one_that_was_given_up_or_stopped_by_hand_is_not_started_with_the_others(
    stage: Stage, strategy: str
) -> None:
    # What is given up has no restart left from the beginning.
    given_up = stage.child("b", budget=Budget(max_restarts=1))
    async with running(stage.child("a"), given_up, stage.child("c"), stage.child("d"), strategy=strategy) as tree:
        await tree.act("c", ServiceAction.STOP)
        await stage.crash("b")
        await stage.crash("b")
        assert [status(tree, name) for name in "abcd"] == ["running", "failed", "stopped", "running"]
        stage.take()
        await stage.crash("a")
        assert stage.take() == ["end a", "stop d", "start a", "start d"]
        assert [status(tree, name) for name in "abcd"] == ["running", "failed", "stopped", "running"]


async def test_a_crash_while_the_others_are_stopped_makes_it_begin_again(stage: Stage) -> None:
    slow = Backoff(initial=10, jitter=0)
    children = [stage.child("a", backoff=slow), stage.child("b"), stage.child("c", stop_takes=2)]
    async with running(*children, strategy="one_for_all") as tree:
        stage.take()
        await stage.crash("b")
        await at(1)
        await stage.crash("a")
        await at(2)
        assert stage.take() == ["end b", "stop c", "end a", "stopped c"]
        assert [status(tree, name) for name in "abc"] == ["pending"] * 3
        await at(10.5)
        assert stage.take() == []
        await at(11)
        assert stage.take() == ["start a", "start b", "start c"]
        assert [tree.child(name).restarts for name in "abc"] == [1, 1, 1]


async def test_a_crash_while_the_others_are_started_makes_it_begin_again(stage: Stage) -> None:
    children = [stage.child("a"), stage.child("b", start_takes=2), stage.child("c")]
    async with running(*children, strategy="one_for_all") as tree:
        stage.take()
        await stage.crash("c")
        await at(3)
        await stage.crash("a")
        await at(6)
        assert stage.take() == [
            *["end c", "stop b", "stop a", "start a", "start b", "end a", "up b"],
            *["stop b", "start a", "start b", "up b", "start c"],
        ]
        assert [status(tree, name) for name in "abc"] == ["running"] * 3
        assert [tree.child(name).restarts for name in "abc"] == [2, 2, 1]


@pytest.mark.behaviour("SUP-5")
async def test_a_start_that_fails_while_all_are_restarted_counts_against_the_budget(stage: Stage) -> None:
    children = [stage.child("a"), stage.child("b", budget=Budget(max_restarts=3)), stage.child("c")]
    async with running(*children, strategy="one_for_all") as tree:
        stage.part("b").failures = [cannot("b")] * 10
        stage.take()
        await stage.crash("b")
        round_ = ["stop a", "start a", "start b", "failed b"]
        assert stage.take() == ["end b", "stop c", *round_, *round_, *round_, "start c"]
        assert [status(tree, name) for name in "abc"] == ["running", "failed", "running"]
        assert tree.child("b").exhausted


async def test_two_crashes_at_the_same_instant_are_one_restart_after_the_longer_delay(stage: Stage) -> None:
    children = [stage.child("a", backoff=Backoff(initial=5, jitter=0)), stage.child("b", backoff=AFTER_1)]
    async with running(*children, stage.child("c"), strategy="one_for_all") as tree:
        stage.take()
        stage.live("a").end(1)
        stage.live("b").end(1)
        await at(4.5)
        assert stage.take() == ["end a", "end b", "stop c"]
        await at(5)
        assert stage.take() == ["start a", "start b", "start c"]
        assert [tree.child(name).restarts for name in "abc"] == [1, 1, 1]


async def test_a_crash_during_the_first_start_waits_until_all_were_started(stage: Stage) -> None:
    children = [stage.child("a"), stage.child("b", start_takes=2), stage.child("c")]

    async def crash_early() -> None:
        await asyncio.sleep(1)
        await stage.crash("a")

    crashing = asyncio.ensure_future(crash_early())
    async with running(*children, strategy="one_for_all"):
        await crashing
        await at(now() + 2)
        assert stage.take() == [
            *["start a", "start b", "end a", "up b", "start c"],
            *["stop c", "stop b", "start a", "start b", "up b", "start c"],
        ]


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize("moment", [0.5, 1.5, 2.5, 3.5])
async def test_stop_during_a_restart_of_all(stage: Stage, moment: float) -> None:
    """While others are stopped, during the backoff, and while the first or the second is started."""
    backoff = Backoff(initial=2, jitter=0)
    children = [stage.child(name, backoff=backoff) for name in "ab"]
    async with running(*children, stage.child("c", stop_takes=1), strategy="one_for_all") as tree:
        for name in "ab":
            stage.part(name).start_takes = 1
        await stage.crash("a")
        await at(moment)
    assert stage.names() == []
    assert now() <= moment + 1
    assert [status(tree, name) for name in "abc"] == ["stopped"] * 3
    stage.take()
    await at(100)
    assert stage.take() == []


@pytest.mark.behaviour("SUP-6")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_the_one_that_ended_is_removed_during_the_backoff_and_the_others_come_back(
    stage: Stage, strategy: str
) -> None:
    children = [stage.child(name, backoff=AFTER_1) for name in "abc"]
    async with running(*children, strategy=strategy) as tree:
        await stage.crash("a")
        stage.take()
        await tree.remove("a")
        await at(1)
        assert stage.take() == ["start b", "start c"]
        assert stage.names() == ["b", "c"]


@pytest.mark.behaviour("SUP-6")
async def test_one_that_is_added_during_a_restart_of_all_is_started_once(stage: Stage) -> None:
    children = [stage.child("a", backoff=AFTER_1), stage.child("b")]
    async with running(*children, strategy="one_for_all") as tree:
        await stage.crash("a")
        stage.take()
        await tree.add(stage.child("c"))
        await at(1)
        assert stage.take() == ["start c", "start a", "start b"]
        assert status(tree, "c") is Status.RUNNING


async def test_one_that_is_stopped_by_hand_while_all_are_restarted_stays_down(stage: Stage) -> None:
    children = [stage.child("a", backoff=AFTER_1), stage.child("b", stop_takes=1), stage.child("c")]
    async with running(*children, strategy="one_for_all") as tree:
        await stage.crash("a")
        stopping = asyncio.ensure_future(tree.act("b", ServiceAction.STOP))
        await quiet()
        assert (await stopping).status is Status.STOPPED
        assert (await tree.act("c", ServiceAction.STOP)).status is Status.STOPPED
        await at(5)
        assert stage.names() == ["a"]
        assert [status(tree, name) for name in "abc"] == ["running", "stopped", "stopped"]


async def test_one_that_is_started_by_hand_during_the_backoff_of_all_is_up_at_once(stage: Stage) -> None:
    children = [stage.child("a", backoff=AFTER_1), stage.child("b"), stage.child("c")]
    async with running(*children, strategy="one_for_all") as tree:
        await stage.crash("a")
        assert (await tree.act("b", ServiceAction.START)).status is Status.RUNNING
        assert now() == 0
        stage.take()
        await at(1)
        assert stage.take() == ["start a", "start c"]


async def test_a_group_is_restarted_with_its_siblings_like_any_child(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("b"), stage.child("c")])
    async with running(stage.child("a"), group, stage.child("d"), strategy="one_for_all") as tree:
        stage.take()
        await stage.crash("a")
        assert stage.take() == ["end a", *[f"stop {name}" for name in "dcb"], *[f"start {name}" for name in "abcd"]]
        assert tree.child("g").restarts == 1
        await stage.crash("c")
        assert stage.take() == ["end c", "start c"]
