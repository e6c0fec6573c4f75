"""The circuit to the policy service: three failures, 30 s, three probes, two successes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.circuit import Circuit
from interlock.policy_service.client import CIRCUIT

pytestmark = pytest.mark.behaviour("POL-10")


def after(*results: tuple[float, str]) -> Circuit:
    """Return the circuit after calls, one after the other."""
    circuit = Circuit(CIRCUIT)
    for now, result in results:
        assert circuit.allows(now)
        round = circuit.begin()
        circuit.succeed(round) if result == "ok" else circuit.fail(round, now)
    return circuit


OPENED = [(100.0, "bad")] * 3


@pytest.mark.parametrize(
    ("results", "now", "lets"),
    [
        ([], 0, True),
        (OPENED[:2], 100, True),
        ([*OPENED[:2], (100, "ok"), *OPENED[:2]], 100, True),
        (OPENED, 100, False),
        (OPENED, 129.999, False),
        (OPENED, 130, True),
        ([*OPENED, (130, "bad")], 159.999, False),
        ([*OPENED, (130, "bad")], 160, True),
        ([*OPENED, (130, "ok"), (131, "bad")], 160.999, False),
        ([*OPENED, (130, "ok"), (131, "bad")], 161, True),
        ([*OPENED, (130, "ok"), (130, "ok"), *OPENED[:2]], 130, True),
    ],
)
def test_when_a_call_may_begin(results: list[tuple[float, str]], now: float, lets: bool) -> None:
    assert after(*results).allows(now) == lets


def test_up_to_three_probes_begin_and_two_successes_close_it() -> None:
    circuit = after(*OPENED)
    for _ in range(3):
        assert circuit.allows(130)
        round = circuit.begin()
    assert not circuit.allows(130)
    assert not circuit.succeed(round)
    assert (circuit.is_open, circuit.allows(130)) == (True, False)
    assert circuit.succeed(round)
    assert not circuit.is_open
    assert [circuit.fail(round, 130) for _ in range(3)] == [False] * 3, "the third probe says nothing new"
    assert circuit.allows(130)


def test_results_of_calls_from_before_it_opened_say_nothing() -> None:
    circuit = after(*OPENED)
    for level in (2, 1):
        assert [circuit.succeed(0), circuit.succeed(0), circuit.fail(0, 120)] == [False] * 3
        circuit.give_back(0)
        assert (circuit.level, circuit.until) == (level, 130)
        circuit.begin()


def test_a_probe_without_a_result_leaves_its_place_to_another() -> None:
    circuit = after(*OPENED)
    for _ in range(3):
        round = circuit.begin()
    assert not circuit.allows(130)
    circuit.give_back(round)
    assert circuit.allows(130)


class Slow:
    """The rules of POL-10, from the list of everything that happened."""

    def __init__(self) -> None:
        self.phase, self.events, self.began = "closed", list[str](), 0.0

    def allows(self, now: float) -> bool:
        if self.phase == "open":
            return now >= self.began + 30
        return self.phase == "closed" or self.events.count("begun") < 3

    def begin(self, now: float) -> None:
        if self.phase == "open":
            self._enter("probing", now)
        self.events.append("begun")

    def result(self, result: str, now: float) -> None:
        self.events.append(result)
        results = [one for one in self.events if one != "begun"]
        if results[-3:] == ["bad"] * 3 if self.phase == "closed" else result == "bad":
            self._enter("open", now)
        elif self.phase == "probing" and results.count("ok") == 2:
            self._enter("closed", now)

    def _enter(self, phase: str, now: float) -> None:
        self.phase, self.events, self.began = phase, [], now


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 29.0, 30.0]), st.sampled_from(["begin", "ok", "bad"]), st.integers(0))
    )
)
def test_it_agrees_with_the_rules(steps: list[tuple[float, str, int]]) -> None:
    circuit, slow, now = Circuit(CIRCUIT), Slow(), 0.0
    calls: list[tuple[int, object]] = []  # round, and the phase of the slow model that it began in
    for passed, step, which in steps:
        now += passed
        assert circuit.allows(now) == slow.allows(now)
        if step == "begin":
            if circuit.allows(now):
                round = circuit.begin()
                slow.begin(now)
                calls.append((round, slow.events))
        elif calls:
            round, events = calls.pop(which % len(calls))
            circuit.succeed(round) if step == "ok" else circuit.fail(round, now)
            if events is slow.events:
                slow.result(step, now)
    assert circuit.is_open == (slow.phase != "closed")
