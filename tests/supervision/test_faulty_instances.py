"""Instances that break their contract: whatever they do, the supervisor goes on, and can be stopped."""

import asyncio
from collections.abc import Callable

import pytest

from interlock.error import CannotStart
from interlock.model.child_info import Exit, Status
from interlock.supervision import Birth, Custom, Instance, ServiceAction, Supervisor
from tests.supervision.stage import AFTER_1, AT_ONCE, Stage, at, now, quiet, running, status, supervisor, virtually

run_test = virtually


class Plain(Instance):
    """Does as it should."""

    async def start(self) -> None: ...

    async def stop(self, timeout: float) -> None:
        self.settle(Exit(at=now(), code=0))

    def kill(self) -> None:
        self.settle(Exit(at=now(), signal=9))


def custom(factory: Callable[[Birth], Instance], name: str = "a") -> Custom:
    return Custom(name=name, factory=factory, backoff=AFTER_1, stop_timeout=3)


async def test_a_stop_that_raises_ends_by_force(stage: Stage) -> None:
    async with running(stage.child("a", stop_raises=ValueError("no")), stage.child("b")) as tree:
        stage.take()
        info = await tree.act("a", ServiceAction.STOP)
        assert stage.take() == ["stop a", "kill a"]
        assert info.status is Status.KILLED
        # It is as if it had been stopped well: it can be started again.
        assert (await tree.act("a", ServiceAction.START)).status is Status.RUNNING
    assert stage.names() == []


async def test_a_stop_and_a_kill_that_raise_do_not_hold_up_anybody_for_longer_than_the_limit(stage: Stage) -> None:
    broken = stage.child("b", stop_raises=ValueError("no"), kill_raises=ValueError("no"), stop_timeout=3)
    tree = supervisor(stage.child("a"), broken)
    await tree.start()
    await tree.stop()
    assert now() == 3
    info = tree.child("b")
    assert info.status is Status.KILLED
    assert info.last_exit is not None
    assert info.last_exit.code is None
    await tree.start()
    tree.kill()
    await tree.stop()


@pytest.mark.parametrize("how", ["raised", "cancelled", "silent"])
async def test_an_end_that_is_none(how: str) -> None:
    class Odd(Plain):
        async def stop(self, timeout: float) -> None:
            if how == "raised":
                self.ended.set_exception(OSError("torn"))
            elif how == "cancelled":
                self.ended.cancel()

    async with running(custom(lambda birth: Odd())) as tree:
        info = await tree.act("a", ServiceAction.STOP)
        assert info.status is Status.STOPPED
        assert info.last_exit is not None
        assert info.last_exit.code is None
        assert how != "raised" or info.last_exit.error == "OSError: torn"
        await tree.act("a", ServiceAction.START)


@pytest.mark.parametrize("raised", [ValueError("torn"), asyncio.CancelledError()])
async def test_an_end_that_is_an_error_is_a_failure(raised: BaseException) -> None:
    made: list[Plain] = []

    def factory(birth: Birth) -> Instance:
        made.append(Plain())
        return made[-1]

    async with running(custom(factory)) as tree:
        if isinstance(raised, asyncio.CancelledError):
            made[0].ended.cancel()
        else:
            made[0].ended.set_exception(raised)
        await quiet()
        assert status(tree, "a") is Status.PENDING
        await at(1)
        assert status(tree, "a") is Status.RUNNING


async def test_one_that_was_not_made_as_an_instance_is() -> None:
    class Halfway(Plain):
        def __init__(self) -> None:
            """Without what every instance has."""

    tree = supervisor(custom(lambda birth: Halfway()))
    with pytest.raises(CannotStart, match="factory:"):
        await tree.start()


async def test_a_property_that_raises() -> None:
    class Odd(Plain):
        @property
        def forced(self) -> bool:  # type: ignore[override] # it is an attribute elsewhere
            raise RuntimeError("who knows")

    async with running(custom(lambda birth: Odd())) as tree:
        assert (await tree.act("a", ServiceAction.RESTART)).status is Status.RUNNING
        assert tree.child("a").last_exit is not None
        assert "who knows" in str(tree.child("a").last_exit)


async def test_a_start_that_is_cancelled_from_within_is_a_failure() -> None:
    class Odd(Plain):
        async def start(self) -> None:
            raise asyncio.CancelledError

    async with running() as tree:
        info = await tree.add(custom(lambda birth: Odd()))
        assert (info.status, info.reason) == (Status.PENDING, "its start was cancelled")


async def test_a_start_that_cannot_be_broken_off_is_stopped_when_it_is_over() -> None:
    class Stubborn(Plain):
        async def start(self) -> None:
            end = now() + 5
            while now() < end:
                try:
                    await asyncio.sleep(end - now())
                except asyncio.CancelledError:
                    continue

    async with running() as tree:
        adding = asyncio.ensure_future(tree.add(custom(lambda birth: Stubborn())))
        await at(1)
        stopping = asyncio.ensure_future(tree.act("a", ServiceAction.STOP))
        await at(2)
        assert status(tree, "a") is Status.STOPPING
        assert (await stopping).status is Status.STOPPED
        assert now() == 5
        await adding


async def test_one_that_ends_well_before_it_is_up_has_failed_to_start() -> None:
    class Unaware(Plain):
        """Goes on with its start though it has ended."""

        async def start(self) -> None:
            self.settle(Exit(at=now(), code=0))
            await asyncio.Event().wait()

    tree = supervisor(custom(lambda birth: Unaware()))
    with pytest.raises(CannotStart, match=r"^a: .*exit 0"):
        await tree.start()
    # For so long its start may take to notice.
    assert now() == 3


async def test_one_that_has_ended_before_its_start_returns_was_up() -> None:
    """Whether a quick one is seen to run must not depend on chance."""

    class Quick(Plain):
        async def start(self) -> None:
            self.settle(Exit(at=now(), code=0))

    child = Custom(name="a", factory=lambda birth: Quick(), restart="on_failure")  # type: ignore[arg-type]
    async with running(child) as tree:
        await quiet()
        assert status(tree, "a") is Status.FINISHED
        assert tree.status is Status.RUNNING


async def test_what_closes_the_tree_may_raise(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard of processes may be gone by itself."""

    class Gone:
        async def close(self) -> None:
            raise BrokenPipeError("gone")

    tree = supervisor(stage.child("a"))
    monkeypatch.setattr(tree.around, "guard", Gone())
    await tree.start()
    await tree.stop()
    assert tree.status is Status.STOPPED


async def test_many_who_all_want_something_else(stage: Stage) -> None:
    """Whatever is done at the same time, in the end what was asked for last is so, and nothing hangs."""
    children = [stage.child(name, start_takes=1, stop_takes=1, backoff=AT_ONCE) for name in "ab"]
    async with running(*children, strategy="one_for_all") as tree:
        for moment in range(40):
            doing = [
                asyncio.ensure_future(tree.act("a", action))
                for action in (
                    ServiceAction.RESTART,
                    ServiceAction.STOP,
                    ServiceAction.START,
                    ServiceAction.RESTART,
                )
            ]
            await at(now() + 0.25 * (moment % 7))
            if [actor for actor in stage.alive if actor.birth.name == "b"]:
                stage.live("b").end(1)
            await asyncio.gather(*doing)
        last: Supervisor = tree
        await last.act("a", ServiceAction.STOP)
        await at(now() + 10)
        assert stage.names() == ["b"]
