"""`interlock lanes`."""

from collections.abc import Callable

from interlock.cli.draw.format import span
from interlock.cli.draw.tables import Column, columns_of, present, rich_table, tabbed
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.lane import LaneInfo, LaneValues


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List lanes: limit, active runs, waiting runs, the longest wait so far, rate and status; also the declared limit
    and rate where they differ.

    Piped: id, limit, active, waiting, seconds of the longest wait, rate, status and declared values, separated by
    tabs."""
    with client_of(flags) as client:
        lanes = client.lanes()
    present(
        json,
        lambda: {"lanes": lanes},
        lambda: (tabbed(*cells(lane, "{:.3f}".format)) for lane in lanes),
        lambda: rich_table(columns(), [cells(lane) for lane in lanes]),
    )


def columns() -> list[Column]:
    return columns_of("lane, >limit, >active, >waiting, >oldest wait, rate, status, ~declared")


def cells(lane: LaneInfo, wait: Callable[[float], str] = span) -> tuple[str, ...]:
    waited = "" if lane.oldest_wait is None else wait(lane.oldest_wait)
    declared = "no" if lane.declared is None else _values(lane.declared)
    return (
        lane.id,
        *map(str, (lane.limit, lane.active, lane.waiting)),
        waited,
        _rate(lane),
        lane.status,
        "" if declared == _values(lane) else declared,
    )


def _rate(values: LaneValues) -> str:
    return "" if values.rate is None else values.rate if values.burst == 1 else f"{values.rate} burst {values.burst}"


def _values(values: LaneValues) -> str:
    return f"{values.limit} {_rate(values)}".rstrip()
