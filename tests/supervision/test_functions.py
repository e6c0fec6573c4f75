"""Children that are functions on the supervisor's own loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from interlock.error import CannotStart, Fatal
from interlock.model.child_info import Exit, Status
from interlock.supervision import Backoff, ChildContext, Function, Process, ServiceAction
from interlock.supervision.function import FunctionInstance
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.process import ProcessInstance
from tests.supervision.stage import AFTER_1, at, now, quiet, running, status, supervisor, virtually

pytestmark = pytest.mark.behaviour("SUP-10")

run_test = virtually


async def forever() -> None:
    await asyncio.Event().wait()


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await asyncio.sleep(1)
        raise error

    return run


def child(run: Callable[..., Awaitable[Any]], **options: Any) -> Function:
    given: dict[str, Any] = {"name": "a", "restart": "never", "backoff": AFTER_1} | options
    return Function(run=run, **given)


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("error", "exit"),
    [
        (ValueError("no\n  luck"), Exit(at=1, error="ValueError: no luck")),
        (ValueError(), Exit(at=1, error="ValueError")),
        (ValueError("x" * 1000), Exit(at=1, error="ValueError: " + "x" * 488)),
        (Fatal("that is it"), Exit(at=1, error="that is it (fatal)")),
        (asyncio.CancelledError(), Exit(at=1, error="cancelled by itself")),
        (SystemExit(3), Exit(at=1, code=3)),
        (SystemExit(), Exit(at=1, code=0)),
        (SystemExit("no\nluck"), Exit(at=1, code=1, error="no luck")),
        (GeneratorExit("odd"), Exit(at=1, error="GeneratorExit: odd")),
    ],
)
async def test_whatever_a_function_raises_is_how_it_ended(error: BaseException, exit: Exit) -> None:
    async with running(child(raising(error)), child(forever, name="b")) as tree:
        await at(1)
        info = tree.child("a")
        assert info.last_exit == exit
        assert info.status is (Status.FINISHED if exit.ok else Status.FAILED)
        assert status(tree, "b") is Status.RUNNING


@pytest.mark.behaviour("SUP-11")
async def test_one_that_never_started_is_stopped_at_once() -> None:
    birth, around = Birth(path="a", name="a", resume_id="the-id"), Surroundings(now=now)
    process = ProcessInstance(Process(name="a", command=("true",)), birth, around)
    for instance in (FunctionInstance(child(forever), birth, around), process):
        await instance.stop(1000.0)
        assert (instance.ended.result(), instance.forced) == (Exit(at=0, code=0), False)
    await at(0)


async def test_a_function_that_returns_has_finished() -> None:
    async def run() -> str:
        return "done"

    async with running(child(run)) as tree:
        await quiet()
        assert tree.child("a").last_exit == Exit(at=0, code=0)
        assert status(tree, "a") is Status.FINISHED


async def test_what_is_no_async_function_is_a_failure() -> None:
    def run() -> None: ...

    async with running(child(run)) as tree:  # type: ignore[arg-type]
        await quiet()
        assert status(tree, "a") is Status.FAILED
        assert "is not an async function" in tree.child("a").reason


@pytest.mark.behaviour("SUP-1")
async def test_one_that_announces_is_up_when_it_says_so() -> None:
    order: list[str] = []

    async def first(context: ChildContext) -> None:
        await asyncio.sleep(2)
        order.append("first is ready")
        context.ready()
        context.ready()
        await forever()

    async def second(context: ChildContext) -> None:
        order.append("second begins")
        await forever()

    async with running(child(first, announces=True), child(second, name="b")) as tree:
        await quiet()
        assert order == ["first is ready", "second begins"]
        assert now() == 2
        assert tree.child("a").since == 2


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("run", "why", "moment"),
    [
        (forever, "exit 0, not ready within 5s", 5),
        (raising(ValueError("no")), "ValueError: no", 1),
        (raising(SystemExit(0)), "exit 0, ended before it was ready", 1),
    ],
)
async def test_one_that_is_not_ready_in_time_or_ends_before_could_not_be_started(
    run: Callable[[], Awaitable[None]], why: str, moment: float
) -> None:
    tree = supervisor(child(run, announces=True, start_timeout=5, restart="always"))
    with pytest.raises(CannotStart) as raised:
        await tree.start()
    assert str(raised.value) == f"a: could not be started ({why})"
    assert now() == moment
    assert status(tree, "a") is Status.FAILED


async def test_one_that_is_stopped_before_it_is_ready() -> None:
    async def slow(context: ChildContext) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    tree = supervisor(child(slow, announces=True))
    starting = asyncio.ensure_future(tree.start())
    await at(1)
    stopping = asyncio.ensure_future(tree.stop())
    await at(2)
    assert status(tree, "a") is Status.STOPPING
    await stopping
    assert now() == 3
    assert tree.child("a").last_exit == Exit(at=3, code=0)
    with pytest.raises(CannotStart):
        await starting


class Deaf:
    """Takes no notice of being cancelled until it is told to end."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.cancelled = 0

    async def __call__(self) -> None:
        while not self.told.is_set():
            try:
                await self.told.wait()
            except asyncio.CancelledError:
                self.cancelled += 1


@pytest.mark.behaviour("SUP-12")
async def test_one_that_ignores_being_cancelled_is_left_alone_at_its_limit() -> None:
    deaf: list[Deaf] = []

    async def run() -> None:
        deaf.append(Deaf())
        await deaf[-1]()

    async with running(child(run, stop_timeout=4)) as tree:
        info = await tree.act("a", ServiceAction.STOP)
        assert now() == 4
        assert info.status is Status.KILLED
        assert info.last_exit == Exit(at=4, error="did not end in time when it was cancelled")
        # There are never two of one child: while the old one goes on, there is no new one.
        info = await tree.act("a", ServiceAction.START)
        assert info.status is Status.FAILED
        assert "its last life goes on" in info.reason
        assert len(deaf) == 1
        # What it says when it ends at last is of no interest any more, but now it can be replaced.
        deaf[0].told.set()
        await quiet()
        assert tree.child("a") == info
        assert (await tree.act("a", ServiceAction.START)).status is Status.RUNNING
        await quiet()
        deaf[1].told.set()


async def test_a_function_that_ends_well_is_cancelled_once_though_it_is_killed_meanwhile() -> None:
    cleaned: list[str] = []

    async def careful() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.25)
            cleaned.append("clean")

    tree = supervisor(child(careful))
    await tree.start()
    stopping = asyncio.ensure_future(tree.stop())
    await at(0.125)
    tree.kill()
    await stopping
    assert cleaned == ["clean"]
    await tree.start()
    tree.kill()
    await tree.stop()
    assert cleaned == ["clean", "clean"]
    assert status(tree, "a") is Status.STOPPED


async def test_kill_waits_for_a_function_for_a_moment_only() -> None:
    deaf = Deaf()
    tree = supervisor(child(deaf, stop_timeout=1000))
    await tree.start()
    tree.kill()
    await tree.stop()
    assert now() == 0.5
    assert status(tree, "a") is Status.KILLED
    deaf.told.set()
    await quiet()


async def test_what_it_raises_while_it_is_stopped_does_not_matter() -> None:
    async def run() -> None:
        try:
            await forever()
        finally:
            raise ValueError("on the way out")

    async with running(child(run, restart="always")) as tree:
        info = await tree.act("a", ServiceAction.STOP)
        assert info.status is Status.STOPPED
        assert info.last_exit == Exit(at=0, error="ValueError: on the way out")


async def test_a_function_that_goes_on_though_it_was_cancelled_is_not_started_beside_itself() -> None:
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
