"""`interlock pools`."""

from interlock.cli.draw.listing import NUMBER, Column, Listing
from interlock.cli.look.workers import NAMES
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.pool import PoolInfo

POOLS = Listing[PoolInfo](
    "pools",
    "no pools are declared, and no worker has joined",
    Column("pool", "id"),
    Column("status"),
    Column("workers", form=NUMBER),
    Column("ready", form=NUMBER),
    Column("active", form=NUMBER),
    Column("slots", form=NUMBER),
    Column("topics", form=NAMES, gives_way=True),
    Column("offers", form=NAMES, spare=2),
    Column("requires", form=NAMES, spare=1),
    Column("declared", lambda pool: "yes" if pool.declared else "no", spare=3),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List pools: status, workers, workers that would get a run now, runs, slots, topics, and the capabilities that the
    pool offers and requires. A pool that is not declared exists because a worker names it.

    Piped: id, status, workers, ready, active, slots, topics, offers, requires, and whether it is declared, separated by
    tabs."""
    with client_of(flags) as client:
        POOLS.show(json, client.pools())
