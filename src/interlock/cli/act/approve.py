"""`interlock approve`."""

import sys
import time
from typing import Annotated

from interlock.cli.draw.tables import present
from interlock.cli.look.approvals import facts
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.output import WrongUsage, ask
from interlock.cli.shared.server import ApprovalArgument, approval_of, client_of
from interlock.error import AlreadyResolved
from interlock.error_lines import say
from interlock.model.state import State

REASON = option("TEXT", "Reason to record with the run and in the audit.", "--reason", "-r")


@takes(*FINDING)
def command(
    flags: Flags,
    run: ApprovalArgument,
    reason: Annotated[str, REASON],
    yes: Annotated[bool, switch("Do not ask for confirmation.", "--yes", "-y")] = False,
    json: JsonOption = False,
) -> None:
    """Show what a waiting run will do, then approve it. You see the job with its payload, without secrets, the rule and
    its reason, who asked, and what else they did.

    The approval is for exactly what was shown: if the request or the policy has changed meanwhile, it is refused as
    `stale`. You cannot approve a run that you submitted. Piped: id and state, separated by a tab."""
    if not yes and not sys.stdin.isatty():
        raise WrongUsage("add --yes to approve it: standard input is not a terminal")
    with client_of(flags) as client:
        found = client.approval(approval_of(client, run))
        if found.state is not State.APPROVAL_REQUIRED:
            raise AlreadyResolved(found.run_id, found.state, "" if found.answer is None else found.answer.by)
        if not (json and yes):
            say("\n".join(facts(found, time.time())))  # standard output may be a pipe
        if not yes:
            ask("Approve it?")
        state = client.approve(found.run_id, reason, found.seen)
    told = {"id": found.run_id, "state": state}
    present(json, lambda: told, lambda: ["\t".join(told.values())], lambda: f"approved {found.run_id}")
