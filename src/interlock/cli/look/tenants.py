"""`interlock tenants`."""

from interlock.cli.draw.listing import NUMBER, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.tenant import TenantInfo

TENANTS = Listing[TenantInfo](
    "tenants",
    "no tenants are declared",
    Column("tenant", "id"),
    Column("running", form=NUMBER),
    Column("max", "max_running", NUMBER),
    Column("waiting", form=NUMBER),
    Column("max", "max_waiting", NUMBER),
    Column("rate", lambda one: one.rate if one.burst == 1 else f"{one.rate or ''} burst {one.burst}"),
    Column("over limit", "over_limit"),
    Column("refused", form=NUMBER),
    Column("lanes", lambda one: ", ".join(one.lanes), gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List declared tenants: running and waiting runs with their limits, rate, refused requests and lanes.

    Piped: id, running, max_running, waiting, max_waiting, rate, over_limit, refused and lanes, separated by tabs."""
    with client_of(flags) as client:
        TENANTS.show(json, client.tenants())
