"""`interlock tenants`."""

from interlock.cli.draw.tables import columns_of, present, rich_table, tabbed
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.model.tenant import TenantInfo


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List declared tenants: running and waiting runs with their limits, rate, refused requests and lanes.

    Piped: id, running, max_running, waiting, max_waiting, rate, over_limit, refused and lanes, separated by tabs."""
    with client_of(flags) as client:
        tenants = client.tenants()
    present(
        json,
        lambda: {"tenants": tenants},
        lambda: (tabbed(*_cells(tenant)) for tenant in tenants),
        lambda: rich_table(columns_of(COLUMNS), [_cells(tenant) for tenant in tenants]),
    )


COLUMNS = "tenant, >running, >max, >waiting, >max, rate, over limit, >refused, ~lanes"


def _cells(one: TenantInfo) -> tuple[str, ...]:
    numbers = one.running, one.max_running, one.waiting, one.max_waiting
    rate = one.rate or ""
    return (
        one.id,
        *("" if number is None else str(number) for number in numbers),
        rate if one.burst == 1 else f"{rate} burst {one.burst}",
        one.over_limit,
        str(one.refused),
        ", ".join(one.lanes),
    )
