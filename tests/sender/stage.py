"""A sender on virtual time: an outbox as the store keeps it, a scheduler that notes reports, receivers by script."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import Any, cast

import msgspec

from interlock.error import StoreUnavailable
from interlock.model.delivery import Delivery, Outgoing
from interlock.model.record import RecordFilter
from interlock.model.run import Now
from interlock.ports.bus import Endpoint, Peer
from interlock.ports.clock import Clock
from interlock.ports.store import Reader, RecordRows
from interlock.sender.sender import Sender
from interlock.sender.transport import ReceivedAnswer, Transport
from interlock.simulation.virtual import VirtualBus
from interlock.wire import delivery_request as d
from interlock.wire import message as m
from interlock.wire.request import ValueAnswer
from soak.simulation.loop import VirtualLoop

WALL = 1_000_000.0
OK = ReceivedAnswer(200, "fine")
BROKEN = ReceivedAnswer(500, "oops", "answered 500")

Reply = tuple[float, ReceivedAnswer]  # seconds until the answer, and the answer


def outgoing(host: str) -> Outgoing:
    return Outgoing(f"http://{host}/hook", None, None, None, 10.0, "application/json", b"{}")


def hook(run_id: str, seq: int = 1, host: str = "a") -> d.HookRequest:
    return d.HookRequest(run_id, seq, f"{run_id}-{seq}", outgoing(host))


class Outbox:
    """The part of a store that a sender reads."""

    def __init__(self) -> None:
        self.rows: dict[str, Delivery] = {}
        self.looks = 0
        self.fetches = 0
        self.fetch_time = 0.0
        self.down = False

    def pending(self) -> list[Delivery]:
        return [row for row in self.rows.values() if row.ended_at is None]

    async def due_times(self, kind: type[Delivery]) -> dict[str, float]:
        self.looks += 1
        if self.down:
            raise StoreUnavailable("test", asked=True)
        return {row.host: row.next_at for row in sorted(self.first_in_order(), key=lambda row: -row.next_at)}

    async def records(self, kind: type[Delivery], wanted: RecordFilter) -> RecordRows[Delivery]:
        return RecordRows([row for row in self.rows.values() if wanted.fits(row)], None)

    def first_in_order(self) -> list[Delivery]:
        orders: set[str] = set()
        found = []
        for row in self.pending():
            if row.order not in orders:
                found.append(row)
            orders |= set() if row.order is None else {row.order}
        return found

    async def due(self, kind: type[Delivery], host: str, now: float, limit: int) -> list[Delivery]:
        self.fetches += 1
        orders: set[str] = set()
        found = []
        for row in self.pending():
            if row.host == host and row.next_at <= now and row.order not in orders:
                found.append(row)
            orders |= set() if row.order is None else {row.order}
        # The answer takes its time, and shows nothing that is stored meanwhile.
        await asyncio.sleep(self.fetch_time)
        return sorted(found, key=lambda row: row.next_at)[:limit]

    def apply(self, sent: d.Sent) -> None:
        row = self.rows[sent.id]
        if row.ended_at is None and row.round == sent.round:
            self.rows[sent.id] = msgspec.structs.replace(row, **msgspec.structs.asdict(sent))


class Scheduler(Endpoint):
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.peer: Peer | None = None
        self.registered = 0
        self.reports: list[list[d.Sent]] = []
        self.answers: list[d.HookAnswered] = []
        self.commit_time = 0.0
        self.problems = 0  # reports that are refused
        self.mute = False  # whether it answers no report
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        self._changed.set()
        for message in messages:
            match message:
                case m.Greeting(protocol):
                    assert protocol == m.PROTOCOL
                case d.BecomeSender(request):
                    self.peer = peer
                    self.registered += 1
                    peer.send([ValueAnswer(request)])
                case d.ReportSent(request, results):
                    self.reports.append(results)
                    asyncio.get_running_loop().call_later(self.commit_time, self._commit, peer, request, results)
                case d.HookAnswered():
                    self.answers.append(message)
                case _:
                    raise AssertionError(message)

    def _commit(self, peer: Peer, request: int, results: list[d.Sent]) -> None:
        self._changed.set()
        if self.problems:
            self.problems -= 1
            peer.send([m.Problem(request, "store_unavailable", "store: the disk is full")])
            return
        for one in results:
            self._outbox.apply(one)
        if not self.mute:
            peer.send([ValueAnswer(request)])

    def closed(self, peer: Peer) -> None: ...

    def send(self, *messages: m.Message) -> None:
        assert self.peer is not None
        self.peer.send(messages)


class Receivers(Transport):
    """Answer as the script says; note when each request began."""

    def __init__(self, script: Callable[[str, str, int], Reply]) -> None:
        self._script = script
        self.posts: list[tuple[float, str, str]] = []  # time, host, id
        self._tries: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def post(self, id: str, outgoing: Outgoing, now: float, fresh: bool = False) -> ReceivedAnswer:
        loop = asyncio.get_running_loop()
        host = outgoing.host
        self.posts.append((loop.time(), host, id))
        self._tries[id] += 1
        takes, answer = self._script(host, id, self._tries[id])
        self.under_way += Counter([host, "all"])
        for name in (host, "all"):
            self.most[name] = max(self.most[name], self.under_way[name])
        try:
            await asyncio.sleep(takes)
        finally:
            self.under_way -= Counter([host, "all"])
        return answer

    def times(self, id: str) -> list[float]:
        return [round(at, 3) for at, _, one in self.posts if one == id]

    def ids(self, host: str) -> list[str]:
        return [id for _, one, id in self.posts if one == host]


class Stage(Clock):
    def __init__(self, script: Callable[[str, str, int], Reply] = lambda host, id, nth: (0.0, OK)) -> None:
        self.loop = VirtualLoop()
        self.set_back = 0.0
        self.outbox = Outbox()
        self.scheduler = Scheduler(self.outbox)
        self.receivers = Receivers(script)
        self._bus = VirtualBus()
        self._sending: asyncio.Task[None] | None = None
        self._count = 0

    def now(self) -> Now:
        return Now(WALL + self.loop.time() - self.set_back, self.loop.time())

    def owe(self, *ids: str, host: str = "a", order: str | None = None, lasts: float = 86_400.0) -> None:
        now = self.now().wall
        for id in ids:
            row = Delivery(id, "r", "j", "default", "run.failed", host, order, now, now + lasts, outgoing(host))
            self.outbox.rows[id] = msgspec.structs.replace(row, next_at=now)
        if self.scheduler.peer is not None:
            self.do(self.scheduler.send, d.Owed())

    def do(self, call: Callable[..., object], *arguments: Any) -> None:
        self.loop.call_soon(call, *arguments)

    def start(self) -> None:
        self._run(self._bus.listen(self.scheduler))
        reader = cast(Reader, self.outbox)
        sender = Sender(reader, self._bus, self.receivers, self, Random(7))
        self._sending = self.loop.create_task(sender.run())

    def stop(self) -> None:
        """End the sender; nothing of it may be left."""

        async def stopping() -> None:
            assert self._sending is not None
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
            assert asyncio.all_tasks() == {asyncio.current_task()}

        self._run(stopping())
        self.scheduler.peer = None
        assert self.loop.errors == []

    def run(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(work)
        asyncio.set_event_loop(None)
