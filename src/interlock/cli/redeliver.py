"""`interlock redeliver`."""

from typing import Annotated

from interlock.cli.deliveries import ID_HELP, delivery_of, line
from interlock.cli.options import FINDING, Flags, JsonOption, argument, takes
from interlock.cli.server import client_of
from interlock.cli.tables import present
from interlock.model.error import UnknownDelivery


@takes(*FINDING)
def command(
    flags: Flags, deliveries: Annotated[list[str], argument("DELIVERY", ID_HELP)], json: JsonOption = False
) -> None:
    """Deliver webhooks again, under the ids that they had. A pending delivery is tried at once.

    Piped: lines like those of `interlock deliveries`."""
    failure, done = None, []
    with client_of(flags) as client:
        for given in deliveries:
            try:
                done.append(client.redeliver(delivery_of(client, given).id))
            except UnknownDelivery as error:
                failure = failure or error
    present(
        json,
        lambda: {"deliveries": done},
        lambda: map(line, done),
        lambda: "\n".join(f"{one.id} goes to {one.target} again" for one in done),
    )
    if failure is not None:
        raise failure
