"""The scheduler's side of every link: who may introduce itself, what it may say, and who must wait."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import cast

from interlock.engine import logs
from interlock.engine.present import Present
from interlock.engine.requests import Requests
from interlock.error import BadUse, InterlockError, Refused
from interlock.fields.field_types import WORD, FieldPath
from interlock.model import pool as pools
from interlock.model.access import Role
from interlock.ports.bus import Endpoint, Peer
from interlock.wire import message as m
from interlock.wire.command import WorkerDown, WorkerUp
from interlock.wire.frames import MOST_UNREAD
from interlock.wire.new_run import check_name

logger = logging.getLogger("interlock.links")

WORTH_SAYING = 60.0  # seconds by which a worker's clock must differ for a warning

WORKER_MESSAGES = frozenset(
    {m.Starting, m.Started, m.Finished, m.Lost, m.Returned, m.Heartbeat, m.Load}
    | {m.Progress, m.Usage, m.LogMessage, m.Checkpoint, m.Leaving, m.Unread}
)


class Links(Endpoint):
    tolerant = True

    def __init__(self, present: Present, requests: Requests, instance: str, lease: float = 0.0) -> None:
        """`lease` is the longest silence on a link if another scheduler may lead."""
        self._present = present
        self._inbox = present.inbox
        self._peers = present.peers
        self._requests = requests
        self._instance = instance
        self._lease = lease
        self._unread: Counter[Peer] = Counter()
        self._paused: dict[Peer, list[m.Message]] = {}  # peers that must wait, with what they have sent already

    def closed(self, peer: Peer) -> None:
        self._unread.pop(peer, None)
        name = self._peers.names.pop(peer, None)
        if name is None:
            return
        if self._peers.workers.get(name) is peer:
            self._peers.remove_worker(name)
            self._inbox.post(name, WorkerDown(name, False, f"worker {name} is not connected"))
        elif self._peers.clients.get(name) is peer:
            del self._peers.clients[name]
            self._paused.pop(peer, None)
            self._requests.gone(name)

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        if peer not in self._peers.names and type(messages[0]) is not m.Unread:
            self._introduce(peer, messages[0])
            messages = messages[1:]  # a worker that joins again repeats its outcomes in the same frame
            if peer not in self._peers.names:
                return
        name = self._peers.names.get(peer, "")
        if bad := [message for message in messages if type(message) is m.Unread]:
            self._unread[peer] += len(bad)
            if self._peers.workers.get(name) is not peer or self._unread[peer] > MOST_UNREAD:
                raise Refused(f"link: a frame that cannot be read ({bad[0].error})")
        if name in self._peers.clients:
            self._from_client(name, peer, messages)
        elif self._peers.workers.get(name) is peer:
            self._from_worker(name, peer, messages)

    def _introduce(self, peer: Peer, message: m.Message) -> None:
        try:
            if isinstance(message, m.Hello) and _may_be(peer, Role.WORKER):
                self._welcome_worker(peer, message)
            elif isinstance(message, m.Unready) and peer.caller is None:
                self._note_fault(message)
                peer.close()
            elif isinstance(message, m.Greeting) and _may_be(peer, Role.GATEWAY):
                _check_protocol(message.protocol)
                self._peers.add_client(peer)
            else:
                raise Refused(f"link: {type(message).__name__} cannot be the first message; introduce the sender first")
        except InterlockError as error:
            peer.send([m.Problem(0, error.code, str(error))])
            peer.close()

    def _welcome_worker(self, peer: Peer, hello: m.Hello) -> None:
        _check_protocol(hello.protocol)
        name = hello.worker_id
        check_name(name, "worker_id")
        if name.startswith("client-"):
            raise BadUse("worker_id", f"{name!r} begins with client-, which is reserved for clients")
        pool = self._check_worker(hello)
        tenants: frozenset[str] | None = None
        if peer.caller is not None:
            tenants = peer.caller.work_for(pool)
            # No other token can have a worker of this name, now or after a restart.
            name = f"{peer.caller.name}:{name}"
        other = self._peers.workers.get(name)
        if other is not None:
            if other.identity != peer.identity:
                raise Refused(f"worker_id: {name!r} is taken by another worker; choose another")
            self._peers.names.pop(other, None)
            other.close()
        peer_is_stray = bool(hello.instance) and hello.instance != self._instance
        link = self._peers.add_worker(name, peer)
        up = WorkerUp(
            name, hello.slots, hello.processes, hello.jobs, hello.held, peer_is_stray, link,
            pool, hello.capabilities, hello.labels, tenants, self._skew(hello),
        )  # fmt: skip
        self._inbox.post(name, up)
        self._peers.faults.pop(_without_pid(name), None)
        limits, now = self._present.limits, self._present.clock.now()
        peer.send([m.Welcome(limits.heartbeat_interval, now.elapsed, limits.silence, now.wall, self._lease)])
        if peer.on_process_end is not None:
            peer.on_process_end(lambda: self.worker_died(name, peer.identity))
        if peer_is_stray:
            logger.info("worker %s belongs to an earlier start: it finishes its attempts and leaves", name)
            peer.send([m.Drain()])

    def _check_worker(self, hello: m.Hello) -> str:
        """Refuse a worker that announces something wrong; return its pool."""
        pool = hello.pool or pools.DEFAULT_POOL
        pools.SLOTS.check(hello.slots, FieldPath("slots"))
        pools.PROCESSES.check(hello.processes, FieldPath("processes"))
        WORD.check(pool, FieldPath("pool"))
        pools.CAPABILITIES.check(hello.capabilities, FieldPath("capabilities"))
        pools.WORKER_LABELS.check(hello.labels, FieldPath("labels"))
        if not hello.held:  # its pool may have changed while it was away, and it may finish its runs
            pools.check_member(self._present.catalog.pools, pool, hello.capabilities)
        return pool

    def _skew(self, hello: m.Hello) -> float:
        """Return how far ahead the worker's wall clock is. It corrects the times that it sends by itself."""
        skew = hello.wall - self._present.now() if hello.wall else 0.0
        if abs(skew) >= WORTH_SAYING:
            off = f"{abs(skew) / 60:.0f} min {'ahead of' if skew > 0 else 'behind'}"
            logger.warning("the clock of worker %s is %s the scheduler's; set it right", hello.worker_id, off)
        return skew

    def _note_fault(self, found: m.Unready) -> None:
        self._peers.faults.pop(_without_pid(found.worker_id), None)
        if found.reason and found.instance == self._instance:
            self._peers.faults[_without_pid(found.worker_id)] = found

    def worker_died(self, name: str, identity: str = "") -> None:
        successor = self._peers.workers.get(name)
        # A new process of that name has listed its attempts, so the dead one has none left to lose.
        if successor is None or successor.identity == identity:
            self._inbox.post(name, WorkerDown(name, True, f"worker {name} died"))

    def _from_worker(self, name: str, peer: Peer, messages: Sequence[m.Message]) -> None:
        self._inbox.post_all([(name, message) for message in messages if type(message) in WORKER_MESSAGES])
        for message in messages:
            kind = type(message)
            if kind is m.Heartbeat:
                logs.beat(name, cast(m.Heartbeat, message), self._present.state)
            elif kind not in WORKER_MESSAGES:
                logger.warning("worker %s sent a %s", name, kind.__name__)
        if self._inbox.is_behind(name, 10.0):
            self._hold(peer)

    def _from_client(self, name: str, peer: Peer, messages: Sequence[m.Message]) -> None:
        for index, message in enumerate(messages):
            if self._inbox.is_behind(name):
                self._hold(peer)
            if peer in self._paused:
                self._paused[peer] += messages[index:]
                return
            self._requests.take(name, message)

    def _hold(self, peer: Peer) -> None:
        if peer not in self._paused:
            peer.pause()
            self._paused[peer] = []

    def relieve(self) -> None:
        """Let paused peers continue once their backlog is small."""
        for peer in list(self._paused):
            if not self._inbox.is_behind(self._peers.names.get(peer, ""), 0.5):
                messages = self._paused.pop(peer)
                peer.resume()
                if messages:
                    self.received(peer, messages)


def _without_pid(worker_id: str) -> str:
    """Return the name that lasts over restarts: an id has the form `name-pid-start`."""
    return worker_id.rsplit("-", 2)[0]


def _may_be(peer: Peer, role: Role) -> bool:
    """Return whether a peer may introduce itself as this; raise if it has a token of another role."""
    if peer.caller is not None and peer.caller.role is not role:
        raise Refused(f"link: the token {peer.caller.name!r} is that of a {peer.caller.role}, not of a {role}")
    return True


def _check_protocol(found: int) -> None:
    if found != m.PROTOCOL:
        raise Refused(f"link: protocol {found} is not {m.PROTOCOL}; use the same version of Interlock on both sides")
