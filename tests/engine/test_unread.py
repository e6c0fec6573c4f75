"""Messages of workers that cannot be read: kept before they are acknowledged, and no reason to lose the rest."""

import msgspec
import pytest

from interlock.error import Refused
from interlock.model.letter import DeadLetter
from interlock.wire import message as m
from tests.engine.bench import Bench, Link, on_virtual_time, pass_time, running, until

run_test = on_virtual_time

BAD = m.Unread(b"\xc1", "no message")


@pytest.mark.behaviour("REC-5")
async def test_an_unreadable_outcome_is_acknowledged_once_it_is_stored(bench: Bench) -> None:
    worker = bench.worker("w")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    sent = worker.of(m.Dispatch)[0]
    bad = m.Unread(msgspec.msgpack.encode(["Finished", sent.run_id, sent.fence, 7]), "no outcome")
    bench.store.failing = True
    worker.say(m.Started(sent.run_id, sent.fence), bad)
    await pass_time(5)
    assert not worker.of(m.Settled)
    assert not bench.store.all_of(DeadLetter)
    bench.store.failing = False
    await until(lambda: bench.engine.present.available)
    again = bench.worker("w", m.Held(sent.run_id, sent.fence, True))
    again.say(bad)
    await until(lambda: bool(again.of(m.Settled)))
    assert again.of(m.Settled) == [m.Settled(sent.run_id, sent.fence)]
    assert [one.code for one in bench.store.all_of(DeadLetter).values()] == ["poison"]
    await until(lambda: bool(again.of(m.Dispatch)))


@pytest.mark.behaviour("REC-5", "SEC-6")
async def test_only_a_known_worker_may_send_some_of_them(bench: Bench) -> None:
    for link in (Link(bench.engine), bench.client):
        with pytest.raises(Refused, match=r"a frame that cannot be read \(no message\)"):
            link.say(BAD)
    worker = bench.worker("w")
    for number in range(100):
        worker.say(m.Unread(bytes([number]), "no message"), m.Load(50.0))
    with pytest.raises(Refused):
        worker.say(BAD)
    await until(lambda: len(bench.store.all_of(DeadLetter)) == 100)
    assert bench.engine.state.workers["w"].cpu == 50.0, "the others of its frame count"
    worker.close()
    bench.worker("w").say(BAD)
    await until(lambda: len(bench.store.all_of(DeadLetter)) == 101)


@pytest.mark.behaviour("REC-5")
async def test_a_worker_can_join_with_an_outcome_that_cannot_be_read(bench: Bench) -> None:
    sent = await running(bench, bench.worker("w"))
    bad = m.Unread(msgspec.msgpack.encode(["Finished", sent.run_id, sent.fence, 7]), "no outcome")
    again, held = Link(bench.engine), [m.Held(sent.run_id, sent.fence)]
    again.say(m.Hello("w", m.PROTOCOL, 1, 10, 1, {"job": ""}, held, ""), bad)
    await until(lambda: bool(again.of(m.Settled)))
    assert [one.code for one in bench.store.all_of(DeadLetter).values()] == ["poison"]
