"""`interlock cluster`."""

import sys
import time
from typing import Annotated, Any

from interlock.cli.draw.event_watch import draw
from interlock.cli.draw.format import span
from interlock.cli.draw.listing import AGE, LENGTH, Column, Form, Listing
from interlock.cli.look.workers import NAMES
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, switch, takes
from interlock.cli.shared.output import WrongUsage, check_choice
from interlock.cli.shared.server import client_of
from interlock.error_lines import say
from interlock.model.cluster import ClusterInfo, NodeInfo

HAND_OVER = "hand-over"
OFF = Form(lambda seconds, _: f"{seconds:+.1f}s" if abs(seconds) >= 0.1 else "", "{:.3f}".format, right=True)


def _state(node: NodeInfo) -> str:
    return "leads" if node.leads else "stands by" if "scheduler" in node.roles else "serves"


NODES = Listing[NodeInfo](
    "nodes",
    "no node is known",
    Column("node", "name"),
    Column("state", _state, colours={"leads": "green"}),
    Column("roles", form=NAMES, gives_way=True),
    Column("version", spare=3),
    Column("up", "since", AGE, spare=1),
    Column("heard", "silent", LENGTH, spare=2),
    Column("clock", form=OFF),
    Column("differs", form=NAMES, colours={}),
)


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[str | None, argument("[hand-over]", "Let another node lead.", completion.of(HAND_OVER))] = None,
    node: Annotated[str | None, argument("[NODE]", "The node that is to lead.", completion.nodes)] = None,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--watch")] = False,
    json: JsonOption = False,
) -> None:
    """Show the nodes of the cluster and who leads; or hand the lead over to a node, or to whichever is first.

    A hand-over ends no attempt. `differs` names what is declared on a node in another way than at the leader: jobs,
    lanes, policy, tokens or settings, or a name that two nodes have.

    Piped: node, state, roles, version, start, seconds since the leader has heard of it, seconds by which its clock is
    ahead, and what differs, separated by tabs."""
    check_choice("action", action, (HAND_OVER,))
    if action is not None and watch:
        raise WrongUsage(f"--watch cannot be combined with {action}")
    with client_of(flags, patience="0s") as client:  # that nobody leads is an answer too
        if action is not None:
            found = client.hand_over(node=node or "")
            say(f"{found.leader} hands the lead over{'' if node is None else f' to {node}'}")
        elif watch and sys.stdout.isatty() and not json:
            draw(client, lambda: (_screen(client.cluster()), False), types=("service",))
        else:
            found = client.cluster()
            if sys.stdout.isatty() and not json:
                say(_sentence(found))
            more = {name: getattr(found, name) for name in found.__struct_fields__ if name != "nodes"}
            NODES.show(json, found.nodes, more=more)


def _sentence(found: ClusterInfo) -> str:
    since = span(time.time() - found.since)
    return f"{found.leader} leads for {since}, epoch {found.epoch}; position {found.position:,}, {span(found.lag)} old"


def _screen(found: ClusterInfo) -> Any:
    from rich.console import Group

    return Group(_sentence(found), NODES.table(found.nodes))
