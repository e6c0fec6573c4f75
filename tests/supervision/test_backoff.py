"""How long a child waits before it is started again, and how often it may be: the numbers alone, and in a real tree."""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from interlock.error import BadValue
from interlock.model.child_info import Status
from interlock.supervision import Backoff, Budget, ChildContext, Function
from interlock.supervision.restart import Restarts
from tests.supervision.stage import AT_ONCE, Stage, at, now, running, status, virtually

run_test = virtually

INITIAL = st.one_of(st.just(0.0), st.floats(0.001, 100.0))
MULTIPLIER = st.one_of(st.sampled_from([1, 1.01, 2, 1000]), st.floats(1.0, 1000.0))
MOST = st.floats(0.001, 10_000.0)
JITTER = st.floats(0.0, 0.1)
CHANCE = st.floats(0.0, 1.0)


def grown(initial: float, multiplier: float, most: float, restart: int) -> float:
    """The delay without jitter, step by step."""
    delay = initial
    for _ in range(restart):
        if delay >= most:
            break
        delay *= multiplier
    return min(delay, most)


# The numbers.


@pytest.mark.behaviour("SUP-4")
@given(INITIAL, MULTIPLIER, MOST, JITTER, st.integers(0, 5000), CHANCE)
def test_a_delay_grows_to_its_maximum_and_has_some_jitter_on_top(
    initial: float, multiplier: float, most: float, jitter: float, restart: int, chance: float
) -> None:
    backoff = Backoff(initial=initial, multiplier=multiplier, max=most, jitter=jitter)
    expected = grown(initial, multiplier, most, restart)
    assert backoff.delay(restart, 0.0) == pytest.approx(expected, rel=1e-9)
    assert backoff.delay(restart, chance) == pytest.approx(expected * (1 + jitter * chance), rel=1e-9)
    assert backoff.delay(restart, 0.0) <= backoff.delay(restart, chance) <= backoff.delay(restart, 0.0) * 1.1 + 1e-9
    assert backoff.delay(restart, 0.0) <= backoff.delay(restart + 1, 0.0)


@pytest.mark.behaviour("SUP-4")
def test_the_jitter_is_ten_percent_at_most_and_the_multiplier_one_at_least() -> None:
    assert Backoff(initial=10).delay(0, 1.0) == pytest.approx(11.0)
    with pytest.raises(BadValue, match=r"backoff\.jitter: 0\.11"):
        Backoff(jitter=0.11)
    with pytest.raises(BadValue, match=r"backoff\.multiplier: 0\.99"):
        Backoff(multiplier=0.99)


@pytest.mark.behaviour("SUP-4")
def test_a_slow_growth_goes_on_until_the_maximum() -> None:
    backoff = Backoff(initial=1, multiplier=1.01, max=1000, jitter=0)
    assert backoff.delay(500, 0) == pytest.approx(144.77, abs=0.01)
    assert backoff.delay(10**9, 0) == 1000


@pytest.mark.behaviour("SUP-4")
@pytest.mark.parametrize("restart", [0, 1, 10**6])
def test_zero_is_at_once_for_ever(restart: int) -> None:
    assert Backoff(initial=0, multiplier=1000).delay(restart, 1.0) == 0


@pytest.mark.behaviour("SUP-4")
@pytest.mark.parametrize(("lived", "next_delay"), [(59.0, 4.0), (60.0, 4.0), (60.000001, 1.0), (1e9, 1.0)])
def test_only_longer_than_reset_after_begins_anew(lived: float, next_delay: float) -> None:
    record = Restarts(Backoff(initial=1, jitter=0, max=60, reset_after=60), Budget())
    assert [record.take(0, 0), record.take(0, 0)] == [1, 2]
    record.lived(lived)
    assert record.take(0, 0) == next_delay


@pytest.mark.behaviour("SUP-5")
@pytest.mark.parametrize(("third", "allowed"), [(9.999999, False), (10.0, True), (10.5, True)])
def test_a_restart_counts_until_the_instant_at_which_it_is_as_old_as_the_window(third: float, allowed: bool) -> None:
    record = Restarts(AT_ONCE, Budget(max_restarts=2, max_duration=10))
    for moment in (0.0, 4.0):
        assert record.allowed(moment)
        record.take(moment, 0)
    assert record.allowed(third) is allowed


@pytest.mark.behaviour("SUP-5")
def test_no_limit_is_never_spent_and_remembers_nothing() -> None:
    record = Restarts(AT_ONCE, Budget(max_restarts=0))
    for _ in range(10_000):
        assert record.allowed(0)
        record.take(0, 0)
    assert not record._times


GAPS = st.lists(st.sampled_from([0, 0.25, 1, 2, 3, 5, 9.75, 10, 10.25, 40]), max_size=40)


@pytest.mark.behaviour("SUP-5")
@given(GAPS, st.integers(1, 5), st.sampled_from([1, 5, 10]))
def test_the_budget_is_a_sliding_window(gaps: list[float], most: int, window: float) -> None:
    record = Restarts(AT_ONCE, Budget(max_restarts=most, max_duration=window))
    taken: list[float] = []
    moment = 0.0
    for gap in gaps:
        moment += gap
        expected = sum(moment - window < one <= moment for one in taken) < most
        assert record.allowed(moment) is expected
        if expected:
            record.take(moment, 0)
            taken.append(moment)


# In a tree.


class Model:
    """What is expected of a child with these lives, from the behaviours alone: when it starts, and how it ends up."""

    def __init__(self, backoff: Backoff, budget: Budget, lives: list[float], chance: float) -> None:
        self.starts = [0.0]
        self.exhausted = False
        taken: list[float] = []
        in_a_row = 0
        moment = 0.0
        for lived in lives:
            moment += lived
            if lived > float(backoff.reset_after):  # type: ignore[arg-type]
                in_a_row = 0
            recent = [one for one in taken if moment - one < float(budget.max_duration)]  # type: ignore[arg-type]
            if budget.max_restarts and len(recent) >= budget.max_restarts:
                self.exhausted = True
                return
            taken.append(moment)
            delay = grown(float(backoff.initial), backoff.multiplier, float(backoff.max), in_a_row)  # type: ignore[arg-type]
            in_a_row += 1
            moment += delay * (1 + backoff.jitter * chance)
            self.starts.append(moment)


@pytest.mark.behaviour("SUP-4", "SUP-5")
@settings(max_examples=60, deadline=None)
@given(
    # Times are sums of powers of two, so that boundaries are met exactly.
    backoff=st.builds(
        Backoff,
        initial=st.sampled_from([0, 0.25, 1]),
        multiplier=st.sampled_from([1, 1.5, 2, 4]),
        max=st.sampled_from([0.25, 2, 16]),
        jitter=st.sampled_from([0, 0.0625]),
        reset_after=st.sampled_from([1, 4]),
    ),
    budget=st.builds(Budget, max_restarts=st.integers(0, 4), max_duration=st.sampled_from([2, 4, 16])),
    lives=st.lists(st.sampled_from([0, 0.25, 0.5, 1, 1.25, 2, 4, 4.25, 16]), max_size=12),
    chance=st.sampled_from([0, 0.5, 1]),
)
def test_a_child_starts_when_the_model_says(
    backoff: Backoff, budget: Budget, lives: list[float], chance: float
) -> None:
    async def body() -> None:
        expected = Model(backoff, budget, lives, chance)
        starts: list[float] = []

        async def live(context: ChildContext) -> None:
            starts.append(now())
            assert context.restarts == len(starts) - 1
            if len(starts) > len(lives):
                await asyncio.Event().wait()
            if lives[len(starts) - 1]:
                await asyncio.sleep(lives[len(starts) - 1])
            raise RuntimeError("over")

        child = Function(name="child", run=live, backoff=backoff, budget=budget)
        async with running(child, chance=lambda: chance) as tree:
            await at(expected.starts[-1] + 20)
            assert starts == expected.starts
            info = tree.child("child")
            assert info.exhausted is expected.exhausted
            assert info.status is (Status.FAILED if expected.exhausted else Status.RUNNING)
            assert info.restarts == len(expected.starts) - 1

    virtually(body)


@pytest.mark.behaviour("SUP-4")
@pytest.mark.parametrize(("lived", "pause"), [(4.0, 2.0), (4.25, 1.0)])
async def test_a_child_that_was_up_for_exactly_reset_after_goes_on_where_it_was(
    stage: Stage, lived: float, pause: float
) -> None:
    backoff = Backoff(initial=1, jitter=0, reset_after=4)
    async with running(stage.child("a", backoff=backoff)) as tree:
        await stage.crash("a")
        await at(1)
        assert status(tree, "a") is Status.RUNNING
        await at(1 + lived)
        await stage.crash("a")
        assert tree.child("a").next_try_at == 1 + lived + pause
        await at(1 + lived + pause - 0.125)
        assert status(tree, "a") is Status.PENDING
        await at(1 + lived + pause)
        assert status(tree, "a") is Status.RUNNING


@pytest.mark.behaviour("SUP-4")
async def test_time_that_it_takes_to_start_and_to_stop_is_not_time_that_it_ran(stage: Stage) -> None:
    backoff = Backoff(initial=1, jitter=0, reset_after=4)
    async with running(stage.child("a", backoff=backoff, start_takes=10)) as tree:
        await stage.crash("a")
        await at(21 + 3)
        await stage.crash("a")
        assert tree.child("a").next_try_at == 24 + 2


@pytest.mark.behaviour("SUP-5")
@pytest.mark.parametrize(("third", "exhausted"), [(9.875, True), (10.0, False), (10.125, False)])
async def test_in_a_tree_too_the_window_slides(stage: Stage, third: float, exhausted: bool) -> None:
    async with running(stage.child("a", budget=Budget(max_restarts=2, max_duration=10))) as tree:
        await stage.crash("a")
        await at(5)
        await stage.crash("a")
        await at(third)
        await stage.crash("a")
        info = tree.child("a")
        assert info.exhausted is exhausted
        assert info.status is (Status.FAILED if exhausted else Status.RUNNING)
        if exhausted:
            assert info.reason == "exit 1; restarted 2 times within 10s"


@pytest.mark.behaviour("SUP-4")
def test_at_once_without_limit_does_not_hold_up_the_others() -> None:
    """A child that cannot even be made and has no backoff is tried all the time; the rest goes on all the same."""

    async def body() -> None:
        made = 0

        def factory(context: object) -> object:
            nonlocal made
            made += 1
            raise OSError("no")

        async def other() -> None:
            await asyncio.Event().wait()

        stage = Stage()
        broken = stage.child("broken")
        async with running(Function(name="other", run=other)) as tree:
            adding = asyncio.ensure_future(tree.add(type(broken)(name="broken", factory=factory, backoff=AT_ONCE)))  # type: ignore[arg-type]
            for _ in range(1000):
                await asyncio.sleep(0)
            assert made > 10
            assert adding.done()
            assert status(tree, "other") is Status.RUNNING
            await tree.remove("broken")
            stopped_at = made
            await quietly()
            assert made == stopped_at

    async def quietly() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    virtually(body)


@pytest.mark.behaviour("SUP-11")
async def test_dice_that_break_leave_a_child_failed_and_say_so() -> None:
    async def ends() -> None:
        await asyncio.sleep(1)

    async with running(Function(name="a", run=ends), chance=lambda: 1 / 0) as tree:
        await at(2)
        assert status(tree, "a") is Status.FAILED
        assert tree.child("a").reason == "ZeroDivisionError: division by zero"
