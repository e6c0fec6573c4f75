"""An engine on virtual time, with a store that can be slow or fail, and links that the test speaks on."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from interlock.core.decisions import Batch
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.engine.engine import Engine, EngineSettings
from interlock.engine.inbox import Inbox
from interlock.engine.service_book import ServiceBook
from interlock.error import StoreUnavailable
from interlock.model.job import Job
from interlock.model.pool import PoolSpec
from interlock.model.record import Record
from interlock.model.run import Now
from interlock.model.schedule.schedule import Schedule
from interlock.ports.bus import Peer
from interlock.ports.clock import Clock
from interlock.ports.leases import Lease
from interlock.ports.store import Found, Lookup, Snapshot
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from interlock.wire import request as r
from soak.simulation.loop import VirtualLoop

T = TypeVar("T", bound=m.Message)
V = TypeVar("V")


class LoopClock(Clock):
    def now(self) -> Now:
        elapsed = asyncio.get_running_loop().time()
        return Now(1_700_000_000 + elapsed, elapsed)


class SlowStore(MemoryStore):
    """Takes its time to write, and can be told to fail."""

    def __init__(self) -> None:
        super().__init__(lambda: asyncio.get_running_loop().time())
        self.takes = 0.0
        self.inputs_take = 0.0
        self.reading: list[Collection[str]] = []
        """calls for inputs that are under way"""
        self.failing: bool | StoreUnavailable = False
        """whether writes fail, or how"""
        self.commits: list[Batch] = []
        self.unreadable = False
        self.surprise: Exception | None = None
        """what the next load raises"""
        self.renewals = 0

    async def commit(self, batch: Batch, lease: Lease) -> None:
        await asyncio.sleep(self.takes)
        self._check()
        await super().commit(batch, lease)
        self.commits.append(batch)

    async def renew(self, lease: Lease, ttl: float) -> Lease:
        self._check()
        self.renewals += 1
        return await super().renew(lease, ttl)

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        self._check()
        return await super().take(name, holder, token, ttl, again)

    async def look_up(self, wanted: Lookup) -> Found:
        if wanted.inputs:
            if self.unreadable:
                raise StoreUnavailable("no descriptor is left")
            self.reading.append(wanted.inputs)
            try:
                await asyncio.sleep(self.inputs_take)
            finally:
                self.reading.remove(wanted.inputs)
        return await super().look_up(wanted)

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        self._check()
        if self.unreadable:
            raise StoreUnavailable("no descriptor is left")
        if self.surprise is not None:
            surprise, self.surprise = self.surprise, None
            raise surprise
        return await super().load(small_payload, kinds)

    def _check(self) -> None:
        if self.failing:
            raise StoreUnavailable("the disk is full") if self.failing is True else self.failing


class Link(Peer):
    """The other end of a link: keeps what it is sent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.heard: list[m.Message] = []
        self.open = True
        engine.links.opened(self)

    def say(self, *messages: m.Message) -> None:
        self._engine.links.received(self, messages)

    def send(self, messages: Sequence[m.Message]) -> None:
        self.heard.extend(messages)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.open:
            self.open = False
            self._engine.links.closed(self)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def of(self, kind: type[T]) -> list[T]:
        return [one for one in self.heard if isinstance(one, kind)]

    def values(self, kind: type[V]) -> list[V]:
        """Return the values of this type that were answered."""
        return [answer.value for answer in self.of(r.ValueAnswer) if isinstance(answer.value, kind)]


class Bench:
    """An engine that runs, with a client."""

    def __init__(
        self,
        store: SlowStore,
        pools: Mapping[str, PoolSpec] = {},
        watch_worker: Callable[[str, Callable[[], None]], None] = lambda worker_id, call: None,
        entries: Sequence[CatalogEntry] = (),
        hand_over: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        # Its schedule, which never fires here, is what the first commit stores.
        scheduled = Job(id="job", schedule=Schedule(once=True, wait=1e8))
        catalog = Catalog([CatalogEntry(scheduled, lambda payload: None), *entries], pools=pools)
        self.store = store
        self.inbox = Inbox()
        self.book = ServiceBook(self.inbox.post)
        self.engine = Engine(
            store=store,
            leases=store,
            clock=clock or LoopClock(),
            rng=Random(repr(settings.get("node"))),  # the tokens of two nodes differ
            catalog=catalog,
            settings=EngineSettings(**settings),
            inbox=self.inbox,
            book=self.book,
            watch_worker=watch_worker,
            hand_over=hand_over,
        )
        self.client = Link(self.engine)
        self._requests = 0

    async def start(self) -> None:
        await self.engine.start()
        self.task = asyncio.get_running_loop().create_task(self.engine.run())
        self.client.say(m.Greeting(m.PROTOCOL))

    def submit(self, payload: bytes = b"{}") -> int:
        self._requests += 1
        self.client.say(r.Submit(self._requests, [r.NewRun("job", payload)]))
        return self._requests

    def worker(self, name: str, *held: m.Held, slots: int = 10, processes: int = 1, **more: Any) -> Link:
        """Add a worker; `more` are further fields of its `Hello`."""
        link = Link(self.engine)
        link.say(m.Hello(name, m.PROTOCOL, 1, slots, processes, {"job": ""}, list(held), "", **more))
        return link

    async def stop(self) -> None:
        self.engine.stop()
        await self.task


async def pass_time(seconds: float) -> None:
    """Let so much virtual time pass."""
    await asyncio.sleep(seconds)


async def until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    end = asyncio.get_running_loop().time() + limit
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it did not happen"
        await asyncio.sleep(0.01)


def on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(test())
    finally:
        loop.close()


async def running(bench: Bench, worker: Link) -> m.Dispatch:
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    dispatch = worker.of(m.Dispatch)[-1]
    worker.say(m.Started(dispatch.run_id, dispatch.fence))
    return dispatch
