"""`interlock lanes`."""

from collections.abc import Callable

from interlock.cli.format import span
from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.server import client_of
from interlock.cli.tables import columns_of, present, rich_table, tabbed


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List lanes: limit, active runs, waiting runs, and the longest wait so far.

    Piped: id, limit, active, waiting and seconds of the longest wait, separated by tabs."""
    with client_of(flags) as client:
        lanes = client.lanes()

    def rows(wait: Callable[[float], str]) -> list[tuple[str, ...]]:
        waits = ["" if one.oldest_wait is None else wait(one.oldest_wait) for one in lanes]
        return [
            (one.id, *map(str, (one.limit, one.active, one.waiting)), waited)
            for one, waited in zip(lanes, waits, strict=True)
        ]

    present(
        json,
        lambda: {"lanes": lanes},
        lambda: (tabbed(*row) for row in rows("{:.3f}".format)),
        lambda: rich_table(columns_of("lane, >limit, >active, >waiting, >oldest wait"), rows(span)),
    )
