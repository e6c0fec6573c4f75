"""Probes: when a child is ready, and when it is not well any more."""

import asyncio
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.supervision import probes
from interlock.supervision.probes import CannotLook, NotReady, ReadyProbe, contains, until_unwell
from interlock.supervision.spec import Alive, Ready
from soak.simulation.loop import VirtualLoop
from tests.supervision.stage import Printing, never


class Looks:
    """Gives the answers that were prepared, one a look, and the last one for ever; remembers when it was asked."""

    def __init__(self, *answers: str | type[CannotLook], takes: float = 0.0) -> None:
        self._answers = list(answers)
        self._takes = takes
        self.at: list[float] = []
        self.limits: list[float] = []

    async def __call__(self, limit: float) -> str:
        self.at.append(now())
        self.limits.append(limit)
        await asyncio.sleep(min(self._takes, limit))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, str):
            return answer
        raise answer("no file can be opened")


def virtually(body: Callable[[], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(body(), 100_000))
        assert loop.errors == []
    finally:
        loop.close()


def now() -> float:
    """The time that the test has taken so far."""
    return round(asyncio.get_running_loop().time(), 6)


run_test = virtually


# Ready.


async def test_after_a_delay_it_is_ready() -> None:
    await ReadyProbe(Ready(delay="2s"), Printing()).wait()
    assert now() == 2


async def test_a_line_that_matches_makes_it_ready_and_then_nobody_listens() -> None:
    instance = Printing()
    probe = ReadyProbe(Ready(log="listening on *80"), instance)
    asyncio.get_running_loop().call_later(3, instance.say, "it is listening on port 80 now")
    asyncio.get_running_loop().call_later(1, instance.say, "listening on nothing")
    await probe.wait()
    assert instance.on_line is None
    assert now() == 3


async def test_a_line_printed_before_anybody_waits_counts() -> None:
    instance = Printing()
    probe = ReadyProbe(Ready(log="up"), instance)
    instance.say("up")
    instance.say("and running")
    await probe.wait()
    assert now() == 0


async def test_without_a_line_that_matches_it_is_not_ready_in_time() -> None:
    instance = Printing()
    probe = ReadyProbe(Ready(log="up", timeout="90s"), instance)
    instance.say("UP")
    with pytest.raises(NotReady, match="'up'"):
        await probe.wait()
    assert instance.on_line is None
    assert now() == 90


@pytest.mark.parametrize(
    ("text", "line", "is_in"),
    [
        ("up", "up", True),
        ("up", "it is up now", True),
        ("up", "UP", False),
        ("up", "", False),
        ("in * s", "started in 5 s", True),
        ("in * s", "started in  s", True),
        ("in * s", "started in s", False),
        ("in*s", "started ins", True),
        ("*up*", "up", True),
        ("a**b", "a b", True),
        ("b*a", "a b", False),
        ("aa*aa", "aaa", False),
        ("ab*ab*b", "abab", False),
        ("ab*ab*b", "ababb", True),
        ("[::]:80 (ok)?", "on [::]:80 (ok)?", True),
        ("^up$", "up", False),
    ],
)
def test_a_star_is_anything_and_the_rest_is_what_it_is(text: str, line: str, is_in: bool) -> None:
    assert contains(line, text) is is_in


@given(st.text("ab*?[]!-.\\", max_size=8), st.text("ab*?[]!-.\\", max_size=16))
def test_a_text_is_found_as_a_shell_would_find_it_anywhere_in_a_name(text: str, line: str) -> None:
    # There, other characters than the star have a meaning too, which brackets take away.
    pattern = text.replace("[", "[[]").replace("?", "[?]")
    assert contains(line, text) is fnmatchcase(line, f"*{pattern}*")


@pytest.mark.parametrize("text", ["^(a+)+$", "*a" * 5_000 + "b", "a" * 5_000 + "*b"])
def test_no_text_takes_for_ever_over_a_line(text: str) -> None:
    assert not contains("a" * 16_384, text)


async def test_tries_begin_at_once_and_become_rare() -> None:
    looks = Looks(*["connection refused"] * 9, "")
    await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), looks).wait()
    assert now() == looks.at[-1]
    assert looks.at == [0, 0.01, 0.03, 0.07, 0.15, 0.31, 0.56, 0.81, 1.06, 1.31]


async def test_when_its_time_is_up_it_is_not_ready_and_the_last_reason_is_told() -> None:
    looks = Looks("connection refused")
    with pytest.raises(NotReady, match="last: connection refused"):
        await ReadyProbe(Ready(http="http://127.0.0.1:1/"), Printing(), looks).wait()
    assert now() == 30
    assert len(looks.at) < 130


async def test_a_try_that_is_not_answered_ends_in_time() -> None:
    looks = Looks("first reason", "no answer", takes=1000)
    with pytest.raises(NotReady, match="last: no answer"):
        await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), looks).wait()
    assert now() == 30
    assert looks.limits[:5] == [probes.LIMIT] * 5
    assert looks.limits[5] < probes.LIMIT


async def test_a_try_that_was_cut_short_does_not_hide_the_reason() -> None:
    looks = Looks("status 503", "no answer within 0.49s", takes=0.5)
    with pytest.raises(NotReady, match=r"last: status 503"):
        await ReadyProbe(Ready(tcp="127.0.0.1:1", timeout="1s"), Printing(), looks).wait()
    assert now() == 1
    assert len(looks.at) == 2


async def test_a_look_that_could_not_be_taken_is_taken_again() -> None:
    await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), Looks(CannotLook, CannotLook, "")).wait()
    with pytest.raises(NotReady, match="last: no file can be opened"):
        await ReadyProbe(Ready(tcp="127.0.0.1:1"), Printing(), Looks(CannotLook)).wait()


# Alive.


async def test_it_is_not_well_when_so_many_looks_in_a_row_failed() -> None:
    looks = Looks("", "status 500", "status 500", "", "status 500", "status 500", "status 502")
    why = await until_unwell(Alive(tcp="127.0.0.1:1", every="10s", failures=3), never, looks)
    assert why == "not well: 3 looks in a row failed (last: status 502)"
    assert now() == 70
    assert looks.at == [10, 20, 30, 40, 50, 60, 70]
    assert set(looks.limits) == {5.0}


async def test_one_failure_is_enough_if_it_is_to_be() -> None:
    why = await until_unwell(Alive(tcp="127.0.0.1:1", every="10s", failures=1), never, Looks("status 500"))
    assert why == "not well: a look failed (last: status 500)"
    assert now() == 10


async def test_while_it_is_paused_nobody_looks_and_what_was_seen_is_forgotten() -> None:
    looks = Looks("status 500")
    loop = asyncio.get_running_loop()
    alive = Alive(tcp="127.0.0.1:1", every="1s", failures=3)
    await until_unwell(alive, lambda: 2.5 < loop.time() < 8.5, looks)
    assert now() == 11
    assert looks.at == [1, 2, 9, 10, 11]


async def test_a_look_in_the_middle_of_which_it_was_paused_does_not_count() -> None:
    looks = Looks("no answer", takes=0.6)
    loop = asyncio.get_running_loop()
    alive = Alive(tcp="127.0.0.1:1", every="1s", failures=2)
    await until_unwell(alive, lambda: 2.3 < loop.time() < 2.7, looks)
    assert now() == 4.6
    assert looks.at == [1, 2, 3, 4]


async def test_a_look_that_could_not_be_taken_counts_neither_way() -> None:
    looks = Looks("status 500", CannotLook, CannotLook, CannotLook, "status 500")
    await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=2), never, looks)
    assert now() == 5


def test_looks_that_take_long_keep_the_pace_and_are_not_made_up_for() -> None:
    slow, at = Looks("no answer", takes=0.7), []

    async def slow_at_first(limit: float) -> str:
        at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(3.5 if len(at) == 1 else 0)
        return "no answer"

    async def body() -> None:
        await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=3), never, slow)
        begun = asyncio.get_running_loop().time()
        await until_unwell(Alive(tcp="127.0.0.1:1", every="1s", failures=4), never, slow_at_first)
        assert [round(one - begun, 6) for one in at] == [1, 4.5, 5.5, 6.5]

    virtually(body)
    assert slow.at == [1, 2, 3]
