"""A cluster: its nodes, and who leads."""

from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    name: str
    instance: str  # id of this start
    roles: list[str]
    version: str
    since: float  # time of its start
    digests: dict[str, str]  # what is declared there → its digest


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the leader hears of."""

    name: Annotated[str, doc("Name.")]
    leads: Annotated[bool, doc("Whether its scheduler leads.")]
    roles: Annotated[list[str], doc("What it runs: `scheduler`, `gateway`, `worker`.")]
    version: Annotated[str, doc("Version of Interlock.")]
    since: Annotated[Time, doc("Time of its start.")]
    silent: Annotated[float, doc("Seconds since the leader has heard of it.")]
    clock: Annotated[float, doc("Seconds by which its clock is ahead of the database's.")]
    differs: Annotated[list[str], doc("What is declared there in another way than at the leader.")]


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, and the nodes that the leader hears of."""

    leader: Annotated[str, doc("Node that leads.")]
    since: Annotated[Time, doc("Time since when it leads.")]
    epoch: Annotated[int, doc("Number of its lease; each take-over has a higher one.")]
    lease: Annotated[float, doc("Seconds until its lease ends, unless it renews it.")]
    position: Annotated[int, doc("Highest stored position.")]
    lag: Annotated[float, doc("Seconds since the store has last written.")]
    nodes: Annotated[list[NodeInfo], doc("Its nodes, the leader first, then by name.")]
