"""Results of tries, and redeliveries: what they store, and what they answer."""

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch, Failed
from interlock.error import UnknownDelivery
from interlock.model.delivery import Delivery, Outgoing, info_of
from interlock.wire.delivery_request import Redeliver, ReportSent, Sent
from interlock.wire.request import ValueAnswer
from tests.core.machine import START, Machine, at_once
from tests.helpers.records import changes

pytestmark = pytest.mark.behaviour("CON-7")

REQUEST = Outgoing("http://a.test/in", None, None, None, 1.0, "application/json", b"{}")
OWED = Delivery("d1", "r1", "work", "default", "run.failed", "a.test", None, START - 50, START + 50, REQUEST)
TRIED = Sent("d1", 0, 3, START + 7, None, 503, "busy", "answered 503")


def machine() -> Machine:
    m = Machine()
    m.store.apply(Batch(records=changes(OWED)))
    return m


def stored(m: Machine) -> Delivery:
    found = at_once(m.store.record(Delivery, "d1"))
    assert found is not None
    return found


def sent(m: Machine, *results: Sent) -> None:
    (answer,) = m.step(("sender", ReportSent(5, list(results)))).answers
    assert answer == ("sender", ValueAnswer(5))


def redeliver(m: Machine) -> Delivery:
    origin, report = m.step(("client", Redeliver(6, "d1"))).answers[-1]
    assert isinstance(report, ValueAnswer)
    assert (origin, report.request) == ("client", 6)
    assert info_of(stored(m)) == report.value
    return stored(m)


def test_results_are_stored_and_then_answered() -> None:
    m = machine()
    sent(m, TRIED)
    tried = replace(OWED, tries=3, next_at=START + 7, status=503, answer="busy", error="answered 503", seq=2)
    assert stored(m) == tried
    sent(m, replace(TRIED, tries=4, ended_at=START + 8, status=200, error=""), replace(TRIED, id="d9"))
    assert stored(m).ended_at == START + 8


def test_what_has_ended_is_owed_again_with_as_much_time_as_at_first() -> None:
    m = machine()
    sent(m, replace(TRIED, ended_at=START + 8))
    m.advance(1000)
    assert redeliver(m) == replace(OWED, round=1, next_at=START + 1000, give_up_at=START + 1100, seq=3)
    sent(m, replace(TRIED, ended_at=START + 9))
    assert stored(m).ended_at is None, "a result of the round before counts no more"


def test_what_is_pending_is_tried_now_and_keeps_the_rest() -> None:
    m = machine()
    sent(m, TRIED)
    before = stored(m)
    m.advance(2)
    assert redeliver(m) == replace(before, round=1, next_at=START + 2, seq=3)


def test_asked_twice_in_one_pass_it_is_delivered_once_more() -> None:
    m = machine()
    sent(m, replace(TRIED, ended_at=START + 8))
    m.step(("a", Redeliver(1, "d1")), ("b", Redeliver(2, "d1")))
    assert [origin for origin, _ in m.last.answers] == ["a", "b"]
    assert (stored(m).round, stored(m).tries, stored(m).give_up_at) == (2, 0, START + 100)


@pytest.mark.parametrize("asked", [Redeliver(6, "d2"), Redeliver(6, "d1").by(only_tenant="other")])
def test_an_unknown_delivery_is_refused(asked: Redeliver) -> None:
    (_, answer) = machine().step(("client", asked)).answers[-1]
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, UnknownDelivery)
