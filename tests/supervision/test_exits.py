"""How children end up, when one is given up, and what that does to the supervisors above it."""

import asyncio

import pytest

from interlock.error import CannotStart
from interlock.model.child_info import Exit, Status
from interlock.supervision import Birth, Budget, Custom, Group, Instance, OnExhausted, ServiceAction
from tests.supervision.stage import AFTER_1, AT_ONCE, Stage, at, now, quiet, running, status, supervisor, virtually

run_test = virtually

# How children end up.


@pytest.mark.behaviour("SUP-11")
async def test_every_status_a_child_ends_up_in(stage: Stage) -> None:
    names = ("finished", "failed", "killed", "stopped", "forced")
    children = [stage.child(name, restart="never") for name in names]
    async with running(*children) as tree:
        await stage.end("finished")
        await stage.end("failed", code=3)
        await stage.end("killed", signal=9)
        assert [status(tree, name) for name in ("finished", "failed", "killed")] == [
            Status.FINISHED,
            Status.FAILED,
            Status.KILLED,
        ]
        assert [tree.child(name).reason for name in ("finished", "failed", "killed")] == [
            "",
            "exit 3",
            "signal 9 (SIGKILL)",
        ]
        stage.part("forced").stop_takes = 100
        stopping = asyncio.ensure_future(tree.act("forced", ServiceAction.STOP))
        await quiet()
        assert status(tree, "forced") is Status.STOPPING
        stage.live("forced").kill()
        assert (await stopping).status is Status.KILLED
        assert (await tree.act("stopped", ServiceAction.STOP)).status is Status.STOPPED
    assert [status(tree, name) for name in names] == [
        Status.FINISHED,
        Status.FAILED,
        Status.KILLED,
        Status.STOPPED,
        Status.KILLED,
    ]


@pytest.mark.behaviour("SUP-11")
async def test_a_factory_that_raises_is_one_more_failure(stage: Stage) -> None:
    raising: list[BaseException | str] = [ValueError("no\nluck"), "nothing"]

    def factory(birth: Birth) -> Instance:
        if raising:
            first = raising.pop(0)
            if isinstance(first, BaseException):
                raise first
            return first  # type: ignore[return-value]
        return stage.child("a").factory(birth)

    async with running() as tree:
        child = Custom(name="a", factory=factory, backoff=AFTER_1, budget=Budget(max_restarts=2))
        info = await tree.add(child)
        assert (info.status, info.reason) == (Status.PENDING, "ValueError: no luck")
        await at(1)
        info = tree.child("a")
        assert (info.status, info.reason) == (Status.PENDING, "factory: 'nothing' is not an Instance")
        await at(2)
        assert tree.child("a").status is Status.RUNNING
        raising.append(ValueError("again"))
        await stage.crash("a")
        assert (tree.child("a").status, tree.child("a").exhausted) == (Status.FAILED, True)


@pytest.mark.behaviour("SUP-11")
async def test_a_factory_that_raises_fails_the_start_of_everything(stage: Stage) -> None:
    def factory(birth: Birth) -> Instance:
        raise OSError("no")

    tree = supervisor(stage.child("a"), Custom(name="b", factory=factory), stage.child("c"))
    with pytest.raises(CannotStart, match=r"^b: .*OSError: no"):
        await tree.start()
    assert stage.take() == ["start a", "stop a"]


# Giving up.


@pytest.mark.behaviour("SUP-5")
async def test_one_that_was_given_up_stays_down_and_its_siblings_go_on(stage: Stage) -> None:
    async with running(stage.child("a", budget=Budget(max_restarts=3)), stage.child("b")) as tree:
        for _ in range(4):
            await stage.crash("a")
        info = tree.child("a")
        assert (info.status, info.exhausted, info.restarts) == (Status.FAILED, True, 3)
        await at(1000)
        assert stage.names() == ["b"]
        assert status(tree) is Status.RUNNING
        # Started by hand it is as good as new.
        info = await tree.act("a", ServiceAction.START)
        assert (info.status, info.exhausted) == (Status.RUNNING, False)
        for _ in range(3):
            await stage.crash("a")
        assert status(tree, "a") is Status.RUNNING


@pytest.mark.behaviour("SUP-5")
async def test_a_supervisor_that_fails_stops_everything_and_tells_why(stage: Stage) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    tree = supervisor(stage.child("a"), stage.child("b", budget=budget), stage.child("c", stop_takes=1))
    await tree.start()
    waiting = asyncio.ensure_future(tree.wait())
    await stage.crash("b")
    stage.take()
    await stage.crash("b")
    assert stage.take() == ["end b", "stop c"]
    assert not waiting.done()
    exit = await waiting
    assert stage.take() == ["stopped c", "stop a"]
    assert exit == Exit(at=0, error="b: exit 1; restarted once within 60s")
    assert status(tree) is Status.FAILED
    assert tree.child("b").exhausted
    await tree.stop()
    assert status(tree) is Status.FAILED


@pytest.mark.behaviour("SUP-1", "SUP-5")
async def test_a_nested_supervisor_that_failed_is_restarted_from_the_children_it_has_now(stage: Stage) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    group = Group(name="g", children=[stage.child("a"), stage.child("b", budget=budget)], backoff=AFTER_1)
    async with running(group, stage.child("z")) as tree:
        await tree.add(stage.child("c"), under="g", before="b")
        await tree.remove("g/a")
        await stage.crash("b")
        stage.take()
        await stage.crash("b")
        assert stage.take() == ["end b", "stop c"]
        info = tree.child("g")
        assert (info.status, info.reason) == (Status.PENDING, "g/b: exit 1; restarted once within 60s")
        assert [child.status for child in info.children] == [Status.STOPPED, Status.FAILED]
        await tree.add(stage.child("d"), under="g")
        assert status(tree, "g/d") is Status.CREATED
        await at(1)
        assert stage.take() == ["start c", "start b", "start d"]
        assert tree.child("g").restarts == 1
        assert not tree.child("g/b").exhausted
        # Its budget is a new one too.
        await stage.crash("b")
        assert status(tree, "g/b") is Status.RUNNING


@pytest.mark.behaviour("SUP-5")
async def test_a_failure_goes_up_as_far_as_budgets_say(stage: Stage) -> None:
    budget = Budget(max_restarts=1, on_exhausted=OnExhausted.FAIL_SUPERVISOR)
    inner = Group(name="inner", children=[stage.child("a", budget=budget)], budget=budget, backoff=AT_ONCE)
    outer = Group(name="outer", children=[inner], budget=budget, backoff=AT_ONCE)
    tree = supervisor(outer)
    await tree.start()
    lives = 0
    while tree.status is Status.RUNNING:
        await stage.crash("a")
        lives += 1
    assert lives == 8
    exit = await tree.wait()
    assert exit.error.startswith("outer: outer/inner: outer/inner/a: exit 1; restarted once")


@pytest.mark.parametrize(("code", "tree_status"), [(0, Status.FINISHED), (4, Status.FAILED)])
async def test_when_a_significant_child_is_over_so_is_everything(stage: Stage, code: int, tree_status: Status) -> None:
    tree = supervisor(stage.child("a"), stage.child("b", restart="never", significant=True), stage.child("c"))
    await tree.start()
    await stage.end("b", code=code)
    exit = await tree.wait()
    assert (tree.status, exit.ok) == (tree_status, code == 0)
    assert stage.names() == []


async def test_a_significant_child_that_is_over_before_everything_has_started(stage: Stage) -> None:
    tree = supervisor(stage.child("a", restart="never", significant=True), stage.child("b", start_takes=5))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    await stage.end("a")
    await starting
    assert status(tree) is Status.FINISHED
    starting = asyncio.ensure_future(tree.start())
    await at(2)
    await stage.crash("a")
    with pytest.raises(CannotStart, match=r"^top: .*a: exit 1"):
        await starting
    assert stage.names() == []
    assert status(tree) is Status.FAILED


@pytest.mark.behaviour("SUP-12")
async def test_what_an_instance_says_after_it_was_replaced_changes_nothing(stage: Stage) -> None:
    class Silent(Instance):
        """Does not say that it has ended until long after."""

        async def start(self) -> None: ...

        async def stop(self, timeout: float) -> None: ...

        def kill(self) -> None: ...

    made: list[Instance] = []

    def factory(birth: Birth) -> Instance:
        made.append(Silent())
        return made[-1]

    async with running(Custom(name="a", factory=factory, backoff=AT_ONCE), stage.child("b")) as tree:
        info = await tree.act("a", ServiceAction.RESTART)
        assert info.status is Status.RUNNING
        before = tree.child("a")
        assert before.last_exit is not None
        assert before.last_exit.code is None
        with tree.watch() as watch:
            made[0].settle(Exit(at=now(), code=1))
            await quiet()
            assert tree.child("a") == before
            assert len(made) == 2
            await stage.crash("b")
            assert (await anext(watch)).path == "b"
