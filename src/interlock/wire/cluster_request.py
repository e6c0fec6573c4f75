"""Operations on the nodes of a cluster."""

from typing import Annotated, ClassVar

from interlock.error import NoStandby
from interlock.fields.field import doc
from interlock.model.cluster import ClusterInfo, NodeFacts
from interlock.wire.operation import Http, Order, Question
from interlock.wire.request import Probe


class AskCluster(Question[ClusterInfo], frozen=True):
    """Show the cluster. The node that leads, and every node that it hears of."""

    patience: ClassVar = 2.0  # whoever asks wants to know soon that nobody leads
    http: ClassVar = Http("cluster", "GET /cluster", every_tenant="nodes")


class HandOver(Order[ClusterInfo], frozen=True, kw_only=True):
    """Hand the lead over. The scheduler that leads releases its lease, and one that stands by leads next; attempts
    continue. Answered before it happens."""

    node: Annotated[str, doc("Node that is to lead; by default, whichever is first.")] = ""

    once: ClassVar = True
    http: ClassVar = Http("hand_over", "POST /cluster/hand-over", every_tenant="nodes", raises=(NoStandby,))


class Announce(Probe[ClusterInfo], frozen=True):
    """A node says that it is there, and which of its worker processes have ended."""

    node: NodeFacts
    wall: float  # its clock
    ended: list[str] = []  # worker processes, as name-pid
