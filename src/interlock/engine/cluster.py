"""The nodes of a cluster, as the leader hears of them. Nothing of this is stored: a node repeats what it says."""

import logging
from collections.abc import Callable

import msgspec

from interlock.engine.ownership import Ownership
from interlock.engine.present import Present
from interlock.error import NoStandby
from interlock.model.cluster import ClusterInfo, NodeFacts, NodeInfo
from interlock.wire.cluster_request import Announce
from interlock.wire.command import WorkerDown

logger = logging.getLogger("interlock.cluster")

ANNOUNCED_EVERY = 3.0  # seconds
FORGOTTEN = 30.0  # seconds of silence after which a node is left out
SCHEDULER = "scheduler"
WORTH_SAYING = 1.0  # seconds by which a clock must differ for a warning


def alone(instance: str) -> NodeFacts:
    """Return the facts of a scheduler that is in no cluster."""
    return NodeFacts(name="this machine", instance=instance, roles=[SCHEDULER], version="", since=0.0, digests={})


class _Heard(msgspec.Struct):
    said: Announce
    at: float  # elapsed time
    clock: float  # seconds by which its clock is ahead


class Cluster:
    def __init__(self, present: Present, owner: Ownership, own: NodeFacts, hand_over: Callable[[], None]) -> None:
        self._present = present
        self._owner = owner
        self._own = own
        self._hand_over = hand_over
        self._heard: dict[str, _Heard] = {}

    def note(self, said: Announce) -> None:
        """Note what a node says of itself and of its workers."""
        before = self._heard.get(said.node.instance)
        heard = _Heard(said, self._present.elapsed(), said.wall - self._present.now())
        self._heard[said.node.instance] = heard
        if before is None:
            self._warn(heard)
        for ended in said.ended:
            # A worker elsewhere has the name of its token before its id, and every id ends with its start.
            for worker in self._present.state.workers:
                if worker.rpartition(":")[2].startswith(f"{ended}-"):
                    self._present.inbox.post(worker, WorkerDown(worker, True, f"worker {worker} died"))

    def _warn(self, heard: _Heard) -> None:
        node = heard.said.node
        if differs := self._differences(node):
            logger.warning("node %s differs from the leader in %s", node.name, ", ".join(differs))
        if abs(heard.clock) >= WORTH_SAYING:
            logger.warning("the clock of node %s is %+.1f s off the leader's; set it right", node.name, heard.clock)

    def _differences(self, node: NodeFacts) -> list[str]:
        own = self._own.digests
        found = [part for part in sorted({*own, *node.digests}) if own.get(part) != node.digests.get(part)]
        if any(other.name == node.name and other.instance != node.instance for other in self._all()):
            found.append("name")  # another node has it too
        return found

    def _all(self) -> list[NodeFacts]:
        return [self._own, *(heard.said.node for heard in self._heard.values())]

    def info(self) -> ClusterInfo:
        now = self._present.elapsed()
        self._heard = {key: heard for key, heard in self._heard.items() if now - heard.at < FORGOTTEN}
        others = [heard for heard in self._heard.values() if heard.said.node.instance != self._own.instance]
        nodes = [
            self._node(self._own, True, 0.0, 0.0),
            *(self._node(heard.said.node, False, now - heard.at, heard.clock) for heard in others),
        ]
        return ClusterInfo(
            leader=self._own.name,
            since=self._present.leads_since,
            epoch=0 if self._owner.lease is None else self._owner.lease.epoch,
            lease=max(0.0, self._owner.ends_at - now),
            position=self._present.stored,
            lag=now - self._present.wrote_at,
            nodes=[nodes[0], *sorted(nodes[1:], key=lambda node: node.name)],
        )

    def _node(self, node: NodeFacts, leads: bool, silent: float, clock: float) -> NodeInfo:
        since = node.since or self._present.leads_since
        return NodeInfo(
            name=node.name, leads=leads, roles=node.roles, version=node.version, since=since, silent=silent,
            clock=clock, differs=self._differences(node),
        )  # fmt: skip

    def hand_over(self) -> ClusterInfo:
        """Begin to hand the lead over; raise if no other scheduler stands by."""
        found = self.info()
        if not any(SCHEDULER in node.roles for node in found.nodes[1:]):
            raise NoStandby
        self._hand_over()
        return found
