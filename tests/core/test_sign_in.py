"""One key signs the sessions of all gateways, for as long as the store lives."""

from interlock.wire.request import ValueAnswer
from interlock.wire.sign_in_request import KeepKey
from tests.core.machine import Machine

FIRST, SECOND, THIRD = "a1" * 32, "b2" * 32, "c3" * 32


def test_the_first_key_stays(m: Machine) -> None:
    both = m.step(("one", KeepKey(1, FIRST)), ("other", KeepKey(2, SECOND)))
    assert both.answers == [("one", ValueAnswer(1, FIRST)), ("other", ValueAnswer(2, FIRST))]
    assert m.step(("other", KeepKey(3, SECOND))).answers == [("other", ValueAnswer(3, FIRST))]
    m.restart()
    assert m.step(("other", KeepKey(4, THIRD))).answers == [("other", ValueAnswer(4, FIRST))]
