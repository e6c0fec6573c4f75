"""`interlock lanes`."""

import sys
from typing import Annotated

from interlock.cli.draw.listing import LENGTH, NUMBER, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, switch, takes
from interlock.cli.shared.server import client_of
from interlock.core.state import DEFAULT_LANES
from interlock.error_lines import say
from interlock.model.lane import LaneInfo, LaneStatus, LaneValues


def _rate(values: LaneValues) -> str:
    return "" if values.rate is None else values.rate if values.burst == 1 else f"{values.rate} burst {values.burst}"


def _values(values: LaneValues) -> str:
    return f"{values.limit} {_rate(values)}".rstrip()


def _declared(lane: LaneInfo) -> str:
    declared = "no" if lane.declared is None else _values(lane.declared)
    return "" if declared == _values(lane) else declared


LANES = Listing[LaneInfo](
    "lanes",
    "no lane has runs or limits of its own",
    Column("lane", "id"),
    Column("limit", form=NUMBER),
    Column("active", form=NUMBER),
    Column("waiting", form=NUMBER),
    Column("oldest wait", "oldest_wait", LENGTH),
    Column("rate", _rate),
    Column("status"),
    Column("declared", _declared, gives_way=True),
)


def _is_idle_default(lane: LaneInfo) -> bool:
    is_default = (lane.limit, lane.rate) == (DEFAULT_LANES.get(lane.id), None)
    return is_default and lane.status is LaneStatus.OPEN and not lane.active and not lane.waiting


@takes(*FINDING)
def command(
    flags: Flags,
    everything: Annotated[bool, switch("Also show idle default lanes in a terminal.", "--all", "-a")] = False,
    json: JsonOption = False,
) -> None:
    """List lanes: limit, active runs, waiting runs, the longest wait so far, rate and status; also the declared limit
    and rate where they differ. A terminal leaves out default lanes without runs.

    Piped: id, limit, active, waiting, seconds of the longest wait, rate, status and declared values, separated by
    tabs."""
    with client_of(flags) as client:
        lanes = client.lanes()
    idle = [] if everything or json or not sys.stdout.isatty() else [lane for lane in lanes if _is_idle_default(lane)]
    LANES.show(json, [lane for lane in lanes if lane not in idle])
    if idle:
        say(f"idle, with default limits: {', '.join(lane.id for lane in idle)} (--all shows them)")
