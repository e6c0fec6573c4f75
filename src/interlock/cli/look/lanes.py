"""`interlock lanes`."""

from interlock.cli.draw.listing import LENGTH, NUMBER, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.lane import LaneInfo, LaneValues


def _rate(values: LaneValues) -> str:
    return "" if values.rate is None else values.rate if values.burst == 1 else f"{values.rate} burst {values.burst}"


def _values(values: LaneValues) -> str:
    return f"{values.limit} {_rate(values)}".rstrip()


def _declared(lane: LaneInfo) -> str:
    declared = "no" if lane.declared is None else _values(lane.declared)
    return "" if declared == _values(lane) else declared


LANES = Listing[LaneInfo](
    "lanes",
    "no lanes",
    Column("lane", "id"),
    Column("limit", form=NUMBER),
    Column("active", form=NUMBER),
    Column("waiting", form=NUMBER),
    Column("oldest wait", "oldest_wait", LENGTH),
    Column("rate", _rate),
    Column("status"),
    Column("declared", _declared, gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List lanes: limit, active runs, waiting runs, the longest wait so far, rate and status; also the declared limit
    and rate where they differ.

    Piped: id, limit, active, waiting, seconds of the longest wait, rate, status and declared values, separated by
    tabs."""
    with client_of(flags) as client:
        LANES.show(json, client.lanes())
