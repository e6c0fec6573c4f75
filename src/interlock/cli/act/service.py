"""`interlock service`."""

import time
from typing import Annotated

from interlock.cli.draw.children import CHILDREN, sentence_of
from interlock.cli.draw.tables import present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, takes
from interlock.cli.shared.output import NotUp, check_choice
from interlock.cli.shared.server import client_of
from interlock.model.child_info import UP, ServiceAction, Status


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str,
        argument("ACTION", "One of start, stop, restart, suspend and resume.", completion.of(*ServiceAction)),
    ],
    name: Annotated[str, argument("NAME", "Name of a service, a group or a worker.", completion.services)],
    json: JsonOption = False,
) -> None:
    """Start, stop, restart, suspend or resume a service, and print its status.

    Return when that is done. After a start, the exit code says whether the service is up. Piped: a line like that of
    `interlock tree`."""
    check_choice("action", action, ServiceAction)
    with client_of(flags) as client:
        child = client.act(name, action)
    present(json, lambda: child, lambda: [CHILDREN.line(child)], lambda: sentence_of(child, time.time()))
    if action in (ServiceAction.START, ServiceAction.RESTART) and child.status not in UP | {Status.FINISHED}:
        raise NotUp(f"{child.name} is not up: {child.reason or child.status}")
