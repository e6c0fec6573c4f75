"""The workers and clients that are connected, and what is sent to them."""

from collections.abc import Sequence

from interlock.ports.bus import Peer
from interlock.wire.command import WorkerUp
from interlock.wire.message import Message, Unready


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

    def worker_names(self) -> list[str]:
        return list(self.workers)

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
