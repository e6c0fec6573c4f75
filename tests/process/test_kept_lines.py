"""Which log lines a worker keeps for a scheduler that may not have stored them, or is not there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from interlock.model.run import Now
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.ports.clock import Clock
from interlock.ports.executor import Executor, Report
from interlock.wire import message as m
from interlock.worker.host import Host, HostSettings
from interlock.worker.reports import IN_DOUBT, MOST, KeptLines
from tests.helpers.places import run_async, until


class Watch(Clock):
    """It shows what it is set to."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> Now:
        return Now(self.time, self.time)

    def wake_after(self, delay: float, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Silent(Executor):
    """Begins whatever it is given, and says no more than the test does."""

    async def open(self, report: Report) -> None: ...
    def start(self, attempt: m.Dispatch) -> None: ...
    def kill(self, attempt: m.Dispatch) -> None: ...

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        return False

    async def close(self) -> None: ...


class Link(Peer):
    def __init__(self) -> None:
        self.sent: list[m.Message] = []

    def send(self, messages: Sequence[m.Message]) -> None:
        self.sent.extend(messages)

    def flush(self) -> None: ...
    def close(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...

    @property
    def lines(self) -> list[tuple[str, int]]:
        return [(one.run_id, one.number) for one in self.sent if isinstance(one, m.LogMessage)]


class Links(Bus):
    """Each connection is a new link, which the test has."""

    def __init__(self) -> None:
        self.links: list[Link] = []

    async def listen(self, endpoint: Endpoint) -> None: ...

    async def connect(self, endpoint: Endpoint) -> Peer:
        self.links.append(Link())
        return self.links[-1]

    async def close(self) -> None: ...


def line(run_id: str, number: int, text: str = "text", level: str = "info") -> m.LogMessage:
    return m.LogMessage(run_id, 1, number, 0.0, level, text)


def chunks(run_id: str, number: int, text: str = '["text"]') -> m.LogMessage:
    return line(run_id, number, text, m.CHUNKS)


class Worker:
    def __init__(self) -> None:
        self.clock = Watch()
        self.bus = Links()
        self.host = Host(self.bus, Silent(), {}, HostSettings(worker_id="w"), self.clock)

    def hear(self, *messages: m.Message) -> None:
        self.host.received(self.bus.links[-1], messages)

    def say(self, *lines: m.LogMessage) -> None:
        for one in lines:
            self.host.report(one)

    async def lose(self, *meanwhile: m.LogMessage) -> list[tuple[str, int]]:
        """The link breaks, something is logged, and what is said over the next link is returned."""
        count = len(self.bus.links)
        self.host.closed(self.bus.links[-1])
        self.say(*meanwhile)
        await until(lambda: len(self.bus.links) > count and self.bus.links[-1].sent, "it is back")
        return self.bus.links[-1].lines


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Worker:
    """It has a link, and two attempts."""
    made = Worker()

    async def run(body: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.get_running_loop().create_task(made.host.run())
        await until(lambda: made.bus.links and made.bus.links[-1].sent, "it has a link")
        made.hear(
            m.Welcome(1000.0), *(m.Dispatch(one, 1, "job", 1, b"{}", None, False, 1.0) for one in ("first", "second"))
        )
        await body()
        made.host.abandon()
        await task

    request.node.run_test = lambda body: run_async(run(body))
    return made


@pytest.mark.behaviour("RUN-20")
async def test_lines_are_said_again_that_were_sent_a_moment_before_and_those_of_an_outage(worker: Worker) -> None:
    worker.say(line("first", 1))
    worker.clock.time += IN_DOUBT + 1
    worker.say(line("first", 2), line("second", 1))
    repeated = [("second", 1), ("first", 2), ("first", 3)]
    assert await worker.lose(line("first", 3)) == repeated
    assert await worker.lose() == repeated, "this link may have lost them too"


async def test_lines_of_what_is_settled_are_stored_and_not_said_again(worker: Worker) -> None:
    worker.say(line("first", 1), line("second", 1))
    worker.hear(m.Settled("first", 1))
    assert await worker.lose() == [("second", 1)]


async def test_lines_that_were_sent_long_ago_take_no_room_from_those_of_an_outage(worker: Worker) -> None:
    large = "x" * (MOST // 10)
    worker.say(*(line("first", number, large) for number in range(1, 20)))
    worker.clock.time += IN_DOUBT + 1
    outage = [line("second", number, large) for number in range(1, 20)]
    said = await worker.lose(*outage)
    assert said == [("second", number) for number in range(1, len(said) + 1)]
    assert 5 < len(said) <= 10


@pytest.mark.behaviour("RUN-27")
async def test_lines_and_chunks_are_repeated_in_order(worker: Worker) -> None:
    worker.say(line("first", 1), chunks("first", 2), line("first", 3))
    assert await worker.lose(chunks("first", 4)) == [("first", number) for number in (1, 2, 3, 4)]
    worker.hear(m.Welcome(1000.0), m.Settled("first", 1))
    worker.say(chunks("first", 5))
    assert worker.bus.links[-1].lines[4:] == [], "nobody waits for chunks of an attempt that is settled"
    assert await worker.lose() == []


@pytest.mark.behaviour("RUN-27", "SEC-6")
def test_chunks_are_bounded_over_all_attempts_and_forgotten_with_their_attempt() -> None:
    kept, text = KeptLines(), "x" * (2**20 - 100)
    for number in range(1, 33):
        for run_id in ("first", "second"):
            assert [sent.text for sent in kept.keep(chunks(run_id, number, text), 0.0, False)] == [text]
    assert [sent.text for sent in kept.keep(chunks("first", 33), 0.0, False)] == ["[]"], "64 MiB are kept"
    assert kept.keep(chunks("first", 34), 0.0, False) == []
    kept.settle(("second", 1))
    assert kept.keep(chunks("first", 35), 0.0, False) == [], "a stream that is cut stays cut"
    third = chunks("third", 1)
    assert kept.keep(third, 1.0, True) == [third]
    kept.confirm(1.0)
    assert kept.again(2.0, {("third", 1)}) == [third]
    kept.settle(("third", 1))
    assert kept.again(2.0, set()) == []
