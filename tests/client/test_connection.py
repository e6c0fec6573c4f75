"""The link of a client on the same machine: which refusals it waits out."""

from collections.abc import Sequence

import pytest

from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.error import Draining, InterlockError, OutcomeUnknown, StoreUnavailable
from interlock.interface.run_builder import new_run
from interlock.model.child_info import ChildInfo, Status
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.wire import frames
from interlock.wire import request as r
from interlock.wire.message import Message, Problem
from interlock.wire.service_request import AskTree
from tests.engine.bench import on_virtual_time

run_test = on_virtual_time


class Answering(Bus, Peer):
    """A scheduler that refuses the first submits, and then accepts. It answers a question with the `value`, as the
    other side of a link reads it."""

    def __init__(self, *refusals: InterlockError, value: object = None) -> None:
        self.refusals = list(refusals)
        self.value = value
        self.asked = 0

    async def connect(self, endpoint: Endpoint) -> Peer:
        self.endpoint = endpoint
        return self

    def send(self, messages: Sequence[Message]) -> None:
        for one in messages:
            if isinstance(one, AskTree | r.AskNext):
                (answers,) = frames.FrameReader().feed(frames.encode([r.ValueAnswer(one.request, self.value)]))
                self.endpoint.received(self, answers)
            if not isinstance(one, r.Submit):
                continue
            self.asked += 1
            answer: Message = r.Accepted(one.request, ["r1"], None)
            if self.refusals:
                error = self.refusals.pop(0)
                answer = Problem(one.request, error.code, str(error), error.retry_after)
            self.endpoint.received(self, [answer])

    async def listen(self, endpoint: Endpoint) -> None: ...
    async def close(self) -> None: ...  # type: ignore[override] # as a bus; nobody closes the peer
    def flush(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@pytest.mark.behaviour("LAN-7", "RUN-28")
@pytest.mark.parametrize(("refusal", "asked"), [(Draining(), 3), (Draining("gpu"), 1)])
def test_a_stop_is_waited_out_but_not_a_lane_that_drains(refusal: Draining, asked: int) -> None:
    bus = Answering(refusal, refusal)

    async def body() -> None:
        connection = Connection(bus, outlasts_stop=True)
        if asked == 1:
            with pytest.raises(Draining, match="lane: 'gpu' is draining"):
                await submit(connection, [new_run("work", {})])
        else:
            assert [one.id for one in await submit(connection, [new_run("work", {})])] == ["r1"]

    on_virtual_time(body)
    assert bus.asked == asked


@pytest.mark.behaviour("LEA-2", "RUN-6")
@pytest.mark.parametrize("key", ["k", None])
async def test_a_submit_with_an_unknown_outcome_is_repeated_only_if_that_is_safe(key: str | None) -> None:
    """Also while the scheduler recovers, which says that nothing was changed: that is not true of the first try."""
    away = StoreUnavailable("it is being recovered")
    bus = Answering(OutcomeUnknown("the connection broke"), away, away)
    submitting = submit(Connection(bus, outlasts_stop=True), [new_run("work", {}, idempotency_key=key)])
    if key is None:
        with pytest.raises(OutcomeUnknown, match="may have been stored"):
            await submitting
    else:
        assert [one.id for one in await submitting] == ["r1"]
    assert bus.asked == (1 if key is None else 4)


async def test_a_doubt_that_is_not_settled_in_time_stays_a_doubt() -> None:
    away = [StoreUnavailable("it is being recovered")] * 1000
    bus = Answering(OutcomeUnknown("the connection broke"), *away)
    with pytest.raises(OutcomeUnknown):
        await submit(Connection(bus, patience=5.0), [new_run("work", {}, idempotency_key="k")])
    assert bus.asked < 100


async def test_a_value_is_read_as_the_type_that_its_request_declares() -> None:
    child = ChildInfo(path="", name="top", kind="supervisor", status=Status.RUNNING)
    connection = Connection(Answering(value=child))
    assert await connection.ask(AskTree(0)) == child
    with pytest.raises(InterlockError, match="link: AskNext was answered with ValueAnswer"):
        await connection.ask(r.AskNext(0, "work", 1))
