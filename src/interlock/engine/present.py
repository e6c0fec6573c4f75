"""What an engine knows at present: its state, its peers, the commands that wait, and whether it may answer.
Its parts share one value of this; only the loop and a declaration change it."""

import asyncio
from collections.abc import Sequence

from interlock.core.state import CoreLimits
from interlock.core.step import new_state
from interlock.engine.catalog import Catalog
from interlock.engine.inbox import Inbox
from interlock.engine.metrics import Metrics, pass_age
from interlock.error import StoreUnavailable
from interlock.fields.json_form import rfc3339
from interlock.model.exposition import Family
from interlock.model.lane import LaneStatus
from interlock.ports.bus import Peer
from interlock.ports.clock import Clock
from interlock.wire.command import WentBack, WorkerUp
from interlock.wire.message import Message, Unready
from interlock.wire.request import StatusReport


class Peers:
    def __init__(self) -> None:
        self.names: dict[Peer, str] = {}  # peers that have introduced themselves
        self.workers: dict[str, Peer] = {}
        self._joined: dict[str, Peer] = {}
        """workers whose return is stored; dispatches decided before a worker rejoined must not go to its new link"""
        self._links: dict[str, int] = {}  # worker → the number of its latest link
        self.clients: dict[str, Peer] = {}
        self._count = 0
        self.faults: dict[str, Unready] = {}  # worker without its pid → why it cannot start processes

    def add_client(self, peer: Peer) -> None:
        self._count += 1
        name = self.names[peer] = f"client-{self._count}"
        self.clients[name] = peer

    def add_worker(self, name: str, peer: Peer) -> int:
        """Add a worker in place of its earlier link; return the number of the new one."""
        self.names[peer] = name
        self.workers[name] = peer
        self._joined.pop(name, None)
        self._count += 1
        self._links[name] = self._count
        return self._count

    def remove_worker(self, name: str) -> None:
        del self.workers[name]
        del self._links[name]
        self._joined.pop(name, None)

    def joined(self, up: WorkerUp) -> None:
        """Send to a worker from now on, because its return is stored."""
        if self._links.get(up.worker_id) == up.link:
            self._joined[up.worker_id] = self.workers[up.worker_id]

    def drop_workers(self) -> None:
        """Break the links of workers; each reconnects and lists its attempts."""
        for name, peer in list(self.workers.items()):
            self.remove_worker(name)
            self.names.pop(peer, None)
            peer.close()

    def send_to_worker(self, worker_id: str, messages: Sequence[Message]) -> bool:
        peer = self._joined.get(worker_id)
        if peer is None:
            return False
        peer.send(messages)
        # Send work before answers: it has the longer way.
        peer.flush()
        return True

    def tell(self, client: str, message: Message) -> None:
        peer = self.clients.get(client)
        if peer is not None:
            peer.send([message])


class Present:
    def __init__(self, clock: Clock, limits: CoreLimits, catalog: Catalog, inbox: Inbox, metrics: Metrics) -> None:
        self.clock = clock
        self.limits = limits
        self.catalog = catalog
        self.inbox = inbox
        self.metrics = metrics
        self.peers = Peers()
        self.state = new_state(limits, catalog.lanes)
        self.position = 0  # the last one given to a row, stored or not
        self.stored = 0  # the last one stored
        self.writing: asyncio.Future[None] | None = None  # the pending commit
        self._passed_at = 0.0  # elapsed time of the latest pass
        self.leads_since = 0.0
        self.wrote_at = 0.0  # elapsed time at which the store has last written
        self._starved_since: float | None = None  # elapsed time since which runs wait without any worker
        self.available = False  # whether the store works, and `state` is that of the store
        self.loss: WentBack | None = None  # what the store has lost since this scheduler started
        self.trouble = StoreUnavailable("it is being recovered")  # reason while it is not available
        self.is_settled = False  # whether the jobs of this start are known
        self.is_draining = False
        self.is_over = False  # whether everything is carried out, and nothing more is looked at

    def now(self) -> float:
        return self.clock.now().wall

    def elapsed(self) -> float:
        return self.clock.now().elapsed

    def note_pass(self) -> None:
        """Note the beginning of a pass, and since when runs wait without any worker."""
        now = self._passed_at = self.elapsed()
        lanes = self.state.lanes.values()
        if any(worker.takes_work for worker in self.state.workers.values()) or not any(
            lane.holding or (lane.waiting and lane.status is LaneStatus.OPEN) for lane in lanes
        ):
            self._starved_since = None
        elif self._starved_since is None:
            self._starved_since = now

    def status(self, request: int) -> StatusReport:
        now = self.elapsed()
        return StatusReport(
            request=request,
            available=self.available,
            draining=self.is_draining,
            since_pass=max(0.0, now - self._passed_at),
            since_write=max(0.0, now - self.wrote_at),
            live=len(self.state.runs),
            workers=sum(worker.takes_work for worker in self.state.workers.values()),
            starved=0.0 if self._starved_since is None else now - self._starved_since,
            position=self.stored,
            loss="" if self.loss is None else f"{self.loss}, found at {rfc3339(self.loss.at)}",
        )

    def families(self) -> list[Family]:
        found = self.metrics.latest(self.clock, available=self.available, position=self.stored)
        return [*found, pass_age(max(0.0, self.elapsed() - self._passed_at))]
