"""The circuit of a host: when it opens, for how long, and when it lets a probe through."""

import pytest

from interlock.sender.circuit import FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Circuit


def opened(at: float = 0.0) -> Circuit:
    circuit = Circuit()
    assert [circuit.failed(at, circuit.begin()) for _ in range(FAILURES)] == [False] * (FAILURES - 1) + [True]
    return circuit


@pytest.mark.parametrize(("now", "lets"), [(100, False), (129.99, False), (130, True), (1000, True)])
def test_it_opens_after_five_failures_in_a_row_for_thirty_seconds(now: float, lets: bool) -> None:
    circuit = opened(100)
    assert (circuit.is_open, circuit.allows(now)) == (True, lets)


def test_a_success_begins_the_count_anew() -> None:
    circuit = Circuit()
    for _ in range(3):
        assert [circuit.failed(0, circuit.begin()) for _ in range(FAILURES - 1)] == [False] * (FAILURES - 1)
        assert not circuit.succeeded()
    assert circuit.allows(0)


def test_one_probe_at_a_time_while_it_is_open() -> None:
    circuit = opened()
    assert circuit.begin()
    assert not circuit.allows(10_000)


def test_the_pause_doubles_to_five_minutes_while_probes_fail_and_begins_anew_after_a_success() -> None:
    circuit, now, pauses = opened(), FIRST_PAUSE, []
    for _ in range(6):
        assert circuit.failed(now, circuit.begin())
        pauses.append(circuit.until - now)
        assert not circuit.allows(circuit.until - 0.01)
        now = circuit.until
        assert circuit.allows(now)
    assert pauses == [60, 120, 240, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    circuit.begin()
    assert circuit.succeeded()
    assert circuit.allows(now)
    assert not circuit.begin()
    assert [circuit.failed(now, False) for _ in range(FAILURES)][-1]
    assert circuit.until == now + FIRST_PAUSE


def test_tries_that_began_before_it_opened_do_not_lengthen_the_pause() -> None:
    circuit = opened()
    assert not circuit.failed(20, probe=False)
    assert circuit.until == FIRST_PAUSE
    assert circuit.begin()
    assert not circuit.failed(40, probe=False)
    assert not circuit.allows(40)


def test_a_probe_that_is_not_made_leaves_its_place_to_the_next() -> None:
    circuit = opened()
    circuit.begin()
    circuit.give_back()
    assert circuit.is_open
    assert circuit.allows(FIRST_PAUSE)
