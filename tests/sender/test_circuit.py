"""The circuit of a host: when it opens, for how long, and when it lets a probe through."""

import pytest

from interlock.circuit import Circuit
from interlock.sender.sender import CIRCUIT


def opened(at: float = 0.0) -> Circuit:
    circuit = Circuit(CIRCUIT)
    assert [circuit.fail(circuit.begin(), at) for _ in range(5)] == [False] * 4 + [True]
    return circuit


@pytest.mark.parametrize(("now", "lets"), [(100, False), (129.99, False), (130, True), (1000, True)])
def test_it_opens_after_five_failures_in_a_row_for_thirty_seconds(now: float, lets: bool) -> None:
    circuit = opened(100)
    assert (circuit.is_open, circuit.allows(now)) == (True, lets)


def test_a_success_begins_the_count_anew() -> None:
    circuit = Circuit(CIRCUIT)
    for _ in range(3):
        assert [circuit.fail(circuit.begin(), 0) for _ in range(4)] == [False] * 4
        assert not circuit.succeed(circuit.begin())
    assert circuit.allows(0)


def test_one_probe_at_a_time_while_it_is_open() -> None:
    circuit = opened()
    circuit.begin()
    assert not circuit.allows(10_000)


def test_the_pause_doubles_to_five_minutes_while_probes_fail_and_begins_anew_after_a_success() -> None:
    circuit, now, pauses = opened(), 30.0, []
    for _ in range(6):
        assert circuit.fail(circuit.begin(), now)
        pauses.append(circuit.until - now)
        assert not circuit.allows(circuit.until - 0.01)
        now = circuit.until
        assert circuit.allows(now)
    assert pauses == [60, 120, 240, 300, 300, 300]
    assert circuit.succeed(circuit.begin())
    assert circuit.allows(now)
    assert [circuit.fail(circuit.begin(), now) for _ in range(5)][-1]
    assert circuit.until == now + 30


def test_tries_that_began_before_it_opened_do_not_lengthen_the_pause() -> None:
    circuit = opened()
    assert not circuit.fail(0, 20)
    assert circuit.until == 30
    circuit.begin()
    assert not circuit.fail(0, 40)
    assert not circuit.allows(40)


def test_a_probe_that_is_not_made_leaves_its_place_to_the_next() -> None:
    circuit = opened()
    circuit.give_back(circuit.begin())
    assert circuit.is_open
    assert circuit.allows(30)
