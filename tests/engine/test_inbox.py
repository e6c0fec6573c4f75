"""The order in which a pass takes in what has arrived."""

import pytest

from interlock.engine.inbox import Inbox
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.command import Create


@pytest.mark.behaviour("LIV-1", "LIV-2")
def test_what_workers_say_goes_before_what_clients_submit_and_both_get_a_share() -> None:
    inbox = Inbox()
    for _ in range(3):
        inbox.post("client", flood(10_000))
    beat = m.Heartbeat([])
    inbox.post("worker", beat)
    assert (inbox.runs, inbox.bytes) == (30_000, 60_000)
    first = inbox.take(2000)
    assert first[0] == ("worker", beat)
    assert len(first) == 2
    inbox.post_all([("worker", m.Returned("r", 1, "x"))] * 5000)
    assert [type(content) for _, content in inbox.take(2000)] == [m.Returned] * 2000 + [Create]
    while inbox:
        inbox.take(2000)
    assert (inbox.runs, inbox.bytes, inbox.weight) == (0, 0, 0)


@pytest.mark.behaviour("LAN-5")
def test_submits_of_tenants_take_turns_and_a_pass_after_a_large_one_is_short() -> None:
    inbox = Inbox()
    for _ in range(5):
        inbox.post("client-1", flood(1000))
    small = Create(2, [r.NewRun("job", b"{}", tenant="small")], "client", 2)
    assert inbox.take(2000) == [("client-1", flood(1000))]
    inbox.post("client-2", small)
    inbox.post("client-2", small)
    assert inbox.runs_of == {"client-1": 4000, "client-2": 2}
    assert inbox.take(2000) == [("client-2", small)] * 2
    assert inbox.take(2000) == [("client-1", flood(1000))]
    assert inbox.take(2000) == [("client-1", flood(1000))], "nothing else waits"
    assert inbox.runs_of == {"client-1": 2000}


def flood(runs: int) -> Create:
    return Create(1, [r.NewRun("job", b"{}")] * runs, "client", 2 * runs)


def test_everything_can_be_taken_however_little_at_a_time() -> None:
    inbox = Inbox()
    inbox.post("client", flood(1))
    inbox.post("worker", m.Heartbeat([]))
    assert inbox.clear() == [("worker", m.Heartbeat([])), ("client", flood(1))]
    while inbox:
        assert inbox.take(1)
