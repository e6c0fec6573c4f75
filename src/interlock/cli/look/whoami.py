"""`interlock whoami`."""

import sys

import msgspec

from interlock.cli.draw.listing import Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.error_lines import say


class Right(msgspec.Struct, frozen=True):
    permission: str
    allowed: bool
    reason: str


RIGHTS = Listing[Right](
    "rights",
    "nothing is allowed",
    Column("permission"),
    Column("allowed", lambda right: "yes" if right.allowed else "no", colours={"no": "yellow"}),
    Column("reason", gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Show who you are to the server, and what you may do.

    Piped: permission, yes or no, and the reason for a no, separated by tabs."""
    with client_of(flags) as client:
        me = client.me()
    if sys.stdout.isatty() and not json:
        say(f"{me.name}: {me.role} of {'all tenants' if me.tenant == '*' else f'tenant {me.tenant}'}")
    rights = [
        *(Right(name, True, "") for name in me.may),
        *(Right(name, False, why) for name, why in me.may_not.items()),
    ]
    RIGHTS.show(json, rights, more={"name": me.name, "role": me.role, "tenant": me.tenant})
