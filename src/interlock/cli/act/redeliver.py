"""`interlock redeliver`."""

import sys
from typing import Annotated

from interlock.cli.draw.tables import each, report_each
from interlock.cli.look.deliveries import DELIVERIES, ID_HELP, delivery_of
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, takes
from interlock.cli.shared.server import client_of
from interlock.error import UnknownDelivery
from interlock.fields.safe_text import safe
from interlock.model.delivery import DeliveryInfo


@takes(*FINDING)
def command(
    flags: Flags, deliveries: Annotated[list[str], argument("DELIVERY", ID_HELP)], json: JsonOption = False
) -> None:
    """Deliver webhooks again, under the ids that they had. A pending delivery is tried at once.

    Piped: lines like those of `interlock deliveries`."""
    with client_of(flags) as client:
        done = each(deliveries, lambda given: client.redeliver(delivery_of(client, given).id), UnknownDelivery)
        report_each(done, json, "deliveries", _sentence if sys.stdout.isatty() else DELIVERIES.line)


def _sentence(one: DeliveryInfo) -> str:
    return safe(f"{one.id} goes to {one.target} again")
