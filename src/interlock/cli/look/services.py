"""`interlock services`."""

from interlock.cli.draw.children import STATUS_COLOURS, why
from interlock.cli.draw.listing import AGE, COUNT, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.child_info import ChildInfo

SERVICES = Listing[ChildInfo](
    "services",
    "no services are declared",
    Column("service", "name"),
    Column("kind", spare=1),
    Column("status", colours=STATUS_COLOURS),
    Column("pid", form=COUNT._replace(drawn=lambda pid, _: str(pid)), spare=2),
    Column("up", "since", AGE),
    Column("restarts", form=COUNT),
    Column("why", why, gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List services and groups in the order in which they start: kind, status, process, time since the start, restarts,
    and the reason why one is not up. `interlock tree` shows what is in which group.

    Piped: name, kind, status, process, time of the start, restarts and reason, separated by tabs."""
    with client_of(flags) as client:
        SERVICES.show(json, client.services())
