"""Links in memory that delay, break, drop and duplicate, by seed. What is on one link stays in order. Between two
processes a way can be cut for a while: what is sent there arrives when it is open again, if the link still is.

A link has two ends, each in a process. What one end sends belongs to the receiving process once it arrives, so a paused
receiver finds it when it goes on, and a dead one never does.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from interlock.buses.several import SeveralPlaces
from interlock.error import ConnectionLost, Draining, NotRunning, OutcomeUnknown, SocketInUse, StoreUnavailable
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.wire import message as m
from interlock.wire import request as r
from soak.simulation.loop import Process, VirtualLoop
from soak.simulation.trace import Trace

IN_DOUBT = (ConnectionLost, OutcomeUnknown)
"""errors of requests that may have been carried out"""
AWAY = (*IN_DOUBT, StoreUnavailable, NotRunning, Draining)
"""errors of requests while the scheduler or its store is away"""

Sent = Callable[[m.Message], None]

_NEVER_LOST = (m.Hello, m.Greeting, m.Problem)
"""a link that loses the word by which it begins or ends is a broken link, and that is another fault"""

Cuts = dict[tuple[Process | None, Process | None], float]
"""ways, from whom to whom, and until when nothing passes; None is the store"""

_AT_MOST_ONCE = (r.Submit, m.Hello, m.Greeting)
"""not to be doubled: a submit without a key is a new run each time it arrives"""


class LinkFaults(msgspec.Struct):
    longest_delay: float = 0.02
    drop: float = 0.0
    duplicate: float = 0.0
    lag: float = 0.0  # how often a message takes a hundred times as long


class Network:
    def __init__(self, loop: VirtualLoop, rng: Random, trace: Trace, places: int = 1) -> None:
        """`places` is the number of addresses at which a scheduler may listen."""
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.faults = LinkFaults()
        self.links: list[Link] = []
        self.places = places
        self.listeners: dict[int, tuple[Process, Endpoint]] = {}  # by place
        self.cut_off: dict[Process, None] = {}  # processes that reach nobody
        self.cuts: Cuts = {}
        self.on_send: Sent = lambda message: None
        self.lose_all: tuple[type[m.Message], ...] = ()  # messages that never arrive: sabotage

    def delay(self) -> float:
        delay = self.rng.uniform(0.0001, self.faults.longest_delay)
        return delay * 100 if self.rng.random() < self.faults.lag else delay

    def end_process(self, process: Process) -> None:
        """The system closes what a dead process had open; what it had sent still arrives."""
        self.forget_listener(process)
        for link in list(self.links):
            for end in (link.near, link.far):
                if end.owner is process:
                    end.hang_up()

    def forget_listener(self, process: Process) -> None:
        self.listeners = {place: listener for place, listener in self.listeners.items() if listener[0] is not process}

    def opens(self, source: Process, target: Process) -> float:
        """Return the time from which on what is sent now can arrive."""
        return max(self.loop.time(), self.cuts.get((source, target), 0.0))

    def isolate(self, process: Process, seconds: float) -> None:
        """Cut a process off from everybody for a while."""
        self.cut_off[process] = None
        for link in self.links:
            if process in (link.near.owner, link.far.owner):
                link.sever()
        self.loop.call_later(seconds, self.cut_off.pop, process, None)

    def break_one(self) -> None:
        open_links = [link for link in self.links if link.near.is_open and link.far.is_open]
        if not open_links:
            return
        link = self.rng.choice(open_links)
        self.trace.add(f"fault: the link {link.near.owner.name} - {link.far.owner.name} breaks")
        link.sever()


class End(Peer):
    """One end of a link, as the process there sees it."""

    def __init__(self, link: "Link", owner: Process, endpoint: Endpoint) -> None:
        self.link = link
        self.owner = owner
        self.endpoint = endpoint
        self.is_open = True
        self.other: End = self
        self._last_arrival = 0.0
        self._waits = False
        self._unread: list[list[m.Message]] = []

    def meet(self, other: "End") -> None:
        self.other = other
        self.identity = other.owner.name
        self.on_process_end = self._when_other_ends

    def send(self, messages: Sequence[m.Message]) -> None:
        if not self.is_open or not self.owner.alive:
            return
        carried = []
        for message in messages:
            self.link.network.on_send(message)
            carried.extend(self._carried(message))
        if carried:
            self.other.owner.call_at(self._arrival(), self.other.arrive, carried)

    def _when_other_ends(self, call: Callable[[], None]) -> None:
        watched, network = self.other.owner, self.link.network

        def tell() -> None:
            self.owner.call_at(network.loop.time() + network.delay(), call)

        if watched.alive:
            watched.at_end.append(tell)
        else:
            tell()

    def flush(self) -> None:
        """Nothing is queued here: what is sent is on its way."""

    def _carried(self, message: m.Message) -> list[m.Message]:
        network = self.link.network
        faults = network.faults
        if isinstance(message, network.lose_all):
            return []
        may_drop = faults.drop > 0 and not self.link.is_client and not isinstance(message, _NEVER_LOST)
        if may_drop and network.rng.random() < faults.drop:
            network.trace.add(f"fault: {type(message).__name__} from {self.owner.name} is lost")
            return []
        if faults.duplicate and not isinstance(message, _AT_MOST_ONCE) and network.rng.random() < faults.duplicate:
            network.trace.add(f"fault: {type(message).__name__} from {self.owner.name} is doubled")
            return [message, message]
        return [message]

    def _arrival(self) -> float:
        network = self.link.network
        opens = network.opens(self.owner, self.other.owner)
        self._last_arrival = max(self._last_arrival, opens + network.delay())
        return self._last_arrival

    def arrive(self, messages: list[m.Message]) -> None:
        if not self.is_open or self.link.severed:
            return
        if self._waits:
            self._unread.append(messages)
        else:
            self.endpoint.received(self, messages)

    def close(self) -> None:
        if self.is_open and self.owner.alive:
            self.owner.call_soon(self.end)
            self.hang_up()

    def hang_up(self) -> None:
        """Tell the other end, after what is on the way to it."""
        self.other.owner.call_at(self._arrival(), self.other.end)

    def end(self) -> None:
        if self.is_open:
            self.is_open = False
            self.link.forget()
            self.endpoint.closed(self)

    def pause(self) -> None:
        self._waits = True

    def resume(self) -> None:
        self._waits = False
        unread, self._unread = self._unread, []
        for messages in unread:
            if self.is_open:
                self.endpoint.received(self, messages)


class Link:
    def __init__(self, network: Network, near: tuple[Process, Endpoint], far: tuple[Process, Endpoint]) -> None:
        self.network = network
        self.severed = False
        self.is_client = near[0].name.startswith(("client", "sender"))
        self.near = End(self, *near)
        self.far = End(self, *far)
        self.near.meet(self.far)
        self.far.meet(self.near)
        network.links.append(self)

    def sever(self) -> None:
        """Whatever is on the way is lost. Each end finds out in its own time, and speaks into the void until then."""
        self.severed = True
        for end in (self.near, self.far):
            patience = self.network.rng.choice((0.001, 0.05, 2.0))
            end.owner.call_at(self.network.loop.time() + self.network.rng.uniform(0, patience), end.end)

    def forget(self) -> None:
        if not self.near.is_open and not self.far.is_open and self in self.network.links:
            self.network.links.remove(self)


class Place(Bus):
    """One address, as one process sees it."""

    def __init__(self, network: Network, process: Process, at: int) -> None:
        self._network = network
        self._process = process
        self._at = at

    async def listen(self, endpoint: Endpoint) -> None:
        taken = self._network.listeners.get(self._at)
        if taken is not None and not taken[0].paused:
            raise SocketInUse("the simulated network", "another scheduler listens on it")
        self._network.listeners[self._at] = (self._process, endpoint)

    async def connect(self, endpoint: Endpoint) -> Peer:
        network = self._network
        await asyncio.sleep(network.delay())
        while (far := network.listeners.get(self._at)) is not None and self._is_mute(far[0]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # virtual, and nothing says when a way opens
        if far is None or self._process in network.cut_off:
            raise NotRunning("the simulated scheduler")
        link = Link(network, (self._process, endpoint), far)
        endpoint.opened(link.near)
        far[0].call_at(network.loop.time(), far[1].opened, link.far)
        return link.near

    def _is_mute(self, far: Process) -> bool:
        """Whether it cannot shake hands: between machines, a link needs more than that somebody listens."""
        ways = ((self._process, far), (far, self._process))
        is_cut = any(self._network.opens(*way) > self._network.loop.time() for way in ways)
        return self._network.places > 1 and (far.paused or is_cut)

    async def close(self) -> None:
        """The bus that has the place closes its links."""


class SimulatedBus(SeveralPlaces):
    """The network as one process sees it."""

    def __init__(self, network: Network, process: Process, at: int = 0) -> None:
        """A scheduler listens at one place; others look for it at all of them."""
        self._own = Place(network, process, at)
        super().__init__([Place(network, process, place) for place in range(network.places)])
        self._network = network
        self._process = process

    async def listen(self, endpoint: Endpoint) -> None:
        await self._own.listen(endpoint)

    async def connect(self, endpoint: Endpoint) -> Peer:
        return await (super().connect(endpoint) if self._network.places > 1 else self._own.connect(endpoint))

    async def close(self) -> None:
        self._network.forget_listener(self._process)
        for link in list(self._network.links):
            for end in (link.near, link.far):
                if end.owner is self._process:
                    end.close()
