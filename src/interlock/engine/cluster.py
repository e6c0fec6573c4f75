"""The nodes of a cluster, as the leader hears of them. Nothing of this is stored: a node repeats what it says."""

import logging
from collections.abc import Callable

import msgspec

from interlock.engine.ownership import Ownership
from interlock.engine.present import Present
from interlock.error import NoStandby
from interlock.model.cluster import ClusterInfo, NodeFacts, NodeInfo
from interlock.model.exposition import Family
from interlock.wire.cluster_request import Announce
from interlock.wire.command import WorkerDown

logger = logging.getLogger("interlock.cluster")

ANNOUNCED_EVERY = 1.0  # seconds
FORGOTTEN = 30.0  # seconds of silence after which a node is left out
RESTARTED = 3.0  # the same, if a node with its name came after it had fallen silent
SCHEDULER = "scheduler"
WORTH_SAYING = 1.0  # seconds by which a clock must differ for a warning


def alone(instance: str) -> NodeFacts:
    """Return the facts of a scheduler that is in no cluster."""
    return NodeFacts(name="this machine", instance=instance, roles=[SCHEDULER], version="", since=0.0, digests={})


class _Heard(msgspec.Struct):
    said: Announce
    first: float  # elapsed time
    at: float  # of the last time
    clock: float  # seconds by which its clock is ahead
    differs: list[str] = []


def _follows(heard: _Heard, other: _Heard) -> bool:
    """Return whether a node is another start of one that had fallen silent before it."""
    return heard.said.node.name == other.said.node.name and heard.first > other.at


class Cluster:
    def __init__(self, present: Present, owner: Ownership, own: NodeFacts, hand_over: Callable[[], None]) -> None:
        self._present = present
        self._owner = owner
        self._own = own
        self._hand_over = hand_over
        self._heard: dict[str, _Heard] = {}

    def note(self, said: Announce) -> None:
        """Note what a node says of itself and of its workers."""
        now, instance = self._present.elapsed(), said.node.instance
        before = self._heard.get(instance)
        heard = _Heard(said, now if before is None else before.first, now, said.wall - self._present.now())
        self._heard[instance] = heard
        self._forget()
        heard.differs = self._differences(heard)
        if heard.differs and (before is None or before.differs != heard.differs):
            logger.warning("node %s differs from the leader in %s", said.node.name, ", ".join(heard.differs))
        if before is None and abs(heard.clock) >= WORTH_SAYING:
            logger.warning(
                "the clock of node %s is %+.1f s off that of the cluster; set it right", said.node.name, heard.clock
            )
        for ended in said.ended:
            # A worker elsewhere has the name of its token before its id, and every id ends with its start.
            for worker in self._present.state.workers:
                if worker.rpartition(":")[2].startswith(f"{ended}-"):
                    self._present.inbox.post(worker, WorkerDown(worker, True, f"worker {worker} died"))

    def _forget(self) -> None:
        now, heard = self._present.elapsed(), list(self._heard.values())
        self._heard = {
            one.said.node.instance: one
            for one in heard
            if now - one.at < (RESTARTED if any(_follows(other, one) for other in heard) else FORGOTTEN)
        }

    def _differences(self, heard: _Heard) -> list[str]:
        own, node = self._own.digests, heard.said.node
        if node.instance == self._own.instance:
            return []
        found = [part for part in sorted({*own, *node.digests}) if own.get(part) != node.digests.get(part)]
        same = [other for other in self._others() if other.said.node.name == node.name and other is not heard]
        if node.name == self._own.name or any(not _follows(heard, one) and not _follows(one, heard) for one in same):
            found.append("name")  # another node has it too
        return found

    def _others(self) -> list[_Heard]:
        return [heard for heard in self._heard.values() if heard.said.node.instance != self._own.instance]

    def info(self) -> ClusterInfo:
        now = self._present.elapsed()
        self._forget()
        others = self._others()
        clash = ["name"] if any(heard.said.node.name == self._own.name for heard in others) else []
        nodes = [
            self._node(self._own, True, 0.0, self._present.clock.error, clash),
            *(self._node(one.said.node, False, now - one.at, one.clock, self._differences(one)) for one in others),
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

    def _node(self, node: NodeFacts, leads: bool, silent: float, clock: float, differs: list[str]) -> NodeInfo:
        since = node.since or self._present.leads_since
        return NodeInfo(
            name=node.name, leads=leads, roles=node.roles, version=node.version, since=since, silent=silent,
            clock=clock, differs=differs,
        )  # fmt: skip

    def families(self) -> list[Family]:
        """Return the metrics of the nodes; none in no cluster."""
        if self._own.since == 0.0:
            return []
        found = self.info()
        nodes = {node.name: node for node in reversed(found.nodes)}  # of two with one name, that of the leader
        figures: tuple[tuple[str, str, Callable[[NodeInfo], float]], ...] = (
            ("leads", "Whether the node leads: 1 or 0.", lambda node: node.leads),
            ("silent_seconds", "Time since the leader has heard of the node.", lambda node: node.silent),
            ("clock_seconds", "Time by which its clock is ahead of the database's.", lambda node: node.clock),
            (
                "differences",
                "What is declared there in another way than at the leader.",
                lambda node: len(node.differs),
            ),
        )
        return [
            Family("interlock_lease_epoch", "gauge", "Number of the lease.", [("", {}, float(found.epoch))]),
            *(
                Family(f"interlock_node_{name}", "gauge", text, [
                    ("", {"node": node.name}, float(figure(node))) for node in nodes.values()
                ])
                for name, text, figure in figures
            ),
        ]  # fmt: skip

    def hand_over(self, to: str) -> ClusterInfo:
        """Begin to hand the lead over to this node, or to any; raise if no other scheduler stands by."""
        found = self.info()
        standing = [node.name for node in found.nodes[1:] if SCHEDULER in node.roles]
        if to not in standing if to else not standing:
            raise NoStandby(to, standing)
        self._owner.successor = to
        self._hand_over()
        return found
